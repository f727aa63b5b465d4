"""A training that is resumed after numbers that are not finite, or with other settings."""

import itertools
import math
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from stopped_runs import (
    RECIPE,
    Killed,
    interrupt,
    resume,
    train,
)
from transduce import files
from transduce import runs as runs_module
from transduce.bundle import Bundle, read_weights, save_bundle
from transduce.cli.main import main as command_line
from transduce.config import load_recipe
from transduce.config.checked_json import read_checked, write_checked
from transduce.data.prepare import prepare
from transduce.errors import BundleError, TrainingError
from transduce.runs import average_run
from transduce.training import validation as validation_module
from transduce.training.progress import check_checkpoint, read_progress
from transduce.training.run_folder import checkpoint_path, checkpoints, load_run_config, run_settings
from transduce.training.trainer import Trainer


def poison_weights(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Makes a weight infinite after a step, as an update by far too large does."""
    train_step = Trainer.train_step

    def poisoned(trainer: Trainer, rows: np.ndarray) -> Any:
        result = train_step(trainer, rows)
        if trainer.progress.step + 1 == after:
            with torch.no_grad():
                trainer.model.weights()["source_embedding"][5, 3] = math.inf
        return result

    monkeypatch.setattr(Trainer, "train_step", poisoned)


@pytest.mark.parametrize("after", [12, 15, 10, 23], ids=["between", "at a checkpoint", "at a validation", "at the end"])
def test_weights_that_are_not_finite_end_the_training(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], after: int
) -> None:
    """Also where the score would make them the best: a scorer that finds nothing gives 0."""
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        better = itertools.count(1)
        patch.setattr(validation_module, "perplexity", lambda *_: 1.0 / next(better))
        poison_weights(patch, after)
        assert train(recipe, run) == TrainingError.exit_code
    last = checkpoint_path(run, {12: 10, 15: 10, 10: 5, 23: 20}[after])
    message = capsys.readouterr().err
    assert f"The last checkpoint with finite weights is {last}: continue from there" in message
    assert checkpoints(run)[-1] == last
    assert not (run / "model").exists()
    assert all(np.isfinite(w).all() for path in run.rglob("model.safetensors") for w in read_weights(path).values())
    # The advice can be followed: what is set anew holds from then on, and is said.
    assert resume(recipe, run, "train.max_gradient_norm=1.0") == 0
    assert "train.max_gradient_norm was 0.0, now 1.0" in capsys.readouterr().err
    assert load_run_config(run).train.max_gradient_norm == 1.0


def test_a_poisoned_checkpoint_of_version_0_1_0_is_passed_over(
    recipe: Path, tmp_path: Path, interrupted: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    interrupt(recipe, run, interrupted, 12, signal.SIGTERM)
    for path in checkpoints(run)[1:]:
        weights = {name: weight.copy() for name, weight in read_weights(path / "model.safetensors").items()}
        weights["source_embedding"][5, 3] = np.nan
        save_file(weights, path / "model.safetensors")
        state = read_checked(path / "state.json")
        state["sha256"]["model.safetensors"] = files.sha256(path / "model.safetensors")
        write_checked(path / "state.json", state)
    assert [check_checkpoint(path).step for path in checkpoints(run)] == [5, 10, 12]
    with pytest.raises(BundleError, match=r"step-00000010/model\.safetensors: source_embedding: 1 of"):
        average_run(run, tmp_path / "model", show_progress=False)
    assert resume(recipe, run) == 0
    assert "source_embedding: 1 of" in (said := capsys.readouterr().err)
    assert "Trying the checkpoint before it" in said
    assert [check_checkpoint(path).step for path in checkpoints(run)] == [15, 20, 23]


def test_a_damaged_checkpoint_does_not_cost_the_model_at_the_end_of_training(
    recipe: Path, tmp_path: Path, interrupted: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    interrupt(recipe, run, interrupted, 17, signal.SIGTERM)
    weights = checkpoint_path(run, 15) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x55")
    assert resume(recipe, run) == 0
    said = capsys.readouterr().err
    assert "step-00000015/model.safetensors: damaged: its checksum differs" in said
    assert "set aside as" in said
    assert Bundle.load(run / "model").metrics["averaged_steps"] == "20, 23"


def test_a_run_is_not_resumed_with_another_validation_set(
    recipe: Path, tmp_path: Path, interrupted: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its scores could not be compared with the best one so far."""
    corpus, run = tmp_path / "corpus", tmp_path / "run"
    shutil.copytree(recipe.parent, corpus)
    interrupt(corpus / "recipe.toml", run, interrupted, 12, signal.SIGTERM)
    for language in ("en", "de"):
        lines = (corpus / f"dev.{language}").read_text().splitlines(keepends=True)
        (corpus / f"dev.{language}").write_text("".join(lines[1:]))
    prepare(load_recipe(corpus / "recipe.toml"), tmp_path / "other", progress=False)
    again = ["--resume", "--data", str(tmp_path / "other")]
    assert train(corpus / "recipe.toml", run, arguments=again) == TrainingError.exit_code
    assert "was started with other data" in capsys.readouterr().err
    assert resume(corpus / "recipe.toml", run) == 0


def test_no_model_is_written_that_is_not_finite(whole: Path, tmp_path: Path) -> None:
    bundle = Bundle.load(whole / "model")
    weights = {name: weight.copy() for name, weight in bundle.weights().items()}
    weights["source_embedding"][1, 2] = np.nan
    with pytest.raises(BundleError, match=r"model: not written: source_embedding: 1 of .* NaN"):
        save_bundle(tmp_path / "model", bundle.config, weights, bundle.tokenizer, {})
    assert not [*tmp_path.iterdir()]


def test_what_was_set_at_the_start_holds(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], interrupted: Callable[..., None]
) -> None:
    run = tmp_path / "run"
    interrupt(recipe, run, interrupted, 2, signal.SIGKILL, "train.max_steps=7", "model.dropout=0.2")
    capsys.readouterr()
    assert command_line(["train", str(recipe), "--output", str(run), "--resume"]) == 0
    said = capsys.readouterr().err
    assert f"still set in {run}: " in said
    assert "train.max_steps=7 model.dropout=0.2" in said
    assert "resuming with a change" not in said
    assert read_progress(checkpoints(run)[-1]).step == 7
    assert load_run_config(run).model.dropout == 0.2

    assert resume(recipe, run, "train.max_steps=9") == 0
    assert "resuming with a change: train.max_steps was 7, now 9" in capsys.readouterr().err
    assert run_settings(run) == ["train.max_steps=9", "model.dropout=0.2"]
    assert resume(recipe, run) == 0
    assert "resuming with a change" not in capsys.readouterr().err
    assert read_progress(checkpoints(run)[-1]).step == 9


