"""Batches that went wrong: set aside with their text, once each, whatever interrupts the training."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from several_processes import finish, start
from small_recipe import lines
from small_training import assert_identical, make_trainer, state_of, with_train, without_clock
from transduce.cli.main import main as command_line
from transduce.config import Config, load_recipe
from transduce.data.mixture import CorpusRows
from transduce.data.prepare import prepare
from transduce.data.prepared import load_prepared
from transduce.errors import ConfigError, TrainingError
from transduce.training import quarantine
from transduce.training import trainer as trainer_module
from transduce.training.progress import Progress, read_progress
from transduce.training.quarantine import MicroBatch, TrainedBatch, losses_a_token
from transduce.training.run_folder import checkpoints
from transduce.training.step import StepResult
from transduce.training.trainer import Trainer
from transduce.training.validation import perplexity

pytestmark = pytest.mark.computes


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that multiplies the loss of given steps, of their first micro-batch or of all."""

    def spoil(factors: dict[int, float], *, first_only: bool = False) -> None:
        original, train_step = trainer_module.states_loss, Trainer.train_step
        now, passes = 0, 0

        def counted(trainer: Trainer, rows: np.ndarray) -> StepResult:
            nonlocal now, passes
            now, passes = trainer.progress.step + 1, 0
            return train_step(trainer, rows)

        def multiplied(*arguments: Any) -> tuple[Tensor, Tensor]:
            nonlocal passes
            passes += 1
            loss, nll = original(*arguments)
            return (loss * factors[now] if now in factors and not (first_only and passes > 1) else loss), nll

        monkeypatch.setattr(Trainer, "train_step", counted)
        monkeypatch.setattr(trainer_module, "states_loss", multiplied)

    return spoil


def quarantined(run: Path) -> list[dict[str, Any]]:
    path = run / "quarantine.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_a_batch_that_is_not_finite_is_set_aside_with_its_lines(
    recipe: Path, config: Config, data: Path, tmp_path: Path, spoiled: Callable[..., None], factor: float
) -> None:
    spoiled({3: factor}, first_only=True)
    trainer = make_trainer(with_train(config, max_steps=4, micro_batch_tokens=60), tmp_path / "run", data)
    trainer.fit()
    (line,) = quarantined(tmp_path / "run")
    rows = trainer.order.plan(0, 0).batch(2)
    assert (line["kind"], line["step"], line["epoch"], line["batch"], line["limit"]) == ("not finite", 3, 0, 2, None)
    assert line["loss"] == line["at_fault"][0]["loss"] == str(factor)
    assert line["gradient_norm"] in ("nan", "inf")
    assert [(each["rank"], each["micro_batch"]) for each in line["at_fault"]] == [(0, 0)]
    assert sorted(pair["row"] for pair in line["pairs"]) == sorted(rows.tolist())
    sources = (recipe.parent / "train.en").read_text().splitlines()
    assert all(pair["source"].strip() == sources[pair["row"]].strip() for pair in line["pairs"])
    assert all(pair["target"] == pair["source"].upper() for pair in line["pairs"])
    losses = [pair["loss"] for pair in line["pairs"]]
    assert losses == sorted(losses, reverse=True)
    # Which micro-batch a pair was in: they are split the longest first.
    lengths = trainer.train.target_lengths
    first = [lengths[pair["row"]] for pair in line["pairs"] if pair["micro_batch"] == 0]
    rest = [lengths[pair["row"]] for pair in line["pairs"] if pair["micro_batch"] > 0]
    assert first
    assert min(first) >= max(rest)


def test_a_gradient_alone_may_not_be_finite(config: Config, data: Path, tmp_path: Path) -> None:
    """Then no micro-batch is known to be at fault."""
    trainer = make_trainer(with_train(config, max_steps=4), tmp_path / "run", data)
    weight = next(iter(trainer.model.parameters()))
    weight.register_hook(lambda gradient: gradient * (math.inf if trainer.progress.step == 2 else 1.0))
    trainer.fit()
    (line,) = quarantined(tmp_path / "run")
    assert (line["kind"], line["step"], line["at_fault"]) == ("not finite", 3, [])
    assert line["gradient_norm"] in ("nan", "inf")
    assert 0 < line["loss"] < 20
    assert all(bool(each.isfinite().all()) for each in trainer.model.weights().values())


@pytest.mark.parametrize(
    ("loss", "norm", "finite"),
    [(1.0, 2.0, True), (math.nan, 2.0, False), (math.inf, 2.0, False), (1.0, math.nan, False), (1.0, math.inf, False)],
)
def test_both_loss_and_gradient_must_be_finite(loss: float, norm: float, finite: bool) -> None:
    assert StepResult(loss, loss, 1, 1, norm, 0.1).finite == finite


