"""Checkpoints: all that training needs to go on exactly, whole or absent.

    checkpoints/step-00001000/
        model.safetensors        weights
        optimizer.safetensors    Adam's moments and step count
        state.json               where in the plan, best score so far, what it was written for, checksums

No random state is kept: the dropout of step n is drawn from (seed, n), and batch n is a function of (seed, epoch).
"""

import hashlib
import json
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from transduce import files
from transduce.config.tensors import read_header, read_tensors, read_weights, require_finite
from transduce.errors import BundleError
from transduce.training.cost import CostAccount
from transduce.training.run_folder import CHECKPOINT, CONFIG, DATA, STATE
from transduce.training.run_folder import checkpoint_path as checkpoint_path
from transduce.training.run_folder import checkpoints as checkpoints
from transduce.training.trainable import TrainableModel

_MODEL, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", STATE
_FORMAT = 1
_ADAM = ("step", "exp_avg", "exp_avg_sq")  # what Adam keeps of each parameter


class CheckpointKind(StrEnum):
    """What a checkpoint is for; the values stand in state.json."""

    REGULAR = "scheduled"  # written at a regular interval; may be averaged
    FINAL = "end"  # where training ended; may be averaged until training goes on beyond it
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
    skipped_steps: int = 0  # updates left out because a gradient was not finite
    best_score: float | None = None
    best_by: str = ""  # the measure of `best_score`
    best_step: int = 0
    validations_since_best: int = 0
    validations: dict[str, float] = field(default_factory=dict)  # the last ones
    cost: CostAccount = field(default_factory=CostAccount)

    def metrics(self) -> dict[str, Any]:
        """Returns what a model folder's metrics.json says of the training."""
        return {
            "steps": self.step,
            "training_seconds": self.seconds,
            "target_tokens_seen": self.target_tokens,
            **self.cost.metrics(),
        }


def averageable_checkpoints(run: Path) -> list[Path]:
    """Returns the checkpoints that may be averaged, oldest first: the regular ones, and a final one if it is the last.

    Checkpoints of version 0.1.0, which recorded no kind, count as regular.
    """
    found = checkpoints(run)
    kinds = [checkpoint_kind(path) for path in found]
    return [
        path
        for path, kind in zip(found, kinds, strict=True)
        if kind == CheckpointKind.REGULAR or (kind == CheckpointKind.FINAL and path == found[-1])
    ]


def checkpoint_kind(path: Path) -> CheckpointKind:
    """Returns what a checkpoint is for; a damaged one counts as regular, so that reading it names the damage."""
    try:
        return _kind(_read_state(path))
    except (OSError, ValueError):
        return CheckpointKind.REGULAR


def _kind(state: Mapping[str, Any]) -> CheckpointKind:
    noted = state.get("purpose", CheckpointKind.REGULAR)  # 0.1.0 did not record it
    if noted not in list(CheckpointKind):
        raise ValueError(f"{_STATE} has purpose {noted!r}")
    return CheckpointKind(noted)


def save_checkpoint(
    path: Path,
    model: TrainableModel,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    kind: CheckpointKind = CheckpointKind.REGULAR,
) -> None:
    """Writes a checkpoint; a crash while writing leaves none of it.

    Raises:
        BundleError: a weight or a moment is not finite; nothing is written.
        OSError: it cannot be written.
    """
    weights = {name: _own(weight) for name, weight in model.weights().items()}
    moments = _moments(model, optimizer)
    if name := first_not_finite(weights) or first_not_finite(moments):
        raise BundleError(f"{name} is not finite after step {progress.step}.")
    values = asdict(progress)
    with files.atomic_folder(path) as folder:
        try:
            save_file(weights, folder / _MODEL)
            save_file(moments, folder / _OPTIMIZER)
        except SafetensorError as error:  # a full disk, say: the library has errors of its own
            raise OSError(str(error)) from None
        for name in (_MODEL, _OPTIMIZER):
            files.make_readable(folder / name)  # the library makes them their writer's alone
        checksums = {name: files.sha256(folder / name) for name in (_MODEL, _OPTIMIZER)}
        state = {"format": _FORMAT, "purpose": kind, "progress": values, "sha256": checksums}
        files.write_json(folder / _STATE, state | {"progress_sha256": _digest(values)})


