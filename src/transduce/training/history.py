"""What a run folder says of itself, read without torch: its configuration, how far it has come, its best score."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.config import Config, from_dict
from transduce.errors import BundleError, TrainingError

CONFIG = "config.json"

_CHECKPOINTS, _STATE = "checkpoints/step-*", "state.json"  # as `transduce.training.state` writes them


@dataclass(frozen=True)
class History:
    """Where the last checkpoint of a run stands."""

    step: int
    max_steps: int
    epoch: int
    seconds: float  # of training, over all sittings
    best_score: float | None
    best_by: str
    best_step: int

    @property
    def seconds_left(self) -> float:
        """As long as the steps so far took, for those that are left."""
        return max(0, self.max_steps - self.step) * self.seconds / max(1, self.step)


def load_run_config(run: Path) -> Config:
    """Returns the configuration of a run.

    Raises:
        TrainingError: `run` is not a run folder.
    """
    try:
        values = json.loads((run / CONFIG).read_text(encoding="utf-8"))
    except OSError:
        raise TrainingError(f"{run}: not a run folder: it has no {CONFIG}. 'transduce train' makes one.") from None
    except ValueError as error:
        raise TrainingError(f"{run / CONFIG}: not JSON: {error}.") from None
    return from_dict({k: v for k, v in values.items() if k not in ("transduce", "torch")}, str(run / CONFIG))


def read_history(run: Path, config: Config) -> History | None:
    """Returns how far a run has come by its last checkpoint; None where it has none yet.

    Raises:
        BundleError: the checkpoint's state cannot be read.
    """
    states = sorted(path / _STATE for path in run.glob(_CHECKPOINTS) if (path / _STATE).is_file())
    if not states:
        return None
    try:
        progress: dict[str, Any] = json.loads(states[-1].read_text(encoding="utf-8"))["progress"]
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
        raise BundleError(f"{states[-1]}: cannot be read ({error!r}). Delete the folder that it stands in.") from None
