"""The last steps of a training: losses, used to detect spikes, and updates skipped in a row. Needs no torch.

A spike is a loss per token that exceeds the median of the last steps by a multiple of their deviation. Both are robust:
a spike itself hardly changes them. The deviation is 1.4826 times the median distance from the median (for normal
distributions, the standard deviation), and at least a twentieth of the median.
"""

import statistics
from dataclasses import dataclass, field

_SPAN_STEPS = 100  # of the running median
_FEWEST_STEPS = 20  # before which no loss is called a spike
_NORMAL = 1.4826
_LEAST_DEVIATION = 0.05  # of the median: with 8 deviations, a spike is at least 1.4 times the median


@dataclass
class RecentSteps:
    """The last steps of a training; saved with each checkpoint, so that a resumed training uses the same limit."""

    losses: list[float] = field(default_factory=list)  # per token, of updates that were made; the oldest first
    skipped: int = 0  # updates skipped in a row, up to now, because they were not finite

    def __post_init__(self) -> None:
        numbers = isinstance(self.losses, list) and all(isinstance(loss, float) for loss in self.losses)
        if not numbers or type(self.skipped) is not int:
            raise ValueError("'recent' does not hold a list of losses and a count")

    def limit(self, deviations: float) -> float | None:
        """Returns the loss per token above which the next one is a spike; None if there are too few steps.

        Worked example: of losses 4.0, 4.5, 5.0, 5.5, 6.0 the median is 5.0, and distances from it are 1, 0.5, 0, 0.5,
        1. Their median is 0.5, the deviation 0.741, and with 8 deviations the limit is 5.0 + 5.93 = 10.93.
        """
        if len(self.losses) < _FEWEST_STEPS:
            return None
        median = statistics.median(self.losses)
        distance = statistics.median(abs(loss - median) for loss in self.losses)
        return median + deviations * max(_NORMAL * distance, _LEAST_DEVIATION * median)

    def add(self, loss: float) -> None:
        """Records an update that was made, with its loss per token."""
        self.losses = [*self.losses[1 - _SPAN_STEPS :], loss]
        self.skipped = 0
