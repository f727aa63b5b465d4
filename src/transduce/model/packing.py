"""Batches without their padding, so that nothing is computed for it.

Everything but attention works on single positions (§3: projections, FFN, norms, dropout) and can leave padding out.
`Packing` converts between the padded layout (B, T, D), which attention needs, and the packed one (N, D), where N is the
number of real tokens. Shape suffixes as in `transduce.model.attention`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.model.device import send

_DENSE = 0.98  # from this share of real tokens on, packing costs more than computing the padding


def num_rows(num_tokens: int, num_sentences: int, num_positions: int) -> int:
    """Returns how many positions of a padded batch are computed: its real tokens, or all where nearly all are real."""
    num_padded = num_sentences * num_positions
    return num_padded if num_tokens > _DENSE * num_padded else num_tokens


def real_positions(lengths_B: Tensor, num_positions: int, device: torch.device) -> Tensor:
    """Returns the index of each real token in a flattened (B × T) batch, (N,), on `device`.

    It is computed where the lengths are: if that is the CPU, a GPU need not be waited for.
    """
    real_BT = torch.arange(num_positions, device=lengths_B.device) < lengths_B[:, None]
    return send(real_BT.flatten().nonzero().squeeze(1), device)


@dataclass(frozen=True)
class Packing:
    """The indices of the real tokens of a padded batch."""

    index_N: Tensor  # position of each real token in the flattened (B × T) batch
    num_sentences: int
    num_positions: int

    @classmethod
    def of(cls, lengths_B: Tensor, num_positions: int, device: torch.device) -> "Packing | None":
        """Returns the packing of right-padded sequences, or None where there is hardly any padding.

        Lengths on the CPU save waiting for a GPU to sum them.
        """
        num_sentences = lengths_B.numel()
        if num_rows(int(lengths_B.sum()), num_sentences, num_positions) == num_sentences * num_positions:
            return None
        return cls(real_positions(lengths_B, num_positions, device), num_sentences, num_positions)

    def pack(self, x_BTD: Tensor) -> Tensor:
        """(B, T, …) → (N, …)."""
        return x_BTD.flatten(0, 1).index_select(0, self.index_N)

    def unpack(self, x_ND: Tensor) -> Tensor:
        """(N, D) → (B, T, D), with zeros where there is padding."""
        padded = x_ND.new_zeros(self.num_sentences * self.num_positions, x_ND.size(1))
        padded = padded.index_copy(0, self.index_N, x_ND)
        return padded.view(self.num_sentences, self.num_positions, x_ND.size(1))
