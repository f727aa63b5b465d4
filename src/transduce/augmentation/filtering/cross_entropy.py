"""Dual conditional cross-entropy filtering (Junczys-Dowmunt 2018): what two models, one a direction, think of a pair.

    H_f = -log p(target | source) / |target|      H_b = -log p(source | target) / |source|
    score = |H_f - H_b| + (H_f + H_b) / 2

Lengths are in pieces, the end counted; logarithms are natural. A good pair is probable both ways, and equally so: low
scores are good.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpus import Part, read_chunks
from transduce.translation.forced_scores import TargetScore
from transduce.translation.translator import Translator

_DEVIATIONS = 4.0  # from the median, beyond which a pair is dropped
# Times the median of distances from the median is the standard deviation of a normal distribution.
_TO_STANDARD = 1.4826


class Scorer(Protocol):
    """A model that scores given translations, such as `Translator`."""

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[TargetScore]:
        """Returns the score of each target, given its source."""


@dataclass(frozen=True)
class ScorerTowards:
    """A model of several target languages, asked for one of them."""

    model: Translator
    source_language: str  # "" for a model that is not given it
    target_language: str

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[TargetScore]:
        """Returns the score of each target, given its source."""
        return self.model.score(
            sources, targets, source_language=self.source_language, target_language=self.target_language
        )


def dual_cross_entropy(forward: Scorer, backward: Scorer, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
    """Returns the score of each pair.

    Args:
        forward: a model from source to target.
        backward: a model from target to source.
        pairs: source and target.
    """
    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    forth, back = (
        np.array([-each.log_probability / len(each.pieces) for each in scores], dtype=np.float64)
        for scores in (forward.score(sources, targets), backward.score(targets, sources))
    )
    return np.asarray(np.abs(forth - back) + (forth + back) / 2, dtype=np.float32)


def score_corpus(
    parts: Sequence[Part], chosen: NDArray[np.bool_], models: tuple[Scorer, Scorer], *, progress: bool
) -> NDArray[np.float32]:
    """Returns the scores of the chosen pairs of a corpus; NaN for others. `models` are forward and backward."""
    scores = np.full(len(chosen), np.nan, dtype=np.float32)
    for chunk in read_chunks(parts, "scoring pairs with two models", progress=progress):
        indices = np.flatnonzero(chosen[chunk.start : chunk.start + len(chunk.pairs)])
        if len(indices):
            scores[chunk.start + indices] = dual_cross_entropy(*models, [chunk.pairs[i] for i in indices.tolist()])
    return scores


def usual_limit(scores: NDArray[np.float32]) -> float:
    """Returns the score beyond which a pair is far from the median of the corpus; 0 if no pair has a score."""
    known = scores[np.isfinite(scores)].astype(np.float64)
    if not len(known):
        return 0.0
    median = float(np.median(known))
    return median + _DEVIATIONS * _TO_STANDARD * float(np.median(np.abs(known - median)))
