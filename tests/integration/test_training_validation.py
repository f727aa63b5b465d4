"""Validation while training: early stopping, the best checkpoint, what cannot be measured."""

import dataclasses
import json
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
from transduce.runs import train
from transduce.training import validation as validation_module
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.outcome import End
from transduce.training.progress import Progress, check_checkpoint
from transduce.training.run_folder import checkpoints
from transduce.training.trainable import new_model
from transduce.training.trainer import Trainer
from transduce.training.validation import Validation, perplexity, update_best

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


def test_shares_of_any_number_of_processes_are_those_of_one(
    config: Config, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit: a last digit would depend on the number of processes, and with it which checkpoint is best."""
    monkeypatch.setattr(validation_module, "_BATCHES", dataclasses.replace(validation_module._BATCHES, **SMALL))
    sums: list[torch.Tensor] = []
    monkeypatch.setattr(Ranks, "sum", lambda self, tensors: sums.extend(each.clone() for each in tensors))
    compute, store = Compute.of("cpu", "fp32"), validation_store(data)
    model = new_model(config, compute)
    for ranks in (Ranks(), *(Ranks(rank, 3) for rank in range(3))):
        perplexity(model, store, compute, None, ranks)
    whole, *shares = sums
    assert len(whole) > 3
    assert torch.equal(shares[0] + shares[1] + shares[2], whole)
    assert all(((share != 0).sum() - len(whole) / 3).abs() < 1 for share in shares)


SMALL = {"source_batch_tokens": 60, "target_batch_tokens": 60}
REFUSED = "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate"


def test_validation_takes_fewer_at_once_where_memory_is_short(
    config: Config, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, store = Compute.of("cpu", "fp32"), validation_store(data)
    model, batch_loss, sizes = new_model(config, compute), validation_module.batch_loss, list[int]()

    def limited(model: Any, batch: Any, *arguments: Any) -> Any:
        sizes.append(len(batch.target_lengths_B))
        if sizes[-1] > 2:
            raise RuntimeError(REFUSED)
        return batch_loss(model, batch, *arguments)

    whole = perplexity(model, store, compute)
    monkeypatch.setattr(validation_module, "batch_loss", limited)
    assert perplexity(model, store, compute) == pytest.approx(whole, rel=1e-5)
    assert max(sizes) > 2
    sizes.clear()
    longest = int(store.target_lengths.max())
    assert perplexity(model, store, compute, most_tokens=2 * longest) == pytest.approx(whole, rel=1e-5)
    assert len(sizes) >= len(store) / 2

    def decode(sources: Any, at_once: int) -> Any:
        if at_once > 4:
            raise RuntimeError(REFUSED)
        return [[2 * number for number in source] for source in sources]

    assert validation_module.decode_shares(decode, [[1], [2, 3], [4]], Ranks()) == [[2], [4, 6], [8]]


def validations(run: Path) -> list[int]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["step"] for record in records if record["kind"] == "validation"]


@pytest.mark.parametrize("when", ["memory", "killed"])
def test_a_checkpoint_is_written_before_the_validation_of_its_weights(
    config: Config, data: Path, tmp_path: Path, when: str
) -> None:
    """A validation that fails loses no step; a resumed training repeats it, and then knows that it is done."""
    config, run = with_train(config, max_steps=3, validate_steps=2, validate_bleu=True, checkpoint_steps=2), tmp_path

    def fails(model: Any) -> dict[str, float]:
        raise MemoryError

    trainer = make_trainer(config, run, data, scorer=fails if when == "memory" else scripted([1.0]))
    if when == "memory":
        with pytest.raises(TrainingError, match=r"validation\.arrow: validation on CPU.* ran out of memory"):
            trainer.fit()
    else:  # after the validation, before it is recorded in the checkpoint
        trainer.writer.record_validation = fails  # type: ignore[assignment, method-assign]
        with pytest.raises(TypeError):
            trainer.fit()
        assert validations(run) == [2]
    [checkpoint] = checkpoints(run)
    assert check_checkpoint(checkpoint).validations == {}
    again = make_trainer(config, run, data, scorer=scripted([10.0, 9.0]))
    assert again.resume()
    again.fit()
    assert validations(run) == [2, 3]
    assert [check_checkpoint(path).validations["bleu"] for path in checkpoints(run)] == [10.0, 9.0]
    assert again.progress.best_step == 2


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


def test_of_several_validation_sets_the_mean_perplexity_counts() -> None:
    """The perplexity of one set, `perplexity.news`, is no score of which more is better."""
    progress = Progress(step=1)
    assert update_best(progress, {"perplexity": 20.0, "perplexity.news": 30.0, "perplexity.talks": 10.0}, "score")
    progress.step = 2
    assert not update_best(progress, {"perplexity": 25.0, "perplexity.news": 45.0, "perplexity.talks": 5.0}, "score")
    assert (progress.best_by, progress.best_score, progress.best_step) == ("perplexity", -20.0, 1)


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


def test_a_set_of_several_is_divided_by_its_own_tokens(config: Config, data: Path) -> None:
    compute, store = Compute.of("cpu", "fp32"), validation_store(data)
    model, half, lengths = new_model(config, compute), len(store) // 3, store.target_lengths
    sets = [range(half), range(half, len(store)), None]
    first, second, both = (math.log(perplexity(model, store, compute, rows)) for rows in sets)
    expected = (first * lengths[:half].sum() + second * lengths[half:].sum()) / lengths.sum()
    assert both == pytest.approx(expected, rel=1e-5)
