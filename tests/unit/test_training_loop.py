"""The order of events in a training: updates, checkpoints, validations, and how it ends."""

import contextlib
import logging
import math
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transduce.cli.main import main
from transduce.config import apply_settings, preset
from transduce.errors import ConfigError, LostPeerError, TrainingError
from transduce.training import distributed
from transduce.training.checkpoint_schedule import CheckpointSchedule
from transduce.training.distributed import Ranks
from transduce.training.outcome import End
from transduce.training.progress import CheckpointKind, Progress
from transduce.training.step import StepResult
from transduce.training.trainer import Trainer

CPU = torch.device("cpu")


class Loop(Trainer):
    """A trainer whose parts note what is asked of them; `at` has what happens in the update of a step."""

    def __init__(self, run: Path, *settings: str, step: int = 0, at: Any = None) -> None:
        self.config = apply_settings(preset("tiny"), ["train.checkpoint_minutes=0", "train.max_steps=6", *settings])
        self.run, self.progress, self.ranks = run, Progress(step=step), Ranks()
        self.compute: Any = SimpleNamespace(device=CPU)
        self.at = at or {}
        self.clock = time.perf_counter
        self._is_whole = True
        self.events: list[str] = []
        self.checkpoint_schedule = CheckpointSchedule(self.config.train)
        self.order: Any = SimpleNamespace(next_rows=lambda progress: np.array([progress.step]), close=lambda: None)
        self.log: Any = Log(self.events)
        self.writer: Any = Writer(self.events)
        self.quarantine: Any = SimpleNamespace(
            begin=lambda step: self.events.append(f"quarantine from {step}"), close=lambda: None
        )

    def train_step(self, rows: Any) -> StepResult:
        assert rows.tolist() == [self.progress.step]
        self.events.append(f"update {self.progress.step + 1}")
        self.at.get(self.progress.step + 1, lambda: None)()
        return StepResult(1.0, 1.0, 10, 10, 1.0, 0.1)

    def _advance(self, result: StepResult, rows: np.ndarray, started: float) -> None:
        self.progress.step += 1
        if math.isnan(result.loss):
            self.events.append(f"left out {self.progress.step}")

    def _validate(self) -> None:
        self.events.append(f"validation {self.progress.step}")
        self.progress.validations = {"step": float(self.progress.step)}


class Log:
    def __init__(self, events: list[str]) -> None:
        self.events = events

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def begin(self, step: int, *, is_validated: bool) -> None:
        self.events.append(f"log from {step}{'' if is_validated else ', to be validated'}")

    def warn(self, line: str) -> None: ...

    def end(self, progress: Progress) -> None:
        self.events.append(f"logged to {progress.step}")

    def paused(self) -> Any:
        return contextlib.nullcontext()


class Writer:
    def __init__(self, events: list[str]) -> None:
        self.events = events

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def save(self, path: Path, progress: Progress, kind: CheckpointKind) -> None:
        self.events.append(f"{kind} {int(path.name.removeprefix('step-'))}")

    def check(self) -> None: ...

    def wait(self) -> None:
        self.events.append("written")


BEGINS = ["log from 0, to be validated", "quarantine from 0"]


def test_updates_checkpoints_and_validations_in_their_order(tmp_path: Path) -> None:
    loop = Loop(tmp_path, "train.checkpoint_steps=2", "train.validate_steps=3", "train.skip_steps=[2]")
    outcome = loop.fit()
    assert loop.events == [
        *BEGINS,
        "update 1",
        "left out 2",
        "scheduled 2",
        "update 3",
        "validation 3",
        "update 4",
        "scheduled 4",
        "update 5",
        "update 6",
        "scheduled 6",
        "validation 6",
        "logged to 6",
        "written",
    ]
    assert (outcome.end, outcome.progress, outcome.signal, outcome.is_main) == (
        End.MAX_STEPS,
        loop.progress,
        None,
        True,
    )


def test_a_training_without_intervals_ends_with_a_checkpoint_and_a_validation(tmp_path: Path) -> None:
    loop = Loop(tmp_path, "train.validate_steps=0", "train.max_steps=2")
    loop.fit()
    assert loop.events == [*BEGINS, "update 1", "update 2", "end 2", "logged to 2", "validation 2", "written"]


