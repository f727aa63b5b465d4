"""What a signal does to a training."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from small_training import (
    assert_close,
    final_weights,
)
from transduce import runs as runs_module
from transduce.cli.main import main as command_line
from transduce.config import Config
from transduce.experiments import demo as demo_module
from transduce.experiments.paper import trained_models
from transduce.training.outcome import End, Outcome
from transduce.training.progress import Progress, check_checkpoint
from transduce.training.run_folder import checkpoints
from transduce.training.stop_signals import StopSignals

pytestmark = pytest.mark.computes


def test_sigterm_stops_the_command_and_resume_goes_on(
    recipe: Path, data: Path, tmp_path: Path, warm_python: Path
) -> None:
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    arguments = ["train", str(recipe), "--data", str(data), "--quiet"]
    process = subprocess.Popen(
        [
            *(str(warm_python), "-m", "transduce.cli.main", *arguments),
            *("--output", str(stopped), "--set", "train.max_steps=1000000"),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(
        lambda: (stopped / "metrics.jsonl").is_file() and (stopped / "metrics.jsonl").stat().st_size > 0, process
    )
    process.send_signal(signal.SIGTERM)
    _, messages = process.communicate(timeout=300)
    assert process.returncode == 143, messages
    (checkpoint,) = checkpoints(stopped)
    step = check_checkpoint(checkpoint).step
    assert f"stopped by SIGTERM after step {step}" in messages
    assert not (stopped / "model").exists()

    end = ["--set", f"train.max_steps={step + 3}"]
    assert command_line([*arguments, "--output", str(stopped), "--resume", *end]) == 0
    assert command_line([*arguments, "--output", str(whole), *end]) == 0
    assert check_checkpoint(checkpoints(stopped)[-1]).step == step + 3
    assert_close(final_weights(stopped), final_weights(whole), tolerance=1e-6)
    records = [json.loads(line) for line in (stopped / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if record["kind"] == "train"] == list(range(1, step + 4))


def test_a_process_that_another_one_stopped_does_not_claim_to_be_done(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs_module, "train", lambda *_, **__: Outcome(End.SIGNAL, Progress(step=3)))
    assert command_line(["train", str(recipe), "--output", str(tmp_path / "run")]) == 143
    assert "stopped by a signal to another process after step 3" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["demo", "--pairs", "100"], ["paper", "table2", "--scale", "smoke"]])
def test_a_command_whose_training_was_stopped_ends_by_the_signal(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("babel")
    pytest.importorskip("matplotlib")
    stopped = Outcome(End.SIGNAL, Progress(step=3), signal.SIGTERM)
    for module in (demo_module, trained_models):
        monkeypatch.setattr(module, "train", lambda *_, **__: stopped)
    assert command_line([*command, "--output", str(tmp_path / "output"), "--quiet"]) == 143
    assert "transduce: stopped after step 3; the " in capsys.readouterr().err


def wait_until(condition: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def test_a_second_signal_is_not_held_back(config: Config, data: Path, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is before
