"""Which limits of a micro-batch are tried, and what the formula of its memory says."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transduce.config import Config, apply_settings, preset
from transduce.data.batching import plan_epoch
from transduce.model import Transformer
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.memory_trial import MemoryTrial
from transduce.training.micro_batches import checkpoint_activations

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
    checkpoint_activations(trial.model, True)  # the inputs of all layers, and one layer at a time
    assert trial._kept(rows) == 4 * ((6 * 2 + 8 * 3) * 4 + decoder)


def test_the_worst_micro_batch_is_that_of_the_longest_texts() -> None:
    """Sixteen pairs of 10 tokens, and two of 80: as many, but attention needs more. Each process has one of the two."""
    lengths = [10] * 16 + [80, 80]
    assert sorted(trial_of(160, source=lengths, target=lengths)._worst(160).tolist()) == [16, 17]
    assert trial_of(160, 2, lengths, lengths)._worst(160).tolist() in ([16], [17])
    assert trial_of(160, source=lengths, target=lengths)._worst(80).tolist() in ([16], [17])
