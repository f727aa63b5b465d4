"""Heads for the tokens after the next one: what they compute, and that a model's ordinary outputs stay as they are."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from transduce.config import ModelConfig
from transduce.config.weights import count_parameters
from transduce.errors import BundleError, ConfigError
from transduce.model import Transformer, prepack
from transduce.model.block_heads import BlockHeads

pytestmark = pytest.mark.computes

SMALL = ModelConfig(
    vocab_size=30, num_encoder_layers=1, num_decoder_layers=2, d_model=12, d_ff=20, num_heads=2, d_k=6, d_v=6
)
LENGTHS = torch.tensor([5, 3])
SOURCE = torch.tensor([[9, 8, 7, 6, 2], [5, 4, 2, 0, 0]])


def make(block_size: int, **changes: Any) -> Transformer:
    torch.manual_seed(3)
    return Transformer(replace(SMALL, block_size=block_size, **changes)).eval()


def shuffle(heads: BlockHeads) -> None:
    """Gives all weights of the heads other values: at first a head is the identity."""
    torch.manual_seed(4)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.normal_(0, 0.3)


def test_by_hand() -> None:
    """Two heads of 2 inner numbers: relu drops the negative ones, and h is added."""
    heads = BlockHeads(replace(SMALL, d_model=2, d_ff=2, block_size=3))
    with torch.no_grad():
        heads.inner.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0], [2.0, 1.0], [0.0, 1.0]]))
        heads.inner.bias.copy_(torch.tensor([0.0, 0.0, -1.0, 5.0]))
        heads.outer[0].weight.copy_(torch.tensor([[1.0, 9.0], [2.0, 9.0]]))
        heads.outer[0].bias.copy_(torch.tensor([0.5, 0.0]))
        heads.outer[1].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        heads.outer[1].bias.copy_(torch.tensor([0.0, -1.0]))
    # h = (3, 2). Head 2: inner (3, -2) → (3, 0), outer (3.5, 6). Head 3: inner (2·3 + 2 - 1, 2 + 5), outer (7, 6).
    expected = torch.tensor([[3 + 3.5, 2 + 6.0], [3 + 7.0, 2 + 6.0]])
    h = torch.tensor([3.0, 2.0])
    torch.testing.assert_close(heads(h), expected)
    torch.testing.assert_close(heads.head(2, h), expected[0])
    torch.testing.assert_close(heads.head(3, h), expected[1])


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 1), (2, 4)])
def test_all_heads_at_once_are_each_one_alone(shape: tuple[int, int]) -> None:
    model = make(5)
    assert model.block_heads is not None
    shuffle(model.block_heads)
    hidden_BKD = torch.randn(*shape, SMALL.d_model)
    found = model.block_heads(hidden_BKD)
    assert found.shape == (*shape, 4, SMALL.d_model)
    for number in range(2, 6):
        torch.testing.assert_close(found[:, :, number - 2], model.block_heads.head(number, hidden_BKD))
    assert model.logits(found).shape == (*shape, 4, SMALL.vocab_size)


def test_they_change_no_ordinary_output() -> None:
    with_heads = make(4)
    others = {name: weight for name, weight in with_heads.weights().items() if not name.startswith("block_heads.")}
    plain = Transformer.from_weights(SMALL, others).eval()
    assert plain.block_heads is None
    outputs = [model.decode(model.encode(SOURCE, LENGTHS), SOURCE) for model in (plain, with_heads)]
    assert torch.equal(*outputs)


def test_an_untrained_head_predicts_what_the_ordinary_output_does() -> None:
    heads = make(3).block_heads
    assert heads is not None
    hidden = torch.randn(2, SMALL.d_model)
    assert torch.equal(heads(hidden), torch.stack([hidden, hidden], dim=1))
    assert bool(heads.inner.weight.std() > 0.1)  # or no gradient would ever reach them


def test_the_count_by_hand() -> None:
    """A head has 12 × 20 + 20 and 20 × 12 + 12 numbers."""
    assert count_parameters(replace(SMALL, block_size=4)) - count_parameters(SMALL) == 3 * (2 * 240 + 20 + 12)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("int8", 0.05), ("bfloat16", 0.05)])
def test_prepacked(precision: Any, tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.model.inference_weights._LEAST_WEIGHT", 0)
    model = make(4)
    assert model.block_heads is not None
    shuffle(model.block_heads)
    try:
        packed = prepack(model, precision)
    except ConfigError as error:
        pytest.skip(str(error))
    assert packed.block_heads is not None
    hidden_BKD = torch.randn(2, 3, SMALL.d_model)
    with torch.inference_mode():
        wanted = model.block_heads(hidden_BKD)
        for hidden, expected in ((hidden_BKD, wanted), (hidden_BKD[:1, :1], wanted[:1, :1])):
            found = packed.block_heads(hidden)
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * float(expected.abs().max()))
    linears = [module for module in packed.block_heads.modules() if isinstance(module, nn.Linear)]
    assert linears == []


@pytest.mark.parametrize("value", [0, -1, 65])
def test_a_wrong_block_size_names_its_key(value: int) -> None:
    with pytest.raises(ConfigError, match=rf"model\.block_size = {value}.*from 1 to 64"):
        replace(SMALL, block_size=value)


def test_weights_that_are_missing_are_listed() -> None:
    weights = make(2).weights()
    del weights["block_heads.outer.0.bias"]
    with pytest.raises(BundleError, match=r"missing: block_heads\.outer\.0\.bias"):
        Transformer.from_weights(replace(SMALL, block_size=2), weights)
