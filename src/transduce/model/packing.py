"""Batches without their padding, so that nothing is computed for it.

Everything but attention works on single positions (§3: projections, FFN, norms, dropout) and can leave padding out.
`Packing` converts between the padded layout (B, T, D), which attention needs, and the packed one (N, D), where N is the
number of real tokens. Shape suffixes as in `transduce.model.attention`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.model.device import send

ROUNDED_MULTIPLE = 8  # of rows and positions: what the kernels of a GPU need no special case for
_DENSE = 0.98  # from this share of real tokens on, packing costs more than computing the padding


def rounded_size(size: int, multiple: int = 1) -> int:
    """Returns `size`, rounded up to one of few: multiples of `multiple`, and from 64 on at most 32 within an octave.

    From 16384 to 32768, for example, it is the next multiple of 512.
    """
    step = max(multiple, 1 << max(0, size.bit_length() - 6))
    return -(-size // step) * step


def num_rows(num_tokens: int, num_sentences: int, num_positions: int, *, rounded: bool = False) -> int:
    """Returns how many positions of a padded batch are computed: its real tokens, or all where nearly all are real.

    With `rounded`, the number of real tokens is rounded up (`rounded_size`) by computing some of the padding.
    """
    num_padded = num_sentences * num_positions
    rows = rounded_size(num_tokens, ROUNDED_MULTIPLE) if rounded else num_tokens
    return num_padded if rows > _DENSE * num_padded else rows


def real_positions(lengths_B: Tensor, num_positions: int, device: torch.device) -> Tensor:
    """Returns the index of each real token in a flattened (B × T) batch, (N,), on `device`.

    It is computed where the lengths are: if that is the CPU, a GPU need not be waited for.
    """
    real_BT = torch.arange(num_positions, device=lengths_B.device) < lengths_B[:, None]
    return send(real_BT.flatten().nonzero().squeeze(1), device)


@dataclass(frozen=True)
class Packing:
    """The indices of the real tokens of a padded batch."""

    index_N: Tensor  # position of each real token in the flattened (B × T) batch; some padding may follow
    num_sentences: int
    num_positions: int

    @classmethod
    def of(
        cls, lengths_B: Tensor, num_positions: int, device: torch.device, *, rounded: bool = False
    ) -> "Packing | None":
        """Returns the packing of right-padded sequences, or None where there is hardly any padding.

        Lengths on the CPU save waiting for a GPU to sum them. With `rounded`, some padding is computed too, after the
        real tokens, so that there are few numbers of rows. Nothing looks at what is computed there.
        """
        num_sentences, num_tokens = lengths_B.numel(), int(lengths_B.sum())
        rows = num_rows(num_tokens, num_sentences, num_positions, rounded=rounded)
        if rows == num_sentences * num_positions:
            return None
        if rows == num_tokens:
            return cls(real_positions(lengths_B, num_positions, device), num_sentences, num_positions)
        real_P = (torch.arange(num_positions, device=lengths_B.device) < lengths_B[:, None]).flatten()
        index_N = torch.cat([real_P.nonzero(), (~real_P).nonzero()[: rows - num_tokens]]).squeeze(1)
        return cls(send(index_N, device), num_sentences, num_positions)

    def pack(self, x_BTD: Tensor) -> Tensor:
        """(B, T, …) → (N, …)."""
        return x_BTD.flatten(0, 1).index_select(0, self.index_N)

    def unpack(self, x_ND: Tensor) -> Tensor:
        """(N, D) → (B, T, D), with zeros where nothing was computed."""
        padded = x_ND.new_zeros(self.num_sentences * self.num_positions, x_ND.size(1))
        padded = padded.index_copy(0, self.index_N, x_ND)
        return padded.view(self.num_sentences, self.num_positions, x_ND.size(1))


def packed(x_BTD: Tensor, packing: Packing | None) -> Tensor:
    """(B, T, …) → (N, …), or the same tensor where there is no packing."""
    return x_BTD if packing is None else packing.pack(x_BTD)


def unpacked(x: Tensor, packing: Packing | None) -> Tensor:
    """(N, D) → (B, T, D), or the same tensor where there is no packing."""
    return x if packing is None else packing.unpack(x)
