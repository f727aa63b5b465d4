"""Positions: sinusoids or a learned table (§3.5, Table 3 E)."""

import math
from typing import Literal, assert_never

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.config.choices import longest_sequence
from transduce.errors import DataError


def sinusoids(
    num_positions: int, d_model: int, layout: Literal["interleaved", "concatenated"] = "interleaved"
) -> Tensor:
    """Returns the sinusoidal encoding of positions 0 … num_positions - 1, shape (T, D).

    `interleaved` is §3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same). `concatenated` is the
    released code: all sines, then all cosines, with the exponent i / (d/2 - 1).
    """
    half = d_model // 2
    pairs = torch.arange(half, dtype=torch.float64, device="cpu")
    positions_T1 = torch.arange(num_positions, dtype=torch.float64, device="cpu")[:, None]
    match layout:
        case "interleaved":
            angle = positions_T1 * torch.exp(-math.log(10000.0) * (pairs / (d_model / 2)))
            table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        case "concatenated":
            angle = positions_T1 * torch.exp(-math.log(10000.0) * (pairs / max(half - 1, 1)))
            table = torch.cat([angle.sin(), angle.cos()], dim=-1)
        case other:
            assert_never(other)
    return table.float()


class Positions(nn.Module):
    """The vectors of positions: sinusoids, for any position, or a learned table of limited length."""

    table: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        match config.positions:
            case "learned":
                self.table = nn.Parameter(torch.empty(config.max_positions, config.d_model))
            case "sinusoidal":
                table = sinusoids(256, config.d_model, config.sinusoid_layout)
                self.register_buffer("table", table, persistent=False)
            case other:
                assert_never(other)

    @property
    def limit(self) -> int | None:
        """The greatest number of positions of a sequence; None where there is no limit."""
        return longest_sequence(self.config)

    def forward(self, start: int, end: int) -> Tensor:
        """Returns the vectors of a sequence's tokens start … end - 1, shape (T, D).

        Raises:
            DataError: a learned table has fewer rows.
        """
        start, end = start + self.config.first_position, end + self.config.first_position
        table = self.table  # another thread may exchange it
        if end > table.size(0):
            match self.config.positions:
                case "learned":
                    raise DataError(
                        f"A sequence of {end} tokens is longer than the model's learned positions "
                        f"({table.size(0)}). Shorten it, or train with a greater model.max_positions."
                    )
                case "sinusoidal":
                    longer = sinusoids(2 * end, self.config.d_model, self.config.sinusoid_layout)
                    self.table = table = longer.to(table)
                case other:
                    assert_never(other)
        return table[start:end]
