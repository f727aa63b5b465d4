"""The learning rate over training (§5.3)."""


def noam(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """Returns eq. 3, d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), times `factor`; steps count from 1."""
    rate: float = factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    return rate
