"""Outputs that are labelled brackets around a given number of leaves: bans on the next token, given those before it.

    (S (NP DT NN )NP (VP VBZ )VP )S      for three leaves; for four, the next token after "VBZ" may not be ")VP )S"

One bracket is around all, no bracket is empty, and each is closed by its own label. At each step the tokens that are
still needed, one for each missing leaf and each open bracket, fit into the limit: what is begun can be finished. Every
such output within the limit can be found.

Shapes: R rows = B sentences × K beams, sentence by sentence; T tokens so far, V vocabulary, S states.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from transduce.config.special_ids import EOS
from transduce.decoding.constraints import Brackets

_OTHER, _OPENS, _CLOSES, _LEAF, _CONTINUES = range(5)  # kinds of tokens
# A state is the sum of what may follow. Closing brackets are apart: which one it may be depends on what is open.
_MAY_OPEN, _MAY_BEGIN_LEAF, _MAY_CONTINUE, _MAY_END, _FREE = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class BracketBans:
    """What may follow in each sentence of a batch."""

    kinds_V: Tensor
    closing_V: Tensor  # of each token that opens a bracket: the one that closes it
    banned_SV: Tensor  # booleans
    max_depth: int
    num_leaves_B: Tensor
    limits_B: Tensor
    free_B: Tensor  # sentences that have no brackets, or whose limit is too small for any

    @classmethod
    def of(cls, brackets: Sequence[Brackets | None], limits: Sequence[int], device: torch.device | str) -> Self:
        """Returns the bans of a batch, of which some sentences have brackets of the same pieces."""
        pieces = next(each.pieces for each in brackets if each is not None)
        kinds_V = torch.full((pieces.vocab_size,), _OTHER)
        kinds = (pieces.closing.keys(), _OPENS), (pieces.closing.values(), _CLOSES)
        for ids, kind in (*kinds, (pieces.leaves, _LEAF), (pieces.continuing, _CONTINUES)):
            kinds_V[list(ids)] = kind
        closing_V = torch.zeros_like(kinds_V)
        closing_V[list(pieces.closing)] = torch.tensor(list(pieces.closing.values()))
        states_S1 = torch.arange(_FREE + 1)[:, None]
        banned_SV = torch.ones(len(states_S1), pieces.vocab_size, dtype=torch.bool)
        for kind, bit in ((_OPENS, _MAY_OPEN), (_LEAF, _MAY_BEGIN_LEAF), (_CONTINUES, _MAY_CONTINUE)):
            banned_SV &= ~((kinds_V == kind) & ((states_S1 & bit) > 0))
        banned_SV[:, EOS] = (states_S1[:, 0] & _MAY_END) == 0
        banned_SV[_FREE] = False
        fits = [each is not None and each.least_tokens <= limit for each, limit in zip(brackets, limits, strict=True)]
        return cls(
            kinds_V.to(device),
            closing_V.to(device),
            banned_SV.to(device),
            pieces.max_depth,
            torch.tensor([0 if each is None else each.num_leaves for each in brackets], device=device),
            torch.tensor(limits, device=device),
            ~torch.tensor(fits, device=device),
        )

    def apply_(self, gains_RV: Tensor, past_RT: Tensor) -> None:
        """Bans all tokens after which the output cannot become brackets around the leaves within the limit."""
        num_tokens, num_beams = past_RT.size(1), past_RT.size(0) // self.limits_B.numel()
        past_RT = pad(past_RT, (1, 0))  # a token before the first, which is no part of brackets
        kinds_RT = self.kinds_V[past_RT]
        opens_RT, last_R = kinds_RT == _OPENS, kinds_RT[:, -1]
        depths_RT = (opens_RT.int() - (kinds_RT == _CLOSES).int()).cumsum(dim=1)
        depth_R = depths_RT[:, -1]
        missing_R = self._of_rows(self.num_leaves_B, num_beams) - (kinds_RT == _LEAF).sum(dim=1)
        # Tokens that the limit leaves beyond those that the open brackets and the missing leaves need.
        spare_R = self._of_rows(self.limits_B, num_beams) - num_tokens - missing_R - depth_R
        inside_R, begun = depth_R > 0, num_tokens > 0
        may_open_R = inside_R & (missing_R > 0) & (depth_R < self.max_depth) if begun else ~inside_R
        may_open_R &= spare_R >= 2
        may_begin_leaf_R = inside_R & (missing_R > 0)
        may_continue_R = ((last_R == _LEAF) | (last_R == _CONTINUES)) & (spare_R >= 1)
        may_close_R = inside_R & (last_R != _OPENS) & ((depth_R > 1) | (missing_R == 0))
        states_R = may_open_R * _MAY_OPEN + may_begin_leaf_R * _MAY_BEGIN_LEAF + may_continue_R * _MAY_CONTINUE
        if begun:
            states_R = states_R + ~inside_R * _MAY_END
        free_R = self._of_rows(self.free_B, num_beams)
        banned_RV = self.banned_SV[states_R.masked_fill(free_R, _FREE)]
        # The innermost open bracket is the last one after which as many were open as are open now.
        positions_T = torch.arange(num_tokens + 1, device=past_RT.device)
        innermost_R = (positions_T * (opens_RT & (depths_RT == depth_R[:, None]))).amax(dim=1)
        closing_R1 = self.closing_V[past_RT.gather(1, innermost_R[:, None])]
        banned_RV.scatter_(1, closing_R1, ~(may_close_R | free_R)[:, None])
        gains_RV.masked_fill_(banned_RV, -torch.inf)

    @staticmethod
    def _of_rows(values_B: Tensor, num_beams: int) -> Tensor:
        return values_B.repeat_interleave(num_beams)

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns the bans of the given sentences, in the given order."""
        num_leaves_B, limits_B, free_B = (x[sentences_B] for x in (self.num_leaves_B, self.limits_B, self.free_B))
        return replace(self, num_leaves_B=num_leaves_B, limits_B=limits_B, free_B=free_B)
