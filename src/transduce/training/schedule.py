"""The learning rate over training (§5.3), and of a training that starts from a model; which steps tune for int8."""

import math

from transduce.config import Config, TrainConfig


def learning_rate(step: int, config: Config) -> float:
    """Returns the rate of update number `step`, from 1."""
    train = config.train
    if config.init.model:
        rate = warmed_up(step, config.init.learning_rate, train.warmup_steps, train.learning_rate_factor)
    elif train.learning_rate:
        rate = train.learning_rate * train.learning_rate_factor * min(1.0, step / train.warmup_steps)
    else:
        rate = noam(step, config.model.d_model, train.warmup_steps, train.learning_rate_factor)
    return rate * cooldown(step, train.max_steps, train.cooldown_steps)


def describe_rate(config: Config) -> str:
    """Returns the rates at the start, the peak and the end of a training, in words."""
    train = config.train
    peak, end = (learning_rate(step, config) for step in (train.warmup_steps, train.max_steps))
    factor = train.learning_rate_factor
    of_factor = "" if factor == 1 else f" (init.learning_rate × train.learning_rate_factor {factor:g})"
    return (
        f"learning rate: rises from 0 to {peak:.1e}{of_factor} at step {train.warmup_steps:,} and falls to {end:.1e} "
        f"at step {train.max_steps:,}"
    )


def warmed_up(step: int, peak: float, warmup_steps: int, factor: float) -> float:
    """Returns a rate of the shape of eq. 3 whose highest value, `factor` × `peak`, does not depend on d_model.

    It rises in a line from 0 over `warmup_steps` and then falls with the root of the step; steps count from 1.
    """
    rate: float = factor * peak * min(step / warmup_steps, (warmup_steps / step) ** 0.5)
    return rate


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


def untuned_steps(train: TrainConfig) -> float:
    """Returns how many updates come before those that tune for int8; infinite where none do."""
    return train.max_steps - train.int8_tuning_steps if train.int8_tuning_steps else math.inf


def describe_tuning(train: TrainConfig) -> str:
    """Returns which steps tune for int8, and what they compute with, in words."""
    first = train.max_steps - train.int8_tuning_steps + 1
    return (
        f"int8 tuning: steps {first:,} to {train.max_steps:,} compute with weights rounded as int8 inference rounds "
        "them; validation and checkpoints have the float32 weights"
    )
