"""Dropout: its rate, its scale, its independence, and the same mask forward and backward."""

import pytest
import torch

from transduce.model.dropout import dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_rate_and_scale(rate: float) -> None:
    torch.manual_seed(1)
    out = dropout(torch.ones(400, 1000), rate, True)
    kept = out != 0
    assert 1 - float(kept.float().mean()) == pytest.approx(rate, abs=0.005)  # six standard deviations and more
    assert float(out[kept].min()) == float(out[kept].max()) == pytest.approx(1 / (1 - rate), rel=1e-3)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.03)


def test_each_of_the_four_numbers_cut_from_one_draw_is_as_good() -> None:
    """Element i takes the 16 bits number i % 4 of a 64-bit draw: no place has a rate of its own, no two agree."""
    torch.manual_seed(2)
    kept = (dropout(torch.ones(4 * 200_000), 0.3, True) != 0).view(-1, 4).double()
    assert kept.mean(dim=0).tolist() == pytest.approx([0.7] * 4, abs=0.006)
    correlation = torch.corrcoef(kept.t()) - torch.eye(4)
    assert float(correlation.abs().max()) < 0.012
    neighbours = torch.corrcoef(torch.stack([kept[:-1, 3], kept[1:, 0]]))
    assert abs(float(neighbours[0, 1])) < 0.012


def test_masks_of_different_calls_are_independent() -> None:
    torch.manual_seed(3)
    masks = torch.stack([(dropout(torch.ones(200_000), 0.4, True) != 0).double() for _ in range(2)])
    assert abs(float(torch.corrcoef(masks)[0, 1])) < 0.012


def test_nothing_happens_out_of_training_or_without_a_rate() -> None:
    x = torch.randn(50)
    assert dropout(x, 0.5, False) is x
    assert dropout(x, 0.0, True) is x


@pytest.mark.parametrize("shape", [(7, 3, 5), (1,), (0, 4), (2, 2)])
def test_the_gradient_has_the_mask_of_the_forward_pass(shape: tuple[int, ...]) -> None:
    torch.manual_seed(4)
    x = torch.rand(shape).add_(1.0).requires_grad_()
    before = x.detach().clone()
    out = dropout(x, 0.4, True)
    weights = torch.rand(shape)
    (out * weights).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, weights * (out / x).detach())
    assert torch.equal(x.detach(), before)


def test_a_transposed_tensor_is_dropped_in_place_of_its_own_elements() -> None:
    torch.manual_seed(5)
    x = torch.arange(1.0, 31.0).view(5, 6).t().requires_grad_()
    out = dropout(x, 0.5, True)
    kept = out != 0
    torch.testing.assert_close(out[kept], 2 * x[kept])
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(gradient != 0, kept)


def test_the_seed_decides() -> None:
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return dropout(torch.ones(1000), 0.5, True)

    assert torch.equal(draw(6), draw(6))
    assert not torch.equal(draw(6), draw(7))


def test_bf16_stays_bf16() -> None:
    torch.manual_seed(8)
    out = dropout(torch.ones(1000, dtype=torch.bfloat16), 0.5, True)
    assert out.dtype == torch.bfloat16
    assert set(out.tolist()) == {0.0, 2.0}
