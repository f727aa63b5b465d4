"""The corpus of the tests of training, prepared once, and a finished run."""

import dataclasses
from pathlib import Path

import pytest

from small_recipe import LONG, RECIPE, lines, write_pairs
from transduce.cli import main as command_line
from transduce.config import Config, load_recipe
from transduce.data.prepare import prepare


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for split, count, seed in (("train", 80, 1), ("dev", 10, 2)):
        sources = lines(count, seed) + ([LONG] if split == "train" else [])
        write_pairs(folder, split, sources)
    (folder / "recipe.toml").write_text(RECIPE)
    prepare(load_recipe(folder / "recipe.toml"), folder / "prepared", progress=False)
    return folder / "recipe.toml"


@pytest.fixture(scope="session")
def data(recipe: Path) -> Path:
    return recipe.parent / "prepared"


@pytest.fixture(scope="session")
def config(recipe: Path) -> Config:
    loaded = load_recipe(recipe)
    return dataclasses.replace(loaded, model=dataclasses.replace(loaded.model, vocab_size=300))


@pytest.fixture(scope="session")
def finished_run(recipe: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    settings = ["train.checkpoint_steps=2", "train.keep_checkpoints=3", "train.average_last=2"]
    settings += ["train.validate_steps=4", "train.validate_bleu=true", "train.max_steps=10", "train.log_steps=2"]
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(run), "--quiet"]
    assert command_line.main([*arguments, *(word for setting in settings for word in ("--set", setting))]) == 0
    return run


@pytest.fixture
def only_translate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the command line one command, so that it does not read the options of the others."""
    monkeypatch.setattr(command_line, "COMMANDS", ("translate",))
