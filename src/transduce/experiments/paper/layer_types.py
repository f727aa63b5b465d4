"""The layer types of Table 1 as layers with one interface: (B, n, d) → (B, n, d).

"Complexity per layer" in Table 1 is that of mixing positions alone: n²·d leaves out attention's four projections. So
`SelfAttentionCore` is softmax(Q Kᵀ / √d_k) V of given queries, keys and values, and `SelfAttentionLayer` what a model
has, projections included.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.experiments.paper.measure import count_flops, peak_bytes, shortest_seconds
from transduce.model.attention import SelfAttention, attend, join_heads, split_heads
from transduce.model.windowed import windowed_attend
from transduce.training.device import Compute

Kind = Literal[
    "attention",
    "attention layer",
    "attention and feed-forward",
    "restricted",
    "recurrent",
    "simple recurrent",
    "convolution",
    "separable",
]


@dataclass(frozen=True)
class Shape:
    """Sizes of a layer, in the letters of Table 1."""

    d: int  # width
    num_heads: int = 1
    k: int = 3  # kernel of a convolution, odd
    r: int = 128  # neighbourhood of restricted attention


class SelfAttentionCore(nn.Module):
    """Self-attention without projections; with a `window`, restricted to it (§4)."""

    def __init__(self, num_heads: int, window: int = 0) -> None:
        super().__init__()
        self.num_heads, self.window = num_heads, window

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Maps (B, n, d) to (B, n, d)."""
        x_BHTE = split_heads(x_BTD, self.num_heads)
        if self.window:
            return join_heads(windowed_attend(x_BHTE, x_BHTE, x_BHTE, window=self.window))
        return join_heads(attend(x_BHTE, x_BHTE, x_BHTE))


class SelfAttentionLayer(nn.Module):
    """Multi-head self-attention with its projections, as in models (§3.2.2)."""

    def __init__(self, d: int, num_heads: int) -> None:
        super().__init__()
        width = d // num_heads
        config = ModelConfig(d_model=d, num_heads=num_heads, d_k=width, d_v=width, positions="learned")  # of any width
        self.attention = SelfAttention(config)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Maps (B, n, d) to (B, n, d)."""
        attended: Tensor = self.attention(x_BTD, None, causal=False)
        return attended


class Recurrent(nn.Module):
    """One layer of PyTorch's LSTM, or of its simple (tanh) recurrent network, read from left to right."""

    def __init__(self, d: int, *, simple: bool = False) -> None:
        super().__init__()
        self.recurrence = nn.RNN(d, d, batch_first=True) if simple else nn.LSTM(d, d, batch_first=True)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Maps (B, n, d) to (B, n, d)."""
        states: Tensor = self.recurrence(x_BTD)[0]
        return states


class Convolution(nn.Module):
    """A convolution over positions that keeps the length.

    A separable one has a kernel for each channel alone, then a d × d product at each position.
    """

    def __init__(self, d: int, k: int, *, dilation: int = 1, separable: bool = False) -> None:
        super().__init__()
        padding = (k - 1) // 2 * dilation
        groups = d if separable else 1
        self.over_positions = nn.Conv1d(d, d, k, padding=padding, dilation=dilation, groups=groups, bias=False)
        self.over_channels = nn.Conv1d(d, d, 1, bias=False) if separable else nn.Identity()

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Maps (B, n, d) to (B, n, d)."""
        mixed: Tensor = self.over_channels(self.over_positions(x_BTD.transpose(1, 2)))
        return mixed.transpose(1, 2)


def layer(kind: Kind, shape: Shape, *, dilation: int = 1) -> nn.Module:
    """Returns a layer of that kind, freshly drawn."""
    layers: dict[Kind, Callable[[], nn.Module]] = {
        "attention": lambda: SelfAttentionCore(shape.num_heads),
        "attention layer": lambda: SelfAttentionLayer(shape.d, shape.num_heads),
        "attention and feed-forward": lambda: nn.Sequential(
            SelfAttentionCore(shape.num_heads), nn.Linear(shape.d, shape.d, bias=False)
        ),
        "restricted": lambda: SelfAttentionCore(shape.num_heads, shape.r),
        "recurrent": lambda: Recurrent(shape.d),
        "simple recurrent": lambda: Recurrent(shape.d, simple=True),
        "convolution": lambda: Convolution(shape.d, shape.k, dilation=dilation),
        "separable": lambda: Convolution(shape.d, shape.k, dilation=dilation, separable=True),
    }
    return layers[kind]()


def layer_cost(
    kind: Kind, shape: Shape, num_positions: int, *, dilation: int = 1, budget_seconds: float, memory: bool = True
) -> dict[str, float]:
    """Returns what a forward pass of one sequence costs: `flops`, `seconds` and, with `memory`, `peak_bytes`."""
    torch.manual_seed(0)
    device = Compute.of("auto", "fp32").device
    module = layer(kind, shape, dilation=dilation).to(device).eval()
    run = partial(module, batch(num_positions, shape.d, device))
    with torch.no_grad():
        simple = kind == "simple recurrent"
        recurrent = simple or kind == "recurrent"
        cost: dict[str, float] = {
            "flops": recurrent_flops(num_positions, shape.d, simple=simple) if recurrent else count_flops(run),
            "seconds": shortest_seconds(run, device, budget_seconds=budget_seconds),
        }
        return cost | {"peak_bytes": peak_bytes(run, device)} if memory else cost


def recurrent_flops(num_positions: int, d: int, *, simple: bool) -> int:
    """Returns the operations of the matrix products of a recurrent layer, which PyTorch's counter does not see.

    At each position, W x and U h are d × d products: four of each in an LSTM (three gates and the candidate), one each
    in a simple recurrent network; two operations per multiply-add.
    """
    return 2 * num_positions * 2 * d * d * (1 if simple else 4)


def batch(num_positions: int, d: int, device: torch.device | str = "cpu") -> Tensor:
    """Returns one sequence of random vectors, (1, n, d)."""
    return torch.randn(1, num_positions, d, device=device)
