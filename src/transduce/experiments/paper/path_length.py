"""Table 1's path lengths and sequential operations, found by running layers: what depends on what."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from transduce.experiments.paper.layer_types import Kind, Shape, layer

Apply = Callable[[Tensor], Tensor]


def reach(apply: Apply, num_positions: int, d: int) -> Tensor:
    """Returns which inputs each output depends on, (n, n) bool: entry [i, j] where ∂ output i / ∂ input j is not zero.

    Row i is the gradient of output i alone, in copy i of a batch of n copies. Double precision keeps a derivative that
    is a product over many layers, and so small, from becoming zero.
    """
    x = torch.randn(1, num_positions, d, dtype=torch.float64).expand(num_positions, -1, -1).clone().requires_grad_()
    output = apply(x)
    positions = torch.arange(num_positions)
    chosen = output[positions, positions]
    (gradient,) = torch.autograd.grad((chosen * torch.randn_like(chosen)).sum(), x)
    return gradient.ne(0).any(dim=-1)


def steps_until_all_reach(
    stack: Callable[[int], Apply], num_positions: int, d: int, *, forwards_only: bool = False
) -> int:
    """Returns how many steps it takes until every output depends on every input (or on every earlier one).

    A stack of more steps never reaches less, so the number is found by bisection.

    Args:
        stack: makes the function that m steps compute.
        num_positions: n.
        d: width of the vectors.
        forwards_only: inputs only have to reach later outputs, as in a layer that reads from left to right.
    """
    wanted = torch.ones(num_positions, num_positions, dtype=torch.bool)
    if forwards_only:
        wanted = wanted.tril()

    def all_reach(steps: int) -> bool:
        return bool(reach(stack(steps), num_positions, d)[wanted].all())

    enough = 1
    while not all_reach(enough):
        if enough > 2 * num_positions:
            raise ValueError(f"{enough} steps do not bring every input to every output")
        enough *= 2
    between = range(enough // 2 + 1, enough)
    return between.start + bisect_left(between, True, key=all_reach)


def stack_of(kind: Kind, shape: Shape, num_positions: int, *, dilated: bool = False) -> Callable[[int], Apply]:
    """Returns a function that makes a stack of m layers for n positions.

    In a dilated stack the dilations are 1, k, k², … below n, and then from 1 again: a kernel with a larger dilation
    would see only its middle. For a recurrent layer, a step is one step of its cell: see `run_cell`.
    """
    if kind == "recurrent":
        cell = nn.LSTMCell(shape.d, shape.d).double()
        return lambda steps: partial(run_cell, cell, steps)

    dilations = [1]
    while dilated and dilations[-1] * shape.k < num_positions:
        dilations.append(dilations[-1] * shape.k)

    def make(steps: int) -> Apply:
        in_turn = (dilations[step % len(dilations)] for step in range(steps))
        return nn.Sequential(*(layer(kind, shape, dilation=dilation).double() for dilation in in_turn))

    return make


def run_cell(cell: nn.LSTMCell, steps: int, x_BTD: Tensor) -> Tensor:
    """Makes m steps of a recurrence, h_t ← cell(x_t, h_{t-1}) at all positions, from h = 0.

    n steps are the recurrent layer; each step moves a signal by one position.
    """
    flat = x_BTD.flatten(0, 1)
    hidden = memory = torch.zeros_like(flat)
    for _ in range(steps):
        before = [F.pad(state.view_as(x_BTD)[:, :-1], (0, 0, 1, 0)).flatten(0, 1) for state in (hidden, memory)]
        hidden, memory = cell(flat, (before[0], before[1]))
    return hidden.view_as(x_BTD)


def longest_chain(apply: Apply, x: Tensor) -> int:
    """Returns the length of the longest chain of operations in which each needs the result of the one before.

    Every tensor operation of a forward pass counts one at any size: even a machine of any width must do them one
    after another. Views count nothing. oneDNN is off: it would hide an LSTM's steps in one operation.
    """
    chains = _Chains()
    with torch.no_grad(), without_onednn(), chains:
        output = apply(x)
    return chains.length(output)


@contextmanager
def without_onednn() -> Iterator[None]:
    """Turns oneDNN off, so that PyTorch runs a recurrent layer as separate operations of each step."""
    before, *_ = torch.backends.mkldnn.set_flags(_enabled=False, _fp32_precision=None)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=before, _fp32_precision=None)


class _Chains(TorchDispatchMode):
    """Records for each block of memory the longest chain of operations that led to its contents."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._lengths: dict[int, int] = {}
        self._alive: list[Tensor] = []  # freed memory would be reused, and its old length with it

    def length(self, tensor: Tensor) -> int:
        return self._lengths.get(_address(tensor), 0)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        inputs = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        longest = max((self.length(x) for x in inputs), default=0)
        known = {_address(x) for x in inputs}
        for output in torch.utils._pytree.tree_leaves(result):
            if isinstance(output, Tensor):
                address = _address(output)
                is_view = address in known and not function._schema.is_mutable
                self._lengths[address] = max(self.length(output), longest if is_view else longest + 1)
                self._alive.append(output)
        return result


def _address(tensor: Tensor) -> int:
    address: int = tensor.untyped_storage().data_ptr()
    return address
