"""A search over a part of the vocabulary: each sentence has its own, and a batch the union of its sentences' parts.

The logits of a batch are those of N ids, in rising order, and the whole search works with N columns. Before the
softmax, columns that a row's own sentence does not have are set to -inf: its probabilities do not depend on its
neighbours. Special ids are the first of each vocabulary and of each part, so column and id are the same for them.

Shapes: B sentences, K beams each, R rows = B × K; N ids of the batch's part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Self

import numpy as np
import torch
from torch import Tensor

from transduce.config.special_ids import EOS
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis
from transduce.decoding.step import S, Step


@dataclass(frozen=True, eq=False)
class VocabularyPart:
    """The part of the vocabulary that a batch is searched in."""

    ids: np.ndarray  # (N,), rising
    ids_N: Tensor
    allowed_BN: Tensor  # booleans: the part of each sentence

    @classmethod
    def of(cls, allowed_BV: np.ndarray, device: torch.device) -> Self:
        """Returns the union of the sentences' parts, and of the special ids."""
        special = np.arange(max(EOS, *NEVER_GENERATED) + 1)
        ids = np.union1d(special, np.flatnonzero(allowed_BV.any(axis=0)))
        return cls(ids, torch.from_numpy(ids).to(device), torch.from_numpy(allowed_BV[:, ids]).to(device))

    def columns(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Returns the columns of ids that are all in this part."""
        return tuple(np.searchsorted(self.ids, ids).tolist()) if ids else ()

    def with_ids(self, found: Hypothesis) -> Hypothesis:
        """Returns a hypothesis with ids instead of columns."""
        return replace(found, ids=self.ids[found.ids].tolist() if found.ids else [])


@dataclass(frozen=True, eq=False)
class NarrowState(Generic[S]):
    """A model's state, and the columns that each sentence does not have."""

    inner: S
    banned_BN: Tensor

    def expand(self, num_beams: int) -> Self:
        """Goes from one row to `num_beams` equal rows a sentence."""
        return replace(self, inner=self.inner.expand(num_beams))

    def reorder(self, rows_R: Tensor) -> Self:
        """Makes row r the continuation of the old row `rows_R[r]`."""
        return replace(self, inner=self.inner.reorder(rows_R))

    def keep(self, sentences_B: Tensor) -> Self:
        """Keeps all rows of the given sentences only."""
        return replace(self, inner=self.inner.keep(sentences_B), banned_BN=self.banned_BN.index_select(0, sentences_B))


def narrow_step(step: Step[S], part: VocabularyPart) -> Step[NarrowState[S]]:
    """Returns a step from columns to logits of columns, (R, N), which starts from a `NarrowState`.

    Args:
        step: takes ids, and returns the logits of the ids of `part`.
        part: what is searched in.
    """

    def narrow(tokens_R: Tensor, state: NarrowState[S]) -> tuple[Tensor, NarrowState[S]]:
        logits_RN, inner = step(part.ids_N[tokens_R], state.inner)
        num_sentences = state.banned_BN.size(0)
        logits_BKN = logits_RN.view(num_sentences, -1, logits_RN.size(1))
        logits_BKN.masked_fill_(state.banned_BN[:, None], -torch.inf)
        return logits_RN, replace(state, inner=inner)

    return narrow
