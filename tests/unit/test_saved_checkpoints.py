"""A checkpoint holds weights and Adam's moments, and is loaded into the parameters that they belong to, or refused."""

import copy
import math
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from transduce.config import TrainConfig, apply_settings, preset
from transduce.errors import BundleError
from transduce.files import sha256
from transduce.model import Transformer
from transduce.training import checkpoint_writer
from transduce.training.checkpoint_writer import CheckpointWriter
from transduce.training.checkpoints import Snapshot, load_checkpoint, write_checkpoint
from transduce.training.cost import Capacity, CostAccount, DeviceTime
from transduce.training.progress import (
    OPTIMIZER,
    WEIGHTS,
    CheckpointKind,
    Progress,
    checkpoint_kind,
    read_progress,
    write_state,
)
from transduce.training.spikes import RecentSteps

SIZES = ("vocab_size=20", "d_model=4", "d_ff=4", "num_heads=1", "num_encoder_layers=1", "num_decoder_layers=1")
MODEL = apply_settings(preset("tiny"), [f"model.{size}" for size in SIZES]).model
PROGRESS = Progress(
    step=2,
    epoch=1,
    batch=3,
    target_tokens=40,
    seconds=1.5,
    skipped_steps=1,
    best_score=9.5,
    best_by="bleu",
    best_step=1,
    validations_since_best=2,
    validations={"bleu": 9.0, "step": 2.0},
    cost=CostAccount(7, 2, {"CPU": DeviceTime(1.5, 2.0, "measured")}),
    recent=RecentSteps([4.0, 3.5], 1),
)


def trained(frozen: str = "", seed: int = 1) -> tuple[Any, torch.optim.Adam]:
    """Returns a model after two updates, of all parameters but one."""
    torch.manual_seed(seed)
    model = Transformer(MODEL)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name != frozen)
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=0.1)
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad = torch.rand_like(parameter) if parameter.requires_grad else None
        optimizer.step()
    return model, optimizer


def saved(folder: Path, frozen: str = "") -> tuple[Path, Any, torch.optim.Adam]:
    model, optimizer = trained(frozen)
    snapshot = Snapshot(model, optimizer)
    snapshot.take()
    calls: list[int] = []
    write_checkpoint(folder / "step-00000002", snapshot, PROGRESS, CheckpointKind.FINAL, lambda: calls.append(1))
    assert calls
    return folder / "step-00000002", model, optimizer


@pytest.mark.parametrize("frozen", ["", "source_embedding"])
def test_what_was_saved_is_loaded(frozen: str, tmp_path: Path) -> None:
    path, model, optimizer = saved(tmp_path, frozen)
    other, fresh = trained(frozen, seed=2)
    assert load_checkpoint(path, other, fresh, TrainConfig()) == PROGRESS
    assert (read_progress(path), checkpoint_kind(path)) == (PROGRESS, CheckpointKind.FINAL)
    ours, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    for name, parameter in ours.items():
        assert torch.equal(parameter, theirs[name]), name
        state, loaded = optimizer.state[parameter], fresh.state[theirs[name]]
        if name == frozen:
            assert (state, loaded) == ({}, {})
            continue
        assert state.keys() == loaded.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(value, loaded[key]) for key, value in state.items())
        assert float(state["step"]) == 2.0


def test_a_snapshot_is_a_copy_that_is_used_again(tmp_path: Path) -> None:
    model, optimizer = trained()
    snapshot = Snapshot(model, optimizer)
    snapshot.take()
    before = {name: value.copy() for name, value in snapshot.files()[WEIGHTS].items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert all(np.array_equal(value, before[name]) for name, value in snapshot.files()[WEIGHTS].items())
    snapshot.take()
    assert all(np.allclose(value, before[name] + 1) for name, value in snapshot.files()[WEIGHTS].items())


def _with(path: Path, file: str, changes: dict[str, Any]) -> None:
    """Changes tensors of a checkpoint, and its checksums with them; None removes one."""
    tensors = load_file(path / file)
    for name, value in changes.items():
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value
    save_file(tensors, path / file)
    write_state(path, PROGRESS, CheckpointKind.FINAL, {name: sha256(path / name) for name in (WEIGHTS, OPTIMIZER)})


NORM = "encoder.0.self_attention_residual.norm.weight"


@pytest.mark.parametrize(
    ("file", "changes", "said"),
    [
        (OPTIMIZER, {f"exp_avg:{NORM}": None}, f"exp_avg:{NORM} does not fit the model"),
        (OPTIMIZER, {f"step:{NORM}": None}, f"step:{NORM} does not fit"),
        (OPTIMIZER, {f"step:{NORM}": np.zeros(1, np.float32)}, f"step:{NORM} does not fit"),
        (OPTIMIZER, {f"exp_avg_sq:{NORM}": np.zeros(5, np.float32)}, f"exp_avg_sq:{NORM} does not fit"),
        (OPTIMIZER, {"exp_avg:other": np.zeros(1, np.float32)}, "exp_avg:other does not fit"),
        (OPTIMIZER, {f"exp_avg:{NORM}": np.full(4, math.nan, np.float32)}, "4 of 4 numbers are infinite or NaN"),
        (WEIGHTS, {NORM: np.zeros(5, np.float32)}, f"shape of {NORM}"),
        (WEIGHTS, {NORM: None}, f"missing: {NORM}"),
        (WEIGHTS, {NORM: np.full(4, math.inf, np.float32)}, "4 of 4 numbers are infinite or NaN"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused_and_changes_nothing(
    file: str, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path, _, _ = saved(tmp_path)
    _with(path, file, changes)
    other, fresh = trained(seed=2)
    before = {name: value.detach().clone() for name, value in other.named_parameters()}
    with pytest.raises(BundleError) as caught:
        load_checkpoint(path, other, fresh, TrainConfig())
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in other.named_parameters())


def test_what_is_not_finite_is_not_written(tmp_path: Path) -> None:
    model, optimizer = trained()
    with torch.no_grad():
        dict(model.named_parameters())[NORM][0] = math.nan
    snapshot = Snapshot(model, optimizer)
    snapshot.take()
    with pytest.raises(BundleError, match=rf"^{NORM} is not finite after step 2\.$"):
        write_checkpoint(tmp_path / "c", snapshot, PROGRESS, CheckpointKind.REGULAR, lambda: None)
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_later_is_of_the_step_that_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training goes on while a checkpoint waits to be written: its costs and losses grow in place."""
    may_write, written = threading.Event(), []

    def write(path: Path, snapshot: object, progress: Progress, *_: object) -> None:
        assert may_write.wait(60)
        written.append((progress.step, progress.cost.flops, [*progress.recent.losses], dict(progress.validations)))

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", write)
    progress = copy.deepcopy(PROGRESS)
    model, optimizer = trained()
    log: Any = SimpleNamespace(warn=print)
    with CheckpointWriter(tmp_path, 5, model, optimizer, log) as writer:
        writer.save(tmp_path / "step-2", progress, CheckpointKind.RESUME_ONLY)
        progress.step = 3
        progress.cost.add(100, 1.0, "CPU", Capacity(2.0, "measured"), 1)
        progress.recent.losses.append(3.0)
        progress.validations["bleu"] = 11.0
        may_write.set()
        writer.wait()
    assert written == [(2, 7, [4.0, 3.5], {"bleu": 9.0, "step": 2.0})]
