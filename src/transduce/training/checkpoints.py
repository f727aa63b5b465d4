"""Checkpoints: all that training needs to continue exactly; complete or absent.

    checkpoints/step-00001000/
        model.safetensors        weights
        optimizer.safetensors    Adam's moments and step count
        state.json               where in the plan, best score so far, what it was written for, checksums

No random state is kept: the dropout of step n is drawn from (seed, n), and batch n is a function of (seed, epoch).
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transduce import files
from transduce.config import TrainConfig
from transduce.config.tensors import read_header, read_tensors, read_weights, require_finite, write_tensors
from transduce.errors import BundleError
from transduce.training.optimizer import Shape, kept_shapes
from transduce.training.progress import (
    OPTIMIZER,
    WEIGHTS,
    CheckpointKind,
    Progress,
    averageable_checkpoints,
    check_checkpoint,
    write_state,
)
from transduce.training.run_folder import checkpoints
from transduce.training.trainable import TrainableModel


class Snapshot:
    """Copies of a model's weights and of its moments, in memory that is used again for the next copy."""

    def __init__(self, model: TrainableModel, optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer
        self._copies: dict[str, dict[str, Tensor]] = {WEIGHTS: {}, OPTIMIZER: {}}
        self._copied: torch.cuda.Event | None = None

    def take(self) -> None:
        """Copies all tensors; those of a GPU in its own time, before it computes what comes next."""
        on_gpu = False
        for file, tensors in ((WEIGHTS, self._model.weights()), (OPTIMIZER, self._moments())):
            copies = self._copies[file]
            for name, tensor in tensors.items():
                if name not in copies:
                    copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
                copies[name].copy_(tensor.detach(), non_blocking=True)
                on_gpu = on_gpu or tensor.is_cuda
        if on_gpu:
            self._copied = torch.cuda.Event()
            self._copied.record()

    def _moments(self) -> dict[str, Tensor]:
        names = {id(parameter): name for name, parameter in self._model.named_parameters()}
        return {
            f"{key}:{names[id(parameter)]}": value
            for parameter, values in self._optimizer.state.items()
            for key, value in values.items()
        }

    def files(self) -> dict[str, dict[str, np.ndarray]]:
        """Returns the copies by file and name, when they are complete."""
        if self._copied is not None:
            self._copied.synchronize()
        return {file: {name: copy.numpy() for name, copy in copies.items()} for file, copies in self._copies.items()}


def write_checkpoint(
    path: Path, snapshot: Snapshot, progress: Progress, kind: CheckpointKind, proceed: Callable[[], None]
) -> None:
    """Writes a checkpoint; a crash while writing, or an exception of `proceed`, leaves none of it.

    Raises:
        BundleError: a weight or a moment is not finite.
        OSError: it cannot be written.
    """
    with files.atomic_folder(path) as folder:
        checksums = {}
        for name, tensors in snapshot.files().items():
            try:
                checksums[name] = write_tensors(folder / name, tensors, proceed)
            except BundleError as error:
                raise BundleError(f"{error} after step {progress.step}.") from None
        write_state(folder, progress, kind, checksums)
        proceed()


def load_checkpoint(
    path: Path, model: TrainableModel, optimizer: torch.optim.Optimizer, train: TrainConfig
) -> Progress:
    """Loads the checkpoint's weights into `model` and its moments into `optimizer`; returns its progress.

    Raises:
        BundleError: a file's checksum is wrong, a value is not finite, or the checkpoint is of another model.
    """
    progress = check_checkpoint(path)
    tensors, _ = read_header(path / WEIGHTS)
    model.require_shapes({name: stored.shape for name, stored in tensors.items()}, str(path / WEIGHTS))
    moments = _read_moments(path)
    _require_moments_of(model, moments, train, path / OPTIMIZER)
    model.load_weights(read_weights(path / WEIGHTS), str(path / WEIGHTS))
    for name, parameter in model.named_parameters():
        kept = {key: f"{key}:{name}" for key in kept_shapes(train, tuple(parameter.shape))}
        if moments.keys() & kept.values():
            values = {key: torch.from_numpy(moments[stored]) for key, stored in kept.items()}
            optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in values.items()}
    return progress


def _read_moments(path: Path) -> dict[str, np.ndarray]:
    """Returns the moments of a checkpoint; raises BundleError where the file is damaged or one is not finite."""
    moments, _ = read_tensors(path / OPTIMIZER)
    require_finite(moments, str(path / OPTIMIZER))
    return moments


def _require_moments_of(
    model: TrainableModel, moments: Mapping[str, np.ndarray], train: TrainConfig, where: Path
) -> None:
    """Checks that moments fit the model's parameters; a parameter that was never updated has none."""
    shapes: dict[str, Shape] = {}
    for name, parameter in model.named_parameters():
        kept = {f"{key}:{name}": shape for key, shape in kept_shapes(train, tuple(parameter.shape)).items()}
        if kept.keys() & moments.keys():
            shapes |= kept
    found = {name: moment.shape for name, moment in moments.items()}
    if found != shapes:
        name = min(name for name in found.keys() | shapes.keys() if found.get(name) != shapes.get(name))
        raise BundleError(f"{where}: {name[:80]} does not fit the model: it is of another one, or damaged.")


def last_finite_checkpoint(run: Path) -> Path | None:
    """Returns the newest checkpoint that is undamaged, with finite weights and moments; reads them all."""
    for path in reversed(checkpoints(run)):
        try:
            check_checkpoint(path)
            read_weights(path / WEIGHTS)
            _read_moments(path)
        except BundleError:
            continue
        return path
    return None


def advice_not_finite(run: Path) -> str:
    """Returns from which checkpoint, and how, to continue where weights or gradients are no longer finite."""
    found = last_finite_checkpoint(run)
    gentler = "a lower train.learning_rate_factor, or with train.max_gradient_norm"
    if found is None:
        return f"No checkpoint with finite weights is left: begin again with {gentler} (1.0, say)."
    return (
        f"The last checkpoint with finite weights is {found}: continue from there with --resume and {gentler}, such as "
        "--set train.max_gradient_norm=1.0."
    )


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
            read_weights(path / WEIGHTS)
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
