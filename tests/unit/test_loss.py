"""The smoothed loss, fused with its projection, against the formula and against numbers worked out by hand."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from transduce.training import loss as loss_module
from transduce.training.loss import Smoothing, projected_loss, smoothed_cross_entropy_reference
from transduce.training.step import with_bias

pytestmark = pytest.mark.computes


def test_smoothing_by_hand() -> None:
    uniform = Smoothing.of(0.1, 5, "uniform")  # the right token: 0.9 + 0.1/5
    assert (uniform.true, uniform.rest) == pytest.approx((0.9, 0.02))
    others = Smoothing.of(0.1, 5, "others")  # the right token: 0.9; each other: 0.1/4
    assert (others.true + others.rest, others.rest) == pytest.approx((0.9, 0.025))
    for smoothing in (uniform, others):
        assert smoothing.true + 5 * smoothing.rest == pytest.approx(1.0)
    assert Smoothing.of(0.0, 5, "others") == Smoothing.of(0.0, 5, "uniform") == Smoothing(1.0, 0.0)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # p = (1/2, 1/4, 1/4), the right token is the first, ε = 0.3, in units of ln 2:
        ("uniform", 0.8 * 1 + 0.1 * 2 + 0.1 * 2),  # q = (0.7 + 0.1, 0.1, 0.1)
        ("others", 0.7 * 1 + 0.15 * 2 + 0.15 * 2),  # q = (0.7, 0.15, 0.15)
    ],
)
def test_the_loss_by_hand(kind: str, expected: float) -> None:
    log2 = math.log(2)
    states, embedding = torch.tensor([[1.0]]), torch.tensor([[2 * log2], [log2], [log2]])  # logits ln 4, ln 2, ln 2
    smoothing = Smoothing.of(0.3, 3, kind)  # type: ignore[arg-type]
    loss, nll = projected_loss(states, embedding, torch.tensor([0]), smoothing)
    assert float(loss) == pytest.approx(expected * log2, rel=1e-6)
    assert float(nll) == pytest.approx(log2, rel=1e-6)
    reference = smoothed_cross_entropy_reference(states @ embedding.t(), torch.tensor([0]), smoothing)
    assert float(reference) == pytest.approx(expected * log2, rel=1e-6)


def inputs(num_rows: int = 23, vocab_size: int = 37, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    states = (torch.randn(num_rows, 8) * scale).requires_grad_()
    embedding = torch.randn(vocab_size, 8).requires_grad_()
    return states, embedding, torch.randint(vocab_size, (num_rows,))


def gradients(loss: Tensor, *tensors: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, tensors))


@pytest.mark.parametrize("rows_at_once", [1, 2, 22, 23, 1000])
@pytest.mark.parametrize(("epsilon", "kind"), [(0.1, "uniform"), (0.1, "others"), (0.4, "others"), (0.0, "uniform")])
def test_value_and_gradients_are_those_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, rows_at_once: int, epsilon: float, kind: str
) -> None:
    monkeypatch.setitem(loss_module._CHUNK_BYTES, "cpu", 4 * 37 * rows_at_once)
    states, embedding, targets = inputs()
    smoothing = Smoothing.of(epsilon, 37, kind)  # type: ignore[arg-type]
    loss, nll = projected_loss(states, embedding, targets, smoothing)
    reference = smoothed_cross_entropy_reference(states @ embedding.t(), targets, smoothing)
    torch.testing.assert_close(loss, reference)
    torch.testing.assert_close(nll, torch.nn.functional.cross_entropy(states @ embedding.t(), targets, reduction="sum"))
    assert not nll.requires_grad
    for ours, theirs in zip(
        gradients(loss / 17, states, embedding), gradients(reference / 17, states, embedding), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_it_is_what_pytorch_computes() -> None:
    states, embedding, targets = inputs()
    theirs = torch.nn.functional.cross_entropy(states @ embedding.t(), targets, label_smoothing=0.1, reduction="sum")
    loss, _ = projected_loss(states, embedding, targets, Smoothing.of(0.1, 37, "uniform"))
    torch.testing.assert_close(loss, theirs)


@pytest.mark.parametrize("kind", ["uniform", "others"])
def test_extreme_logits_neither_overflow_nor_vanish(kind: str) -> None:
    """Logits in the thousands: exp overflows at 89, and the probability of most targets is 0 in float32."""
    states, embedding, targets = inputs(scale=1000.0)
    logits = states.detach() @ embedding.detach().t()
    assert float(logits.max()) > 1000
    assert float(logits.min()) < -1000
    smoothing = Smoothing.of(0.1, 37, kind)  # type: ignore[arg-type]
    loss, nll = projected_loss(states, embedding, targets, smoothing)
    exact = states.detach().double() @ embedding.detach().double().t()
    torch.testing.assert_close(
        loss.detach().double(), smoothed_cross_entropy_reference(exact, targets, smoothing), rtol=1e-5, atol=0
    )
    torch.testing.assert_close(
        nll.double(), torch.nn.functional.cross_entropy(exact, targets, reduction="sum"), rtol=1e-5, atol=0
    )
    for gradient in gradients(loss, states, embedding):
        assert bool(gradient.isfinite().all())


def test_equal_logits_far_from_zero() -> None:
    loss, nll = projected_loss(
        torch.full((2, 1), 1e4), torch.ones(6, 1), torch.tensor([0, 5]), Smoothing.of(0.1, 6, "uniform")
    )
    assert float(nll) == pytest.approx(2 * math.log(6), rel=1e-3)
    assert float(loss) == pytest.approx(2 * math.log(6), abs=0.01)


def test_without_gradients() -> None:
    states, embedding, targets = inputs()
    smoothing = Smoothing.of(0.1, 37, "uniform")
    with torch.no_grad():
        loss, nll = projected_loss(states, embedding, targets, smoothing)
    assert not loss.requires_grad
    expected_loss, expected_nll = projected_loss(states, embedding, targets, smoothing)
    assert torch.equal(loss, expected_loss.detach())
    assert torch.equal(nll, expected_nll)


@pytest.mark.parametrize(("rows_at_once", "rows_of_gradients"), [(5, 5), (5, 10), (5, 1000), (1000, 5)])
def test_bf16_states_give_a_close_loss_and_a_float32_gradient_of_the_matrix(
    monkeypatch: pytest.MonkeyPatch, rows_at_once: int, rows_of_gradients: int
) -> None:
    monkeypatch.setitem(loss_module._CHUNK_BYTES, "cpu", 4 * 37 * rows_at_once)
    monkeypatch.setitem(loss_module._GRADIENT_BYTES, "cpu", 2 * 37 * rows_of_gradients)
    states, embedding, targets = inputs()
    smoothing = Smoothing.of(0.1, 37, "uniform")
    half = states.detach().bfloat16().requires_grad_()
    loss, _ = projected_loss(half, embedding, targets, smoothing)
    reference = smoothed_cross_entropy_reference(states @ embedding.t(), targets, smoothing)
    torch.testing.assert_close(loss, reference, rtol=0.01, atol=0)
    by_states, by_embedding = gradients(loss, half, embedding)
    assert (by_states.dtype, by_embedding.dtype) == (torch.bfloat16, torch.float32)
    for ours, theirs in zip((by_states, by_embedding), gradients(reference, states, embedding), strict=True):
        assert float((ours - theirs).norm() / theirs.norm()) < 0.02


def test_a_bias_on_the_logits_is_part_of_the_product() -> None:
    states, embedding, targets = inputs()
    bias = torch.randn(37).requires_grad_()
    model: Any = SimpleNamespace(output_embedding=embedding, output_bias=bias)
    smoothing = Smoothing.of(0.1, 37, "uniform")
    loss, _ = projected_loss(*with_bias(states, model), targets, smoothing)
    reference = smoothed_cross_entropy_reference(states @ embedding.t() + bias, targets, smoothing)
    torch.testing.assert_close(loss, reference)
    for ours, theirs in zip(
        gradients(loss, states, embedding, bias), gradients(reference, states, embedding, bias), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    model.output_bias = None
    assert with_bias(states, model) == (states, embedding)


def test_a_shared_matrix_gets_both_gradients() -> None:
    """The matrix that projects also embeds (§3.4): autograd adds what comes from either side."""
    _, embedding, targets = inputs()
    smoothing = Smoothing.of(0.1, 37, "uniform")
    ids = torch.arange(23)
    ours, _ = projected_loss(torch.nn.functional.embedding(ids, embedding), embedding, targets, smoothing)
    theirs = smoothed_cross_entropy_reference(
        torch.nn.functional.embedding(ids, embedding) @ embedding.t(), targets, smoothing
    )
    torch.testing.assert_close(gradients(ours, embedding)[0], gradients(theirs, embedding)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_frozen_embedding_changes_no_other_gradient(dtype: torch.dtype) -> None:
    states, embedding, targets = inputs()
    states, smoothing = states.detach().to(dtype).requires_grad_(), Smoothing.of(0.1, 37, "uniform")
    whole = gradients(projected_loss(states, embedding, targets, smoothing)[0], states)
    frozen = gradients(projected_loss(states, embedding.detach(), targets, smoothing)[0], states)
    assert torch.equal(*whole, *frozen)
