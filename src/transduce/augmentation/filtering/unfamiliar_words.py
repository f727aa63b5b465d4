"""Lines in a language that neither side should have, found by words that the side hardly ever uses.

Each word falls into a class by how frequent it is on its side of the corpus. What share of words each class has in the
right language is known from the side itself, and in a wrong one from the words of the *other* side, looked up in this
side's vocabulary: from French to English,

    class                    French words   English words, as if they were French
    not in the vocabulary          2 %          55 %
    less than 1 in 100 000         5 %          30 %
    …
    more than 1 in 100            35 %           1 %

The log-ratio of the two shares, summed over the words of a line, is the evidence that it is in the right language.
Words that both sides of the pair have are left out: names and quotations say nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.words import WORD, Tokens, distinct, line_keys

Floats = NDArray[np.float64]

_CLASSES = np.array([0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2])  # lower ends of the shares; the first is unknown words
_PRIOR = 20.0  # words added to each class
_MIN_WORDS = 4  # of a line
_MIN_EVIDENCE, _MIN_MEAN = 6.0, 0.7  # of a line that is in another language, in all and for each word


@dataclass(frozen=True, eq=False)
class UnfamiliarWords:
    """How a side's words are distributed over classes of frequency.

    Attributes:
        vocabulary: of the side.
        evidence: log-odds that a word is of the side's language, by class.
    """

    vocabulary: Vocabulary
    evidence: Floats

    @classmethod
    def learn(cls, vocabulary: Vocabulary, own: Tokens, other: Tokens) -> "UnfamiliarWords":
        """Learns from lines of the side itself and the same lines of the other side."""
        single = single_words(own, other)
        counts = [
            np.bincount(_classes(vocabulary, tokens), minlength=len(_CLASSES)) + _PRIOR
            for tokens in (own.where(single[0]), other.where(single[1]))
        ]
        shares = [count / count.sum() for count in counts]
        return cls(vocabulary, np.log(shares[0] / shares[1]))

    def find(self, words: Tokens) -> NDArray[np.bool_]:
        """Returns which lines are in another language, given their words that the other side does not have."""
        totals, counts = self._totals(words), words.counts
        return np.asarray((counts >= _MIN_WORDS) & (totals < -_MIN_EVIDENCE) & (totals < -_MIN_MEAN * counts))

    def fits(self, words: Tokens) -> NDArray[np.bool_]:
        """Returns which lines are in this language."""
        totals, counts = self._totals(words), words.counts
        return np.asarray((counts >= _MIN_WORDS) & (totals > _MIN_EVIDENCE / 2))

    def _totals(self, words: Tokens) -> Floats:
        evidence = self.evidence[_classes(self.vocabulary, words)]
        return np.asarray(np.bincount(words.lines, evidence, minlength=len(words)), dtype=np.float64)


def _classes(vocabulary: Vocabulary, tokens: Tokens) -> NDArray[np.int64]:
    ids = vocabulary.ids(tokens.hashes)
    shares = np.where(ids >= 0, np.append(vocabulary.shares, 0.0)[ids], 0.0)
    return np.searchsorted(_CLASSES, shares, side="right") - 1


def single_words(source: Tokens, target: Tokens) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns which tokens of each side are words that the same line of the other side does not have."""
    keys = [line_keys(side.hashes, side.lines) for side in (source, target)]
    return (source.kinds == WORD) & ~_among(keys[0], keys[1]), (target.kinds == WORD) & ~_among(keys[1], keys[0])


def _among(keys: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(others):
        return np.zeros(len(keys), dtype=bool)
    ordered = distinct(others)
    indices = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.asarray(ordered[indices] == keys)
