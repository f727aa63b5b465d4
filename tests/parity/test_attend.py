"""`attend`, both its kernels, against `attend_reference`: values and gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor

from transduce.model import attention
from transduce.model.attention import attend, attend_reference, attend_step, mask_bias

pytestmark = pytest.mark.computes

# (B, H, T, S, d_k, d_v)
SHAPES = [(1, 1, 1, 1, 1, 1), (2, 3, 5, 5, 8, 8), (2, 3, 5, 7, 8, 4), (3, 2, 7, 4, 4, 12), (2, 4, 1, 9, 16, 16)]


@pytest.fixture(params=["short", "fused"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Forces one of the two kernels, and makes sure that the other is not used."""

    def forbidden(*_: object, **__: object) -> Tensor:
        raise AssertionError("the other kernel")

    if request.param == "short":
        monkeypatch.setattr(attention, "_SHORT", 1 << 40)
        monkeypatch.setattr(attention.F, "scaled_dot_product_attention", forbidden)
    else:
        monkeypatch.setattr(attention, "_SHORT", -1)
        monkeypatch.setattr(attention, "_short_weights", forbidden)
    return str(request.param)


def padding(shape: tuple[int, ...]) -> Tensor:
    """(B, 1, 1, S): sentence b lacks its last b keys."""
    lengths = torch.tensor([max(1, shape[3] - b) for b in range(shape[0])])
    return (torch.arange(shape[3]) < lengths[:, None])[:, None, None]


def arbitrary(shape: tuple[int, ...]) -> Tensor:
    """(B, H, T, S) at random, some rows empty."""
    mask = torch.rand(shape[:4]) < 0.6
    mask[0, 0, 0] = False
    return mask


MASKS = {
    "none": lambda shape: None,
    "padding": padding,
    "arbitrary": arbitrary,
    "keys alone": lambda shape: torch.arange(shape[3]) != 1,
    "queries × keys": lambda shape: torch.rand(shape[2:4]) < 0.7,
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients(kernel: str, shape: tuple[int, ...], mask_name: str, causal: bool) -> None:
    batch, heads, queries, keys, d_k, d_v = shape
    torch.manual_seed(1)
    tensors = [
        torch.randn(batch, heads, queries, d_k, requires_grad=True),
        torch.randn(batch, heads, keys, d_k, requires_grad=True),
        torch.randn(batch, heads, keys, d_v, requires_grad=True),
    ]
    mask = MASKS[mask_name](shape)
    ours = attend(*tensors, mask, causal=causal)
    theirs = attend_reference(*tensors, mask, causal=causal)
    assert ours.shape == (batch, heads, queries, d_v)
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(ours)
    for our_gradient, their_gradient in zip(
        torch.autograd.grad((ours * weights).sum(), tensors),
        torch.autograd.grad((theirs * weights).sum(), tensors),
        strict=True,
    ):
        torch.testing.assert_close(our_gradient, their_gradient, rtol=1e-4, atol=1e-5)


def test_views_of_a_cache_and_of_heads(kernel: str) -> None:
    """Decoding hands in permuted, non-contiguous views."""
    torch.manual_seed(1)
    query = torch.randn(2, 3, 4, 8).transpose(1, 2)
    key, value = (torch.randn(6, 2, 4, 8)[:5].permute(1, 2, 0, 3) for _ in range(2))
    torch.testing.assert_close(attend(query, key, value), attend_reference(query, key, value))


_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: make gpu, on a machine with one"),
]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=_GPU)])
@pytest.mark.parametrize("mask_name", ["none", "padding", "past of each beam"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_of_decoding(shape: tuple[int, ...], mask_name: str, device: str) -> None:
    batch, heads, queries, keys, d_k, d_v = shape
    torch.manual_seed(1)
    query = torch.randn(batch, queries, heads, d_k).transpose(1, 2)
    key, value = (torch.randn(batch, heads, 2 * keys, width)[:, :, :keys] for width in (d_k, d_v))
    mask = MASKS["padding" if mask_name == "padding" else "none"](shape)
    if mask_name == "past of each beam":
        mask = torch.rand(batch, 1, queries, keys) < 0.5
        mask[..., -1] = True  # each sees itself at least
    expected = attend_reference(query, key, value, mask)
    query, key, value = (x.to(device) for x in (query, key, value))
    bias = mask_bias(None if mask is None else mask.to(device), heads, query.dtype)
    attended = attend_step(query, key, value, bias)
    assert attended.shape == (batch, heads, queries, d_v)
    torch.testing.assert_close(attended.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_short_input_takes_the_short_kernel_and_long_input_the_fused_one(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    for module, name in ((attention, "_short_weights"), (attention.F, "scaled_dot_product_attention")):
        original = getattr(module, name)

        def spy(*arguments: object, name: str = name, original: object = original, **options: object) -> Tensor:
            taken.append(name)
            return original(*arguments, **options)  # type: ignore[operator, no-any-return]

        monkeypatch.setattr(module, name, spy)
    short, long = torch.randn(1, 1, 256, 2), torch.randn(1, 1, 257, 2)
    for x in (short, long):
        torch.testing.assert_close(attend(x, x, x, causal=True), attend_reference(x, x, x, causal=True))
    assert taken == ["_short_weights", "scaled_dot_product_attention"]


@pytest.mark.parametrize("way", ["attend", "attend_step"])
def test_no_kernel_of_cudnn_is_taken(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It plans for each new shape, which takes longer than an update (docs/decisions/0035)."""
    allowed = []
    original = attention.F.scaled_dot_product_attention

    def spy(*arguments: Tensor, **options: Any) -> Tensor:
        allowed.append(torch.backends.cuda.cudnn_sdp_enabled())
        return original(*arguments, **options)

    monkeypatch.setattr(attention.F, "scaled_dot_product_attention", spy)
    monkeypatch.setattr(attention, "_has_fused_kernels", lambda device: True)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    if way == "attend":
        attend(*[torch.randn(1, 1, 257, 2)] * 3)
    else:
        attend_step(*[torch.randn(1, 1, 1, 2)] * 3, None)
    assert allowed == [False]
    assert torch.backends.cuda.cudnn_sdp_enabled() == before, "other models of the process may take it"
