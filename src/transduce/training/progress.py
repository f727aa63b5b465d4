"""What a checkpoint's state.json says: how far training had come, what the checkpoint is for, and checksums.

A checksum covers all of it. In format 1, which 0.1.0 wrote, it covers the progress at most. Reading it needs no torch.
"""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from transduce import files
from transduce.config import TrainConfig
from transduce.config.checked_json import digest, format_problem, without_checksum, write_checked
from transduce.errors import BundleError, require_resources
from transduce.training.cost import CostAccount
from transduce.training.run_folder import STATE, checkpoints
from transduce.training.spikes import RecentSteps

WEIGHTS, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
_FORMAT, _PARTLY_CHECKED = 2, 1


class CheckpointKind(StrEnum):
    """What a checkpoint is for; the values are written to state.json."""

    REGULAR = "scheduled"  # written at a regular interval; may be averaged
    FINAL = "end"  # where training ended; may be averaged until training continues beyond it
    RESUME_ONLY = "interim"  # where training was stopped, say; never averaged, removed when a later one is written
    BEST = "best"  # the copy with the best validation score, in a folder of its own


@dataclass
class Progress:
    """How far training has come; saved with each checkpoint."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch's plan that are done
    target_tokens: int = 0  # seen so far
    seconds: float = 0.0  # of training so far, in all sessions together
    skipped_steps: int = 0  # updates left out because the loss or a gradient was not finite
    best_score: float | None = None  # higher is better: a perplexity has the sign changed
    best_by: str = ""  # the measure of `best_score`
    best_step: int = 0
    validations_since_best: int = 0
    validations: dict[str, float] = field(default_factory=dict)  # the last ones
    cost: CostAccount = field(default_factory=CostAccount)
    recent: RecentSteps = field(default_factory=RecentSteps)

    def metrics(self) -> dict[str, Any]:
        """Returns what a model folder's metrics.json says of the training."""
        return {
            "steps": self.step,
            "training_seconds": self.seconds,
            "target_tokens_seen": self.target_tokens,
            **self.cost.metrics(),
        }

    def seconds_left(self, train: TrainConfig) -> float:
        """Returns the time to the first limit of steps, minutes and operations, at the mean speed so far.

        It is 0 where training has stopped early.
        """
        if 0 < train.early_stopping <= self.validations_since_best:
            return 0.0
        limits = [(train.max_steps - self.step) * self.seconds / max(1, self.step)]
        if train.max_minutes:
            limits.append(60 * train.max_minutes - self.seconds)
        if train.max_flops and self.cost.flops:
            limits.append((train.max_flops / self.cost.flops - 1) * self.seconds)
        return max(0.0, min(limits))


def averageable_checkpoints(run: Path) -> list[Path]:
    """Returns the checkpoints that may be averaged, oldest first: the regular ones, and a final one if it is the last.

    Checkpoints of version 0.1.0, which recorded no kind, count as regular.
    """
    averageable, found = [], checkpoints(run)
    for path in found:
        kind = checkpoint_kind(path)
        if kind == CheckpointKind.REGULAR or (kind == CheckpointKind.FINAL and path == found[-1]):
            averageable.append(path)
    return averageable


def checkpoint_kind(path: Path) -> CheckpointKind:
    """Returns the kind of a checkpoint; a damaged one counts as regular, so that reading it reports the damage."""
    try:
        return _kind(_read_state(path))
    except (OSError, ValueError, KeyError):
        return CheckpointKind.REGULAR


def _kind(state: Mapping[str, Any]) -> CheckpointKind:
    noted = state["purpose"]
    if noted not in list(CheckpointKind):
        raise ValueError(f"{STATE} has purpose {noted!r}")
    return CheckpointKind(noted)


def check_checkpoint(path: Path) -> Progress:
    """Verifies a checkpoint's checksums and returns its progress; raises BundleError where a file is damaged."""
    for name in (WEIGHTS, OPTIMIZER):
        expected = recorded_checksum(path, name)
        with _reading(path):
            found = files.sha256(path / name)
        if found != expected:
            raise BundleError(f"{path / name}: damaged: its checksum differs from the one in {STATE}.")
    return read_progress(path)


def write_state(folder: Path, progress: Progress, kind: CheckpointKind, checksums: Mapping[str, str]) -> None:
    """Writes state.json, after the other files of the checkpoint, whose SHA-256 are `checksums`."""
    values = asdict(progress)
    recent = values.pop("recent")
    state = {"format": _FORMAT, "purpose": kind, "progress": values, "recent": recent, "sha256": dict(checksums)}
    write_checked(folder / STATE, state)


def update_progress(path: Path, progress: Progress) -> None:
    """Replaces the progress of a checkpoint, if there is such a checkpoint: after a validation of its weights."""
    if (path / STATE).is_file():
        state = _read_state(path)
        write_state(path, progress, _kind(state), state["sha256"])


def read_progress(path: Path) -> Progress:
    """Returns a checkpoint's progress without reading its weights; raises BundleError if it cannot be read."""
    with _reading(path):
        state = _read_state(path)
        _kind(state)
        values = state["progress"]
        if "cost" in values:  # checkpoints from before costs were counted have none
            values["cost"] = CostAccount.from_dict(values["cost"])
        recent = RecentSteps(**state["recent"])
        progress = Progress(step=values.pop("step"), recent=recent, **values)
        _require_sound(progress)
    return progress


def last_progress(run: Path) -> Progress | None:
    """Returns how far a run has come by its last checkpoint; None where it has none yet."""
    found = checkpoints(run)
    return read_progress(found[-1]) if found else None


def _require_sound(progress: Progress) -> None:
    """Checks that counts are whole numbers from 0, and that the score is a number."""
    for each in fields(progress):
        value = getattr(progress, each.name)
        if each.type is int and (type(value) is not int or value < 0):
            raise ValueError(f"{each.name} is {value!r}, and must be a whole number from 0")
    if not 0 <= progress.seconds < math.inf:
        raise ValueError(f"seconds is {progress.seconds!r}")
    if not isinstance(progress.best_score, float | int | None):
        raise ValueError(f"best_score is {progress.best_score!r}")


def recorded_checksum(path: Path, name: str = WEIGHTS) -> str:
    """Returns the SHA-256 that a checkpoint's file must have; raises BundleError if there is none."""
    with _reading(path):
        checksum = str(_read_state(path)["sha256"][name])
        if not re.fullmatch("[0-9a-f]{64}", checksum):
            raise ValueError(f"{STATE} has no checksum of {name}")
    return checksum


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raises BundleError where something of a checkpoint is missing, or is not what it should be."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        require_resources(error, path)
        reason = f"{STATE} has no {error}" if isinstance(error, KeyError) else error
        raise BundleError(f"{path}: incomplete or damaged checkpoint: {reason}.") from None


def _read_state(path: Path) -> dict[str, Any]:
    state = files.read_json_object(path / STATE)
    if problem := format_problem(state, _PARTLY_CHECKED, _FORMAT):
        raise ValueError(f"{STATE} has {problem}")
    try:
        state = without_checksum(state, required=state["format"] == _FORMAT)
    except ValueError as error:
        raise ValueError(f"{STATE}: {error}") from None
    if state["format"] == _FORMAT:
        return state
    if state.get("progress_sha256", expected := digest(state["progress"])) != expected:
        raise ValueError(f"the progress in {STATE} was changed")
    return {"purpose": CheckpointKind.REGULAR, "recent": {}} | state  # 0.1.0 recorded neither
