"""Checkpoints: all that training needs to go on exactly, whole or absent.

    checkpoints/step-00001000/
        model.safetensors        weights
        optimizer.safetensors    Adam's moments and step count
        state.json               where in the plan, best score so far, checksums of the two files

There is no random state to keep: dropout of step n is drawn from (seed, n), and batch n is a function of (seed, epoch).
"""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from transduce import files
from transduce.errors import BundleError
from transduce.model import Transformer
from transduce.tensors import read_weights
from transduce.training.cost import CostAccount

_PREFIX = "step-"
_MODEL, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"


@dataclass
class Progress:
    """Where training stands; saved with each checkpoint."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch's plan that are done
    target_tokens: int = 0  # seen so far
    seconds: float = 0.0  # spent on training so far, over all sittings
    skipped_steps: int = 0  # updates left out because a gradient was not finite
    best_score: float | None = None
    best_by: str = ""  # the measure of `best_score`
    best_step: int = 0
    validations_since_best: int = 0
    validations: dict[str, float] = field(default_factory=dict)  # the last ones
    cost: CostAccount = field(default_factory=CostAccount)


def checkpoint_path(run: Path, step: int) -> Path:
    """Returns the folder of the checkpoint after `step` updates."""
    return run / "checkpoints" / f"{_PREFIX}{step:08d}"


def checkpoints(run: Path) -> list[Path]:
    """Returns the run's checkpoints, oldest first."""
    folder = run / "checkpoints"
    return sorted(path for path in folder.glob(f"{_PREFIX}*") if (path / _STATE).is_file())


def save_checkpoint(path: Path, model: Transformer, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Writes a checkpoint; a crash while writing leaves none of it."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    moments = {
        f"{key}:{names[id(parameter)]}": _own(value)
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }
    with files.atomic_folder(path) as folder:
        save_file({name: _own(weight) for name, weight in model.weights().items()}, folder / _MODEL)
        save_file(moments, folder / _OPTIMIZER)
        for name in (_MODEL, _OPTIMIZER):
            files.make_readable(folder / name)  # the library makes them their writer's alone
        checksums = {name: files.sha256(folder / name) for name in (_MODEL, _OPTIMIZER)}
        files.write_json(folder / _STATE, {"format": 1, "progress": asdict(progress), "sha256": checksums})


def _own(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()


def load_checkpoint(path: Path, model: Transformer, optimizer: torch.optim.Optimizer) -> Progress:
    """Puts the checkpoint's weights into `model`, its moments into `optimizer`, and returns its progress.

    Raises:
        BundleError: a file's checksum is wrong, or the checkpoint is of another model.
    """
    progress = check_checkpoint(path)
    model.load_weights(read_weights(path / _MODEL), str(path / _MODEL))
    moments = load_file(path / _OPTIMIZER)
    for name, parameter in model.named_parameters():
        values = {key.split(":", 1)[0]: value for key, value in moments.items() if key.split(":", 1)[1] == name}
        if values:
            optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in values.items()}
    return progress


def check_checkpoint(path: Path) -> Progress:
    """Verifies a checkpoint's checksums and returns its progress; raises BundleError where a file is damaged."""
    try:
        for name, expected in _read_state(path)["sha256"].items():
            if files.sha256(path / name) != expected:
                raise BundleError(f"{path / name}: damaged: its checksum differs from the one in {_STATE}.")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{path}: not a whole checkpoint: {error}.") from None
    return read_progress(path)


def read_progress(path: Path) -> Progress:
    """Returns a checkpoint's progress without a look at its weights; raises BundleError where it cannot be read."""
    try:
        values = _read_state(path)["progress"]
        if "cost" in values:  # not in checkpoints of before there were accounts
            values["cost"] = CostAccount.from_dict(values["cost"])
        return Progress(**values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{path}: not a whole checkpoint: {error}.") from None


def weights_checksum(path: Path) -> str:
    """Returns the SHA-256 that a checkpoint's weights had when it was written; raises BundleError where it has none."""
    try:
        return str(_read_state(path)["sha256"][_MODEL])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{path}: not a whole checkpoint: {error}.") from None


def _read_state(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((path / _STATE).read_text(encoding="utf-8"))
    return state


def checkpoint_weights(path: Path) -> Path:
    """Returns the file with a checkpoint's weights."""
    return path / _MODEL


def set_aside(path: Path) -> Path:
    """Renames a damaged checkpoint, so that it no longer counts as one; returns what it is called now."""
    aside = path.with_name(f"damaged-{path.name}")
    shutil.rmtree(aside, ignore_errors=True)  # of the same step, from an earlier sitting
    return path.rename(aside)


def prune(run: Path, keep: int) -> None:
    """Removes all but the last `keep` checkpoints, and what a crash left of one that was being written."""
    for path in (run / "checkpoints").glob(f".{_PREFIX}*"):
        shutil.rmtree(path)
    for path in checkpoints(run)[:-keep]:
        (path / _STATE).unlink()  # first: what is half removed no longer counts as a checkpoint
        shutil.rmtree(path)
