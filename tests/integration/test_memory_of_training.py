"""Updates that fit into memory: what is tried before training, what happens when memory runs out, exact resume."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from small_training import (
    assert_close,
    assert_identical,
    final_weights,
    make_trainer,
    state_of,
    stop_after,
    with_train,
    without_dropout,
)
from transduce.cli.main import main as command_line
from transduce.config import Config
from transduce.errors import TrainingError
from transduce.training import memory_trial, micro_batches
from transduce.training import trainer as trainer_module
from transduce.training.distributed import Ranks
from transduce.training.memory import Usage
from transduce.training.run_folder import MICRO_BATCHES
from transduce.training.trainer import Trainer

pytestmark = pytest.mark.computes

REPOSITORY = Path(__file__).resolve().parents[2]
REFUSED = "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate"
needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux counts a process's peak")


def runs_out(monkeypatch: pytest.MonkeyPatch, fails: Callable[[np.ndarray], bool]) -> list[int]:
    """Makes memory run out in each micro-batch of a training of which `fails` says so; returns their sizes."""
    original, failed = trainer_module.states_loss, list[int]()
    collate = micro_batches.collate

    def noted(store: Any, rows: np.ndarray, device: torch.device, **options: Any) -> Any:
        failed.append(len(rows)) if fails(rows) else None
        exhausted.now = fails(rows)  # type: ignore[attr-defined]
        return collate(store, rows, device, **options)

    def exhausted(*arguments: Any) -> tuple[Tensor, Tensor]:
        loss, nll = original(*arguments)
        if exhausted.now:  # type: ignore[attr-defined]
            (loss / 3).backward()  # some of the gradients are there already
            raise RuntimeError(REFUSED)
        return loss, nll

    monkeypatch.setattr(micro_batches, "collate", noted)
    monkeypatch.setattr(trainer_module, "states_loss", exhausted)
    return failed


def record(run: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((run / MICRO_BATCHES).read_text(encoding="utf-8"))["splits"]
    return entries


def splits(run: Path) -> list[tuple[int, list[int]]]:
    return [(each["from_step"], each["target_tokens"]) for each in record(run)]


# --- when memory runs out in an update ---------------------------------------------------------------------------


@pytest.mark.parametrize("micro_batch_tokens", ["auto", 0, 120])
def test_a_batch_that_does_not_fit_is_split_and_computed_again(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, micro_batch_tokens: Any
) -> None:
    """The gradient is the whole batch's: what was summed before memory ran out does not count twice."""
    monkeypatch.setattr(micro_batches, "LEAST_TOKENS", 1)
    config = with_train(without_dropout(config), max_steps=4, micro_batch_tokens=micro_batch_tokens)
    whole = make_trainer(config, tmp_path / "whole", data)
    whole.fit()
    failed = runs_out(monkeypatch, lambda rows: len(rows) > 3)
    parts = make_trainer(config, tmp_path / "parts", data)
    parts.fit()
    assert failed
    assert_close(state_of(parts), state_of(whole))
    assert splits(tmp_path / "parts")[0][0] == 1
    assert parts.splits.limit(4) < whole.splits.limit(4)


