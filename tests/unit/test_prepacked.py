"""Prepacked weights say the same as the weights they were made of."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from transduce.config import ModelConfig
from transduce.model import Transformer, prepack
from transduce.model.prepacked import PrepackedLinear

CONFIG = ModelConfig(
    vocab_size=75, num_encoder_layers=1, num_decoder_layers=2, d_model=24, d_ff=40, num_heads=2, d_k=8, d_v=8
)
prepacks_here = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")


def make(config: ModelConfig = CONFIG) -> Transformer:
    torch.manual_seed(1)
    return Transformer(config)


def prepacked_linears(model: Transformer) -> list[PrepackedLinear]:
    return [module for module in model.modules() if isinstance(module, PrepackedLinear)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 33, 128, 500])
def test_the_product_is_that_of_the_weights(rows: int, bias: bool) -> None:
    torch.manual_seed(rows)
    linear = nn.Linear(48, 70, bias=bias)
    x = torch.randn(rows, 48)
    with torch.inference_mode():
        packed = PrepackedLinear(linear.weight, linear.bias)
        torch.testing.assert_close(packed(x), linear(x), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(packed(x[None, :, :]), linear(x[None, :, :]), rtol=1e-5, atol=1e-5)


@prepacks_here
@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, norm="pre", tie_embeddings="none", attention_bias=True)])
def test_a_prepacked_model_says_the_same(config: ModelConfig) -> None:
    model = make(config).eval()
    source, lengths = torch.randint(4, 75, (3, 6)), torch.tensor([6, 6, 6])
    target = torch.randint(4, 75, (3, 5))
    packed = prepack(model)
    assert len(prepacked_linears(packed)) == sum(isinstance(m, nn.Linear) for m in model.modules()) + 1
    with torch.inference_mode():
        expected = model.decode(model.encode(source, lengths), target)
        torch.testing.assert_close(packed.decode(packed.encode(source, lengths), target), expected, rtol=1e-4, atol=1e-5)
        state = packed.start(packed.encode(source, lengths), max_steps=5)
        logits, _ = packed.step(torch.full((3,), 1), state)
        torch.testing.assert_close(logits, expected[:, 0], rtol=1e-4, atol=1e-5)


def test_the_model_stays_as_it_is() -> None:
    model = make()
    before = {name: weight.clone() for name, weight in model.weights().items()}
    packed = prepack(model)
    assert model.training
    assert not packed.training
    assert not prepacked_linears(model)
    assert model.output_projection is None
    assert packed.source_embedding is model.source_embedding
    assert all(torch.equal(weight, before[name]) for name, weight in model.weights().items())


@prepacks_here
def test_a_prepacked_model_is_a_snapshot() -> None:
    model = make()
    packed, x = prepack(model), torch.randn(4, 24)
    with torch.inference_mode():
        before = packed.logits(x)
        model.output_embedding.zero_()
        assert torch.equal(packed.logits(x), before)


def test_other_types_are_left_to_pytorch() -> None:
    packed = prepack(make().to(torch.bfloat16))
    assert not prepacked_linears(packed)
    assert not packed.training


@prepacks_here
def test_prepacking_twice_is_prepacking_once() -> None:
    packed = prepack(make())
    assert prepack(packed) is packed
