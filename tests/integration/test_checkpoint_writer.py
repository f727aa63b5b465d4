"""Checkpoints are written while training continues, and nothing of that can be seen in them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from small_training import assert_identical, final_weights, make_trainer, with_train
from transduce.config import Config
from transduce.config.tensors import read_tensors
from transduce.errors import TrainingError
from transduce.training import checkpoint_writer as writer_module
from transduce.training.progress import check_checkpoint
from transduce.training.run_folder import checkpoint_path, checkpoints
from transduce.training.step import StepResult
from transduce.training.trainer import Trainer

pytestmark = pytest.mark.computes


class SlowDisk:
    """Writes of checkpoints after one step wait until they are let through."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.began, self.may_end = threading.Event(), threading.Event()
        self._write = writer_module.write_checkpoint

    def write(self, path: Path, snapshot: Any, progress: Any, kind: Any, proceed: Any) -> None:
        def slow() -> None:
            if progress.step == self.step:
                self.began.set()
                assert self.may_end.wait(600)
            proceed()

        self._write(path, snapshot, progress, kind, slow)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk = SlowDisk(3)
    monkeypatch.setattr(writer_module, "write_checkpoint", disk.write)
    yield disk
    disk.may_end.set()


def at_step(trainer: Trainer, step: int, action: Any) -> None:
    train_step = trainer.train_step

    def acting(rows: np.ndarray) -> StepResult:
        if trainer.progress.step + 1 == step:
            action()
        return train_step(rows)

    trainer.train_step = acting  # type: ignore[method-assign]


def test_steps_are_made_during_a_write_and_do_not_change_it(
    config: Config, data: Path, tmp_path: Path, slow: SlowDisk
) -> None:
    alone = make_trainer(with_train(config, max_steps=3), tmp_path / "alone", data)
    slow.may_end.set()
    alone.fit()
    slow.may_end.clear()
    config = with_train(config, max_steps=8, checkpoint_steps=3)
    trainer = make_trainer(config, tmp_path / "run", data)
    seen: list[list[str]] = []

    def look() -> None:
        assert slow.began.wait(600)
        seen.append([path.name for path in checkpoints(tmp_path / "run")])
        threading.Timer(2.0, slow.may_end.set).start()  # the checkpoint after this step waits for it

    at_step(trainer, 6, look)
    trainer.fit()
    assert seen == [[]], "two steps were made before the checkpoint was complete"
    assert [check_checkpoint(path).step for path in checkpoints(tmp_path / "run")] == [3, 6, 8]
    for name in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = (read_tensors(checkpoint_path(tmp_path / run, 3) / name)[0] for run in ("run", "alone"))
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


def test_an_interruption_during_a_write_leaves_the_checkpoint_before(
    config: Config, data: Path, tmp_path: Path, slow: SlowDisk
) -> None:
    config = with_train(config, max_steps=6, checkpoint_steps=1)
    trainer = make_trainer(config, tmp_path / "run", data)

    def interrupt() -> None:
        assert slow.began.wait(600)
        threading.Timer(0.1, slow.may_end.set).start()
        raise KeyboardInterrupt

    at_step(trainer, 4, interrupt)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit()
    assert [check_checkpoint(path).step for path in checkpoints(tmp_path / "run")] == [1, 2]
    assert not [path for path in (tmp_path / "run").rglob(".*") if path.name != ".lock"]
    resumed = make_trainer(config, tmp_path / "run", data)
    assert resumed.resume()
    resumed.fit()
    whole = make_trainer(config, tmp_path / "whole", data)
    whole.fit()
    assert_identical(final_weights(tmp_path / "run"), final_weights(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "cannot be written: No space left on device. step-00000002 is"),
        (ValueError("an accident"), "cannot be written: ValueError: an accident"),
    ],
)
def test_an_error_of_the_thread_ends_the_training_soon(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    original, failed = writer_module.write_checkpoint, threading.Event()

    def write(path: Path, snapshot: Any, progress: Any, *rest: Any) -> None:
        if progress.step == 4:
            failed.set()
            raise error
        original(path, snapshot, progress, *rest)

    monkeypatch.setattr(writer_module, "write_checkpoint", write)
    trainer = make_trainer(with_train(config, max_steps=100, checkpoint_steps=2), tmp_path / "run", data)
    at_step(trainer, 5, lambda: failed.wait(600))
    with pytest.raises(TrainingError, match=said):
        trainer.fit()
    assert trainer.progress.step in (5, 6)  # noticed before the next step, at the latest where the next one is due
    assert [check_checkpoint(path).step for path in checkpoints(tmp_path / "run")] == [2]
