"""Sequential operations and path lengths are found as they are known to be."""

import math

import pytest
import torch
from torch import nn

from transduce.experiments.paper.layer_types import Convolution, Kind, Recurrent, Shape, layer
from transduce.experiments.paper.path_length import (
    longest_chain,
    reach,
    run_cell,
    stack_of,
    steps_until_all_reach,
)
from transduce.model.windowed import window_mask

SHAPE = Shape(d=4, num_heads=2, k=3, r=4)
KINDS: list[Kind] = [
    *("attention", "attention layer", "restricted", "recurrent", "simple recurrent", "convolution", "separable")
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_keeps_the_shape(kind: Kind) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 9, 4)
    assert layer(kind, SHAPE)(x).shape == x.shape


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("attention", torch.ones(9, 9, dtype=torch.bool)),
        ("attention layer", torch.ones(9, 9, dtype=torch.bool)),
        ("restricted", window_mask(9, 4)),
        ("recurrent", torch.ones(9, 9, dtype=torch.bool).tril()),
        ("simple recurrent", torch.ones(9, 9, dtype=torch.bool).tril()),
        ("convolution", window_mask(9, 2)),
        ("separable", window_mask(9, 2)),
    ],
)
def test_what_one_layer_connects(kind: Kind, pattern: torch.Tensor) -> None:
    torch.manual_seed(0)
    assert torch.equal(reach(layer(kind, SHAPE).double(), 9, 4), pattern)


def test_a_dilated_kernel_leaves_gaps() -> None:
    torch.manual_seed(0)
    found = reach(Convolution(4, 3, dilation=3).double(), 9, 4)
    assert found[4].nonzero().flatten().tolist() == [1, 4, 7]


@pytest.mark.parametrize("n", [2, 7, 16, 23])
def test_layers_until_all_reach_all(n: int) -> None:
    torch.manual_seed(0)
    assert steps_until_all_reach(stack_of("attention", SHAPE, n), n, 4) == 1
    assert steps_until_all_reach(stack_of("restricted", SHAPE, n), n, 4) == math.ceil((n - 1) / 2)
    assert steps_until_all_reach(stack_of("convolution", SHAPE, n), n, 4) == n - 1
    assert steps_until_all_reach(stack_of("convolution", Shape(4, k=5), n), n, 4) == math.ceil((n - 1) / 2)
    assert steps_until_all_reach(stack_of("recurrent", SHAPE, n), n, 4, forwards_only=True) == n


@pytest.mark.parametrize("n", [2, 3, 7, 16, 28, 40])
def test_layers_of_a_dilated_stack(n: int) -> None:
    """Against walks over the positions: a kernel of 3 takes a signal its dilation back, nowhere, or its dilation on."""
    dilations = [dilation for dilation in (1, 3, 9, 27) if dilation < n]
    reached, steps = [{start} for start in range(n)], 0
    while not all(len(places) == n for places in reached):
        dilation = dilations[steps % len(dilations)]
        moves = (-dilation, 0, dilation)
        reached = [{place + move for place in places for move in moves if 0 <= place + move < n} for places in reached]
        steps += 1
    torch.manual_seed(0)
    assert steps_until_all_reach(stack_of("convolution", SHAPE, n, dilated=True), n, 4) == steps


def test_what_never_connects_is_an_error() -> None:
    with pytest.raises(ValueError, match="do not bring every input"):
        steps_until_all_reach(lambda _: nn.Linear(4, 4).double(), 5, 4)


def test_n_steps_of_the_cell_are_the_recurrent_layer() -> None:
    torch.manual_seed(0)
    cell = nn.LSTMCell(4, 4).double()
    whole = nn.LSTM(4, 4, batch_first=True).double()
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(whole, f"{name}_l0").data.copy_(getattr(cell, name))
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    torch.testing.assert_close(run_cell(cell, 6, x), whole(x)[0])


def test_chains_count_what_waits() -> None:
    x = torch.randn(4, 4)
    assert longest_chain(lambda x: x, x) == 0
    assert longest_chain(lambda x: x + 1 + 1 + 1, x) == 3
    assert longest_chain(lambda x: (x + 1) * (x - 1), x) == 2  # the sums do not wait for each other
    assert longest_chain(lambda x: x.view(2, 8).transpose(0, 1)[1:], x) == 0
    assert longest_chain(lambda x: (x @ x).add_(1).mul_(2), x) == 3


def test_only_a_recurrent_layers_chain_grows() -> None:
    torch.manual_seed(0)
    for kind in KINDS:
        short, long = (longest_chain(layer(kind, SHAPE), torch.randn(1, n, 4)) for n in (32, 96))
        if "recurrent" in kind:
            assert 2.5 * short < long < 3.5 * short
        else:
            assert short == long


def test_the_last_state_waits_longest() -> None:
    recurrent = Recurrent(4)
    whole = longest_chain(recurrent, torch.randn(1, 20, 4))
    assert longest_chain(lambda x: recurrent(x[:, :10]), torch.randn(1, 20, 4)) < whole
