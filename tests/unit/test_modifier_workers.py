"""Worker processes of modifiers: what they import, and what becomes of work where they end."""

import contextlib
import dataclasses
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest
import torch

from small_corpus import sentences
from transduce.config import Config, DataConfig, TrainConfig
from transduce.config.corpora import CorpusConfig, PhaseConfig
from transduce.config.modifiers import MODIFIERS, ModifierConfig
from transduce.data.mixture import CorpusRows
from transduce.data.modifiers import modified
from transduce.data.modifiers.modified import Modifiers
from transduce.data.modifiers.packed import PackedIds
from transduce.data.modifiers.workers import LostWorkersError, Workers
from transduce.data.store import ParallelStore, StoreWriter
from transduce.text.subword import SubwordTokenizer
from transduce.training import batch_order
from transduce.training.batch_order import BatchOrder, num_workers
from transduce.training.progress import Progress
from worker_calls import fail_in_a_worker, imported, process_id, sleep


@pytest.fixture(scope="module")
def modifiers(tmp_path_factory: pytest.TempPathFactory) -> Modifiers:
    path, pairs = tmp_path_factory.mktemp("store") / "train.arrow", sentences(100, 5)
    tokenizer = SubwordTokenizer.train([line for pair in pairs for line in pair], algorithm="bpe", vocab_size=320)
    tokenizer.save(path.with_name("tokenizer.json"))
    with StoreWriter.open(path, tokenizer_fingerprint=tokenizer.fingerprint, vocab_size=320) as writer:
        writer.write(*(tokenizer.encode_batch(side) for side in zip(*pairs, strict=True)))
    unaligned = (name for name, kind in MODIFIERS.items() if not kind.aligned)
    entries = tuple(ModifierConfig(name=name, probability=0.3) for name in unaligned)
    return Modifiers.of(Config(train=TrainConfig(modifiers=entries)), ParallelStore.open(path))


@pytest.fixture
def workers(modifiers: Modifiers) -> Iterator[Workers]:
    found = Workers(modifiers, 2)
    yield found
    found.close()


def both(workers: Workers) -> set[int]:
    """Returns the numbers of two processes: each works while the other does."""
    return {result() for result in [workers.submit(sleep, 0.5) for _ in range(2)]}


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_imports_neither_the_program_that_trains_nor_pytorch(workers: Workers) -> None:
    assert workers.submit(imported)() == ("transduce.data.modifiers.worker", False)
    assert "torch" in sys.modules


