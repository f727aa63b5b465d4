"""Heads for later tokens, trained with a model or alone: exact updates, an exact resume, and `train --blockwise`."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from made_trees import write_trees
from small_training import (
    assert_close,
    assert_identical,
    batches_an_epoch,
    make_trainer,
    state_of,
    stop_after,
    with_train,
    without_clock,
    without_dropout,
)
from text_engine import text_translator
from transduce.bundle import Bundle
from transduce.cli.main import main as command_line
from transduce.config import Config
from transduce.engines.torch import TorchEngine
from transduce.training.trainer import Trainer
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

SETTINGS = ["train.max_steps=6", "train.warmup_steps=2", "train.checkpoint_steps=3", "train.average_last=1"]


@pytest.fixture(scope="module")
def with_heads(config: Config) -> Config:
    return dataclasses.replace(config, model=dataclasses.replace(config.model, block_size=4))


def test_many_micro_batches_are_one_batch(with_heads: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(without_dropout(with_heads), max_steps=3)
    whole = make_trainer(config, tmp_path / "whole", data)
    parts = make_trainer(with_train(config, micro_batch_tokens=60), tmp_path / "parts", data)
    for trainer in (whole, parts):
        trainer.fit()
    assert_close(state_of(whole), state_of(parts))


@pytest.mark.parametrize("frozen", [False, True])
def test_a_resumed_training_is_the_uninterrupted_one(
    with_heads: Config, data: Path, tmp_path: Path, frozen: bool
) -> None:
    config = with_train(with_heads, max_steps=batches_an_epoch(with_heads, data) + 2)

    def trainer_in(name: str) -> Trainer:
        trainer = make_trainer(config, tmp_path / name, data)
        if frozen:
            for parameter_name, parameter in trainer.model.named_parameters():
                parameter.requires_grad_(parameter_name.startswith("block_heads."))
            trainer = Trainer(
                trainer.model, config, tmp_path / name, trainer.train, compute=trainer.compute, show_progress=False
            )
        return trainer

    whole = trainer_in("whole")
    progress = whole.fit().progress
    stop_after(trainer_in("run"), 4)
    torch.manual_seed(12345)
    resumed = trainer_in("run")
    assert resumed.resume()
    again = resumed.fit().progress
    assert without_clock(again) == without_clock(progress)
    weights = [{name: value.clone() for name, value in trainer.model.weights().items()} for trainer in (resumed, whole)]
    assert_identical(*weights)


def test_one_head_learns_in_an_update_and_the_draw_says_which(with_heads: Config, data: Path, tmp_path: Path) -> None:
    """The heads that were not drawn have a gradient of 0, and until their turn comes they stay as they are."""
    trainer, seen = make_trainer(with_train(with_heads, max_steps=16), tmp_path / "run", data), set[int]()
    assert trainer.heads == [1, 2, 3, 4]
    train_step, named = trainer.train_step, dict(trainer.model.named_parameters())

    def checked(rows: np.ndarray) -> Any:
        result = train_step(rows)
        reached = [head for head in (2, 3, 4) if named[f"block_heads.outer.{head - 2}.weight"].grad.any()]  # type: ignore[union-attr]
        assert len(reached) <= 1
        seen.update(reached or [1])
        assert [head for head in (2, 3, 4) if named[f"block_heads.outer.{head - 2}.bias"].any()] == sorted(seen - {1})
        return result

    trainer.train_step = checked  # type: ignore[method-assign]
    trainer.fit()
    assert len(seen) >= 3


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(finished_run: Path) -> Path:
    return finished_run / "model"


@pytest.fixture
def own_words(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Lets the model write its sources backwards, as this one only writes noise; notes what it was opened as."""
    opened: list[Any] = []

    def load(path: Path, **options: Any) -> Translator:
        opened.append((path, options))
        return text_translator(lambda text: text[::-1])

    monkeypatch.setattr(Translator, "load", load)
    return opened


def train_heads(recipe: Path, model: Path, run: Path, *arguments: str, settings: list[str] = SETTINGS) -> int:
    words = [word for setting in settings for word in ("--set", setting)]
    given = ["train", str(recipe), "--blockwise", str(model), "--output", str(run), "--quiet", *arguments]
    return command_line([*given, *words])


