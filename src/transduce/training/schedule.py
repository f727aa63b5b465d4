"""The learning rate over training (§5.3)."""


def noam(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """Returns the paper's learning rate, known as the Noam schedule after Noam Shazeer, one of its authors.

    Eq. 3, d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), times `factor`; steps count from 1.
    """
    rate: float = factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    return rate


def cooldown(step: int, max_steps: int, cooldown_steps: int) -> float:
    """Returns a factor for the rate: 1, falling in a line towards 0 over the last `cooldown_steps`.

    DEVIATION: the paper's rate never falls to 0; averaging its checkpoints has much the same effect. In a short
    training a cooldown may be worth more (docs/lab-log.md).
    """
    return min(1.0, max(0, max_steps - step + 1) / (cooldown_steps + 1)) if cooldown_steps else 1.0