def test_the_weights_are_those_of_a_run_told_to_leave_the_steps_out(
    config: Config, data: Path, tmp_path: Path, spoiled: Callable[..., None]
) -> None:
    told = make_trainer(with_train(config, max_steps=8, skip_steps=(3, 4)), tmp_path / "told", data)
    told.fit()
    assert quarantined(tmp_path / "told") == []
    assert told.progress.skipped_steps == 0
    whole = make_trainer(with_train(config, max_steps=8), tmp_path / "whole", data)
    whole.fit()
    spoiled({3: math.nan, 4: math.inf})
    found = make_trainer(with_train(config, max_steps=8), tmp_path / "found", data)
    found.fit()
    assert [line["step"] for line in quarantined(tmp_path / "found")] == [3, 4]
    assert_identical(state_of(found), state_of(told))
    assert any(not value.equal(state_of(whole)[name]) for name, value in state_of(told).items())
    records = [json.loads(line) for line in (tmp_path / "told" / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if record["loss"] is None] == [3, 4]


def test_a_mean_of_the_log_is_of_the_updates_that_were_made(
    config: Config, data: Path, tmp_path: Path, spoiled: Callable[..., None]
) -> None:
    spoiled({3: math.nan})
    trainer = make_trainer(with_train(config, max_steps=4, log_steps=4), tmp_path / "run", data)
    trainer.fit()
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 4
    assert 0 < last["loss"] < 20


def test_lines_are_neither_doubled_nor_lost_over_a_kill(
    config: Config, data: Path, tmp_path: Path, spoiled: Callable[..., None]
) -> None:
    """Killed after step 6; the last checkpoint is that after step 4."""
    config = with_train(config, max_steps=9, checkpoint_steps=4)
    spoiled({3: math.nan, 4: math.nan, 5: math.nan, 6: math.inf, 8: math.nan})
    whole = make_trainer(config, tmp_path / "whole", data)
    whole.fit()
    assert [line["step"] for line in quarantined(tmp_path / "whole")] == [3, 4, 5, 6, 8]
    killed = make_trainer(config, tmp_path / "run", data)
    train_step = killed.train_step

    def kill_after_six(rows: np.ndarray) -> StepResult:
        if killed.progress.step == 6:
            killed.writer.wait()
            raise KeyboardInterrupt
        return train_step(rows)

    killed.train_step = kill_after_six  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        killed.fit()
    assert [line["step"] for line in quarantined(tmp_path / "run")] == [3, 4, 5, 6]
    with (tmp_path / "run" / "quarantine.jsonl").open("a") as file:
        file.write('{"kind": "not finite", "step": 7, "pai')  # the kill came while a line was written
    resumed = make_trainer(config, tmp_path / "run", data)
    assert resumed.resume()
    resumed.fit()
    assert quarantined(tmp_path / "run") == quarantined(tmp_path / "whole")
    assert_identical(state_of(resumed), state_of(whole))
    assert without_clock(resumed.progress) == without_clock(whole.progress)


def test_updates_left_out_in_a_row_are_counted_over_a_stop(
    config: Config, data: Path, tmp_path: Path, spoiled: Callable[..., None]
) -> None:
    config = with_train(config, max_steps=50, max_skipped_steps=5, checkpoint_steps=1)
    spoiled(dict.fromkeys(range(3, 50), math.nan))
    first = make_trainer(with_train(config, max_steps=5), tmp_path / "run", data)
    first.fit()
    assert first.progress.recent.skipped == 3
    second = make_trainer(config, tmp_path / "run", data)
    assert second.resume()
    with pytest.raises(TrainingError, match=r"5 updates in a row up to step 7.*quarantine\.jsonl"):
        second.fit()
    assert [line["step"] for line in quarantined(tmp_path / "run")] == [3, 4, 5, 6, 7]


def test_a_spike_is_reported_and_its_update_is_made(
    config: Config, data: Path, tmp_path: Path, spoiled: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    config = with_train(config, max_steps=32, checkpoint_steps=20)
    spoiled({30: 10.0})
    run = tmp_path / "run"
    make_trainer(with_train(config, max_steps=25), run, data).fit()
    trainer = make_trainer(config, run, data)
    assert trainer.resume()  # the losses that it is compared with come from the checkpoint
    trainer.fit()
    (line,) = quarantined(run)
    assert (line["kind"], line["step"], line["at_fault"]) == ("spike", 30, [])
    assert line["loss"] > line["limit"] > max(trainer.progress.recent.losses[:25])
    assert "step 30: a spike of the loss" in capsys.readouterr().err
    silent = make_trainer(with_train(config, spike_deviations=0.0), tmp_path / "silent", data)
    silent.fit()
    assert quarantined(tmp_path / "silent") == []
    assert_identical(state_of(trainer), state_of(silent))
    assert trainer.progress.skipped_steps == 0


def test_losses_of_pairs_add_up_to_the_perplexity(config: Config, data: Path, tmp_path: Path) -> None:
    trainer = make_trainer(config, tmp_path / "run", data)
    store, rows = trainer.train, np.array([3, 80, 17, 3])
    losses = losses_a_token(trainer.model, store, rows, trainer.compute)
    assert losses[0] == losses[3]
    everything = np.arange(len(store))
    total = losses_a_token(trainer.model, store, everything, trainer.compute) @ store.target_lengths
    mean = total / store.target_lengths.sum()
    assert math.exp(mean) == pytest.approx(perplexity(trainer.model, store, trainer.compute), rel=1e-4)


def test_each_pair_is_named_after_its_corpus(
    config: Config, data: Path, tmp_path: Path, spoiled: Callable[..., None]
) -> None:
    trainer = make_trainer(with_train(config, max_steps=1), tmp_path / "run", data)
    trainer.train.corpora = tuple(CorpusRows(name, count, 0, 0) for name, count in (("a", 10), ("b", 30), ("c", 41)))
    assert len(trainer.train) == 81
    spoiled({1: math.nan})
    trainer.fit()
    (line,) = quarantined(tmp_path / "run")
    named = {pair["row"]: pair["corpus"] for pair in line["pairs"]}
    assert named == {row: "a" if row < 10 else "b" if row < 40 else "c" for row in named}
    assert len(set(named.values())) > 1


def test_the_one_pair_that_is_not_finite_is_named_by_corpus_and_line(
    recipe: Path, config: Config, tmp_path: Path
) -> None:
    """Line 18 of the second corpus has a character of its own, whose embedding is not a number.

    Left out are lines 3 and 30 of the first corpus, and lines 6 and 12 of the second.
    """
    first, second = lines(30, 3), lines(30, 4)
    second[17] += " %"
    first[2], first[29], second[5], second[11] = "", "", "", "left out for its length " * 400
    for name, sources in (("first", first), ("second", second)):
        (tmp_path / f"{name}.en").write_text("\n".join(sources) + "\n")
        (tmp_path / f"{name}.de").write_text("\n".join(line.upper().rstrip(" %") for line in sources) + "\n")
    train = '[["train.en", "train.de"]]'
    assert train in recipe.read_text()
    text = recipe.read_text().replace(train, '[["first.en", "first.de"], ["second.en", "second.de"]]')
    for side in ("en", "de"):
        (tmp_path / f"dev.{side}").write_bytes((recipe.parent / f"dev.{side}").read_bytes())
    (tmp_path / "recipe.toml").write_text(text)
    prepare(load_recipe(tmp_path / "recipe.toml"), tmp_path / "prepared", progress=False)
    whole_batch = with_train(config, max_steps=1, source_batch_tokens=9000, target_batch_tokens=9000)
    whole_batch = replace(whole_batch, model=replace(whole_batch.model, tie_embeddings="none"))
    trainer = make_trainer(whole_batch, tmp_path / "run", tmp_path / "prepared")
    trainer.train.corpora = load_prepared(tmp_path / "prepared").corpora
    assert len(trainer.train) == 28 + 28
    sources, _ = trainer.train.pairs(np.arange(56))
    [token] = set(sources[43].tolist()) - {token for row in range(56) if row != 43 for token in sources[row].tolist()}
    with torch.no_grad():
        trainer.model.source_embedding[token] = math.nan  # type: ignore[index,operator]
    with pytest.raises(TrainingError, match="source_embedding is not finite"):  # by the checkpoint at the end
        trainer.fit()
    (line,) = quarantined(tmp_path / "run")
    assert len(line["pairs"]) == 56
    [wrong] = [pair for pair in line["pairs"] if isinstance(pair["loss"], str)]
    assert wrong == line["pairs"][0]
    assert (wrong["row"], wrong["corpus"], wrong["loss"]) == (28 + 15, "second", "nan")
    assert (wrong["source_line"], wrong["target_line"]) == (f"{tmp_path}/second.en:18", f"{tmp_path}/second.de:18")
    for pair in line["pairs"]:  # a pair is in the line that is named
        for side in ("source", "target"):
            file, _, number = pair[f"{side}_line"].rpartition(":")
            assert Path(file).read_text().splitlines()[int(number) - 1] == pair[side]
    assert (wrong["source"], wrong["target"]) == (second[17], second[17].upper().rstrip(" %"))


def test_pairs_that_are_not_finite_come_first_in_the_order_of_the_batch(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(config, tmp_path / "run", data)
    trainer.train.corpora = (CorpusRows("a", 30, 0, 0), CorpusRows("b", 51, 0, 0))
    of_row = {29: 2.0, 70: math.inf, 30: 5.0, 4: math.nan, 31: 7.5, 60: math.nan}
    monkeypatch.setattr(quarantine, "losses_a_token", lambda _m, _s, rows, _c: np.array([of_row[row] for row in rows]))
    passes = [
        MicroBatch(np.array([31, 60, 29]), torch.tensor(math.nan)),
        MicroBatch(np.array([4, 30, 70]), torch.tensor(math.inf)),
    ]
    batch = TrainedBatch(0, 0, np.array([29, 70, 30, 4, 31, 60]), passes, trainer.train)
    trainer.quarantine.begin(0)
    trainer.quarantine.examine(StepResult(math.nan, math.nan, 6, 6, math.nan, 0.1), batch, Progress(step=1))
    trainer.quarantine.close()
    (line,) = quarantined(tmp_path / "run")
    assert [(pair["row"], pair["corpus"], pair["micro_batch"], pair["loss"]) for pair in line["pairs"]] == [
        (70, "b", 1, "inf"),
        (4, "a", 1, "nan"),
        (60, "b", 0, "nan"),
        (31, "b", 0, 7.5),
        (30, "b", 1, 5.0),
        (29, "a", 0, 2.0),
    ]
    assert [each["loss"] for each in line["at_fault"]] == ["nan", "inf"]


def test_data_without_their_tokenizer_are_set_aside_without_text(
    config: Config, data: Path, tmp_path: Path, spoiled: Callable[..., None]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.arrow").write_bytes((data / "train.arrow").read_bytes())
    spoiled({1: math.nan})
    make_trainer(with_train(config, max_steps=1), tmp_path / "run", tmp_path / "data").fit()
    (line,) = quarantined(tmp_path / "run")
    assert {(pair[f"source{what}"], pair[f"target{what}"]) for pair in line["pairs"] for what in ("", "_line")} == {
        (None, None)
    }


@pytest.mark.parametrize("steps", ["[0]", "[3, -1]", "[1000000001]"])
def test_steps_to_leave_out_are_numbers_of_steps(
    recipe: Path, tmp_path: Path, steps: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(recipe), "--output", str(tmp_path / "run"), "--set", f"train.skip_steps={steps}"]
    assert command_line(arguments) == ConfigError.exit_code
    assert "train.skip_steps" in capsys.readouterr().err


PROGRAM = """
import math, sys
from transduce.cli.main import main
from transduce.training import trainer
from transduce.training.trainer import Trainer

original, train_step, now = trainer.states_loss, Trainer.train_step, 0

def counted(self, rows):
    global now
    now = self.progress.step + 1
    return train_step(self, rows)

def spoiled(*arguments):
    loss, nll = original(*arguments)
    return (loss * math.nan if now == 2 and len(arguments[2].targets_N) < 60 else loss), nll

Trainer.train_step, trainer.states_loss = counted, spoiled
sys.exit(main(sys.argv[1:]))
"""


def test_two_processes_name_the_one_at_fault(recipe: Path, data: Path, tmp_path: Path, warm_python: Path) -> None:
    """Its smaller micro-batches, the last of each process, are not finite."""
    run, program = tmp_path / "run", tmp_path / "program.py"
    program.write_text(PROGRAM)
    settings = ["train.max_steps=3", "train.micro_batch_tokens=60"]
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(run), "--quiet"]
    arguments += [word for setting in settings for word in ("--set", setting)]
    processes = start(2, [str(program), *arguments], warm_python)
    for code, messages in finish(processes):
        assert code == 0, messages
    (line,) = quarantined(run)
    assert line["step"] == 2
    assert {pair["corpus"] for pair in line["pairs"]} == {"train"}
    ranks = {pair["rank"]: set() for pair in line["pairs"]}
    for pair in line["pairs"]:
        ranks[pair["rank"]].add(pair["micro_batch"])
    assert ranks.keys() == {0, 1}
    faults = {(each["rank"], each["micro_batch"]) for each in line["at_fault"]}
    assert {(rank, max(numbers)) for rank, numbers in ranks.items()} <= faults
    assert read_progress(checkpoints(run)[-1]).skipped_steps == 1
