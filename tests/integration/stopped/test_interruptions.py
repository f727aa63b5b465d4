"""A training that is stopped or killed, and resumed, ends in the same model."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stopped_runs import (
    assert_same_model,
    interrupt,
    resume,
    train,
)
from transduce.bundle import Bundle
from transduce.cli.main import main as command_line
from transduce.runs import average_run
from transduce.training import trainer as trainer_module
from transduce.training import validation as validation_module
from transduce.training.cost import Capacity
from transduce.training.progress import averageable_checkpoints, checkpoint_kind, read_progress
from transduce.training.run_folder import checkpoints
from transduce.training.trainer import Trainer


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
    metrics = Bundle.load(run / "model").metrics
    assert (metrics["averaged_steps"], metrics["steps"]) == ("15, 20, 23", 23)
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
    perplexity = validation_module.perplexity

    def signalled(*arguments: Any) -> float:
        os.kill(os.getpid(), signal.SIGTERM)
        return perplexity(*arguments)

    monkeypatch.setattr(validation_module, "perplexity", signalled)
    assert train(recipe, tmp_path / "run", "train.validate_steps=0") == 143
    assert not (tmp_path / "run" / "model").exists()
    monkeypatch.setattr(validation_module, "perplexity", perplexity)
    assert resume(recipe, tmp_path / "run") == 0
    assert Bundle.load(tmp_path / "run" / "model").metrics["averaged_steps"] == "15, 20, 23"


def test_early_stopping_comes_at_the_same_step(
    recipe: Path, tmp_path: Path, interrupted: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at the step at which a validation was due, and which ends the training."""
    monkeypatch.setattr(validation_module, "perplexity", lambda *_: 100.0)
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
    values = [50.0, 50.0, 40.0]  # at two validations, and of the mean
    monkeypatch.setattr(validation_module, "perplexity", lambda *_: values.pop(0))
    assert command_line(arguments) == 0
    compared = "validation: perplexity 40.00 by the mean of the checkpoints after steps 5, 10, 12; perplexity 50.00 by"
    said = capsys.readouterr().err
    assert compared in said
    assert "is worse than the last checkpoint" not in said
    shutil.rmtree(tmp_path / "run" / "model")
    values.append(60.0)
    assert command_line([*arguments, "--resume", "--quiet"]) == 0
    said = capsys.readouterr().err
    assert "by perplexity, this mean of checkpoints (60.00) is worse than the last checkpoint alone (50.00)" in said
    assert "--last 1" in said


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_real_interruptions_at_random_moments(ranks: int, warm_python: Path) -> None:
    script = Path(__file__).resolve().parents[3] / "benchmarks" / "interrupted_training.py"
    counts = ["--kills", "2", "--terminations", "1", "--interrupts", "1", "--full-disks", "1", "--nan-batches", "3"]
    counts += ["--steps", "63", "--ranks", str(ranks), "--dead-ranks", str(2 * (ranks - 1))]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [warm_python, str(script), *counts], capture_output=True, text=True, timeout=1500, env=environment
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    result = json.loads(ended.stdout)
    assert result["equal"]
    assert len(result["interruptions"]) == result["took_effect"] == 5 + 2 * (ranks - 1)
    assert result["left_over"] == []
