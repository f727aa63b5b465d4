"""Restricted attention against full attention with all but the neighbourhood masked: values, gradients, cost."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transduce.experiments.paper.measure import count_flops, peak_bytes
from transduce.model import windowed
from transduce.model.attention import attend
from transduce.model.windowed import window_mask, windowed_attend, windowed_attend_reference

pytestmark = pytest.mark.computes

CPU = torch.device("cpu")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two to four queries, and as few of them at once as can be: many blocks and spans in few positions."""
    monkeypatch.setattr(windowed, "_SHORTEST_BLOCK", 2)
    monkeypatch.setattr(windowed, "_LONGEST_BLOCK", 4)
    monkeypatch.setattr(windowed, "_SPAN_BYTES", {"cpu": 2048})


def drawn(batch: int, heads: int, length: int, d_k: int, d_v: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(length)
    shapes = [(batch, heads, length, width) for width in (d_k, d_k, d_v)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def padding(batch: int, length: int) -> Tensor:
    """(B, 1, 1, T): sentence b lacks its last 3·b keys."""
    lengths = torch.tensor([max(1, length - 3 * b) for b in range(batch)])
    return (torch.arange(length) < lengths[:, None])[:, None, None]


MASKS = {
    "none": lambda batch, heads, length: None,
    "padding": lambda batch, heads, length: padding(batch, length),
    "keys alone": lambda batch, heads, length: torch.arange(length) % 5 != 1,
    "by head, some rows empty": lambda batch, heads, length: torch.rand(batch, heads, 1, length) < 0.2,
}


def assert_same_values_and_gradients(tensors: list[Tensor], mask: Tensor | None, *, window: int, causal: bool) -> None:
    ours = windowed_attend(*tensors, mask, window=window, causal=causal)
    theirs = windowed_attend_reference(*tensors, mask, window=window, causal=causal)
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    weights = torch.randn_like(ours)
    our_gradients = torch.autograd.grad((ours * weights).sum(), tensors)
    their_gradients = torch.autograd.grad((theirs * weights).sum(), tensors)
    for our, their in zip(our_gradients, their_gradients, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize(("length", "window"), [(1, 1), (5, 2), (16, 1), (17, 4), (24, 5), (30, 8), (33, 20), (33, 70)])
def test_values_and_gradients(length: int, window: int, mask_name: str, causal: bool) -> None:
    tensors = drawn(2, 3, length, 4, 6)
    assert_same_values_and_gradients(tensors, MASKS[mask_name](2, 3, length), window=window, causal=causal)


@settings(deadline=None, max_examples=60)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    length=st.integers(1, 90),
    window=st.integers(1, 100),
    causal=st.booleans(),
    mask_name=st.sampled_from(list(MASKS)),
    span_bytes=st.sampled_from([1, 4000, 1 << 22]),
    shortest_block=st.sampled_from([1, 3, 16]),
)
def test_any_shape(
    batch: int,
    heads: int,
    length: int,
    window: int,
    causal: bool,
    mask_name: str,
    span_bytes: int,
    shortest_block: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windowed, "_SPAN_BYTES", {"cpu": span_bytes})
        patch.setattr(windowed, "_SHORTEST_BLOCK", shortest_block)
        tensors = drawn(batch, heads, length, 3, 2)
        assert_same_values_and_gradients(tensors, MASKS[mask_name](batch, heads, length), window=window, causal=causal)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_the_numbers(causal: bool, dropout: float) -> None:
    """Against finite differences; with dropout, so that backward must drop what forward dropped."""
    tensors = drawn(1, 2, 19, 3, 2, torch.float64)
    mask = padding(1, 19)

    def attended(*inputs: Tensor) -> Tensor:
        torch.manual_seed(5)
        return windowed_attend(*inputs, mask, window=4, causal=causal, dropout=dropout)

    assert torch.autograd.gradcheck(attended, tensors)


def test_dropout_drops_at_its_rate_and_differs_from_call_to_call() -> None:
    query, key, _ = drawn(1, 1, 2000, 4, 4)
    value = torch.ones(1, 1, 2000, 1)
    query = query.detach() * 0  # equal weights: an output is the share of its neighbours that is kept, over 0.75
    key = key.detach()
    first, second = (windowed_attend(query, key, value, window=30, dropout=0.25) for _ in range(2))
    assert not torch.equal(first, second)
    assert float(first.mean()) == pytest.approx(1.0, abs=0.02)
    assert float(first.std()) == pytest.approx((0.25 / 0.75 / 31) ** 0.5, rel=0.1)


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_as_wide_as_the_sequence_is_full_attention(causal: bool) -> None:
    tensors = drawn(2, 2, 41, 4, 4)
    for window in (80, 81, 500):
        assert torch.equal(windowed_attend(*tensors, window=window, causal=causal), attend(*tensors, causal=causal))
    narrower = windowed_attend(*tensors, window=79, causal=causal)
    assert not torch.allclose(narrower, attend(*tensors, causal=causal))


def test_the_neighbourhood_is_centred() -> None:
    assert window_mask(6, 4)[2].tolist() == [True, True, True, True, True, False]
    assert window_mask(6, 5)[2].tolist() == [True, True, True, True, True, False]
    assert window_mask(3, 1).tolist() == torch.eye(3, dtype=torch.bool).tolist()


def test_views_of_heads() -> None:
    """Attention hands in transposed views of one projection."""
    torch.manual_seed(1)
    query, key, value = (part.transpose(1, 2) for part in torch.randn(2, 100, 4, 24).split(8, dim=-1))
    ours = windowed_attend(query, key, value, window=20)
    torch.testing.assert_close(ours, windowed_attend_reference(query, key, value, window=20))


@pytest.mark.parametrize("causal", [False, True])
def test_operations_are_linear_in_length_and_window(causal: bool) -> None:
    def operations(length: int) -> int:
        return count_flops(partial(windowed_attend, *drawn(1, 2, length, 16, 16), window=64, causal=causal))

    keys = 32 + 32 + (0 if causal else 32)  # that a block of 32 queries sees
    assert operations(2048) == 2 * 2 * 2048 * keys * (16 + 16)
    assert operations(4096) == 2 * operations(2048)


def test_memory_is_linear_in_the_length() -> None:
    """Bytes held at one time, forward and backward; counted, not timed."""

    def run(length: int) -> object:
        tensors = drawn(1, 2, length, 16, 16)
        windowed_attend(*tensors, window=64).sum().backward()
        return tensors

    peaks = [peak_bytes(partial(run, length), CPU) for length in (4096, 16384)]
    assert peaks[1] < 4 * peaks[0]
    assert peaks[1] < 16384 * 16384  # a byte for each pair of positions would be more


def test_each_span_drops_out_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of keys that are all alike, two spans in the middle would otherwise have the same output."""
    monkeypatch.setattr(windowed, "_SPAN_BYTES", {"cpu": 1})
    alike = torch.ones(1, 1, 64, 4)
    attended = windowed.windowed_attend(alike, alike, alike, window=8, dropout=0.5)
    assert not torch.equal(attended[:, :, 16:32], attended[:, :, 32:48])
