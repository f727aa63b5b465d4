"""The words that one side of a corpus uses, numbered from the most frequent on."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.words import Tokens
from transduce.text.hashes import Hashes

_TABLE_BITS = 22
_MIN_COUNT = 2  # nothing can be learned from a word that occurs once


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words by number.

    Attributes:
        words: the hash of each word, most frequent first.
        shares: the frequency of each word as a share of all tokens.
    """

    words: Hashes
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, tokens: Tokens, max_words: int = 20_000) -> "Vocabulary":
        """Returns the most frequent words of a text."""
        words, counts = np.unique(tokens.hashes, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:max_words]
        order = order[counts[order] >= _MIN_COUNT]
        return cls(words[order], counts[order] / max(1, len(tokens.hashes)))

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _table(self) -> NDArray[np.int32]:
        table = np.full(1 << _TABLE_BITS, -1, dtype=np.int32)
        slots = _slots(self.words)
        table[slots[::-1]] = np.arange(len(self.words), dtype=np.int32)[::-1]  # of two in one slot, the more frequent
        return table

    def ids(self, hashes: Hashes) -> NDArray[np.int64]:
        """Returns the number of each word; -1 for words that are not known."""
        if not len(self.words):
            return np.full(len(hashes), -1, dtype=np.int64)
        found = self._table[_slots(hashes)].astype(np.int64)
        return np.where((found >= 0) & (self.words[found] == hashes), found, -1)


def _slots(hashes: Hashes) -> NDArray[np.int64]:
    return (hashes >> np.uint64(64 - _TABLE_BITS)).astype(np.int64)