def test_what_was_set_outlives_a_crash_while_the_data_are_prepared(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(runs_module, "prepare", killed)
        with pytest.raises(Killed):
            train(recipe, tmp_path / "run", "train.max_steps=2")
    assert resume(recipe, tmp_path / "run") == 0
    assert read_progress(checkpoints(tmp_path / "run")[-1]).step == 2


def test_an_edited_recipe_is_a_change_that_is_said(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(recipe.parent, tmp_path / "corpus"))
    edited, run = folder / recipe.name, tmp_path / "run"
    assert train(edited, run, "train.log_steps=2", "train.max_steps=5") == 0
    edited.write_text(RECIPE.replace("max_steps = 23", "max_steps = 40").replace("log_steps = 1", "log_steps = 9"))
    edited.write_text(edited.read_text().replace("average_last = 3", "average_last = 1"))
    shutil.rmtree(run / "model")  # a finished run refuses changes
    capsys.readouterr()
    assert resume(edited, run) == 0
    changes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("resuming with")]
    assert changes == ["resuming with a change: train.average_last was 3, now 1"]  # what was set is not the recipe's
    edited.write_text(RECIPE.replace("warmup_steps = 20", "warmup_steps = 30"))
    assert resume(edited, run) == TrainingError.exit_code
    assert "train.warmup_steps was 20, now 30" in capsys.readouterr().err
    edited.write_text(RECIPE.replace("warmup_steps = 20", "warmup_steps = 20\nmax_gradient_norm = 1.0"))
    assert resume(edited, run) == TrainingError.exit_code  # changes updates: it must be set by hand
    assert "train.max_gradient_norm was 0.0, now 1.0" in capsys.readouterr().err
