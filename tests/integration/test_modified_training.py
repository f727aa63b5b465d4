"""Training with modifiers: the update of modified text, an exact resume, and what a resume refuses."""

import contextlib
import errno
import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from small_training import (
    assert_close,
    assert_identical,
    make_trainer,
    state_of,
    stop_after,
    with_train,
    without_clock,
    without_dropout,
)
from transduce.cli.main import main as command_line
from transduce.config import Config, load_recipe
from transduce.config.modifiers import MODIFIERS, ModifierConfig
from transduce.data.modifiers import modified
from transduce.data.modifiers.modified import Modifiers
from transduce.data.prepare import prepare
from transduce.data.store import ParallelStore, StoreWriter
from transduce.text import load_tokenizer
from transduce.training import trainer as trainer_module
from transduce.training.outcome import End
from transduce.training.trainer import Trainer

pytestmark = pytest.mark.computes

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc, which lists processes")
ENTRIES = [f'{{name = "{name}", probability = 0.25}}' for name in MODIFIERS]
ALL = tuple(ModifierConfig(name=name, probability=0.25) for name in MODIFIERS)


@pytest.fixture(scope="module")
def data(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the corpus prepared with what links words."""
    folder = tmp_path_factory.mktemp("modified") / "data"
    prepare(with_train(config, modifiers=ALL), folder, progress=False)
    return folder


def test_what_rounded_shapes_cost_is_said_of_the_modified_lines(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merged lines are fewer than the rows of the store, and longer."""
    counted: list[list[int]] = []

    def describe(plan: Any, pairs: Any) -> str:
        sides = pairs.source_lengths, pairs.target_lengths
        counted.append([int(lengths[plan.rows].sum()) for lengths in sides])
        return "few sizes"

    monkeypatch.setattr(trainer_module, "describe_rounding", describe)
    merge = ModifierConfig(name="merge", probability=1.0)
    trainer = make_trainer(with_train(config, modifiers=(merge,), rounded_shapes=True), tmp_path / "run", data)
    trainer.announce()
    rows, plan = len(trainer.train), trainer.order.plan(0, 0)
    assert len(plan.rows) < rows
    # Of the marks that end pairs, only those of lines are left.
    tokens = [int(lengths.sum()) - rows for lengths in (trainer.train.source_lengths, trainer.train.target_lengths)]
    assert counted == [[each + len(plan.rows) for each in tokens]]


@pytest.fixture(scope="module")
def uninterrupted(config: Config, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Trainer]:
    """Returns a function from `_EXACT_LINES` to a training with all modifiers that nothing stopped."""

    @cache
    def trained(exact_lines: int) -> Trainer:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(modified, "_EXACT_LINES", exact_lines)
            changed = with_train(config, modifiers=ALL, max_steps=24)
            trainer = make_trainer(changed, tmp_path_factory.mktemp("whole") / "run", data)
            assert trainer.fit().end == End.MAX_STEPS
        assert trainer.progress.epoch >= 2
        return trainer

    return trained


@pytest.mark.parametrize(
    ("step", "exact_lines", "workers"),
    [(1, 0, (0, 0)), (6, 500_000, (1, 2)), (11, 0, (2, 1)), (17, 500_000, (2, 0)), (17, 0, (1, 0))],
)
def test_a_resumed_training_with_all_modifiers_is_the_uninterrupted_one_bit_for_bit(
    config: Config,
    data: Path,
    tmp_path: Path,
    step: int,
    exact_lines: int,
    workers: tuple[int, int],
    uninterrupted: Callable[[int], Trainer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over several epochs, each with other lines; planned by real lengths, or by estimates as long epochs.

    With any number of worker processes before and after, the lines are those that the training would make itself.
    """
    whole = uninterrupted(exact_lines)
    monkeypatch.setattr(modified, "_EXACT_LINES", exact_lines)
    config = with_train(config, modifiers=ALL, max_steps=24)
    made_here: list[int] = []
    changed = Modifiers._changed

    def noted(*arguments: Any) -> Any:
        made_here.append(1)
        return changed(*arguments)

    monkeypatch.setattr(Modifiers, "_changed", noted)
    stop_after(make_trainer(with_train(config, num_workers=workers[0]), tmp_path / "run", data), step)
    assert bool(made_here) == (workers[0] == 0)
    resumed = make_trainer(with_train(config, num_workers=workers[1]), tmp_path / "run", data)
    assert resumed.resume()
    assert resumed.fit().end == End.MAX_STEPS
    assert worker_processes(os.getpid()) == []
    assert_identical(state_of(resumed), state_of(whole))
    assert without_clock(resumed.progress) == without_clock(whole.progress)


def worker_processes(parent: int) -> list[int]:
    """Returns the children of a process that run the program of a worker."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            is_child = (path / "stat").read_text().rpartition(")")[2].split()[1] == str(parent)
            if is_child and b"transduce.data.modifiers.worker" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return found


# A training that notes which process it is.
_TRAINING = """
import os, pathlib, sys
from transduce.cli.main import main
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
sys.exit(main(sys.argv[2:]))
"""


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_training(
    number: signal.Signals, recipe: Path, data: Path, tmp_path: Path, warm_python: Path
) -> None:
    words = f"train.modifiers=[{', '.join(ENTRIES)}]", "train.num_workers=2", "train.max_steps=1000000"
    settings = [word for setting in words for word in ("--set", setting)]
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path / "run"), "--quiet", *settings]
    metrics, noted = tmp_path / "run" / "metrics.jsonl", tmp_path / "process"
    with subprocess.Popen(
        [warm_python, "-c", _TRAINING, noted, *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not (metrics.is_file() and metrics.stat().st_size):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        training = int(noted.read_text())
        workers = worker_processes(training)
        os.kill(training, number)
        said = process.communicate(timeout=300)[1]
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number], said
    assert len(workers) == 2
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs_proc
def test_workers_end_where_a_training_fails_and_a_killed_one_changes_no_weight(
    config: Config, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modified, "_EXACT_LINES", 0)  # as in a long epoch, each batch has work for them
    config = with_train(config, modifiers=ALL, max_steps=12)
    whole = make_trainer(config, tmp_path / "whole", data)
    whole.fit()
    trainer = make_trainer(with_train(config, num_workers=1, max_steps=6), tmp_path / "run", data)
    train_step = trainer.train_step

    killed: list[int] = []

    def killing(rows: np.ndarray) -> Any:
        deadline = time.monotonic() + 60
        while not killed:  # a worker that has just been started may not run its program yet
            assert time.monotonic() < deadline
            killed.extend(worker_processes(os.getpid()))
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
        return train_step(rows)

    trainer.train_step = killing  # type: ignore[method-assign]
    trainer.fit()
    assert capfd.readouterr().err.count("has ended (signal 9)") == 1

    def failing(rows: np.ndarray) -> Any:
        if trainer.progress.step + 1 == 9:
            assert len(worker_processes(os.getpid())) == 2
            raise OSError(errno.ENOSPC, "No space left on device")
        return train_step(rows)

    for fails in (True, False):
        trainer = make_trainer(with_train(config, num_workers=2), tmp_path / "run", data)
        assert trainer.resume()
        train_step = trainer.train_step
        if fails:
            trainer.train_step = failing  # type: ignore[method-assign]
            with pytest.raises(OSError, match="No space left"):
                trainer.fit()
        else:
            trainer.fit()
        assert worker_processes(os.getpid()) == []
    assert_identical(state_of(trainer), state_of(whole))


@pytest.mark.parametrize("micro_batch_tokens", [0, 60])
def test_an_update_is_that_of_a_corpus_which_has_the_modified_text(
    config: Config, data: Path, tmp_path: Path, micro_batch_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient is divided by the target tokens that there are, whatever number was planned, as for a long epoch."""
    monkeypatch.setattr(modified, "_EXACT_LINES", 0)
    config = without_dropout(with_train(config, micro_batch_tokens=micro_batch_tokens))
    ours = make_trainer(with_train(config, modifiers=ALL), tmp_path / "ours", data)
    pairs, rows = ours.order.pairs(ours.progress), ours.order.next_rows(ours.progress)
    sources, targets = pairs.pairs(rows)
    tokenizer, stored = load_tokenizer(data / "tokenizer.json"), tmp_path / "stored"
    stored.mkdir()
    with StoreWriter.open(
        stored / "train.arrow", tokenizer_fingerprint=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size
    ) as writer:
        writer.write([ids.tolist() for ids in sources], [ids.tolist() for ids in targets])
    theirs = make_trainer(config, tmp_path / "theirs", stored)
    result, expected = ours.train_step(rows), theirs.train_step(np.arange(len(rows)))
    real = int(theirs.train.target_lengths.sum())
    assert result.target_tokens == expected.target_tokens == real != int(pairs.target_lengths[rows].sum())
    assert (result.source_tokens, result.flops) == (int(theirs.train.source_lengths.sum()), expected.flops)
    assert result.loss == pytest.approx(expected.loss, rel=1e-5)
    assert result.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-4)
    assert_close(state_of(ours), state_of(theirs))


def test_a_batch_that_is_set_aside_is_recorded_with_the_text_that_the_model_read(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = trainer_module.states_loss

    def spoiled(*arguments: Any) -> Any:
        loss, nll = original(*arguments)
        return loss * math.nan, nll

    monkeypatch.setattr(trainer_module, "states_loss", spoiled)
    modifiers = (ModifierConfig(name="merge", probability=1.0), ModifierConfig(name="copies", probability=1.0))
    trainer = make_trainer(with_train(config, modifiers=modifiers, max_steps=1), tmp_path / "run", data)
    rows, pairs = trainer.order.next_rows(trainer.progress), trainer.order.pairs(trainer.progress)
    trainer.fit()
    (line,) = [json.loads(line) for line in (tmp_path / "run" / "quarantine.jsonl").read_text().splitlines()]
    assert sorted(pair["row"] for pair in line["pairs"]) == sorted(pairs.store_rows(rows).tolist())
    store, tokenizer = ParallelStore.open(data / "train.arrow"), load_tokenizer(data / "tokenizer.json")
    for pair in line["pairs"]:
        assert pair["source"] == pair["target"]
        assert pair["target"].startswith(tokenizer.decode(store.target(pair["row"]).tolist()))


def test_validation_is_not_modified(config: Config, data: Path, tmp_path: Path) -> None:
    """With a model that does not change, scores with and without modifiers are the same."""
    scores = []
    for name, modifiers in (("plain", ()), ("modified", ALL)):
        changed = with_train(config, modifiers=modifiers, max_steps=1, learning_rate_factor=1e-9)
        trainer = make_trainer(changed, tmp_path / name, data, validate=True)
        trainer.fit()
        scores.append(trainer.progress.validations["perplexity"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def test_other_modifiers_cannot_be_resumed(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def trained(*settings: str, resume: bool = False) -> int:
        words = [word for setting in settings for word in ("--set", setting)]
        run = ["--data", str(data), "--output", str(tmp_path / "run"), "--quiet", *["--resume"] * resume]
        return command_line(["train", str(recipe), *run, *words])

    typos = 'train.modifiers=[{name = "typos", probability = 0.5}]'
    assert trained("train.max_steps=2", typos) == 0
    assert load_recipe(recipe, [typos]).train.modifiers == (ModifierConfig(name="typos", probability=0.5),)
    assert trained("train.max_steps=3", typos, resume=True) == 0
    assert trained("train.max_steps=4", "train.modifiers=[]", resume=True) == 5
    assert "train.modifiers was [{'name': 'typos', 'probability': 0.5}], now []" in capsys.readouterr().err
