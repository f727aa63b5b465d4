"""Pairs that are nearly the same as an earlier one: MinHash with banding (Broder 1997), then a check of the words.

A pair is the set of its words, source and target separately, without case and punctuation, and with one sign for every
number. The similarity of two pairs is the share of words that they have in common, |A ∩ B| / |A ∪ B|. The least hash of
a set's words, for a random hash function, is the same for two sets with just this probability. `_BANDS` keys are each
made of `_ROWS` such values. Pairs that share a key are candidates; their words then decide:

    similarity        0.3   0.5   0.7   0.8   0.9
    are candidates     6 %  40 %  89 %  98 %  all

Each pair is compared with at most `_MAX_CANDIDATES` earlier ones, those with the most keys in common first.

Memory: 4 bytes for each pair and band, and the words of candidates while the corpus is read for the last time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.words import NUMBER, SIGN, Tokens, distinct
from transduce.data.duplicates import find_repeats

_BANDS, _ROWS = 8, 4
_MAX_CANDIDATES = 3
_MULTIPLIERS = np.random.Generator(np.random.PCG64(17)).integers(0, 1 << 31, _BANDS * _ROWS, dtype=np.uint32) * 2 + 1
_KEY_MULTIPLIERS = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], dtype=np.uint64
)
_SALTS = (np.uint64(0), np.uint64(0x5851F42D4C957F2D))  # of source and target
_NUMBER_HASH = np.uint64(0xD1B54A32D192ED03)
_LARGEST = np.uint32(0xFFFFFFFF)

Keys = NDArray[np.uint32]


def _word_hashes(tokens: Tokens, salt: np.uint64) -> tuple[Keys, NDArray[np.int64]]:
    """Returns the hashes of words and numbers, and where each line's begin."""
    words = tokens.where(tokens.kinds != SIGN)
    hashes = np.where(words.kinds == NUMBER, _NUMBER_HASH, words.hashes) ^ salt
    return (hashes >> np.uint64(16)).astype(np.uint32), words.starts


def band_keys(source: Tokens, target: Tokens) -> Keys:
    """Returns the keys of each pair, (lines, bands); 0 for pairs without words."""
    sides = [_word_hashes(tokens, salt) for tokens, salt in zip((source, target), _SALTS, strict=True)]
    keys = np.zeros((len(source), _BANDS), dtype=np.uint64)
    has_words = np.any([np.diff(starts) > 0 for _, starts in sides], axis=0)
    for number, multiplier in enumerate(_MULTIPLIERS):
        least = np.full(len(source), _LARGEST)
        for hashes, starts in sides:
            filled = np.flatnonzero(np.diff(starts))
            least[filled] = np.minimum(least[filled], np.minimum.reduceat(hashes * multiplier, starts[filled]))
        band, row = divmod(number, _ROWS)
        keys[:, band] ^= (least.astype(np.uint64) + np.uint64(1)) * _KEY_MULTIPLIERS[row]
    keys ^= keys >> np.uint64(29)
    return np.where(has_words[:, None], (keys * _KEY_MULTIPLIERS[0]) >> np.uint64(32), 0).astype(np.uint32)


@dataclass(eq=False)
class NearDuplicates:
    """Compares candidates while the corpus is read.

    Attributes:
        later: for each candidate, the index of the pair that may be dropped, in rising order.
        earlier: the pair before it that it may repeat.
        min_similarity: from which on it does.
    """

    later: NDArray[np.int64]
    earlier: NDArray[np.int64]
    min_similarity: float
    _needed: NDArray[np.int64] = field(init=False)
    _words: dict[int, Keys] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._needed = np.unique(np.concatenate([self.later, self.earlier]))
        self._last_use = dict(zip(self.earlier.tolist(), self.later.tolist(), strict=True))  # `later` rises

    @classmethod
    def among(cls, keys: Keys, kept: NDArray[np.bool_], min_similarity: float) -> "NearDuplicates":
        """Finds the candidates among the pairs that are kept so far."""
        codes = [np.zeros(0, dtype=np.int64)]
        for band in range(keys.shape[1]):
            later, earlier = find_repeats(keys[:, band], kept & (keys[:, band] != 0))
            codes.append(later << 32 | earlier)
        pairs, shared = np.unique(np.concatenate(codes), return_counts=True)
        order = np.lexsort((pairs, -shared, pairs >> 32))
        later = pairs[order] >> 32
        rank = np.arange(len(later)) - np.searchsorted(later, later)
        chosen = order[rank < _MAX_CANDIDATES]
        return cls(pairs[chosen] >> 32, pairs[chosen] & 0xFFFFFFFF, min_similarity)

    def needed(self, first: int, count: int) -> list[int]:
        """Returns the pairs from `first` on, of `count`, whose words `find` must be given."""
        low, high = np.searchsorted(self._needed, [first, first + count])
        chosen: list[int] = self._needed[low:high].tolist()
        return chosen

    def find(self, pairs: Sequence[int], source: Tokens, target: Tokens) -> Iterator[tuple[int, int, float]]:
        """Yields each of `pairs` that repeats an earlier one, that one, and their similarity."""
        sides = [_word_hashes(tokens, salt) for tokens, salt in zip((source, target), _SALTS, strict=True)]
        codes = [np.repeat(np.arange(len(pairs)), np.diff(starts)) << 32 | hashes for hashes, starts in sides]
        ordered = distinct(np.concatenate(codes))
        starts = np.searchsorted(ordered, np.arange(len(pairs) + 1) << 32)
        hashes = (ordered & 0xFFFFFFFF).astype(np.uint32)
        for number, pair in enumerate(pairs):
            words = hashes[starts[number] : starts[number + 1]]
            low, high = np.searchsorted(self.later, [pair, pair + 1])
            for earlier in self.earlier[low:high].tolist():
                similarity = _similarity(words, self._words[earlier])
                if similarity >= self.min_similarity:
                    yield pair, earlier, similarity
                    break
            for earlier in self.earlier[low:high].tolist():
                if self._last_use[earlier] == pair:
                    del self._words[earlier]
            if pair in self._last_use:
                self._words[pair] = words.copy()  # not the whole array that it is a part of


def _similarity(first: Keys, second: Keys) -> float:
    least, most = sorted((len(first), len(second)))
    if least == 0 or least / most < 0.5:
        return 0.0
    indices = np.minimum(first.searchsorted(second), len(first) - 1)
    common = int(np.count_nonzero(first[indices] == second))
    return common / (len(first) + len(second) - common)
