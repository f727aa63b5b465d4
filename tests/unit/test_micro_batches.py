"""How batches are split: by the record of a run, when memory runs out, and what is said of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transduce.config import TrainConfig, apply_settings, preset
from transduce.errors import TrainingError
from transduce.model import Transformer
from transduce.model.packing import ROUNDED_MULTIPLE, rounded_size
from transduce.training import micro_batches
from transduce.training.batch import collate
from transduce.training.distributed import Ranks
from transduce.training.micro_batches import BatchSplits, read_splits, snapshot_bytes
from transduce.training.run_folder import MICRO_BATCHES

CPU, GIB = torch.device("cpu"), 1 << 30
SIZES = ("vocab_size=20", "d_model=4", "d_ff=4", "num_heads=1", "num_encoder_layers=1", "num_decoder_layers=1")


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer(apply_settings(preset("tiny"), [f"model.{size}" for size in SIZES]).model)


def splits_of(run: Path, model: Any, *, ranks: Ranks | None = None, **train: Any) -> BatchSplits:
    """Returns the splits of a store of four pairs, with targets of 10, 2, 2 and 2 tokens."""
    lengths = np.array([10, 2, 2, 2], np.int32)
    store: Any = SimpleNamespace(source_lengths=lengths, target_lengths=lengths)
    store.lengths = lambda rows: (store.source_lengths[rows], store.target_lengths[rows])
    settings = TrainConfig(**{"target_batch_tokens": 4000, "micro_batch_tokens": "auto", **train})
    return BatchSplits(run, settings, model, store, CPU, ranks or Ranks())


def test_the_limit_of_a_step_is_that_of_the_last_split_before_it(tmp_path: Path, model: Transformer) -> None:
    splits = splits_of(tmp_path, model)
    assert (splits.limit(1), splits.least) == (4000, 4000)
    for step, limits in ((1, [900]), (5, [200, 300]), (9, [100]), (7, [140]), (7, [150])):
        splits.add(step, limits, "tried")
    assert [entry.from_step for entry in splits.entries] == [1, 5, 7]  # what followed step 7 no longer holds
    assert [splits.limit(step) for step in (1, 4, 5, 6, 7, 99)] == [900, 900, 200, 200, 150, 150]
    splits.ranks = Ranks(1, 2)
    assert [splits.limit(step) for step in (4, 5)] == [900, 300]
    assert [splits_of(tmp_path, model, micro_batch_tokens=n).limit(1) for n in (0, 60)] == [4000, 60]


@pytest.mark.parametrize(
    ("recorded", "now", "step", "known", "limits"),
    [
        ("auto", "auto", 5, True, [900]),
        ("auto", "auto", 1, True, [900]),
        ("auto", "auto", 0, False, [4000]),  # a record of a training that was begun anew
        ("auto", 60, 5, True, [900, 60]),  # from step 6 on
        ("auto", 0, 5, True, [900, 4000]),
        (60, "auto", 5, False, [900]),
        (60, 60, 5, True, [900]),
        (None, "auto", 5, False, [4000]),
        (None, 60, 5, True, [60]),
    ],
)
def test_a_resumed_run_follows_its_record(
    tmp_path: Path, model: Transformer, recorded: Any, now: Any, step: int, known: bool, limits: list[int]
) -> None:
    if recorded is not None:
        splits_of(tmp_path, model, micro_batch_tokens=recorded).add(1, [900], "tried")
    splits = splits_of(tmp_path, model, micro_batch_tokens=now)
    assert splits.load(step) == known
    assert [splits.limit(5), splits.limit(6)] == [limits[0], limits[-1]]
    assert [entry.from_step for entry in splits.entries[1:]] == [6] * (len(limits) - 1)
    assert not step or read_splits(tmp_path / MICRO_BATCHES) == splits.entries


def test_the_last_setting_of_a_record_is_compared(tmp_path: Path, model: Transformer) -> None:
    for step, setting in ((1, "auto"), (6, 60)):
        splits = splits_of(tmp_path, model, micro_batch_tokens=setting)
        splits.load(step - 1)
        splits.add(step, [step], "tried")
    for setting, known in ((60, True), ("auto", False)):
        splits = splits_of(tmp_path, model, micro_batch_tokens=setting)
        assert splits.load(9) == known
        assert [entry.from_step for entry in splits.entries] == [1, 6]


def test_a_training_from_the_beginning_has_nothing_of_an_earlier_attempts_record(
    tmp_path: Path, model: Transformer
) -> None:
    """Memory ran out in the first attempt, before any checkpoint, and not in the second."""
    splits_of(tmp_path, model, micro_batch_tokens=60).add(3, [30], "memory ran out")
    begun = splits_of(tmp_path, model, micro_batch_tokens=60)
    assert begun.load(0)
    resumed = splits_of(tmp_path, model, micro_batch_tokens=60)
    assert resumed.load(5)
    assert (begun.limit(6), resumed.limit(6)) == (60, 60)


def test_a_resumed_run_computes_layers_twice_where_its_record_says_so(tmp_path: Path, model: Transformer) -> None:
    splits_of(tmp_path, model, activation_checkpointing=True).add(1, [900], "tried")
    for setting, on in (("auto", True), (False, False), (True, True)):
        splits = splits_of(tmp_path, model, activation_checkpointing=setting)
        assert model.checkpointing == (setting is True)
        splits.load(3)
        assert model.checkpointing == on
        assert splits.description().endswith(", layers computed twice") == on
    assert splits.description() == "micro-batches of at most 900 target tokens, layers computed twice"
    splits.add(4, [4000], "set")
    assert splits.description() == "whole batches, layers computed twice"


def test_of_a_record_the_last_entry_says_whether_layers_are_computed_twice(tmp_path: Path, model: Transformer) -> None:
    """Memory ran out in step 5: until then, layers were computed once."""
    for step, twice in ((1, False), (5, True)):
        splits = splits_of(tmp_path, model, activation_checkpointing=twice)
        splits.load(step - 1)
        splits.add(step, [900], "tried")
    assert [entry.activation_checkpointing for entry in splits.entries] == [False, True]
    model.checkpointing = False
    splits_of(tmp_path, model, activation_checkpointing="auto").load(7)
    assert model.checkpointing


def test_sizes_are_rounded_where_the_recipe_says_so_and_never_beyond_learned_positions(
    tmp_path: Path, model: Transformer
) -> None:
    settings = [*(f"model.{size}" for size in SIZES), "model.positions=learned", "model.max_positions=9"]
    learned = Transformer(apply_settings(preset("tiny"), settings).model)
    store: Any = SimpleNamespace(pairs=lambda rows: ([[5] * 8] * 3, [[6] * 2] * 3))  # 9 and 3 positions with EOS
    rows = np.arange(3)
    for rounded in (True, False):
        splits_of(tmp_path, learned, rounded_shapes=rounded)
        splits_of(tmp_path, model, rounded_shapes=rounded)
        batch = collate(store, rows, CPU, model=learned)
        assert (batch.source_BS.size(1), batch.target_lengths_B.tolist()[:3]) == (9, [3, 3, 3])
        assert batch.target_BT.shape == ((rounded_size(3), rounded_size(3, ROUNDED_MULTIPLE)) if rounded else (3, 3))
        free = collate(store, rows, CPU, model=model)  # sinusoids have no limit
        assert free.source_BS.size(1) == (rounded_size(9, ROUNDED_MULTIPLE) if rounded else 9)
    assert rounded_size(9, ROUNDED_MULTIPLE) > 9


def test_where_memory_runs_out_the_largest_micro_batch_is_halved(tmp_path: Path, model: Transformer) -> None:
    """Four pairs of 10 tokens with padding are 40. With a limit of 20: two pairs, 20, and two pairs, 4."""
    rows, full = np.arange(4), MemoryError()
    splits = splits_of(tmp_path, model, activation_checkpointing=False)
    for limit in (20, 10, 3):  # at 10 the longest pair is alone, and the others have 3 × 2 tokens
        splits.lower(full, rows, 7)
        assert splits.own_limit == limit
    with pytest.raises(TrainingError, match="step 7: memory ran out in a micro-batch of one pair"):
        splits.lower(full, rows, 7)
    with pytest.raises(ValueError, match="another"):
        splits.lower(ValueError("another"), rows, 7)
    splits.own_limit = 10
    assert (
        splits.settle(7) == "warning: step 7: memory ran out; from here on, micro-batches of at most 10 target tokens"
    )
    assert splits.own_limit is None
    assert [(each.from_step, each.target_tokens, each.reason) for each in read_splits(tmp_path / MICRO_BATCHES)] == [
        (7, [10], "memory ran out")
    ]


@pytest.mark.parametrize(("num_tokens", "twice"), [(2048, False), (2046, True)])
def test_layers_are_computed_twice_before_micro_batches_have_less_than_1024_tokens(
    tmp_path: Path, model: Transformer, num_tokens: int, twice: bool
) -> None:
    splits = splits_of(tmp_path, model)
    splits.pairs.target_lengths = np.array([num_tokens // 2] * 2, np.int32)
    splits.lower(MemoryError(), np.arange(2), 1)
    assert (model.checkpointing, splits.own_limit) == (twice, 4000 if twice else 1024)
    splits.lower(MemoryError(), np.arange(2), 1)
    assert model.checkpointing
    assert splits.own_limit == (num_tokens // 2 if twice else 1024)
    splits_of(tmp_path, model)
    assert not model.checkpointing


def test_the_announcement_compares_the_memory_with_what_is_there(
    tmp_path: Path, model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints are copies of weights and two moments: three times the weights, in the main process on a CPU."""
    copied = 3 * 4 * sum(parameter.numel() for parameter in model.parameters())
    assert snapshot_bytes(model, CPU, Ranks(), TrainConfig()) == copied
    assert snapshot_bytes(model, CPU, Ranks(1, 2), TrainConfig()) == 0
    assert snapshot_bytes(model, torch.device("cuda"), Ranks(), TrainConfig()) == 0
    monkeypatch.setattr(micro_batches, "available_bytes", lambda device: 3 * GIB)
    monkeypatch.setattr(micro_batches, "used_bytes", lambda device: GIB)
    splits = splits_of(tmp_path, model)
    assert splits.announcement() == ["whole batches"]
    splits.add(1, [900], "tried", peak_bytes=5 * GIB)
    splits.add(2, [800], "tried", peak_bytes=4 * GIB - copied)
    about = "micro-batches of at most 800 target tokens; memory at most 4.0 GiB of 4.0 GiB, by trial"
    assert splits.announcement() == [f"{about}, and 0 MiB more for checkpoints"]
    splits.add(2, [800], "tried", peak_bytes=4 * GIB - copied + 1)
    _, warning = splits.announcement()
    assert warning.startswith("warning: that is more than there is now.")
    assert warning.endswith("set train.micro_batch_tokens to less than 800")
