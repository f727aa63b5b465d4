"""When a checkpoint is due, and of which kind."""

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from transduce.config import TrainConfig
from transduce.errors import BundleError
from transduce.training.progress import CheckpointKind, Progress, checkpoint_kind, read_progress
from transduce.training.schedule import untuned_steps


class CheckpointSchedule:
    """Counts steps and minutes since the last checkpoint, also over a stop and a resume.

    Where `checkpoint_steps` is set, steps decide which checkpoints are regular, since they do not depend on the
    machine; those written by time then only serve to resume from. Otherwise minutes count from the last regular one.
    The steps that tune for int8 have `average_last` more, since only theirs are averaged.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._regular_step = 0  # of the last regular checkpoint
        self._seconds_carried = 0.0  # of training since then, in earlier sessions
        self._last = time.monotonic()

    def restore(self, found: Sequence[Path], progress: Progress) -> None:
        """Continues from checkpoints: `found` are those of the run, `progress` is that of the newest."""
        before = Progress()
        for path in reversed(found):
            with contextlib.suppress(BundleError):  # damaged: the end of training reports it
                if checkpoint_kind(path) == CheckpointKind.REGULAR:
                    before = read_progress(path)
                    break
        self._regular_step = before.step
        # Where steps decide, minutes count from the newest checkpoint of any kind, as in `written`.
        self._seconds_carried = 0.0 if self._config.checkpoint_steps else max(0.0, progress.seconds - before.seconds)

    def start(self) -> None:
        """Starts the clock of this session."""
        self._last = time.monotonic() - self._seconds_carried

    def _is_due_by_steps(self, step: int) -> bool:
        config = self._config
        if step > untuned_steps(config):
            every = max(1, config.int8_tuning_steps // config.average_last)
            if (config.max_steps - step) % every == 0:
                return True
        return config.checkpoint_steps > 0 and step % config.checkpoint_steps == 0

    def due(self, step: int, any_rank: Callable[[bool], bool]) -> CheckpointKind | None:
        """Returns the kind of the checkpoint that is due after `step`, if one is; `any_rank` as `Ranks.any_rank`."""
        if self._is_due_by_steps(step):
            return CheckpointKind.REGULAR
        minutes = self._config.checkpoint_minutes
        if minutes > 0 and any_rank(time.monotonic() - self._last >= 60 * minutes):
            return CheckpointKind.RESUME_ONLY if self._config.checkpoint_steps else CheckpointKind.REGULAR
        return None

    def last_kind(self, step: int) -> CheckpointKind | None:
        """Returns the kind of the checkpoint to write where training ends; None if there is a regular one already."""
        if self._regular_step == step:
            return None
        return CheckpointKind.REGULAR if self._is_due_by_steps(step) else CheckpointKind.FINAL

    def written(self, kind: CheckpointKind, step: int) -> None:
        """Records that a checkpoint was written after `step`."""
        self._last = time.monotonic()
        if kind == CheckpointKind.REGULAR:
            self._regular_step = step