def test_heads_learn_from_the_models_own_outputs_and_the_model_stays(
    recipe: Path, model: Path, own_words: list[Any], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    guided = recipe.with_name("guided.toml")  # as a recipe that the model itself may have been trained with
    guided.write_text(recipe.read_text().replace("[train]\n", "[train]\nguided_attention = 0.2\n"), encoding="utf-8")
    assert train_heads(guided, model, run, "--block-size", "3") == 0
    assert not (run / "data" / "aligner.safetensors").exists()
    assert [path for path, _ in own_words] == [model]
    source, target = ((run / "distilled/1" / name).read_text().splitlines() for name in ("source.txt", "target.txt"))
    assert source
    assert target == [line[::-1] for line in source]
    before, after = Bundle.load(model), Bundle.load(run / "model")
    assert after.config.model == dataclasses.replace(before.config.model, block_size=3)
    ours, theirs = before.weights(), after.weights()
    assert [name for name in ours if not np.array_equal(ours[name], theirs[name])] == []
    assert theirs.keys() - ours.keys() == {
        "block_heads.inner.weight", "block_heads.inner.bias",
        *(f"block_heads.outer.{head}.{kind}" for head in (0, 1) for kind in ("weight", "bias")),
    }  # fmt: skip
    assert all(theirs[f"block_heads.outer.{head}.weight"].any() for head in (0, 1))
    assert {"validation_tokens_per_pass", "validation_head_2", "validation_head_3"} <= after.metrics.keys()
    assert "validation_bleu" not in after.metrics
    engines = [TorchEngine.load(each, device="cpu") for each in (before, after)]
    sources = [[40, 41, 42], [50]]
    assert engines[0].score(sources, sources) == engines[1].score(sources, sources)


def test_a_stopped_training_continues_where_it_was(
    recipe: Path, model: Path, own_words: list[Any], tmp_path: Path
) -> None:
    assert train_heads(recipe, model, tmp_path / "whole") == 0
    part = [*SETTINGS[1:], "train.max_steps=3"]
    assert train_heads(recipe, model, tmp_path / "run", settings=part) == 0
    assert train_heads(recipe, model, tmp_path / "run", "--resume") == 0
    assert len(own_words) == 2  # once for each run
    whole, run = (Bundle.load(tmp_path / name / "model") for name in ("whole", "run"))
    assert whole.config.model.block_size == 8
    assert whole.checksums["model.safetensors"] == run.checksums["model.safetensors"]


def test_the_model_may_learn_too_and_from_the_recipes_targets(
    recipe: Path, model: Path, own_words: list[Any], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert train_heads(recipe, model, run, "--with-model", "--original-targets", "--block-size", "2") == 0
    assert own_words == []
    assert not (run / "distilled").exists()
    before, after = Bundle.load(model).weights(), Bundle.load(run / "model").weights()
    assert not np.array_equal(
        before["decoder.0.feed_forward.inner.weight"], after["decoder.0.feed_forward.inner.weight"]
    )
    assert after["block_heads.outer.0.bias"].any()


def test_a_model_with_heads_gets_more_of_them(recipe: Path, model: Path, own_words: list[Any], tmp_path: Path) -> None:
    assert train_heads(recipe, model, tmp_path / "two", "--block-size", "3", "--original-targets") == 0
    heads = tmp_path / "two" / "model"
    frozen = [*SETTINGS, 'init.freeze=["model"]', "init.learning_rate=1e-9"]
    assert train_heads(recipe, heads, tmp_path / "more", "--block-size", "5", settings=frozen) == 0
    before, after = Bundle.load(heads).weights(), Bundle.load(tmp_path / "more" / "model").weights()
    rows = len(before["block_heads.inner.weight"])
    assert len(after["block_heads.inner.weight"]) == 2 * rows
    np.testing.assert_allclose(after["block_heads.inner.weight"][:rows], before["block_heads.inner.weight"], atol=1e-6)
    np.testing.assert_allclose(after["block_heads.outer.1.bias"], before["block_heads.outer.1.bias"], atol=1e-6)
    assert len(json.loads((tmp_path / "more/model/config.json").read_text())["config"]["init"]["freeze"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--block-size", "4"], "--block-size is for --blockwise MODEL"),
        (["--with-model"], "--with-model is for --blockwise MODEL"),
        (["--original-targets"], "--original-targets is for --blockwise MODEL"),
        (["--blockwise", "MODEL", "--from", "MODEL"], "leave out --from"),
        (["--blockwise", "nowhere"], "no such folder"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    arguments: list[str], message: str, recipe: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(model) if each == "MODEL" else each for each in arguments]
    assert command_line(["train", str(recipe), "--output", str(tmp_path / "run"), *given]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_parser_learns_from_its_trees(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trees(tmp_path / "a.mrg", 20, seed=1)
    recipe = tmp_path / "trees.toml"
    recipe.write_text("[data]\nformat = 'trees'\nfolder = '.'\ntrain = [['a.mrg']]\n")
    assert train_heads(recipe, model, tmp_path / "run") != 0
    assert "add --original-targets" in capsys.readouterr().err
