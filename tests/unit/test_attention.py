"""Attention weights and masks against numbers worked out by hand."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from transduce.model import attention
from transduce.model.attention import attend, attend_reference, attention_weights, join_heads, split_heads
from transduce.model.transformer import padding_mask

pytestmark = pytest.mark.computes

Attend = Callable[..., Tensor]


def as_heads(rows: list[list[float]]) -> Tensor:
    """One sentence, one head."""
    return torch.tensor(rows)[None, None]


def test_weights_by_hand() -> None:
    """d_k = 4, so scores are halved: query (2, 0, 0, 0) against keys gives 2·ln 2 / 2 = ln 2, then 0, then -ln 2."""
    query = as_heads([[2.0, 0.0, 0.0, 0.0]])
    ln2 = math.log(2)
    key = as_heads([[ln2, 5.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0], [-ln2, 0.0, 0.0, 7.0]])
    # softmax(ln 2, 0, -ln 2) = (2, 1, 1/2) / 3.5
    expected = as_heads([[4 / 7, 2 / 7, 1 / 7]])
    torch.testing.assert_close(attention_weights(query, key), expected)
    # Without the middle key, (2, 1/2) / 2.5.
    mask = torch.tensor([True, False, True])
    torch.testing.assert_close(attention_weights(query, key, mask), as_heads([[0.8, 0.0, 0.2]]))


def test_causal_weights_by_hand() -> None:
    """Equal scores: each position shares its attention among itself and those before it."""
    x = as_heads([[1.0, 0.0]] * 3)
    third = 1 / 3
    expected = as_heads([[1, 0, 0], [0.5, 0.5, 0], [third, third, third]])
    torch.testing.assert_close(attention_weights(x, x, causal=True), expected)
    without_first = torch.tensor([False, True, True])
    expected = as_heads([[0, 0, 0], [0, 1, 0], [0, 0.5, 0.5]])
    torch.testing.assert_close(attention_weights(x, x, without_first, causal=True), expected)


def test_attention_is_the_weighted_mean_of_the_values() -> None:
    query, key = as_heads([[0.0, 0.0], [0.0, 0.0]]), as_heads([[1.0, 2.0], [3.0, 4.0]])
    value = as_heads([[2.0, 10.0, -4.0], [4.0, 30.0, 4.0]])
    expected = as_heads([[3.0, 20.0, 0.0]] * 2)
    for function in (attend_reference, attend):
        torch.testing.assert_close(function(query, key, value), expected)
        torch.testing.assert_close(
            function(query, key, value, causal=True), as_heads([[2.0, 10.0, -4.0], [3.0, 20.0, 0.0]])
        )


@pytest.fixture(params=["reference", "short", "fused"])
def function(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Attend:
    """Each of the three ways to attend."""
    if request.param == "reference":
        return attend_reference
    monkeypatch.setattr(attention, "_SHORT", 1 << 40 if request.param == "short" else -1)
    return attend


@pytest.mark.parametrize("causal", [False, True])
def test_a_row_with_nothing_to_attend_to_is_zero_and_so_is_its_gradient(function: Attend, causal: bool) -> None:
    torch.manual_seed(1)
    query, key, value = (torch.randn(2, 3, 4, 5, requires_grad=True) for _ in range(3))
    mask = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    mask[0, :, 2] = False  # one query of the first sentence
    mask[1] = False  # all of the second
    out = function(query, key, value, mask, causal=causal)
    assert bool(out.isfinite().all())
    assert bool((out[0, :, 2] == 0).all())
    assert bool((out[1] == 0).all())
    assert bool((out[0, :, [0, 1, 3]] != 0).all())
    out.sum().backward()
    for tensor in (query, key, value):
        assert tensor.grad is not None
        assert bool(tensor.grad.isfinite().all())
        assert bool((tensor.grad[1] == 0).all())
        assert bool((tensor.grad[0] != 0).any())


def test_a_first_position_that_is_masked_leaves_the_causal_first_row_empty(function: Attend) -> None:
    """With position 0 masked and the future hidden, query 0 sees nothing: only the two masks together empty it."""
    torch.manual_seed(1)
    query, key, value = (torch.randn(1, 2, 3, 4) for _ in range(3))
    out = function(query, key, value, torch.tensor([False, True, True]), causal=True)
    assert bool((out[:, :, 0] == 0).all())
    torch.testing.assert_close(out[:, :, 1], value[:, :, 1])
    assert bool(out.isfinite().all())


def test_empty_rows_have_no_weights() -> None:
    torch.manual_seed(1)
    mask = torch.tensor([[True, True], [False, False]])
    weights = attention_weights(torch.randn(1, 1, 2, 3), torch.randn(1, 1, 2, 3), mask)
    assert weights[0, 0, 1].tolist() == [0.0, 0.0]
    assert float(weights[0, 0, 0].sum()) == pytest.approx(1.0)


def test_a_masked_key_has_no_weight_however_great_it_is(function: Attend) -> None:
    query, value = as_heads([[1.0, 0.0]]), as_heads([[1.0], [2.0]])
    key = as_heads([[-30.0, 0.0], [1e4, 0.0]])
    assert float(function(query, key, value, torch.tensor([True, False]))) == 1.0
    assert float(function(query, key, value)) == 2.0


def test_dropout_of_weights_keeps_their_expectation(function: Attend) -> None:
    torch.manual_seed(1)
    zeros, ones = torch.zeros(1, 1, 200, 4), torch.ones(1, 1, 200, 1)
    out = function(zeros, zeros, ones, dropout=0.25)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.03)
    assert float(out.std()) > 0.01
    assert bool((function(zeros, zeros, ones) - 1).abs().max() < 1e-5)


def test_heads_are_split_and_joined_in_order() -> None:
    x = torch.arange(2 * 3 * 8.0).view(2, 3, 8)
    heads = split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2)
    assert heads[1, 2, 0].tolist() == x[1, 0, 4:6].tolist()
    assert torch.equal(join_heads(heads), x)


def test_padding_mask() -> None:
    mask = padding_mask(torch.tensor([3, 1]), 3, torch.device("cpu"))
    assert mask is not None
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, True], [True, False, False]]
    assert padding_mask(torch.tensor([2, 2]), 2, torch.device("cpu")) is None
    filling_up = padding_mask(torch.tensor([2, 0]), 2, torch.device("cpu"))
    assert filling_up is not None
    assert filling_up[:, 0, 0].tolist() == [[True, True], [True, False]]  # a softmax over nothing may not be finite
