"""Which limits of a micro-batch are tried, and what the formula of its memory says."""

import math
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.polynomial import Polynomial

from transduce.config import Config, apply_settings, preset
from transduce.data.batching import plan_epoch
from transduce.errors import TrainingError
from transduce.model import Transformer
from transduce.training import memory_trial
from transduce.training.batch import Batch, pad
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.guidance import Guidance
from transduce.training.memory import Usage
from transduce.training.memory_trial import MemoryTrial

SIZES = ("vocab_size=20", "d_model=4", "d_ff=5", "num_heads=3", "d_k=2", "d_v=6")
LAYERS = ("num_encoder_layers=2", "num_decoder_layers=3")


def trial_of(whole: int, world_size: int = 1, source: Any = (), target: Any = ()) -> MemoryTrial:
    """Returns the trial of a store with these lengths, as the last of the processes."""
    settings = [f"model.{size}" for size in (*SIZES, *LAYERS)]
    config: Config = apply_settings(preset("tiny"), [*settings, f"train.target_batch_tokens={whole}"])
    lengths = (np.array(source, np.int32), np.array(target, np.int32))
    plan = plan_epoch(*lengths, source_budget=whole, target_budget=whole, seed=1, epoch=0)
    store: Any = SimpleNamespace(source_lengths=lengths[0], target_lengths=lengths[1])
    ranks = Ranks(world_size - 1, world_size)
    return MemoryTrial(Transformer(config.model), config, store, [plan], Compute.of("cpu", "fp32"), ranks)


@pytest.mark.parametrize(
    ("whole", "world_size", "smallest", "limits"),
    [
        (4000, 1, 1024, [4000, 2000, 1334]),  # a fourth would be 1000
        (4000, 1, 1000, [4000, 2000, 1334, 1000]),
        (4000, 2, 1000, [4000, 1000]),  # a half of a half
        (4000, 2, 1024, [4000]),
        (10, 1, 1, [10, 5, 4, 3, 2]),
    ],
)
def test_limits_fall_from_the_whole_batch_on(whole: int, world_size: int, smallest: int, limits: list[int]) -> None:
    assert trial_of(whole, world_size)._limits(smallest) == limits


def test_the_formula_by_hand() -> None:
    """Two pairs of 3 source and 4 target positions, in float32.

    Of a token, an encoder layer keeps 2 · 3 · (2 + 6) + 5 + 6 · 4 = 77 numbers, a decoder layer
    2 · 48 + 5 + 9 · 4 = 137; attention keeps a weight for each of three heads and pair of positions.
    """
    trial = trial_of(100, source=[3, 3], target=[4, 4])
    encoder = 6 * 77 + 2 * 3 * 3 * 3
    decoder = 8 * 137 + 2 * 3 * 4 * (3 + 4)
    rows = np.arange(2)
    assert trial._kept(rows) == 4 * (2 * encoder + 3 * decoder)
    trial.model.checkpointing = True  # the inputs of all layers, and one layer at a time
    assert trial._kept(rows) == 4 * ((6 * 2 + 8 * 3) * 4 + decoder)


def test_the_worst_micro_batch_is_that_of_the_longest_texts() -> None:
    """Sixteen pairs of 10 tokens, and two of 80: as many, but attention needs more. Each process has one of the two."""
    lengths = [10] * 16 + [80, 80]
    assert sorted(trial_of(160, source=lengths, target=lengths)._worst(160).tolist()) == [16, 17]
    assert trial_of(160, 2, lengths, lengths)._worst(160).tolist() in ([16], [17])
    assert trial_of(160, source=lengths, target=lengths)._worst(80).tolist() in ([16], [17])


def test_of_many_batches_the_worst_by_the_formula_is_among_those_that_are_looked_at() -> None:
    """Forty batches of sixteen pairs, and one of two long pairs."""
    lengths = [10] * 16 * 40 + [80, 80]
    assert sorted(trial_of(160, source=lengths, target=lengths)._worst(160).tolist()) == [640, 641]


GIB = 1 << 30


