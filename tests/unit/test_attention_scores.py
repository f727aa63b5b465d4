"""`model.attention_score`: each score by hand, in training and in a search, and who refuses which."""

import math
from dataclasses import replace

import pytest
import torch

from transduce.config import ModelConfig
from transduce.config.weights import count_parameters
from transduce.errors import ConfigError
from transduce.model import Transformer
from transduce.model.attention import CrossAttention, attend, attend_own_keys, attend_step, attention_scores, mask_bias

pytestmark = pytest.mark.computes

SMALL = ModelConfig(
    vocab_size=20, num_encoder_layers=1, num_decoder_layers=2, d_model=8, d_ff=8, num_heads=2, d_k=3, d_v=5
)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def additive_by_loops(query: torch.Tensor, key: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """w · tanh(q + k), a number at a time."""
    scores = torch.zeros(*query.shape[:3], key.size(2))
    for b, h, t, s in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        parts = zip(weight[h].tolist(), query[b, h, t].tolist(), key[b, h, s].tolist(), strict=True)
        scores[b, h, t, s] = sum(w * math.tanh(q + k) for w, q, k in parts)
    return scores


def test_an_additive_score_by_loops() -> None:
    query, key, weight = drawn(2, 3, 4, 5), drawn(2, 3, 6, 5), drawn(3, 5)
    torch.testing.assert_close(attention_scores(query, key, weight), additive_by_loops(query, key, weight))


def test_all_forms_of_additive_attention_are_one() -> None:
    query, key, value, weight = drawn(2, 3, 4, 5), drawn(2, 3, 6, 5), drawn(2, 3, 6, 7), drawn(3, 5)
    mask = torch.tensor([[1, 1, 0, 1, 0, 1], [0, 1, 1, 1, 1, 0]], dtype=torch.bool)[:, None, None]
    scores = additive_by_loops(query, key, weight).masked_fill(~mask, -math.inf)
    expected = scores.softmax(-1) @ value
    torch.testing.assert_close(attend(query, key, value, mask, score_HE=weight), expected)
    bias = mask_bias(mask.expand(-1, -1, 4, -1), 3, torch.float32)
    torch.testing.assert_close(attend_step(query, key, value, bias, weight), expected)
    own = torch.tensor([[[0, 2], [1, 3], [0, 5], [4, 4]]] * 2)
    for beam in range(4):
        keys = own[0, beam]
        alone = additive_by_loops(query[:, :, beam : beam + 1], key[:, :, keys], weight).softmax(-1) @ value[:, :, keys]
        found = attend_own_keys(query, key, value, own, weight)[:, :, beam : beam + 1]
        torch.testing.assert_close(found, alone)


def test_a_dot_product_is_not_divided() -> None:
    torch.manual_seed(1)
    attention = CrossAttention(replace(SMALL, attention_score="dot"))
    x, memory = drawn(1, 2, 8), drawn(1, 4, 8)
    keys = attention.project_memory(memory)
    query = (x @ attention.query.weight.t()).view(1, 2, 2, 3).transpose(1, 2)
    torch.testing.assert_close(attention.weights(x, keys, None), (query @ keys[0].transpose(2, 3)).softmax(-1))


def test_the_weights_of_a_score_are_drawn_counted_and_trained() -> None:
    """Two heads of three numbers, in one attention of the encoder and four of the decoder."""
    config = replace(SMALL, attention_score="additive")
    assert count_parameters(config) == count_parameters(SMALL) + 5 * 6
    torch.manual_seed(1)
    model = Transformer(config)
    scores = {name: each for name, each in model.named_parameters() if name.endswith("score_HE")}
    assert len(scores) == 5
    assert 0.3 < torch.cat([each.flatten() for each in scores.values()]).std() * math.sqrt(3) < 2
    ids, lengths = torch.tensor([[5, 6, 7, 2]]), torch.tensor([4])
    model(ids, lengths, ids, lengths).square().sum().backward()
    assert all(each.grad is not None and bool(each.grad.any()) for each in scores.values())


def test_no_window_has_additive_scores() -> None:
    with pytest.raises(ConfigError, match=r"model.attention_window = 8: must be 0 where model.attention_score"):
        ModelConfig(attention_score="additive", attention_window=8)