def test_a_worker_imports_nothing_from_the_working_directory(
    modifiers: Modifiers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    with contextlib.closing(Workers(modifiers, 1)) as workers:
        assert workers.submit(imported)() == ("transduce.data.modifiers.worker", False)


def test_workers_make_the_lines_of_an_epoch(
    workers: Workers, modifiers: Modifiers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several blocks, which two processes make; a request to end is for the training."""
    for process in both(workers):
        os.kill(process, signal.SIGTERM)
        os.kill(process, signal.SIGINT)
    ours = modifiers.epoch(3)
    monkeypatch.setattr(modified, "_BLOCK_LINES", 7)
    monkeypatch.setattr(Modifiers, "_changed", None)  # nothing is made here
    theirs = modifiers.epoch(3, None, workers)
    lines = np.arange(len(ours))
    for of_ours, of_theirs in zip(ours.pairs(lines), theirs.pairs(lines), strict=True):
        assert [ids.tolist() for ids in of_ours] == [ids.tolist() for ids in of_theirs]
    assert theirs.source_lengths.tolist() == [len(ids) + 1 for ids in ours.pairs(lines)[0]]


def test_packed_ids_are_the_sequences_that_were_packed() -> None:
    parts = [[[5, 70_000], []], [], [[9], np.array([1, 2, 3])]]
    packed = PackedIds.joined([PackedIds.of(part, 100_000) for part in parts])
    assert [packed[index].tolist() for index in range(4)] == [[5, 70_000], [], [9], [1, 2, 3]]
    assert packed.lengths.tolist() == [2, 0, 1, 3]
    assert PackedIds.of([[1, 2], [3]], 60_000).ids.nbytes == 6


def test_the_next_epoch_is_made_while_one_trains_also_where_a_phase_begins(modifiers: Modifiers) -> None:
    """Each is the one that comes, though two phases begin within an epoch; after the last one, none is made."""
    corpora = tuple(CorpusConfig(files=("x.tsv",), name=name) for name in "ab")
    train = dataclasses.replace(
        modifiers.config.train,
        num_workers=2,
        max_steps=25,
        source_batch_tokens=200,
        target_batch_tokens=200,
        phases=(PhaseConfig(from_step=7, weights={"b": 0.1}), PhaseConfig(from_step=9, weights={"a": 0.1})),
    )
    config = Config(data=DataConfig(corpora=corpora), train=train)
    store = ParallelStore.open(modifiers.store.path, [CorpusRows("a", 60, 0, 0), CorpusRows("b", 40, 0, 0)])
    order, progress, sizes, ahead = BatchOrder(store, config), Progress(), [], []
    with contextlib.closing(order):
        while progress.step < 25:
            begins = progress.batch == 0
            order.next_rows(progress)
            pairs = order.pairs(progress)
            if begins:
                sizes.append((progress.step, len(pairs.source_lengths)))
                if ahead:
                    assert ahead.pop()[2].result()[1] is pairs
                if order._next is not None:
                    ahead.append(order._next)
            order.advance(progress)
    assert ahead == []
    assert [step for step, _ in sizes[:3]] == [0, 7, 9]
    assert sizes[0][1] > sizes[1][1] > sizes[2][1]  # of 100, 64 and 46 pairs, some joined
    assert len(sizes) > 3


def test_work_of_a_killed_worker_is_done_by_the_others_or_here_with_one_warning(
    workers: Workers, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = both(workers)
    during = workers.submit(sleep, 1.5)
    time.sleep(0.5)
    os.kill(first, signal.SIGKILL)
    assert {workers.submit(process_id)() for _ in range(6)} <= {second, os.getpid()}
    assert workers.submit(process_id)() == second
    os.kill(second, signal.SIGKILL)
    assert during() in (second, os.getpid())
    assert {workers.submit(process_id)() for _ in range(6)} == {os.getpid()}
    said = capfd.readouterr().err
    assert said.count("warning:") == 1
    assert f"process {first} has ended (signal 9). What they do not make, the training makes itself" in said


def test_a_worker_that_hangs_is_ended_with_all_others(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = both(workers)
    for process in found:
        os.kill(process, signal.SIGSTOP)
    monkeypatch.setattr("transduce.data.modifiers.workers._PATIENCE_SECONDS", 1.0)
    results = [workers.submit(process_id) for _ in range(4)]
    assert {result() for result in results} == {os.getpid()}
    said = capfd.readouterr().err
    assert said.count("warning:") == 1
    assert "the worker processes: one did not answer for 1 seconds. What they do not make" in said
    workers.close()
    assert not any(is_running(process) for process in found)


def test_an_error_in_a_worker_is_shown_and_its_work_done_here(
    workers: Workers, capfd: pytest.CaptureFixture[str]
) -> None:
    assert workers.submit(fail_in_a_worker, os.getpid())() == "made here"
    said = capfd.readouterr().err
    assert "MemoryError" in said
    assert "has ended (exit code 1)" in said


def test_where_no_process_can_be_started_everything_is_made_here(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    assert workers.submit(process_id)() == workers.submit(process_id)() == os.getpid()
    assert capfd.readouterr().err.count("the worker processes: cannot be started: No such file or directory.") == 1


def test_closing_ends_work_that_is_under_way(workers: Workers) -> None:
    processes, steps = both(workers), []

    def work() -> None:
        for _ in range(3):
            steps.append(0)
            workers.submit(sleep, 60)()

    running, waiting = workers.run(work), [workers.submit(sleep, 60) for _ in range(5)]
    started = time.perf_counter()
    threading.Timer(0.5, workers.close).start()
    with pytest.raises((LostWorkersError, CancelledError)):
        running.result(30)
    assert time.perf_counter() - started < 30
    assert steps == [0]
    assert waiting
    while any(map(is_running, processes)):
        time.sleep(0.05)


def test_an_interrupt_ends_workers(workers: Workers) -> None:
    processes = both(workers)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        workers.submit(sleep, 60)()
    assert not any(map(is_running, processes))


def test_workers_that_nobody_closed_end_with_their_owner(modifiers: Modifiers) -> None:
    workers = Workers(modifiers, 2)
    processes = both(workers)
    del workers
    gc.collect()
    assert not any(map(is_running, processes))


def test_by_default_workers_are_the_cores_that_a_rank_on_a_gpu_has_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    for cores, ranks, expected in ((16, 1, 4), (16, 8, 1), (4, 1, 3), (8, 8, 0), (1, 1, 0)):
        monkeypatch.setattr(batch_order, "num_cores", lambda cores=cores: cores)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
        assert num_workers(TrainConfig(), gpu) == expected
        assert num_workers(TrainConfig(), cpu) == 0
    assert num_workers(TrainConfig(num_workers=6), cpu) == 6
    assert num_workers(TrainConfig(num_workers=0), gpu) == 0
