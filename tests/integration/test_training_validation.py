"""Validation while training: early stopping, the best checkpoint, what cannot be measured."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from small_training import (
    make_trainer,
    validation_store,
    with_train,
)
from transduce.config import Config, load_recipe
from transduce.data.store import ParallelStore
from transduce.errors import ConfigError, DataError, TrainingError
from transduce.runs import new_model, train
from transduce.training import validation as validation_module
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.outcome import End
from transduce.training.progress import check_checkpoint
from transduce.training.run_folder import checkpoints
from transduce.training.trainer import Trainer
from transduce.training.validation import Validation, perplexity

pytestmark = pytest.mark.computes


def scripted(values: list[float]) -> Callable[[Any], dict[str, float]]:
    remaining = iter(values)
    return lambda model: {"bleu": next(remaining)}


def test_early_stopping_and_the_best_checkpoint(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(config, max_steps=50, validate_steps=2, validate_bleu=True, early_stopping=2)
    trainer = make_trainer(config, tmp_path / "run", data, scorer=scripted([10.0, 30.0, 20.0, 30.0]))
    outcome = trainer.fit()
    assert (outcome.end, outcome.progress.step) == (End.EARLY_STOPPING, 8)
    assert (outcome.progress.best_score, outcome.progress.best_step) == (30.0, 4)
    assert check_checkpoint(tmp_path / "run" / "best").step == 4
    assert check_checkpoint(checkpoints(tmp_path / "run")[-1]).step == 8

    again = make_trainer(config, tmp_path / "run", data, scorer=scripted([]))
    assert again.resume()
    assert (again.fit().end, again.progress.step) == (End.EARLY_STOPPING, 8)

    patient = with_train(config, early_stopping=3)
    again = make_trainer(patient, tmp_path / "run", data, scorer=scripted([31.0, 1.0, 1.0, 1.0]))
    assert again.resume()
    assert (again.fit().end, again.progress.step, again.progress.best_step) == (End.EARLY_STOPPING, 16, 10)


def test_a_score_that_is_not_a_number_is_never_the_best(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(config, max_steps=4, validate_steps=2, validate_bleu=True)
    scorer = scripted([math.nan, 3.0])
    trainer = make_trainer(config, tmp_path / "run", data, scorer=scorer)
    progress = trainer.fit().progress
    assert (progress.best_score, progress.best_step) == (3.0, 4)
    assert check_checkpoint(tmp_path / "run" / "best").step == 4


class OtherRank(Ranks):
    """One of several processes; the main one has measured something else."""

    def broadcast(self, values: Any, device: torch.device) -> list[float]:
        return [value + 5.0 for value in values]


def test_processes_use_the_scores_of_the_main_one(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(config, max_steps=2, validate_steps=1, validate_bleu=True)
    trainer = make_trainer(config, tmp_path / "run", data, scorer=scripted([10.0, 9.0]))
    trainer.ranks = OtherRank()
    trainer.fit()
    assert (trainer.progress.best_score, trainer.progress.best_step) == (15.0, 1)
    assert trainer.progress.validations["bleu"] == 14.0


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_text_beyond_the_learned_positions_is_refused_before_the_first_step(
    config: Config, data: Path, tmp_path: Path, split: str
) -> None:
    train, validation = ParallelStore.open(data / "train.arrow"), validation_store(data)
    longest = {
        name: int(max(store.source_lengths.max(), store.target_lengths.max()))
        for name, store in (("train", train), ("validation", validation))
    }
    assert longest["validation"] < longest["train"]
    stores = {"train": train, "validation": validation}
    if split == "validation":
        stores = {"train": validation, "validation": train}

    def trainer(max_positions: int) -> Trainer:
        model = dataclasses.replace(config.model, positions="learned", max_positions=max_positions)
        changed = dataclasses.replace(config, model=model)
        untrained, validation = new_model(changed, Compute.of("cpu", "fp32")), Validation(stores["validation"])
        return Trainer(untrained, changed, tmp_path, stores["train"], validation, show_progress=False)

    trainer(longest["train"])
    with pytest.raises(DataError, match=rf"has {longest['train']} tokens, .* for {longest['train'] - 1}\. Raise"):
        trainer(longest["train"] - 1)


def test_early_stopping_needs_something_to_measure_by(recipe: Path, tmp_path: Path) -> None:
    settings = ["train.early_stopping=3", "train.validate_steps=1", "data.validation=[]"]
    with pytest.raises(TrainingError, match=r"train\.early_stopping needs data\.validation"):
        train(load_recipe(recipe, settings), tmp_path / "run", show_progress=False)


def test_without_bleu_the_lowest_perplexity_is_best(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([90.0, 70.0, 80.0])
    monkeypatch.setattr(validation_module, "perplexity", lambda *_: next(values))
    trainer = make_trainer(with_train(config, max_steps=3, validate_steps=1), tmp_path / "run", data, validate=True)
    trainer.fit()
    assert (trainer.progress.best_score, trainer.progress.best_step) == (-70.0, 2)


def test_perplexity_is_measured_without_dropout(config: Config, data: Path) -> None:
    compute = Compute.of("cpu", "fp32")
    model = new_model(config, compute)
    assert config.model.dropout > 0
    assert len({perplexity(model, validation_store(data), compute) for _ in range(3)}) == 1
    assert model.training  # as before


def test_a_new_measure_of_the_best_starts_anew(config: Config, data: Path, tmp_path: Path) -> None:
    """A perplexity is no BLEU: a resumed training that changes its mind must not compare the two."""
    config = with_train(config, max_steps=2, validate_steps=1, validate_bleu=True)
    first = make_trainer(config, tmp_path / "run", data, scorer=scripted([10.0, 30.0]))
    first.fit()
    assert first.progress.best_score == 30.0
    config = with_train(config, max_steps=3, best_by="perplexity")
    second = make_trainer(config, tmp_path / "run", data, scorer=scripted([20.0]))
    assert second.resume()
    second.fit()
    assert second.progress.best_step == 3
    assert second.progress.best_score is not None
    assert second.progress.best_score < 0


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("banana", "is not the name of a device"),
        ("cuda:99", "cannot be used here: .*"),
        ("cpu:x", "is not the name of a device"),
    ],
)
def test_a_device_that_is_not_there(device: str, reason: str) -> None:
    for precision in ("auto", "fp32"):
        with pytest.raises(
            ConfigError, match=rf"train\.device = '{device}': {reason}\.? Write auto, cpu, cuda or cuda:N\.$"
        ):
            Compute.of(device, precision)