@pytest.mark.parametrize(
    ("setting", "fits", "tried", "found"),
    [
        ("auto", {(4000, False)}, [(4000, False)], 4000),
        ("auto", {(1334, False)}, [(4000, False), (2000, False), (1334, False)], 1334),
        ("auto", {(4000, True)}, [(4000, False), (2000, False), (1334, False), (4000, True)], 4000),
        ("false", {(1000, False)}, [(4000, False), (2000, False), (1334, False), (1000, False)], 1000),
        ("true", {(2000, True)}, [(4000, True), (2000, True)], 2000),
    ],
)
def test_the_largest_micro_batch_that_fits_is_found(
    setting: str, fits: set[Any], tried: list[Any], found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers are computed twice only where micro-batches would be tiny without."""
    trial = trial_of(4000, source=[3, 3], target=[4, 4])
    trial.config = apply_settings(trial.config, [f"train.activation_checkpointing={setting}"])
    seen: list[Any] = []
    monkeypatch.setattr(trial, "_line", lambda *_: None)
    monkeypatch.setattr(memory_trial, "available_bytes", lambda _: GIB)

    def attempt(limit: int, _: Any, usable: float) -> Usage | None:
        seen.append((limit, trial.model.checkpointing))
        usables.append(usable)
        return Usage(10, 100) if seen[-1] in fits else None

    monkeypatch.setattr(trial, "_tried", attempt)
    weights = 4 * sum(parameter.numel() for parameter in trial.model.parameters())
    matrices = 4 * sum(parameter.numel() for parameter in trial.model.parameters() if parameter.dim() == 2)
    for moments_exist, missing, tuned in ((True, 0, 0), (False, 2 * weights, 0), (True, matrices, 1)):
        trial.config = apply_settings(trial.config, [f"train.int8_tuning_steps={tuned}"])
        seen.clear()
        usables: list[float] = []
        assert trial.fit(moments_exist=moments_exist) == (found, 100 + missing)
        assert seen == tried
        # Nine tenths of what is free, less what checkpoints, missing moments and tuning for int8 will take.
        assert usables == [pytest.approx(0.9 * GIB - missing - 3 * weights)] * len(tried)


def test_a_trial_in_which_nothing_fits_says_so_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = trial_of(10, 2, source=[3, 3], target=[4, 4])
    trial.model.eval()
    before = torch.random.get_rng_state()
    monkeypatch.setattr(trial, "_line", lambda *_: None)
    monkeypatch.setattr(trial.ranks.__class__, "any_rank", lambda _, flag, __: flag)
    monkeypatch.setattr(memory_trial, "available_bytes", lambda _: GIB)

    def attempt(*_: Any) -> None:
        torch.rand(3)
        for parameter in trial.model.parameters():
            parameter.grad = torch.ones_like(parameter)

    monkeypatch.setattr(trial, "_tried", attempt)
    with pytest.raises(TrainingError, match=r"1\.0 GiB of memory are available for updates"):
        trial.fit(moments_exist=True)
    assert (trial.model.training, torch.equal(before, torch.random.get_rng_state())) == (False, True)
    assert all(parameter.grad is None for parameter in trial.model.parameters())
    monkeypatch.setattr(memory_trial, "available_bytes", lambda _: None)  # unknown: anything may fit
    monkeypatch.setattr(trial, "_tried", lambda _, __, usable: Usage() if usable == math.inf else None)
    assert trial.fit(moments_exist=False) == (10, 0)


def test_of_two_small_micro_batches_a_line_is_drawn_and_what_does_not_fit_by_it_is_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = trial_of(4000, source=[3, 3], target=[4, 4])
    line = Polynomial([100.0, 3.0])
    monkeypatch.setattr(trial, "_worst", lambda _: np.arange(1))
    monkeypatch.setattr(trial, "_kept", lambda _: 50.0)
    computed: list[bool] = []

    def compute(_: Any, *, whole: bool) -> Usage | None:
        computed.append(whole)
        return used

    monkeypatch.setattr(trial, "_compute", compute)
    used: Usage | None = Usage(10, 110)  # it grew by 100
    trial.weight_bytes = 30  # of gradients, which are not yet there where a batch is not split
    cases = ((4000, 220), (4000, 219), (2000, 250), (2000, 249))
    assert [trial._tried(limit, line, usable) for limit, usable in cases] == [used, None, used, None]
    assert computed == [True, False]
    steep = Polynomial([0.0, 0.0])
    assert [trial._tried(2000, steep, usable) for usable in (100, 99)] == [used, None]
    used = None
    assert trial._tried(2000, steep, math.inf) is None


def test_what_guidance_keeps_of_a_micro_batch_that_did_not_fit_is_freed_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trial = trial_of(40, source=[3, 3], target=[4, 4])
    trial.guidance = Guidance(1.0, Mock(links=None))
    kept = []

    def full(*_: Any) -> None:
        kept.append(len(trial.guidance.scores_LBTS))  # type: ignore[union-attr]
        trial.guidance.scores_LBTS.append(torch.zeros(1))  # type: ignore[union-attr]  # as a forward pass does
        raise torch.OutOfMemoryError

    monkeypatch.setattr(memory_trial, "batch_loss", full)
    monkeypatch.setattr(memory_trial, "collate", lambda *_, **__: Batch(*pad([[4]]), *pad([[5]])))
    assert [trial._compute(np.arange(2), whole=True) for _ in range(2)] == [None, None]
    assert kept == [0, 0]
