"""A training that is stopped, killed or resumed: the model that it ends with, what holds, what is refused."""

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from transduce import files
from transduce import runs as runs_module
from transduce.bundle import Bundle, read_weights, save_bundle
from transduce.cli.main import main as command_line
from transduce.config import load_recipe
from transduce.data.prepare import prepare
from transduce.errors import BundleError, DataError, TrainingError
from transduce.runs import average_run, load_run_config, run_settings
from transduce.training import checkpoints as checkpoints_module
from transduce.training import trainer as trainer_module
from transduce.training.checkpoints import (
    Progress,
    averageable_checkpoints,
    check_checkpoint,
    checkpoint_kind,
    checkpoint_path,
    checkpoints,
    read_progress,
)
from transduce.training.cost import Capacity
from transduce.training.trainer import Trainer

_RECIPE = """
name = "small"

[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 16
d_ff = 32
num_heads = 2
d_k = 8
d_v = 8

[text]
vocab_size = 300

[data]
folder = "."
train = [["train.en", "train.de"]]
validation = ["dev.en", "dev.de"]

[train]
source_batch_tokens = 300
target_batch_tokens = 300
warmup_steps = 20
max_steps = 23
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
checkpoint_steps = 5
keep_checkpoints = 3
average_last = 3
validate_steps = 10
validate_bleu = false
log_steps = 1
"""
_TIMES = ("training_seconds", "training_flops_estimate", "training_flops_estimate_of")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    generator = np.random.default_rng(1)
    words = ["red", "blue", "dog", "man", "runs", "sits", "on", "a", "the", "hill"]
    for split, count in (("train", 80), ("dev", 10)):
        lines = [f"{' '.join(generator.choice(words, int(generator.integers(1, 12))))} {n}" for n in range(count)]
        (folder / f"{split}.en").write_text("\n".join(lines) + "\n")
        (folder / f"{split}.de").write_text("\n".join(line.upper() for line in lines) + "\n")
    (folder / "recipe.toml").write_text(_RECIPE)
    return folder / "recipe.toml"


def train(recipe: Path, run: Path, *settings: str, arguments: Iterable[str] = ()) -> int:
    words = [word for setting in settings for word in ("--set", setting)]
    return command_line(["train", str(recipe), "--output", str(run), "--quiet", *arguments, *words])


def resume(recipe: Path, run: Path, *settings: str) -> int:
    return train(recipe, run, *settings, arguments=["--resume"])