def _moments(model: TrainableModel, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{key}:{names[id(parameter)]}": _own(value)
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }


def first_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Returns the name of the first tensor with a NaN or an infinity in it."""
    return next((name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())), None)


def _own(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()


def load_checkpoint(path: Path, model: TrainableModel, optimizer: torch.optim.Optimizer) -> Progress:
    """Loads the checkpoint's weights into `model` and its moments into `optimizer`; returns its progress.

    Raises:
        BundleError: a file's checksum is wrong, a value is not finite, or the checkpoint is of another model.
    """
    progress = check_checkpoint(path)
    tensors, _ = read_header(path / _MODEL)
    model.require_shapes({name: stored.shape for name, stored in tensors.items()}, str(path / _MODEL))
    moments = _read_moments(path)
    _require_moments_of(model, moments, path / _OPTIMIZER)
    model.load_weights(read_weights(path / _MODEL), str(path / _MODEL))
    for name, parameter in model.named_parameters():
        if f"step:{name}" in moments:
            values = {key: torch.from_numpy(moments[f"{key}:{name}"]) for key in _ADAM}
            optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in values.items()}
    return progress


def _read_moments(path: Path) -> dict[str, np.ndarray]:
    """Returns Adam's moments of a checkpoint; raises BundleError where the file is damaged or one is not finite."""
    moments, _ = read_tensors(path / _OPTIMIZER)
    require_finite(moments, str(path / _OPTIMIZER))
    return moments


def _require_moments_of(model: TrainableModel, moments: Mapping[str, np.ndarray], where: Path) -> None:
    """Checks that moments fit the model's parameters; a parameter that was never updated has none."""
    shapes = {
        f"{key}:{name}": () if key == "step" else tuple(parameter.shape)
        for name, parameter in model.named_parameters()
        if any(f"{key}:{name}" in moments for key in _ADAM)
        for key in _ADAM
    }
    found = {name: moment.shape for name, moment in moments.items()}
    if found != shapes:
        name = min(name for name in found.keys() | shapes.keys() if found.get(name) != shapes.get(name))
        raise BundleError(f"{where}: {name[:80]} does not fit the model: it is of another one, or damaged.")


def last_finite_checkpoint(run: Path) -> Path | None:
    """Returns the newest checkpoint that is undamaged, with finite weights and moments; reads them all."""
    for path in reversed(checkpoints(run)):
        try:
            check_checkpoint(path)
            read_weights(path / _MODEL)
            _read_moments(path)
        except BundleError:
            continue
        return path
    return None


def advice_not_finite(run: Path) -> str:
    """Returns from which checkpoint, and how, to go on where weights or gradients are no longer finite."""
    found = last_finite_checkpoint(run)
    gentler = "a lower train.learning_rate_factor, or with train.max_gradient_norm"
    if found is None:
        return f"No checkpoint with finite weights is left: begin again with {gentler} (1.0, say)."
    return (
        f"The last checkpoint with finite weights is {found}: go on from there with --resume and {gentler}, such as "
        "--set train.max_gradient_norm=1.0."
    )


def check_checkpoint(path: Path) -> Progress:
    """Verifies a checkpoint's checksums and returns its progress; raises BundleError where a file is damaged."""
    for name in (_MODEL, _OPTIMIZER):
        expected = _checksum(path, name)
        try:
            found = files.sha256(path / name)
        except OSError as error:
            raise _not_whole(path, error) from None
        if found != expected:
            raise BundleError(f"{path / name}: damaged: its checksum differs from the one in {_STATE}.")
    return read_progress(path)


