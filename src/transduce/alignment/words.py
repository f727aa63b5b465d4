"""The words of many lines as numbers, in numpy: what every rule that compares words starts from.

A word is a run of letters and digits; each punctuation mark and symbol is a token of its own. In scripts without
spaces between words, pairs of neighbouring characters replace words. Case is ignored. Each token becomes a hash of 64
bits, the same in every process. A Python loop over the words of a large corpus would cost more than all rules together.

With the hashes of `text/hashes.py`, each token costs one subtraction and one multiplication.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.text.hashes import NUM_CODES, UNSPACED_RANGES, Hashes, codes_of, mixed, powers

MAX_CHARACTERS = 1000  # read of a line, to bound time and memory
WORD, NUMBER, SIGN = 0, 1, 2  # the kinds of tokens
LINE_SHIFT = 39  # of the line in a key

_BLOCK_LINES = 512
_SPACE, _LETTER, _SIGN, _UNSPACED = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class OfLines:
    """What several lines have, one line after another.

    Attributes:
        starts: what line i has is at `starts[i]:starts[i + 1]`.
    """

    starts: NDArray[np.int64] = field(kw_only=True)

    def __len__(self) -> int:
        """Returns the number of lines."""
        return len(self.starts) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many each line has."""
        return np.diff(self.starts)

    @property
    def lines(self) -> NDArray[np.int64]:
        """The line of each."""
        return np.repeat(np.arange(len(self)), self.counts)


@dataclass(frozen=True, eq=False)
class Tokens(OfLines):
    """The tokens of several lines, in order.

    Attributes:
        hashes: of each token.
        kinds: `WORD`, `NUMBER` (it starts with a digit) or `SIGN`, of each token.
    """

    hashes: Hashes
    kinds: NDArray[np.uint8]

    def counts_of(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns the number of chosen tokens of each line."""
        return np.bincount(self.lines[chosen], minlength=len(self))

    def where(self, chosen: NDArray[np.bool_]) -> "Tokens":
        """Returns the chosen tokens alone."""
        before = np.concatenate([[0], np.cumsum(chosen)])
        return Tokens(self.hashes[chosen], self.kinds[chosen], starts=before[self.starts])

    def of_lines(self, lines: NDArray[np.int64]) -> "Tokens":
        """Returns the tokens of some of the lines, in the given order."""
        counts = self.counts[lines]
        starts = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.arange(starts[-1]) + np.repeat(self.starts[lines] - starts[:-1], counts)
        return Tokens(self.hashes[chosen], self.kinds[chosen], starts=starts)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Returns the distinct values in rising order; for many of them much faster than `np.unique`."""
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def line_keys(hashes: Hashes, lines: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns a key of line and word for each of some tokens: the upper 24 bits are the line, plus 1."""
    return (lines + 1) << LINE_SHIFT | (hashes >> np.uint64(25)).astype(np.int64)


def tokens_of(lines: Sequence[str]) -> Tokens:
    """Returns the tokens of lines; only the first `MAX_CHARACTERS` characters of a line are read."""
    return joined([_block(lines[start : start + _BLOCK_LINES]) for start in range(0, len(lines), _BLOCK_LINES)])


def token_spans(lines: Sequence[str]) -> NDArray[np.int64]:
    """Returns where the tokens of `tokens_of` begin and end in their lines, (N, 2), in characters."""
    found = [np.zeros((0, 2), np.int64)]
    for start in range(0, len(lines), _BLOCK_LINES):
        codes, begins, ends = _cut(lines[start : start + _BLOCK_LINES])
        line_starts = np.concatenate([[0], np.flatnonzero(codes == ord("\n")) + 1])
        offsets = line_starts[np.searchsorted(line_starts, begins, side="right") - 1]
        found.append(np.stack([begins - offsets, ends - offsets], axis=1))
    return np.concatenate(found)


def joined(parts: Sequence[Tokens]) -> Tokens:
    """Returns the tokens of several groups of lines as those of one."""
    return Tokens(
        np.concatenate([np.zeros(0, np.uint64), *(part.hashes for part in parts)]),
        np.concatenate([np.zeros(0, np.uint8), *(part.kinds for part in parts)]),
        starts=np.cumsum(np.concatenate([np.zeros(1, np.int64), *(part.counts for part in parts)])),
    )


def _block(lines: Sequence[str]) -> Tokens:
    classes_of, folded_of, digits_of = _characters()
    codes, begins, ends = _cut(lines)
    classes = classes_of[codes]
    # A character of an unspaced script and the one after it make a token.
    ends = ends + ((classes[begins] == _UNSPACED) & (classes[np.minimum(ends, len(codes) - 1)] == _UNSPACED))
    rising, inverses = powers(len(codes))
    sums = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(folded_of[codes] * rising, out=sums[1:])
    hashes = mixed((sums[ends] - sums[begins]) * inverses[begins])
    kinds = np.where(classes[begins] == _SIGN, SIGN, np.where(digits_of[codes[begins]], NUMBER, WORD))
    line_ends = np.flatnonzero(codes == ord("\n"))
    starts = np.searchsorted(begins, np.concatenate([[0], line_ends]))
    return Tokens(hashes, kinds.astype(np.uint8), starts=starts.astype(np.int64))


def _cut(lines: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the characters of lines, a line feed after each, and where runs of letters and single characters are."""
    codes = codes_of("\n".join([line[:MAX_CHARACTERS] for line in lines]) + "\n")
    classes = _characters()[0][codes]
    boundary = np.ones(len(codes) + 1, dtype=bool)
    boundary[1:-1] = (classes[1:] != classes[:-1]) | (classes[1:] >= _SIGN)
    edges = np.flatnonzero(boundary)
    is_token = classes[edges[:-1]] != _SPACE
    return codes, edges[:-1][is_token], edges[1:][is_token]


@cache
def _characters() -> tuple[NDArray[np.uint8], Hashes, NDArray[np.bool_]]:
    """Returns for each code point its class, its lower case, and whether it is a digit."""
    characters = [chr(code) for code in range(NUM_CODES - 1)]
    major = np.array([unicodedata.category(character)[0] for character in characters] + ["C"])
    classes = np.where(np.isin(major, ["L", "N", "M"]), _LETTER, np.where(np.isin(major, ["P", "S"]), _SIGN, _SPACE))
    classes = classes.astype(np.uint8)
    lower = [character.lower() for character in characters]
    folded = np.array([ord(low if len(low) == 1 else same) for low, same in zip(lower, characters, strict=True)])
    folded = np.append(folded, NUM_CODES - 1).astype(np.uint64)
    for first, last in UNSPACED_RANGES:
        inside = classes[first : last + 1]
        inside[inside == _LETTER] = _UNSPACED
    folded[ord("’")] = ord("'")
    return classes, folded + np.uint64(1), major == "N"
