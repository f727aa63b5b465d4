"""Runs that are stopped, and one that is not."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from small_recipe import lines, write_pairs
from stopped_runs import RECIPE, Killed, interrupt, train

if TYPE_CHECKING:
    from transduce.training.trainer import Trainer


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_pairs(folder, "train", lines(80, 1))
    write_pairs(folder, "dev", lines(10, 2))
    (folder / "recipe.toml").write_text(RECIPE)
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def whole(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody interrupted: 23 steps, of which 15, 20 and the last are averaged."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert train(recipe, run) == 0
    return run


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that lets the next training be interrupted during a step."""
    from transduce.training.trainer import Trainer  # here, because it needs PyTorch

    def at(step: int, how: signal.Signals) -> None:
        train_step = Trainer.train_step

        def step_and_signal(trainer: "Trainer", rows: np.ndarray) -> Any:
            if trainer.progress.step + 1 == step:
                monkeypatch.setattr(Trainer, "train_step", train_step)
                if how == signal.SIGKILL:
                    trainer.writer.wait()  # so that tests know which checkpoint is the last
                    raise Killed
                os.kill(os.getpid(), how)
            return train_step(trainer, rows)

        monkeypatch.setattr(Trainer, "train_step", step_and_signal)

    return at


@pytest.fixture
def stopped(recipe: Path, tmp_path: Path, interrupted: Callable[..., None]) -> tuple[Path, Path]:
    """Returns a recipe, and a run that was stopped after 7 steps."""
    folder = Path(shutil.copytree(recipe.parent, tmp_path / "corpus"))
    interrupt(folder / recipe.name, tmp_path / "run", interrupted, 7, signal.SIGTERM)
    return folder / recipe.name, tmp_path / "run"
