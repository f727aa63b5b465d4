"""The operations of a step: by hand, and as PyTorch counts them while it makes them."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.model.flops import training_flops
from transduce.model.packing import num_rows
from transduce.model.windowed import windowed_pairs
from transduce.training.batch import Batch
from transduce.training.device import Compute
from transduce.training.loss import Smoothing
from transduce.training.step import batch_loss

SMALL = ModelConfig(
    vocab_size=50, num_encoder_layers=2, num_decoder_layers=3, d_model=12, d_ff=20, num_heads=2, d_k=6, d_v=6
)
EVEN, RAGGED = [7, 7, 7], [9, 2, 5]


def batch_of(source_lengths: list[int], target_lengths: list[int]) -> Batch:
    generator = torch.Generator().manual_seed(1)

    def ids(lengths: list[int]) -> torch.Tensor:
        return torch.randint(4, 50, (len(lengths), max(lengths)), generator=generator)

    return Batch(ids(source_lengths), torch.tensor(source_lengths), ids(target_lengths), torch.tensor(target_lengths))


def addmm_in_place(total: Any, left: Any, right: Any, *_: Any, **__: Any) -> int:
    """PyTorch's counter knows `addmm`, but not its in-place form, which sums the gradient of the output matrix."""
    return 2 * math.prod(left) * right[1]


def counted_by_torch(config: ModelConfig, batch: Batch, *, frozen: bool = False) -> int:
    model = Transformer(config).train(not frozen)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("block_heads.") or not frozen)
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: addmm_in_place})
    with counter:
        loss, _ = batch_loss(model, batch, Smoothing.of(0.1, config.vocab_size, "uniform"), Compute.of("cpu", "fp32"))
        loss.backward()
    return int(counter.get_total_flops())


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        replace(SMALL, d_k=3, d_v=7, num_heads=3),
        replace(SMALL, d_ff=5, attention_bias=True, norm="pre"),
        replace(SMALL, num_encoder_layers=3, num_decoder_layers=1, tie_embeddings="none", dropout=0.0),
        replace(SMALL, positions="learned", max_positions=16, target_space_embedding=True, decoder_start="zero"),
    ],
)
@pytest.mark.parametrize(("source", "target"), [(EVEN, EVEN), (RAGGED, EVEN), (EVEN, RAGGED), (RAGGED, [1, 8, 3])])
def test_the_count_is_that_of_torch(config: ModelConfig, source: list[int], target: list[int]) -> None:
    batch = batch_of(source, target)
    assert training_flops(config, batch.sizes) == counted_by_torch(config, batch)


@pytest.mark.parametrize("head", [1, 2, 4])
def test_a_head_for_later_tokens_is_counted(head: int) -> None:
    """The last tokens of a sentence have no later one: there are fewer to project, and to send through the head."""
    config, batch = replace(SMALL, block_size=4), replace(batch_of(RAGGED, [1, 8, 3]), head=head)
    assert training_flops(config, batch.sizes) == counted_by_torch(config, batch)
    if head > 1:
        frozen = counted_by_torch(config, batch, frozen=True)
        model = Transformer(config).eval()
        assert training_flops(config, batch.sizes, frozen=True) == model.training_flops(batch.sizes) == frozen


@pytest.mark.parametrize("window", [1, 4, 41, 100])
@pytest.mark.parametrize(("source", "target"), [([70] * 2, [70] * 2), ([75, 20, 64], [19] * 3), ([20] * 2, [37, 36])])
def test_restricted_attention_is_counted_by_its_blocks(window: int, source: list[int], target: list[int]) -> None:
    """PyTorch also sees the scores that restricted attention computes a second time on its way back."""
    config, batch = replace(SMALL, attention_window=window), batch_of(source, target)
    flops = training_flops(config, batch.sizes)
    layers = (
        (config.num_encoder_layers, batch.source_BS.size(1), 2 * (window // 2) + max(16, window // 2), False),
        (config.num_decoder_layers, batch.target_BT.size(1), window // 2 + max(16, window // 2), True),
    )
    width_of_head = config.d_k + config.d_v
    twice = sum(
        2 * num_layers * len(source) * config.num_heads * windowed_pairs(length, window, causal=causal) * width_of_head
        for num_layers, length, width, causal in layers
        if length > width
    )
    assert counted_by_torch(config, batch) == flops + twice
    assert flops <= training_flops(SMALL, batch.sizes)


def test_pairs_of_a_window() -> None:
    """Windows of 4 in blocks of 16: each block sees 2 + 16 + 2 keys, or without the future 2 + 16."""
    assert windowed_pairs(20, 4, causal=False) == 20 * 20  # one block sees all
    assert windowed_pairs(21, 4, causal=False) == 32 * 20
    assert windowed_pairs(19, 4, causal=True) == 32 * 18
    assert windowed_pairs(1000, 1, causal=True) == 1008 * 16
    assert [windowed_pairs(4096, window, causal=False) for window in (64, 128)] == [4096 * 96, 4096 * 192]


def test_by_hand() -> None:
    """One layer each, one sentence of 3 source and 2 target tokens; multiplications, times 2 and times 3."""
    config = ModelConfig(
        vocab_size=11, num_encoder_layers=1, num_decoder_layers=1, d_model=4, d_ff=5, num_heads=1, d_k=2, d_v=3
    )
    flops = training_flops(config, batch_of([3], [2]).sizes)
    # W_Q, W_K 4 × 2, W_V 4 × 3, W_O 3 × 4; FFN 4 × 5 and 5 × 4.
    encoder = 3 * (8 + 8 + 12 + 12 + 20 + 20)
    # The same for two target tokens, W_Q and W_O once more, and W_K and W_V of the three source tokens.
    decoder = 2 * (8 + 8 + 12 + 12 + 20 + 20) + 2 * (8 + 12) + 3 * (8 + 12)
    # Q Kᵀ takes d_k = 2 for each pair of positions, the sum of values d_v = 3.
    attention = (3 * 3 + 2 * 2 + 2 * 3) * (2 + 3)
    output = 2 * 4 * 11
    assert flops == 6 * (encoder + decoder + attention + output)


def test_padding_is_counted_where_it_is_computed() -> None:
    assert (num_rows(sum(RAGGED), 3, 9), num_rows(199, 10, 20)) == (16, 200)
    full, almost, half = (training_flops(SMALL, batch_of([20] * 9 + [last], [5] * 10).sizes) for last in (20, 19, 10))
    assert almost == full > half
