"""Whether one parser's F1 is really above another's on the same sentences: a paired bootstrap (Koehn 2004)."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from transduce.errors import EvaluationError
from transduce.treebank.brackets import BracketEvaluation

_AT_ONCE = 200  # resamples of all sentences held in memory
_INTERVAL = (2.5, 97.5)  # percentiles


@dataclass(frozen=True, kw_only=True)
class PairedBootstrap:
    """F1 of two parsers, in per cent, over the sentences that could be compared with the gold trees for both."""

    num_sentences: int
    num_resamples: int
    f1: float
    other_f1: float
    low: float  # of the 95 % interval of `difference`
    high: float
    not_better: float  # per cent of the resamples in which F1 is not above the other's

    @property
    def difference(self) -> float:
        """How far F1 lies above the other's."""
        return self.f1 - self.other_f1

    def to_dict(self) -> dict[str, Any]:
        """Returns all figures for JSON."""
        return asdict(self) | {"difference": self.difference}


def paired_bootstrap(
    evaluation: BracketEvaluation, other: BracketEvaluation, *, num_resamples: int = 10_000, seed: int = 1
) -> PairedBootstrap:
    """Compares two parsers by resampling sentences: each resample draws as many, with replacement, for both alike.

    Args:
        evaluation: of one parser.
        other: of another parser, on the same sentences in the same order.
        num_resamples: how often the sentences are drawn.
        seed: of the draws.

    Raises:
        EvaluationError: the numbers of sentences differ, or no sentence is valid in both.
    """
    if len(evaluation.sentences) != len(other.sentences):
        raise EvaluationError(
            f"{len(evaluation.sentences):,} sentences cannot be paired with {len(other.sentences):,}: give both "
            "parsers' trees of the same sentences."
        )
    pairs = zip(evaluation.sentences, other.sentences, strict=True)
    both = [pair for pair in pairs if all(sentence.status == "valid" for sentence in pair)]
    if not both:
        raise EvaluationError("no sentence could be compared with the gold trees for both parsers.")
    # Of each sentence and both parsers: brackets matched, and brackets in all.
    counts_N22 = np.array([[(2 * each.matched, each.gold + each.parsed) for each in pair] for pair in both])
    generator = np.random.default_rng(seed)
    differences: list[float] = []
    while len(differences) < num_resamples:
        size = min(_AT_ONCE, num_resamples - len(differences))
        drawn_RN = generator.integers(len(both), size=(size, len(both)))
        ours, others = _f1(counts_N22[drawn_RN].sum(axis=1)).T
        differences += (ours - others).tolist()
    f1, other_f1 = _f1(counts_N22.sum(axis=0))
    low, high = np.percentile(differences, _INTERVAL)
    return PairedBootstrap(
        num_sentences=len(both),
        num_resamples=num_resamples,
        f1=float(f1),
        other_f1=float(other_f1),
        low=float(low),
        high=float(high),
        not_better=100 * float(np.mean(np.array(differences) <= 0)),
    )


def _f1(sums: np.ndarray) -> np.ndarray:
    """Returns F1 from sums whose last axis is as in `counts_N22`; 0 / 0 is 0."""
    return np.asarray(100 * sums[..., 0] / np.maximum(sums[..., 1], 1))
