"""Which pairs a validation computes, how many at once, and what it leaves as it was."""

import contextlib
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transduce.data.batching import plan_epoch
from transduce.data.mixture import CorpusRows
from transduce.errors import TrainingError
from transduce.training import quarantine as quarantine_module
from transduce.training import validation
from transduce.training.distributed import Ranks
from transduce.training.progress import Progress
from transduce.training.quarantine import MicroBatch, Quarantine, TrainedBatch
from transduce.training.run_folder import QUARANTINE
from transduce.training.step import StepResult
from transduce.training.validation import decode_shares, perplexity

FULL = RuntimeError("DefaultCPUAllocator: can't allocate memory")
COMPUTE: Any = SimpleNamespace(device=torch.device("cpu"))


class Model:
    """Notes whether it computes with dropout."""

    def __init__(self, training: bool) -> None:
        self.training = training

    def train(self, mode: bool = True) -> None:
        self.training = mode

    def eval(self) -> None:
        self.training = False


class Store:
    """Pair n has n + 1 target tokens."""

    path = Path("v.arrow")

    def __init__(self, count: int) -> None:
        self.source_lengths = self.target_lengths = np.arange(1, count + 1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.target_lengths)

    def plan_epoch(self, train: Any, epoch: int, rows: Any) -> Any:
        assert (train.source_batch_tokens, train.target_batch_tokens, epoch) == (8192, 8192, 0)
        lengths = self.target_lengths
        return plan_epoch(lengths, lengths, source_budget=8, target_budget=8, seed=0, epoch=0, rows=rows)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Returns the rows of each batch that was computed; each target token of row n costs n nats."""
    seen: list[list[int]] = []

    def loss(model: Any, batch: Any, smoothing: Any, compute: Any) -> Any:
        assert (model.training, smoothing.true, smoothing.rest, compute) == (False, 1.0, 0.0, COMPUTE)
        seen.append(sorted(batch.tolist()))
        return None, torch.tensor(float(sum(row * (row + 1) for row in batch.tolist())))

    monkeypatch.setattr(validation, "collate", lambda store, rows, device: rows)
    monkeypatch.setattr(validation, "batch_loss", loss)
    return seen


@pytest.mark.parametrize("training", [True, False])
def test_the_perplexity_is_of_the_tokens_of_the_chosen_pairs(training: bool, computed: list[list[int]]) -> None:
    model: Any = Model(training)
    store: Any = Store(4)  # 0·1 + 1·2 + 2·3 + 3·4 = 20 nats, of 1 + 2 + 3 + 4 = 10 tokens
    assert perplexity(model, store, COMPUTE) == pytest.approx(math.exp(2.0))
    assert model.training == training
    assert sorted(row for rows in computed for row in rows) == [0, 1, 2, 3]
    computed.clear()
    assert perplexity(model, store, COMPUTE, range(1, 3)) == pytest.approx(math.exp(8 / 5))
    assert sorted(row for rows in computed for row in rows) == [1, 2]
    computed.clear()
    perplexity(model, store, COMPUTE, most_tokens=4)
    assert all(len(rows) * (max(rows) + 1) <= 4 for rows in computed)
    huge: Any = Store(1000)
    assert perplexity(model, huge, COMPUTE, range(900, 1000)) == math.exp(700)  # the most that a float holds


def test_processes_compute_every_nth_batch(computed: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[Any] = []
    monkeypatch.setattr(Ranks, "sum", lambda _, tensors: shared.extend(tensors))
    store: Any = Store(8)
    everything = [perplexity(Model(False), store, COMPUTE, None, Ranks(rank, 3)) for rank in range(3)]  # type: ignore[arg-type]
    assert len(everything) == 3
    assert sorted(row for rows in computed for row in rows) == list(range(8))
    assert sum(shared).sum() == sum(row * (row + 1) for row in range(8))  # type: ignore[union-attr]
    assert all(torch.count_nonzero(one * other) == 0 for one in shared for other in shared if one is not other)


def test_a_batch_that_does_not_fit_is_computed_by_halves(
    computed: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = validation.batch_loss

    def limited(model: Any, batch: Any, *rest: Any) -> Any:
        if len(batch) > most:
            raise FULL
        return fits(model, batch, *rest)

    monkeypatch.setattr(validation, "batch_loss", limited)
    model: Any = Model(False)
    store: Any = Store(5)
    most = 2
    assert validation._summed_nll(model, store, np.arange(5), COMPUTE) == 0 + 2 + 6 + 12 + 20
    assert computed == [[0, 1], [2], [3, 4]]
    most = 0
    with pytest.raises(RuntimeError, match="can't allocate"):
        validation._summed_nll(model, store, np.arange(2), COMPUTE)
    store.rows_of_corpora = lambda: {"a": range(1)}
    with pytest.raises(TrainingError, match=r"v\.arrow: validation on .* ran out of memory"):
        validation.Validation(store).scores(model, COMPUTE)


def test_sources_are_decoded_in_shares_and_fewer_at_once_where_memory_is_short() -> None:
    asked: list[Any] = []

    def decode(sources: Any, at_once: int) -> Any:
        asked.append((list(sources), at_once))
        if at_once > most:
            raise FULL
        return [[source[0] + 1] for source in sources]

    class Gathering(Ranks):
        def gather(self, own: Any, count: int) -> Any:
            return own, count

    sources = [[number] for number in range(5)]
    most = 64
    assert decode_shares(decode, sources, Gathering(1, 2)) == ([[2], [4]], 5)  # type: ignore[comparison-overlap]
    assert asked == [([[1], [3]], 64)]
    asked.clear()
    most = 20
    assert decode_shares(decode, sources, Ranks()) == [[number + 1] for number in range(5)]
    assert [at_once for _, at_once in asked] == [64, 32, 16]
    most = 0
    with pytest.raises(RuntimeError, match="can't allocate"):
        decode_shares(decode, sources, Ranks())
    assert asked[-1][1] == 1


# --- updates that went wrong ------------------------------------------------------------------------------------------


def quarantine_of(run: Path, **train: Any) -> tuple[Any, list[Any], list[str]]:
    """Returns a quarantine, what it sets aside, and what it says."""
    aside: list[Any] = []
    said: list[str] = []
    settings: Any = SimpleNamespace(**{"spike_deviations": 8.0, "max_skipped_steps": 2} | train)
    log: Any = SimpleNamespace(warn=said.append)
    quarantine: Any = Quarantine(run, settings, None, None, None, Ranks(), log)  # type: ignore[arg-type]
    quarantine._set_aside = lambda *given: aside.append(given)
    return quarantine, aside, said


def result_of(loss: float, norm: float = 1.0) -> StepResult:
    return StepResult(loss * 10, loss * 10, 10, 10, norm, 0.1)


PAIRS: Any = None
BATCH: Any = TrainedBatch(0, 0, np.arange(2), [], PAIRS)


def test_a_spike_is_a_loss_above_the_limit(tmp_path: Path) -> None:
    """Of losses that are all 4, the deviation is a twentieth of that, and eight of them are 1.6."""
    quarantine, aside, said = quarantine_of(tmp_path)
    progress = Progress(step=21)
    for _ in range(20):
        quarantine.examine(result_of(4.0), BATCH, progress)
    quarantine.examine(result_of(5.6), BATCH, progress)
    assert (aside, said) == ([], [])
    spike = result_of(5.61)
    quarantine.examine(spike, BATCH, progress)
    assert aside == [("spike", spike, BATCH, 21, pytest.approx(5.6))]
    file = tmp_path / QUARANTINE
    assert said == [f"warning: step 21: a spike of the loss, 5.610 per token (limit 5.600); its pairs are in {file}"]
    assert progress.recent.losses[-2:] == [5.6, 5.61]  # the update is made
    silent, aside, _ = quarantine_of(tmp_path, spike_deviations=0.0)
    silent.examine(result_of(99.0), BATCH, progress)
    assert aside == []


def test_updates_left_out_in_a_row_end_a_training(tmp_path: Path) -> None:
    quarantine, aside, said = quarantine_of(tmp_path)
    progress = Progress(step=3)
    quarantine.examine(result_of(math.nan), BATCH, progress)
    assert (progress.skipped_steps, progress.recent.skipped, progress.recent.losses) == (1, 1, [])
    assert said[0].startswith("warning: step 3: not finite (loss nan, gradient norm 1.0); update left out, its pairs")
    quarantine.examine(result_of(4.0), BATCH, progress)
    assert (progress.skipped_steps, progress.recent.skipped) == (1, 0)
    quarantine.examine(result_of(4.0, math.inf), BATCH, progress)
    with pytest.raises(TrainingError, match="2 updates in a row up to step 3 had a loss or gradients that are not"):
        quarantine.examine(result_of(4.0, math.nan), BATCH, progress)
    assert progress.skipped_steps == 3
    assert [(each[0], each[3], each[4]) for each in aside] == [("not finite", 3, None)] * 3


def test_a_row_belongs_to_the_corpus_that_begins_before_it(tmp_path: Path) -> None:
    quarantine, _, _ = quarantine_of(tmp_path)
    corpora = tuple(CorpusRows(name, count, 0, 0) for name, count in (("a", 10), ("b", 30), ("c", 2)))
    quarantine.store = SimpleNamespace(corpora=corpora)
    rows = np.array([0, 9, 10, 39, 40, 41])
    assert quarantine._corpora(rows) == ["a", "a", "b", "b", "c", "c"]
    quarantine.store.corpora = ()
    assert quarantine._corpora(rows) == [None] * 6
    assert [quarantine_module._json(value) for value in (1.5, math.nan, -math.inf)] == [1.5, "nan", "-inf"]


class Alone(Ranks):
    """One of several processes, which hears nothing of the others."""

    def sum(self, tensors: Any) -> None: ...


def test_each_pair_has_its_process_its_micro_batch_and_both_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row may occur twice; micro-batches hold rows in another order. The loss of row n is n."""
    quarantine, _, _ = quarantine_of(tmp_path)
    quarantine.compute = COMPUTE
    monkeypatch.setattr(quarantine_module, "losses_a_token", lambda _m, _s, rows, _c: rows.astype(float))
    rows = np.array([5, 7, 5, 9])

    def gathered(rank: int, world_size: int, *own: tuple[list[int], float]) -> list[list[float]]:
        quarantine.ranks = Alone(rank, world_size)
        passes = [MicroBatch(np.array(part), torch.tensor(loss)) for part, loss in own]
        return [each.tolist() for each in quarantine._gather(TrainedBatch(0, 0, rows, passes, PAIRS))]

    assert gathered(0, 1, ([9, 5], 1.0), ([5, 7], 2.0)) == [[0] * 4, [0, 1, 1, 0], [5, 7, 5, 9], [1, 2, 2, 1]]
    assert gathered(1, 2, ([9, 7], 3.0)) == [[0, 1, 0, 1], [0] * 4, [0, 7, 0, 9], [0, 3, 0, 3]]
    assert gathered(1, 2, ([9], 3.0), ([7], 4.0)) == [[0, 1, 0, 1], [0, 1, 0, 0], [0, 7, 0, 9], [0, 4, 0, 3]]
    assert gathered(0, 2) == [[0] * 4, [0] * 4, [5, 0, 5, 0], [0] * 4]  # nothing was computed
    assert gathered(5, 8) == [[0] * 4] * 4  # it has no share


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full, which stands for a full disk")
def test_a_full_disk_is_reported_by_the_name_of_the_quarantine(tmp_path: Path) -> None:
    """Closing the file tries the write again: that error, which names no file, is not raised in place of the first."""
    quarantine, *_ = quarantine_of(tmp_path)
    path = tmp_path / "quarantine.jsonl"
    path.symlink_to("/dev/full")
    with (
        pytest.raises(TrainingError, match=rf"{path}: cannot be written: No space left"),
        contextlib.closing(quarantine),
    ):
        quarantine._records.write({"step": 1}, durable=True)