@pytest.mark.parametrize(
    ("step", "settings", "validated", "first"),
    [
        (0, (), False, False),  # random weights
        (0, ("init.model=m",), False, True),
        (3, (), False, True),  # a signal prevented it
        (3, (), True, False),
        (4, (), False, False),  # it was not due
    ],
)
def test_what_was_not_validated_before_is_validated_at_the_beginning(
    step: int, settings: tuple[str, ...], validated: bool, first: bool, tmp_path: Path
) -> None:
    loop = Loop(tmp_path, "train.validate_steps=3", *settings, step=step)
    if validated:
        loop.progress.validations = {"step": float(step)}
    loop.fit()
    assert loop.events[0] == f"log from {step}{'' if validated else ', to be validated'}"
    assert (loop.events[2] == f"validation {step}") == first


@pytest.mark.parametrize(("at", "written"), [(3, "interim 3"), (4, "scheduled 4")])
def test_a_signal_ends_it_after_the_step_with_a_checkpoint_and_without_a_validation(
    at: int, written: str, tmp_path: Path
) -> None:
    stop = {at: lambda: os.kill(os.getpid(), signal.SIGTERM)}
    loop = Loop(tmp_path, "train.checkpoint_steps=2", "train.validate_steps=1", at=stop)
    outcome = loop.fit()
    assert loop.events[-3:] == [f"update {at}", written, f"logged to {at}"]
    assert (outcome.end, outcome.signal, loop.progress.step) == (End.SIGNAL, signal.SIGTERM, at)


def test_a_signal_during_the_last_step_is_not_a_finished_training(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def validate() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    loop._validate = validate  # type: ignore[method-assign]
    outcome = loop.fit()
    assert (outcome.end, outcome.signal) == (End.SIGNAL, signal.SIGINT)
    assert loop.events[-3:] == ["end 6", "logged to 6", "written"]


def test_where_another_process_fails_the_error_says_how_to_continue(tmp_path: Path) -> None:
    def fail() -> None:
        raise LostPeerError("rank 1 (on a) failed: x.")

    loop = Loop(tmp_path, at={3: fail})
    with pytest.raises(LostPeerError) as caught:
        loop.fit()
    done = "The checkpoint after step 2 is complete."
    assert str(caught.value) == f"{tmp_path}: rank 1 (on a) failed: x. {done} Continue with --resume."
    assert loop.events[-3:] == ["written", "interim 2", "written"]


def test_a_lack_of_memory_names_the_step(tmp_path: Path) -> None:
    def fail() -> None:
        raise MemoryError

    with pytest.raises(TrainingError, match=rf"^{tmp_path}: step 3: .* ran out of memory"):
        Loop(tmp_path, at={3: fail}).fit()


# --- collectives that fail, and the log -------------------------------------------------------------------------------


def test_a_failed_collective_names_the_process_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception) -> Any:
        def collective(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr("torch.distributed.all_reduce", collective)

    two = Ranks(0, 2)
    fail(RuntimeError("connection reset\nmore"))
    with pytest.raises(LostPeerError, match=r"another process of this training was lost: connection reset\.$"):
        two.sum([torch.zeros(1)])
    peers = SimpleNamespace(error=lambda cause: LostPeerError(f"rank 1 failed ({cause})"))
    monkeypatch.setattr(distributed, "_peers", peers)
    with pytest.raises(LostPeerError, match=r"rank 1 failed \(connection reset\)"):
        two.any_rank(True, CPU)
    fail(torch.OutOfMemoryError("full"))
    with pytest.raises(torch.OutOfMemoryError):
        two.sum([torch.zeros(1)])
    Ranks().sum([torch.zeros(1)])  # one alone asks nobody


def test_a_process_that_cannot_reach_the_main_one_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError("refused")

    monkeypatch.setenv("MASTER_ADDR", "main")
    monkeypatch.setattr(distributed, "Peers", refused)
    monkeypatch.setattr(Ranks, "broadcast", lambda *_: [7.0, 8.0])
    with Ranks(1, 2).watched(CPU):
        Ranks(1, 2).check()
    said = (
        "warning: rank 1 cannot connect to main, port 7 (refused): where a process fails, this one may learn it late."
    )
    assert capsys.readouterr().err == f"{said}\n"


def test_quiet_commands_log_errors_only(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[int] = []
    monkeypatch.setattr("transduce.runs.average_run", lambda *_, **__: 1 / 0)
    monkeypatch.setattr("transduce.cli.demo.run", lambda _: levels.append(logging.getLogger("transduce").level) or 0)
    main(["demo", "--quiet"])
    main(["demo"])
    assert levels == [logging.ERROR, logging.NOTSET]
    with pytest.raises(ZeroDivisionError):  # a bug shows its traceback
        main(["average", "run", "--output", "o"])
    assert main(["train", "none.toml", "--output", "run"]) == 2
    with pytest.raises(ConfigError, match=r"none\.toml: no such recipe"):
        main(["--debug", "train", "none.toml", "--output", "run"])
