"""What a run folder says of itself, read without torch: its configuration, how far it has come, its best score."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce import files
from transduce.config import Config, from_dict
from transduce.errors import BundleError, TrainingError

CONFIG, STATE = "config.json", "state.json"
CHECKPOINT = re.compile(r"step-(\d{8,})")  # a checkpoint's name
_NOT_CONFIGURATION = ("transduce", "torch", "set")


@dataclass(frozen=True)
class History:
    """Where the last checkpoint of a run stands."""

    step: int
    max_steps: int
    epoch: int
    seconds: float  # of training, over all sessions
    best_score: float | None
    best_by: str
    best_step: int

    @property
    def seconds_left(self) -> float:
        """As long as the steps so far took, for those that are left."""
        return max(0, self.max_steps - self.step) * self.seconds / max(1, self.step)


def checkpoint_path(run: Path, step: int) -> Path:
    """Returns the folder of the checkpoint after `step` updates."""
    return run / "checkpoints" / f"step-{step:08d}"


def checkpoints(run: Path) -> list[Path]:
    """Returns the run's checkpoints, oldest first; folders with other names are none."""
    found = [
        (int(match[1]), path)
        for path in (run / "checkpoints").glob("step-*")
        if (match := CHECKPOINT.fullmatch(path.name)) and (path / STATE).is_file()
    ]
    return [path for _, path in sorted(found)]


def load_run_config(run: Path) -> Config:
    """Returns the configuration of a run.

    Raises:
        TrainingError: `run` is not a run folder, or its configuration is damaged.
    """
    values = read_run_config(run)
    return from_dict({k: v for k, v in values.items() if k not in _NOT_CONFIGURATION}, str(run / CONFIG))


def read_run_config(run: Path) -> dict[str, Any]:
    """Returns all that a run's `config.json` holds, as it is; raises what `load_run_config` does."""
    try:
        return files.read_json_object(run / CONFIG)
    except OSError:
        raise TrainingError(f"{run}: not a run folder: it has no {CONFIG}. 'transduce train' makes one.") from None
    except ValueError as error:
        raise damaged(run / CONFIG, error) from None


def damaged(path: Path, reason: object) -> TrainingError:
    """Returns the error for a file of a run folder that cannot be read."""
    return TrainingError(f"{path}: damaged: {reason}. Put back a copy of it, or choose another --output.")


def read_history(run: Path, config: Config) -> History | None:
    """Returns how far a run has come by its last checkpoint; None where it has none yet.

    Raises:
        BundleError: the checkpoint's state cannot be read.
    """
    found = checkpoints(run)
    if not found:
        return None
    state = found[-1] / STATE
    try:
        progress: dict[str, Any] = files.read_json_object(state)["progress"]
        return History(
            step=int(progress["step"]),
            max_steps=config.train.max_steps,
            epoch=int(progress["epoch"]),
            seconds=float(progress["seconds"]),
            best_score=None if progress["best_score"] is None else float(progress["best_score"]),
            best_by=str(progress["best_by"]),
            best_step=int(progress["best_step"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{state}: cannot be read ({error!r}). Delete the folder that it stands in.") from None
