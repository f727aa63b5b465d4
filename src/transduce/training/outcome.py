"""How a training ended."""

import enum
from dataclasses import dataclass

from transduce.training.progress import Progress


class End(enum.Enum):
    """Why training ended."""

    MAX_STEPS = "max_steps"
    MAX_MINUTES = "max_minutes"
    EARLY_STOPPING = "early_stopping"
    SIGNAL = "signal"


@dataclass(frozen=True)
class Outcome:
    """How training ended; `signal` is the one that this process received, if any."""

    end: End
    progress: Progress
    signal: int | None = None