@pytest.fixture(scope="module")
def whole(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody interrupted: 23 steps, of which 15, 20 and the last are averaged."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert train(recipe, run) == 0
    return run


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, and nothing is written any more."""


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that lets the next training be interrupted during a step."""

    def at(step: int, how: signal.Signals) -> None:
        train_step = Trainer.train_step

        def step_and_signal(trainer: Trainer, rows: np.ndarray) -> Any:
            if trainer.progress.step + 1 == step:
                monkeypatch.setattr(Trainer, "train_step", train_step)
                if how == signal.SIGKILL:
                    raise Killed
                os.kill(os.getpid(), how)
            return train_step(trainer, rows)

        monkeypatch.setattr(Trainer, "train_step", step_and_signal)

    return at


def interrupt(
    recipe: Path, run: Path, interrupted: Callable[..., None], step: int, how: signal.Signals, *settings: str
) -> None:
    interrupted(step, how)
    if how == signal.SIGKILL:
        with pytest.raises(Killed):
            resume(recipe, run, *settings)
    else:
        assert resume(recipe, run, *settings) == 128 + how


def assert_same_model(ours: Path, theirs: Path) -> None:
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    first, second = (json.loads((folder / "metrics.json").read_text()) for folder in (ours, theirs))
    assert {k: v for k, v in first.items() if k not in _TIMES} == {k: v for k, v in second.items() if k not in _TIMES}


# --- checkpoints that only serve to resume --------------------------------------------------------------------


@pytest.mark.parametrize(
    "interruptions",
    [
        [(3, signal.SIGTERM), (9, signal.SIGKILL), (16, signal.SIGINT), (17, signal.SIGTERM), (22, signal.SIGTERM)],
        [(1, signal.SIGKILL), (10, signal.SIGTERM), (12, signal.SIGTERM), (13, signal.SIGKILL), (23, signal.SIGINT)],
        [(step, signal.SIGTERM) for step in range(1, 24, 2)],
    ],
    ids=["between", "at a regular checkpoint and at the end", "often"],
)
def test_an_interrupted_training_ends_in_the_same_model(
    recipe: Path, whole: Path, tmp_path: Path, interrupted: Callable[..., None], interruptions: list[Any]
) -> None:
    run = tmp_path / "run"
    for step, how in interruptions:
        interrupt(recipe, run, interrupted, step, how)
    assert resume(recipe, run) == 0
    assert Bundle.load(run / "model").metrics["averaged_steps"] == "15, 20, 23"
    assert_same_model(run / "model", whole / "model")
    assert [path.name for path in checkpoints(run)] == [path.name for path in checkpoints(whole)]
    assert (run / "best" / "model.safetensors").read_bytes() == (whole / "best" / "model.safetensors").read_bytes()
    assert resume(recipe, run) == 0  # a finished training ends there again
    assert_same_model(run / "model", whole / "model")


def test_the_checkpoint_of_a_stop_goes_when_a_later_one_is_written(
    recipe: Path, tmp_path: Path, interrupted: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    interrupt(recipe, run, interrupted, 3, signal.SIGTERM)
    assert [checkpoint_kind(path) for path in checkpoints(run)] == ["interim"]
    assert (
        command_line(["average", str(run), "--output", str(tmp_path / "early")]) == 0
    )  # better than nothing, and said
    assert "there is no regular checkpoint yet; taking step-00000003" in capsys.readouterr().err
    interrupt(recipe, run, interrupted, 17, signal.SIGTERM)
    assert [path.name for path in checkpoints(run)] == [f"step-{step:08d}" for step in (5, 10, 15, 17)]
    assert [path.name for path in averageable_checkpoints(run)] == [f"step-{step:08d}" for step in (5, 10, 15)]
    assert average_run(run, tmp_path / "model", last=2, show_progress=False).metrics["averaged_steps"] == "10, 15"
    interrupt(recipe, run, interrupted, 18, signal.SIGTERM)
    assert [path.name for path in checkpoints(run)] == [f"step-{step:08d}" for step in (5, 10, 15, 18)]
    assert resume(recipe, run) == 0
    assert [path.name for path in checkpoints(run)] == [f"step-{step:08d}" for step in (15, 20, 23)]
    assert [checkpoint_kind(path) for path in checkpoints(run)] == ["scheduled", "scheduled", "end"]


def test_a_training_that_is_taken_beyond_its_end_leaves_that_out(recipe: Path, tmp_path: Path) -> None:
    direct, extended = tmp_path / "direct", tmp_path / "extended"
    assert train(recipe, direct, "train.max_steps=27") == 0
    assert train(recipe, extended, "train.max_steps=23") == 0
    assert resume(recipe, extended, "train.max_steps=27") == 0
    assert Bundle.load(extended / "model").metrics["averaged_steps"] == "20, 25, 27"
    assert_same_model(extended / "model", direct / "model")


def test_the_time_between_checkpoints_counts_over_all_sessions(
    recipe: Path, tmp_path: Path, interrupted: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that stands still but in a step, which takes a minute: a checkpoint is due every five steps."""
    now, train_step = [0.0], Trainer.train_step

    def slow(trainer: Trainer, rows: np.ndarray) -> Any:
        now[0] += 60.0
        return train_step(trainer, rows)

    monkeypatch.setattr(trainer_module.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(trainer_module.time, "monotonic", lambda: now[0])
    # By a clock that stands still, no product of matrices takes any time.
    monkeypatch.setattr(trainer_module, "device_capacity", lambda _: Capacity(None, "unknown"))
    by_time = ("train.checkpoint_steps=0", "train.checkpoint_minutes=5.0", "train.max_steps=13")
    for step in (3, 7, 8):
        monkeypatch.setattr(Trainer, "train_step", slow)
        interrupt(recipe, tmp_path / "run", interrupted, step, signal.SIGTERM, *by_time)
    monkeypatch.setattr(Trainer, "train_step", slow)
    assert resume(recipe, tmp_path / "run") == 0
    assert Bundle.load(tmp_path / "run" / "model").metrics["averaged_steps"] == "5, 10, 13"

    # Where steps decide which checkpoints are regular, those by time only serve to resume.
    both = ("train.checkpoint_steps=5", "train.checkpoint_minutes=2.0", "train.max_steps=9")
    monkeypatch.setattr(Trainer, "train_step", slow)
    interrupt(recipe, tmp_path / "both", interrupted, 8, signal.SIGKILL, *both)
    assert [(read_progress(path).step, checkpoint_kind(path)) for path in checkpoints(tmp_path / "both")] == [
        (5, "scheduled"),
        (7, "interim"),
    ]


def test_a_signal_during_the_last_validation_is_heeded(
    recipe: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perplexity = trainer_module.perplexity

    def signalled(*arguments: Any) -> float:
        if len(checkpoints(tmp_path / "run")) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return perplexity(*arguments)

    monkeypatch.setattr(trainer_module, "perplexity", signalled)
    assert train(recipe, tmp_path / "run", "train.validate_steps=0") == 143
    assert not (tmp_path / "run" / "model").exists()
    monkeypatch.setattr(trainer_module, "perplexity", perplexity)
    assert resume(recipe, tmp_path / "run") == 0
    assert Bundle.load(tmp_path / "run" / "model").metrics["averaged_steps"] == "15, 20, 23"


def test_early_stopping_comes_at_the_same_step(
    recipe: Path, tmp_path: Path, interrupted: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at the step at which a validation was due, and which ends the training."""
    monkeypatch.setattr(trainer_module, "perplexity", lambda *_: 100.0)
    early = ("train.early_stopping=1", "train.validate_steps=4", "train.max_steps=50")
    assert train(recipe, tmp_path / "whole", *early) == 0
    interrupt(recipe, tmp_path / "run", interrupted, 8, signal.SIGTERM, *early)
    assert resume(recipe, tmp_path / "run") == 0
    assert Bundle.load(tmp_path / "run" / "model").metrics["averaged_steps"] == "5, 8"
    assert_same_model(tmp_path / "run" / "model", tmp_path / "whole" / "model")


def test_the_mean_is_compared_with_the_last_checkpoint(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", str(recipe), "--output", str(tmp_path / "run"), "--set", "train.max_steps=12"]
    monkeypatch.setattr(trainer_module, "perplexity", lambda *_: 50.0)  # of the last checkpoint
    monkeypatch.setattr(runs_module, "perplexity", lambda *_: 40.0)  # of the mean
    assert command_line(arguments) == 0
    compared = "validation: perplexity 40.00 by the mean of the checkpoints after steps 5, 10, 12; perplexity 50.00 by"
    said = capsys.readouterr().err
    assert compared in said
    assert "is worse than the last checkpoint" not in said
    monkeypatch.setattr(runs_module, "perplexity", lambda *_: 60.0)
    assert command_line([*arguments, "--resume", "--quiet"]) == 0
    said = capsys.readouterr().err
    assert "by perplexity, this mean of checkpoints (60.00) is worse than the last checkpoint alone (50.00)" in said
    assert "--last 1" in said
    assert command_line([*arguments, "--resume", "--quiet", "--set", "train.average_last=1"]) == 0
    assert "is worse" not in capsys.readouterr().err


@pytest.mark.slow
def test_real_signals_at_random_moments(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "interrupted_training.py"
    counts = ["--kills", "2", "--terminations", "1", "--interrupts", "1", "--steps", "63"]
    ended = subprocess.run([sys.executable, str(script), *counts], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    result = json.loads(ended.stdout)
    assert result["equal"]
    assert len(result["interruptions"]) == result["took_effect"] == 4
    assert result["left_over"] == []


# --- what is not finite ---------------------------------------------------------------------------------------


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
        patch.setattr(trainer_module, "perplexity", lambda *_: 1.0 / (1 + len(checkpoints(run))))
        poison_weights(patch, after)
        assert train(recipe, run) == TrainingError.exit_code
    last = checkpoint_path(run, {12: 10, 15: 10, 10: 5, 23: 20}[after])
    message = capsys.readouterr().err
    assert f"The last checkpoint with finite weights is {last}: go on from there" in message
    assert checkpoints(run)[-1] == last
    assert not (run / "model").exists()
    assert all(np.isfinite(w).all() for path in run.rglob("model.safetensors") for w in read_weights(path).values())
    # The advice can be followed: what is set anew holds from then on, and is said.
    assert resume(recipe, run, "train.max_gradient_norm=1.0") == 0
    assert "train.max_gradient_norm: was 0.0, now 1.0" in capsys.readouterr().err
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
        state = json.loads((path / "state.json").read_text())
        state["sha256"]["model.safetensors"] = files.sha256(path / "model.safetensors")
        (path / "state.json").write_text(json.dumps(state))
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


# --- what holds on resuming -----------------------------------------------------------------------------------


def test_what_was_set_at_the_start_holds(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], interrupted: Callable[..., None]
) -> None:
    run = tmp_path / "run"
    interrupt(recipe, run, interrupted, 2, signal.SIGKILL, "train.max_steps=7", "model.dropout=0.2")
    capsys.readouterr()
    assert command_line(["train", str(recipe), "--output", str(run), "--resume"]) == 0
    said = capsys.readouterr().err
    assert "still set, as when" in said
    assert "train.max_steps=7 model.dropout=0.2" in said
    assert "resuming with a change" not in said
    assert read_progress(checkpoints(run)[-1]).step == 7
    assert load_run_config(run).model.dropout == 0.2

    assert resume(recipe, run, "train.max_steps=9") == 0
    assert "resuming with a change: train.max_steps: was 7, now 9" in capsys.readouterr().err
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
    edited.write_text(_RECIPE.replace("max_steps = 23", "max_steps = 40").replace("log_steps = 1", "log_steps = 9"))
    edited.write_text(edited.read_text().replace("average_last = 3", "average_last = 1"))
    capsys.readouterr()
    assert resume(edited, run) == 0
    changes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("resuming with")]
    assert changes == ["resuming with a change: train.average_last: was 3, now 1"]  # what was set is not the recipe's
    edited.write_text(_RECIPE.replace("warmup_steps = 20", "warmup_steps = 30"))
    assert resume(edited, run) == TrainingError.exit_code
    assert "train.warmup_steps: was 20, now 30" in capsys.readouterr().err
    edited.write_text(_RECIPE.replace("warmup_steps = 20", "warmup_steps = 20\nmax_gradient_norm = 1.0"))
    assert resume(edited, run) == TrainingError.exit_code  # changes updates: it must be set by hand
    assert "train.max_gradient_norm: was 0.0, now 1.0" in capsys.readouterr().err


# --- damage ---------------------------------------------------------------------------------------------------


@pytest.fixture
def stopped(recipe: Path, tmp_path: Path, interrupted: Callable[..., None]) -> tuple[Path, Path]:
    """Returns a recipe, and a run that was stopped after 7 steps."""
    folder = Path(shutil.copytree(recipe.parent, tmp_path / "corpus"))
    interrupt(folder / recipe.name, tmp_path / "run", interrupted, 7, signal.SIGTERM)
    return folder / recipe.name, tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("how", ["no manifest", "prepared anew", "no notes", "elsewhere"])
def test_a_run_goes_on_with_its_own_data_only(
    stopped: tuple[Path, Path], capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """Else it would learn another tokenizer, and train the old weights on with it."""
    recipe, run = stopped
    text = recipe.parent / "train.en"
    text.write_text(text.read_text().replace("dog", "zebra"))
    arguments: list[str] = []
    if how in ("no manifest", "no notes"):
        (run / "data" / "manifest.json").unlink()
    if how == "no notes":  # as in a run of version 0.1.0
        (run / "data.json").unlink()
    if how == "prepared anew":
        prepare(load_recipe(recipe), run / "data", progress=False, overwrite=True)
        with pytest.raises(TrainingError, match="started with other data"):
            average_run(run, run.parent / "model", show_progress=False)
    if how == "elsewhere":
        prepare(load_recipe(recipe), run.parent / "other", progress=False)
        arguments = ["--data", str(run.parent / "other")]
    before = contents(run)
    capsys.readouterr()
    assert train(recipe, run, arguments=["--resume", *arguments]) == TrainingError.exit_code
    (message,) = capsys.readouterr().err.splitlines()
    assert ("started with other data" in message) == (how in ("prepared anew", "elsewhere"))
    assert str(run) in message
    assert contents(run) == before


def test_data_that_were_lost_can_be_prepared_again(stopped: tuple[Path, Path], whole: Path) -> None:
    recipe, run = stopped
    shutil.rmtree(run / "data")
    prepare(load_recipe(recipe), run.parent / "again", progress=False)
    assert train(recipe, run, arguments=["--resume", "--data", str(run.parent / "again")]) == 0
    assert (run / "model" / "model.safetensors").read_bytes() == (whole / "model" / "model.safetensors").read_bytes()
    shutil.move(run, moved := run.parent / "moved")
    assert resume(recipe, moved) == 0


@pytest.mark.parametrize(
    "name", ["config.json", "data.json", "data/manifest.json", "checkpoints/step-00000007/state.json"]
)
@pytest.mark.parametrize("damage", ["", "[]", '{"a": 1}', '{"files": 3, "format_version": 1, "set": 7, "folder": 5}'])
def test_a_damaged_file_is_one_clear_line(
    stopped: tuple[Path, Path], capsys: pytest.CaptureFixture[str], name: str, damage: str
) -> None:
    recipe, run = stopped
    (run / name).write_text(damage)
    capsys.readouterr()
    code = resume(recipe, run)
    message = capsys.readouterr().err
    if name.startswith("checkpoints"):  # there is one before it
        assert code == 0
        assert f"warning: {run / name}"[: -len("/state.json")] in message
    else:
        assert code in (TrainingError.exit_code, DataError.exit_code, 2)
        assert str(run / name) in message
        assert len(message.splitlines()) == 1


def test_without_its_configuration_a_run_is_not_resumed(
    stopped: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, run = stopped
    (run / "config.json").unlink()
    assert resume(recipe, run) == TrainingError.exit_code
    assert "config.json: missing" in capsys.readouterr().err


def test_the_batch_that_is_next_must_be_there(stopped: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Version 0.1.0 wrote no checksum of where in the plan a training stands."""
    recipe, run = stopped
    state = checkpoint_path(run, 7) / "state.json"
    values = json.loads(state.read_text())
    del values["progress_sha256"]
    values["progress"]["batch"] = 1000
    state.write_text(json.dumps(values))
    assert resume(recipe, run) == TrainingError.exit_code
    assert "batch 1000 of epoch" in capsys.readouterr().err


# --- litter and full disks ------------------------------------------------------------------------------------


def test_what_a_killed_training_left_is_swept_at_the_next_start(stopped: tuple[Path, Path]) -> None:
    recipe, run = stopped
    left = [
        ".best.abcdefgh.part",
        ".model.abcdefgh.part",
        ".config.json.abcdefgh.part",
        "data/.train.arrow.abcdefgh.part",
    ]
    left += ["checkpoints/.step-00000009.abcdefgh.part", "checkpoints/step-00000002"]
    for name in left:
        (run / name).mkdir()
    foreign = ["checkpoints/step-abc", "checkpoints/notes", ".notes"]
    for name in foreign:
        (run / name).mkdir()
    (run / "checkpoints" / "step-abc" / "state.json").write_text("{}")
    assert resume(recipe, run) == 0
    assert not [name for name in left if (run / name).exists()]
    assert all((run / name).is_dir() for name in foreign)
    assert Bundle.load(run / "model").metrics["averaged_steps"] == "15, 20, 23"


def test_what_a_killed_average_left_is_swept_by_the_next_one(whole: Path, tmp_path: Path) -> None:
    (tmp_path / ".model.abcdefgh.part").mkdir()
    (tmp_path / ".other.abcdefgh.part").mkdir()
    average_run(whole, tmp_path / "model", show_progress=False)
    assert {path.name for path in tmp_path.iterdir()} == {"model", ".other.abcdefgh.part"}


@pytest.mark.parametrize("full", ["checkpoint", "best"])
def test_a_full_disk_leaves_the_checkpoint_before(
    recipe: Path,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    full: str,
) -> None:
    run, write_json = tmp_path / "run", checkpoints_module.files.write_json

    def write(path: Path, value: Any) -> None:
        which = "best" if full == "best" else "scheduled"
        if path.name == "state.json" and (value["purpose"], value["progress"]["step"]) == (which, 10):
            raise OSError(28, "No space left on device", str(path))
        write_json(path, value)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module.files, "write_json", write)
        assert train(recipe, run) == TrainingError.exit_code
    (message,) = capsys.readouterr().err.splitlines()
    assert "cannot be written: No space left on device. step-00000005 is whole: make room and go on with" in message
    assert [check_checkpoint(path).step for path in checkpoints(run)] == [5]
    assert not [path for path in run.rglob(".*") if path.name != ".lock"]
    assert resume(recipe, run) == 0
    assert_same_model(run / "model", whole / "model")


def test_progress_has_the_fields_of_version_0_1_0() -> None:
    """Older versions read what this one writes: what is new stands beside the progress."""
    assert {field.name for field in dataclasses.fields(Progress)} == {
        *("step", "epoch", "batch", "target_tokens", "seconds", "skipped_steps", "best_score", "best_by", "best_step"),
        *("validations_since_best", "validations", "cost"),
    }