def read_progress(path: Path) -> Progress:
    """Returns a checkpoint's progress without reading its weights; raises BundleError if it cannot be read."""
    try:
        state = _read_state(path)
        _kind(state)
        values = state["progress"]
        if state.get("progress_sha256", digest := _digest(values)) != digest:
            raise ValueError(f"the progress in {_STATE} was changed")
        if "cost" in values:  # checkpoints from before costs were counted have none
            values["cost"] = CostAccount.from_dict(values["cost"])
        progress = Progress(**values)
        _require_sound(progress)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _not_whole(path, error) from None
    return progress


def _require_sound(progress: Progress) -> None:
    """Checks that counts are whole numbers from 0."""
    for each in fields(progress):
        value = getattr(progress, each.name)
        if each.type is int and (type(value) is not int or value < 0):
            raise ValueError(f"{each.name} is {value!r}, and must be a whole number from 0")
    if not 0 <= progress.seconds < math.inf:
        raise ValueError(f"seconds is {progress.seconds!r}")


def weights_checksum(path: Path) -> str:
    """Returns the recorded SHA-256 of a checkpoint's weights; raises BundleError if there is none."""
    return _checksum(path, _MODEL)


def _checksum(path: Path, name: str) -> str:
    try:
        checksum = _read_state(path)["sha256"][name]
        if not re.fullmatch("[0-9a-f]{64}", checksum):
            raise ValueError(f"{_STATE} has no checksum of {name}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _not_whole(path, error) from None
    return str(checksum)


def _not_whole(path: Path, error: Exception) -> BundleError:
    reason = f"{_STATE} has no {error}" if isinstance(error, KeyError) else error
    return BundleError(f"{path}: not a whole checkpoint: {reason}.")


def _read_state(path: Path) -> dict[str, Any]:
    state = files.read_json_object(path / _STATE)
    if state.get("format") != _FORMAT:
        raise ValueError(f"{_STATE} has format {state.get('format')!r}, and this version reads format {_FORMAT}")
    return state


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def checkpoint_weights(path: Path) -> Path:
    """Returns the file with a checkpoint's weights."""
    return path / _MODEL


def set_aside(path: Path) -> Path:
    """Renames a damaged checkpoint, so that it no longer counts as one; returns what it is called now."""
    aside = path.with_name(f"damaged-{path.name}")
    shutil.rmtree(aside, ignore_errors=True)  # of the same step, from an earlier session
    return path.rename(aside)


def set_aside_damaged(run: Path, num_whole: int) -> list[str]:
    """Sets damaged checkpoints aside until the last `num_whole` to average are whole; returns a line about each."""
    lines: list[str] = []
    for path in reversed(averageable_checkpoints(run)):
        if num_whole <= 0:
            break
        try:
            check_checkpoint(path)
            read_weights(path / _MODEL)
            num_whole -= 1
        except BundleError as error:
            lines.append(f"{error} It is set aside as {set_aside(path)}.")
    return lines


def prune(run: Path, keep: int) -> None:
    """Removes all checkpoints but the last `keep` that may be averaged, and the newest of all."""
    kept = averageable_checkpoints(run)[-keep:]
    for path in checkpoints(run)[:-1]:
        if path not in kept:
            going = path.with_name(f".{path.name}.removing.part")  # renamed first: half removed, it is no checkpoint
            if going.exists():
                shutil.rmtree(going)
            shutil.rmtree(path.rename(going))


def remove_leftovers(run: Path) -> None:
    """Removes what killed processes left unfinished in a run folder; only while no other process trains there."""
    files.remove_leftovers(run, "best", "model", CONFIG, DATA, "metrics.jsonl")
    files.remove_leftovers(run / "data", "*.json", "*.arrow")
    files.remove_leftovers(run / "checkpoints", "step-*")
    for path in (run / "checkpoints").glob("step-*"):
        if CHECKPOINT.fullmatch(path.name) and path.is_dir() and not any(path.iterdir()):  # left by version 0.1.0
            path.rmdir()
