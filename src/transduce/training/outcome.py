"""How a training ended."""

import enum
from dataclasses import dataclass
from signal import SIGTERM

from transduce.config import TrainConfig
from transduce.errors import Stopped
from transduce.training.progress import Progress


class End(enum.Enum):
    """Why training ended; but for a signal, the value is the key of `train` that ended it."""

    MAX_STEPS = "max_steps"
    MAX_MINUTES = "max_minutes"
    MAX_FLOPS = "max_flops"
    EARLY_STOPPING = "early_stopping"
    SIGNAL = "signal"


@dataclass(frozen=True)
class Outcome:
    """How training ended; `signal` is the one that this process received, if any."""

    end: End
    progress: Progress
    signal: int | None = None
    is_main: bool = True  # of several processes, one says how it ended

    def require_finished(self, then: str) -> None:
        """Raises Stopped, whose message ends with `then`, where a signal ended the training."""
        if self.end == End.SIGNAL:
            raise Stopped(f"stopped after step {self.progress.step}; {then}", self.signal or SIGTERM)


def end_of(train: TrainConfig, progress: Progress) -> End | None:
    """Returns why a training that has come as far as `progress` makes no further update; None if it makes one."""
    if train.early_stopping > 0 and progress.validations_since_best >= train.early_stopping:
        return End.EARLY_STOPPING
    if progress.step >= train.max_steps:
        return End.MAX_STEPS
    if train.max_flops > 0 and progress.cost.flops >= train.max_flops:
        return End.MAX_FLOPS
    if train.max_minutes > 0 and progress.seconds >= 60 * train.max_minutes:
        return End.MAX_MINUTES
    return None
