"""A search over a part of the vocabulary: of each sentence its own, of the batch what any of its sentences has.

The logits of a batch are those of N ids, in rising order, and everything that a search does, it does with N columns.
Before the softmax, what is not of a row's own sentence is set to -inf: probabilities are of the sentence's own part,
whatever its neighbours have. Special ids are the first of each vocabulary and of each part, and so mean the same.

Shapes: B sentences, K beams each, R rows = B × K; N ids of the batch's part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Self

import numpy as np
import torch
from torch import Tensor

from transduce.decoding.scores import Hypothesis, SpecialIds
from transduce.decoding.step import S, Step

_SPECIALS = SpecialIds()


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The part of the vocabulary that a batch is searched in."""

    ids: np.ndarray  # (N,), rising
    places: dict[int, int]  # id → its column
    ids_N: Tensor
    allowed_BN: Tensor  # booleans: the part of each sentence

    @classmethod
    def of(cls, allowed_BV: np.ndarray, device: torch.device) -> Self:
        """Returns the union of the sentences' parts, and of the special ids."""
        specials = np.arange(max(_SPECIALS.eos, *_SPECIALS.never_generated) + 1)
        ids = np.union1d(specials, np.flatnonzero(allowed_BV.any(axis=0)))
        allowed_BN = torch.from_numpy(allowed_BV[:, ids]).to(device)
        places = {index: place for place, index in enumerate(ids.tolist())}
        return cls(ids, places, torch.from_numpy(ids).to(device), allowed_BN)

    def repeated(self, times: int) -> Self:
        """Returns the same part where each sentence stands `times` times in a row."""
        return replace(self, allowed_BN=self.allowed_BN.repeat_interleave(times, dim=0))

    def narrowed(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Returns the columns of ids that are all in this part."""
        return tuple(self.places[index] for index in ids)

    def widened(self, found: Hypothesis) -> Hypothesis:
        """Returns a hypothesis with ids for columns."""
        return replace(found, ids=self.ids[found.ids].tolist() if found.ids else [])

    def start(self, state: S) -> "NarrowState[S]":
        """Returns the state before the first step of `narrow_step`."""
        return NarrowState(state, ~self.allowed_BN)


@dataclass(frozen=True, eq=False)
class NarrowState(Generic[S]):
    """A model's state, and what each sentence may not be written with."""

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


def narrow_step(step: Step[S], vocabulary: Vocabulary) -> Step[NarrowState[S]]:
    """Returns a step from columns to logits of columns, (R, N).

    Args:
        step: takes ids, and returns the logits of the ids of `vocabulary`.
        vocabulary: the part that is searched in.
    """

    def narrow(tokens_R: Tensor, state: NarrowState[S]) -> tuple[Tensor, NarrowState[S]]:
        logits_RN, inner = step(vocabulary.ids_N[tokens_R], state.inner)
        num_sentences = state.banned_BN.size(0)
        logits_BKN = logits_RN.view(num_sentences, -1, logits_RN.size(1))
        logits_BKN.masked_fill_(state.banned_BN[:, None], -torch.inf)
        return logits_RN, replace(state, inner=inner)

    return narrow
