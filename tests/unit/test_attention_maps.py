"""Attention weights of any head can be asked for, and are the ones that the model used."""

from dataclasses import replace

import pytest
import torch

from transduce.config import preset
from transduce.model import Transformer
from transduce.model.attention_maps import attention_maps

SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0]])
LENGTHS = torch.tensor([5, 3])
TARGET = torch.tensor([[10, 11, 12, 2], [4, 5, 6, 2]])


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(0)
    config = replace(preset("tiny").model, vocab_size=20, num_encoder_layers=2, num_decoder_layers=3, d_v=24)
    return Transformer(config).train()


def test_every_layer_and_head_is_there_and_rows_sum_to_one(model: Transformer) -> None:
    maps = attention_maps(model, SOURCE, LENGTHS, TARGET)
    assert [tuple(m.shape) for m in maps.encoder] == [(2, 4, 5, 5)] * 2
    assert [tuple(m.shape) for m in maps.decoder] == [(2, 4, 4, 4)] * 3
    assert [tuple(m.shape) for m in maps.cross] == [(2, 4, 4, 5)] * 3
    for weights in (*maps.encoder, *maps.decoder, *maps.cross):
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


def test_padding_and_the_future_get_nothing(model: Transformer) -> None:
    maps = attention_maps(model, SOURCE, LENGTHS, TARGET)
    for weights in (*maps.encoder, *maps.cross):
        assert not weights[1, :, :, 3:].any()
    for weights in maps.decoder:
        assert not weights.triu(1).any()


def test_the_weights_are_those_of_the_forward_pass(model: Transformer) -> None:
    """The first encoder layer's output, rebuilt from its weights by hand, is what the layer computes."""
    model.eval()
    maps = attention_maps(model, SOURCE, LENGTHS, TARGET)
    layer = model.encoder[0].self_attention
    seen: list[torch.Tensor] = []
    handle = layer.register_forward_hook(lambda module, args, output: seen.extend([args[0], output]))
    model.encode(SOURCE[:1], LENGTHS[:1])  # no padding: nothing is packed
    handle.remove()
    _, _, value = layer.project(seen[0])
    heads = (maps.encoder[0][:1] @ value).transpose(1, 2).flatten(2)
    torch.testing.assert_close(layer.output(heads), seen[1])


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(model: Transformer, training: bool) -> None:
    model.train(training)
    attention_maps(model, SOURCE, LENGTHS, TARGET)
    assert {module.training for module in model.modules()} == {training}
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(IndexError):
        attention_maps(model, SOURCE + 100, LENGTHS, TARGET)  # ids beyond the vocabulary
    assert model.training is training
    assert not any(module._forward_hooks for module in model.modules())


def test_a_window_leaves_the_neighbourhood_alone(model: Transformer) -> None:
    windowed = Transformer(replace(model.config, attention_window=2))
    windowed.load_weights(model.weights())
    maps = attention_maps(windowed, SOURCE, LENGTHS, TARGET)
    for weights in maps.encoder:
        assert weights[0, 0].ne(0).tolist() == [[abs(t - s) <= 1 for s in range(5)] for t in range(5)]
    for weights in maps.decoder:
        assert weights[0, 0].ne(0).tolist() == [[t - 1 <= s <= t for s in range(4)] for t in range(4)]
    for weights in (*(of_layer[:1] for of_layer in maps.encoder), *maps.decoder):
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert not maps.encoder[0][1, :, 4].any()  # padding that sees only padding
    full = attention_maps(model, SOURCE, LENGTHS, TARGET)
    of_two = full.encoder[0][0, :, 0, :2]  # the first layer's input is the same: what is left is scaled up
    torch.testing.assert_close(maps.encoder[0][0, :, 0, :2], of_two / of_two.sum(-1, keepdim=True))
