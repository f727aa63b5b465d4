"""The learning rate over training (§5.3)."""


def noam(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """Returns eq. 3, d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), times `factor`; steps count from 1."""
    rate: float = factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    return rate


def cooldown(step: int, max_steps: int, cooldown_steps: int) -> float:
    """Returns what the rate is multiplied by: 1, and over the last `cooldown_steps` a line towards 0.

    DEVIATION: the paper's rate never falls to 0; its averaged checkpoints do much of the same. With few steps in all,
    such an end may be worth more (docs/lab-log.md).
    """
    return min(1.0, max(0, max_steps - step + 1) / (cooldown_steps + 1)) if cooldown_steps else 1.0