def test_a_resumed_training_splits_as_the_uninterrupted_one(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, whose numbers depend on the split. When memory is short differs: in step 3, and then never."""
    monkeypatch.setattr(micro_batches, "LEAST_TOKENS", 1)
    config = with_train(config, max_steps=6, checkpoint_steps=2)
    whole = make_trainer(config, tmp_path / "whole", data)
    with monkeypatch.context() as patch:
        failed = runs_out(patch, lambda rows: whole.progress.step == 2 and len(rows) > 5)
        whole.fit_memory()
        whole.fit()
    assert failed
    limits = splits(tmp_path / "whole")
    assert [step for step, _ in limits] == [1, 3]
    assert limits[1][1] < limits[0][1]

    run = tmp_path / "parts"
    killed = make_trainer(config, run, data)
    with monkeypatch.context() as patch:
        runs_out(patch, lambda rows: killed.progress.step == 2 and len(rows) > 5)
        killed.fit_memory()
        stop_after(killed, 4)
    for later in (run / "checkpoints").iterdir():
        if later.name != "step-00000002":
            later.rename(tmp_path / later.name)  # as if it had been killed in step 4, after the checkpoint of step 2
    resumed = make_trainer(config, run, data)
    assert resumed.resume()
    assert resumed.progress.step == 2
    resumed.fit_memory()
    resumed.fit()
    assert splits(run) == limits
    assert_identical(state_of(resumed), state_of(whole))

    other = make_trainer(config, tmp_path / "other", data)  # the split does matter
    other.fit_memory()
    other.fit()
    assert any(not torch.equal(value, state_of(whole)[key]) for key, value in state_of(other).items())


def test_layers_are_computed_twice_before_micro_batches_become_tiny(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_train(config, max_steps=3)
    whole = make_trainer(config, tmp_path / "whole", data)
    whole.fit()
    trainer = make_trainer(config, tmp_path / "run", data)
    runs_out(monkeypatch, lambda rows: not checkpointing(trainer) and trainer.progress.step == 1)
    trainer.fit_memory()
    trainer.fit()
    assert checkpointing(trainer)
    assert [each["activation_checkpointing"] for each in record(tmp_path / "run")] == [False, True]
    assert_identical(state_of(trainer), state_of(whole))


def checkpointing(trainer: Trainer) -> bool:
    return trainer.model.checkpointing


def test_a_pair_that_does_not_fit_ends_the_training(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs_out(monkeypatch, lambda rows: True)
    trainer = make_trainer(with_train(config, max_steps=2), tmp_path / "run", data)
    with pytest.raises(TrainingError, match=r"step 1: memory ran out in a micro-batch of one pair\."):
        trainer.fit()


def test_other_errors_are_what_they_were(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: Any) -> Any:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(trainer_module, "states_loss", wrong)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        make_trainer(config, tmp_path / "run", data).fit()
    assert not (tmp_path / "run" / MICRO_BATCHES).exists()


# --- before training ---------------------------------------------------------------------------------------------


def test_a_trial_leaves_no_trace(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(config, max_steps=3)
    plain = make_trainer(config, tmp_path / "plain", data)
    plain.fit()
    tried = make_trainer(config, tmp_path / "tried", data)
    before, mode = torch.get_rng_state(), tried.model.training
    tried.fit_memory()
    assert torch.equal(torch.get_rng_state(), before)
    assert tried.model.training == mode
    assert all(parameter.grad is None for parameter in tried.model.parameters())
    assert not tried.optimizer.state
    tried.fit()
    assert_identical(state_of(tried), state_of(plain))
    assert splits(tmp_path / "tried") == [(1, [config.train.target_batch_tokens])]


def test_a_trial_that_runs_out_of_memory_is_followed_by_a_smaller_one(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_trial, "LEAST_TOKENS", 1)
    original, trials = memory_trial.batch_loss, list[int]()

    def limited(model: Any, batch: Any, *arguments: Any) -> Any:
        trials.append(batch.num_target_tokens)
        loss, nll = original(model, batch, *arguments)
        if len(trials) <= 2:
            loss.backward()
            raise RuntimeError(REFUSED)
        return loss, nll

    monkeypatch.setattr(memory_trial, "batch_loss", limited)
    trainer = make_trainer(with_train(config, max_steps=2), tmp_path / "run", data)
    trainer.fit_memory()
    assert len(trials) == 4  # whole, a half, and a third twice
    assert trainer.splits.limit(1) == config.train.target_batch_tokens // 3
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
    trainer.fit()
    assert len(record(tmp_path / "run")) == 1


def test_little_memory_makes_small_micro_batches(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_trial, "available_bytes", lambda device: 1)
    trainer = make_trainer(config, tmp_path / "run", data)
    with pytest.raises(TrainingError, match=r"0 MiB of memory are available .* lower data\.max_tokens"):
        trainer.fit_memory()
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


def test_processes_agree_on_the_least(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit in another process is not used in this one; a record for two processes holds for one."""
    monkeypatch.setattr(memory_trial, "LEAST_TOKENS", 1)
    answers = iter([True, True])  # of the other: it has less memory than the first two tries need
    monkeypatch.setattr(Ranks, "any_rank", lambda self, flag, device: flag or next(answers, False))
    trainer = make_trainer(config, tmp_path / "run", data)
    trainer.ranks = trainer.splits.ranks = Ranks(0, 2)
    trainer.fit_memory()
    [entry] = record(tmp_path / "run")
    assert len(entry["target_tokens"]) == 2
    assert len(set(entry["target_tokens"])) == 1
    assert entry["target_tokens"][0] < config.train.target_batch_tokens / 2
    trainer.splits.ranks = Ranks()
    assert trainer.splits.limit(1) == entry["target_tokens"][0]


def test_moments_count_exactly_where_the_optimiser_has_none_yet(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two moments of four bytes for each parameter, before the first update and never after it."""

    @contextlib.contextmanager
    def measured(device: torch.device) -> Iterator[Usage]:
        yield Usage(1000, 5000)

    monkeypatch.setattr(memory_trial, "measured", measured)
    config = with_train(config, checkpoint_steps=2)
    run = tmp_path / "run"
    first = make_trainer(with_train(config, max_steps=2), run, data)
    first.fit_memory()
    first.fit()
    embedding = 300 * 16
    encoder = 4 * 16 * 16 + 2 * 16 * 32 + 32 + 16 + 4 * 16  # attention, both layers of the FFN, two layer norms
    decoder = encoder + 4 * 16 * 16 + 2 * 16  # attention to the source, with its layer norm
    assert sum(each.numel() for each in first.model.parameters()) == embedding + encoder + 2 * decoder
    moments = 2 * 4 * (embedding + encoder + 2 * decoder)
    assert [each["peak_bytes"] for each in record(run)] == [5000 + moments]
    (run / MICRO_BATCHES).unlink()  # the resumed training tries again
    resumed = make_trainer(with_train(config, max_steps=3), run, data)
    assert resumed.resume()
    resumed.fit_memory()
    assert [each["peak_bytes"] for each in record(run)] == [5000]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What updates of whole batches took, of a model of some 700 MiB."""
    return benchmark(tmp_path_factory.mktemp("whole"))


@needs_linux
def test_updates_take_what_was_predicted(whole: dict[str, Any]) -> None:
    """Another processor's kernels may need more for themselves: hence a fourth."""
    assert whole["micro_batch_tokens"] == 4096
    assert 0.75 < whole["measured_over_predicted"] < 1.25
    assert whole["predicted_bytes"] > 400 << 20


@needs_linux
def test_updates_are_split_for_the_memory_that_there_is(whole: dict[str, Any], tmp_path: Path) -> None:
    """Half of what whole batches need is available, whatever that is here."""
    some = benchmark(tmp_path, "--available-mib", str(whole["grown_bytes"] // 2 // (1 << 20)))
    assert some["micro_batch_tokens"] < 4096
    assert not some["memory_ran_out"]
    assert some["grown_bytes"] < 0.75 * whole["grown_bytes"]


def benchmark(folder: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(sys.executable, str(REPOSITORY / "benchmarks" / "memory.py"), "--threads", "1"),
            *("--preset", "tiny", "--pairs", "3000", "--precision", "fp32", *arguments),
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


# --- the run's record, from the command line ---------------------------------------------------------------------


def test_the_command_writes_and_follows_the_record(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(run)]
    assert command_line([*arguments, "--set", "train.max_steps=1"]) == 0
    assert "whole batches" in capsys.readouterr().err
    assert splits(run) == [(1, [300])]
    entries = record(run)
    entries[0]["target_tokens"] = [77]
    (run / MICRO_BATCHES).write_text(json.dumps({"splits": entries}), encoding="utf-8")
    assert command_line([*arguments, "--set", "train.max_steps=2", "--resume"]) == 0
    assert "micro-batches of at most 77 target tokens" in capsys.readouterr().err
    more = ["--set", "train.max_steps=3", "--set", "train.micro_batch_tokens=50", "--resume"]
    assert command_line([*arguments, *more]) == 0
    assert 'micro_batch_tokens was "auto", now 50' in capsys.readouterr().err.replace("'", '"')
    assert splits(run) == [(1, [77]), (3, [50])]
    assert command_line([*arguments, "--set", "train.max_steps=4", "--resume"]) == 0
    assert splits(run) == [(1, [77]), (3, [50])]
    (run / MICRO_BATCHES).write_text('{"splits": 3}', encoding="utf-8")
    assert command_line([*arguments, "--set", "train.max_steps=5", "--resume"]) == TrainingError.exit_code
    assert "micro_batches.json: damaged" in capsys.readouterr().err


def test_a_run_of_an_older_version_keeps_its_number(recipe: Path, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(run), "--quiet"]
    assert command_line([*arguments, "--set", "train.max_steps=1"]) == 0
    (run / MICRO_BATCHES).unlink()
    values = json.loads((run / "config.json").read_text(encoding="utf-8"))
    del values["checksum"]
    values["train"]["micro_batch_tokens"] = 80
    (run / "config.json").write_text(json.dumps(values), encoding="utf-8")
    assert command_line([*arguments, "--set", "train.max_steps=2", "--resume"]) == 0
    assert not (run / MICRO_BATCHES).exists()
    assert json.loads((run / "config.json").read_text(encoding="utf-8"))["train"]["micro_batch_tokens"] == 80
    auto = ["--set", "train.max_steps=3", "--set", "train.micro_batch_tokens=auto", "--resume"]
    assert command_line([*arguments, *auto]) == 0
    assert splits(run) == [(3, [300])]
    assert all(bool(weight.isfinite().all()) for weight in final_weights(run).values())


# --- activation checkpointing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("shape", [{}, {"norm": "pre", "attention_window": 4}])
def test_layers_computed_twice_give_the_same_updates(
    config: Config, data: Path, tmp_path: Path, shape: dict[str, Any], precision: str
) -> None:
    """Bit for bit, dropout included."""
    config = with_train(replace(config, model=replace(config.model, **shape)), max_steps=3)
    states = []
    for checkpointing in (False, True):
        changed = with_train(config, activation_checkpointing=checkpointing)
        trainer = make_trainer(changed, tmp_path / str(checkpointing), data, precision=precision)
        trainer.fit()
        states.append(state_of(trainer))
    assert_identical(*states)


def test_each_of_several_processes_has_its_own_limit(config: Config, data: Path, tmp_path: Path) -> None:
    """With another number of processes, the least of them holds for all."""
    splits = make_trainer(config, tmp_path / "run", data).splits
    splits.add(1, [250, 120, 200], "tried")
    found = {}
    for world_size in (3, 2):
        for rank in range(world_size):
            splits.ranks = Ranks(rank, world_size)
            found[rank, world_size] = splits.limit(1)
    assert found == {(0, 3): 250, (1, 3): 120, (2, 3): 200, (0, 2): 120, (1, 2): 120}
    assert splits.least == 120
