"""Lines that are in the other side's language: naive Bayes over byte trigrams, learned from the corpus itself.

This needs no list of languages and no other model. The question is only whether a line looks more like the lines of
the other side than like those of its own. The log-odds of a trigram are log P(trigram | source) - log P(trigram |
target); those of a line are the mean over its trigrams. From English to German:

    "the dog runs"     +0.9     typical of a source line
    "der Hund rennt"   -1.0     typical of a target line
    "Angela Merkel"    -0.2     a name says little

A line is *misplaced* if its mean is on the other side of zero and at least halfway to what is typical there. Short
lines are skipped. So is a corpus with indistinguishable sides: a copy task, simplification, close dialects. A third
language looks like neither side, and is not found.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Lines = Sequence[str]

SAMPLE_PAIRS = 20_000  # half of them to learn from, the other half to test what was learned
_MIN_TRIGRAMS = 24  # of a line; about as many letters
_MIN_LINES = 100  # of each side to test with
# A file is in the wrong language if this share of its lines is, or all of them if there are few.
_MIN_JUDGED, _MOST = 20, 0.6
_MIN_JUDGED_ALL = 8
_MIN_RIGHT = 0.95  # share of the test lines that must be recognised

_MAX_CHARACTERS = 1000  # read of a line, to bound time and memory
_BLOCK_LINES = 4096
_TABLE_BITS = 18
_MAX_ODDS = 3.0  # so that one rare trigram cannot outweigh a sentence
_PRIOR = 0.5  # added to every count

_LETTERS_ONLY = bytes(byte if byte >= 0x80 or chr(byte).isalpha() else 0x20 for byte in range(256))
_LINE_FEED, _BLANK = 0x0A, 0x202020


@dataclass(frozen=True)
class SideLanguages:
    """What the two sides of a corpus look like.

    Attributes:
        odds: log-odds of each trigram, by its hash: above 0 if it is more frequent in the source.
        typical: the median over lines of the mean log-odds, in the source (above 0) and in the target (below 0).
    """

    odds: NDArray[np.float32]
    typical: tuple[float, float]

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]]) -> "SideLanguages | None":
        """Learns from the first `SAMPLE_PAIRS` pairs that are long enough, and reads no further.

        Returns None if the sides cannot be distinguished, or if there are too few lines.
        """
        long = (pair for pair in pairs if min(len(line.encode(errors="replace")) for line in pair) >= _MIN_TRIGRAMS)
        sample = [(src[:_MAX_CHARACTERS], tgt[:_MAX_CHARACTERS]) for src, tgt in islice(long, SAMPLE_PAIRS)]
        learned, test = ([[pair[side] for pair in sample[start::2]] for side in (0, 1)] for start in (0, 1))
        odds = _log_odds(_counts(learned[0]), _counts(learned[1]))
        sides = cls(odds, (0.0, 0.0))
        means = [sides.mean_odds(lines) for lines in test]
        judged = [side[np.isfinite(side)] for side in means]
        if min(map(len, judged)) < _MIN_LINES:
            return None
        if np.mean(judged[0] > 0) < _MIN_RIGHT or np.mean(judged[1] < 0) < _MIN_RIGHT:
            return None
        return cls(odds, (float(np.median(judged[0])), float(np.median(judged[1]))))

    def misplaced(self, lines: Lines, side: int) -> list[int]:
        """Returns which lines of `side` (0 source, 1 target) are in the other side's language."""
        means = self.mean_odds(lines)
        wrong = means > self.typical[0] / 2 if side else means < self.typical[1] / 2
        indices: list[int] = np.flatnonzero(wrong).tolist()
        return indices

    def wrong_sides(self, pairs: Sequence[tuple[str, str]]) -> tuple[bool, bool]:
        """Returns for each side whether most of its lines that are long enough are in the other side's language."""
        source, target = (self.mean_odds([pair[side] for pair in pairs]) for side in (0, 1))
        return (
            _are_most(source < self.typical[1] / 2, int(np.isfinite(source).sum())),
            _are_most(target > self.typical[0] / 2, int(np.isfinite(target).sum())),
        )

    def exchanged(self) -> "SideLanguages":
        """Returns the same with source and target exchanged."""
        return SideLanguages(-self.odds, (-self.typical[1], -self.typical[0]))

    def mean_odds(self, lines: Lines) -> NDArray[np.float64]:
        """Returns the mean log-odds of each line's trigrams; NaN for a line with too few letters."""
        blocks = [np.zeros(0)]
        for hashes, used, starts in _blocks_of_trigrams(lines):
            sums = np.add.reduceat(np.where(used, self.odds[hashes], 0.0), starts)
            counts = np.add.reduceat(used.astype(np.int64), starts)
            blocks.append(np.where(counts >= _MIN_TRIGRAMS, sums / np.maximum(counts, 1), np.nan))
        return np.concatenate(blocks)


def _are_most(wrong: NDArray[np.bool_], num_lines: int) -> bool:
    if num_lines < _MIN_JUDGED:
        return num_lines >= _MIN_JUDGED_ALL and int(wrong.sum()) == num_lines
    return bool(wrong.sum() > _MOST * num_lines)


def _blocks_of_trigrams(lines: Lines) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.bool_], NDArray[np.int64]]]:
    """Yields the byte trigrams of some lines at a time, line ends being bytes too.

    Three arrays: the index of each trigram in a table; whether it counts, which those of white space alone do not, nor
    those that span two lines; and where each line begins.
    """
    for start in range(0, len(lines), _BLOCK_LINES):
        block = [line[:_MAX_CHARACTERS] for line in lines[start : start + _BLOCK_LINES]]
        text = ("\n" + "\n".join(block).lower() + "\n\n").encode(errors="replace")
        feeds = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == _LINE_FEED)[:-1]
        last = np.cumsum([1 + line.count("\n") for line in block])  # several short lines may be joined
        letters = np.frombuffer(text.translate(_LETTERS_ONLY), dtype=np.uint8).astype(np.uint32)
        trigrams = letters[:-2] << np.uint32(16) | letters[1:-1] << np.uint32(8) | letters[2:]
        used = trigrams != _BLANK
        used[feeds[1:] - 1] = False
        hashes = (trigrams * np.uint32(2654435761)) >> np.uint32(32 - _TABLE_BITS)
        yield hashes, used, feeds[[0, *last[:-1]]]


def _counts(lines: Lines) -> NDArray[np.int64]:
    counts = np.zeros(1 << _TABLE_BITS, dtype=np.int64)
    for hashes, used, _ in _blocks_of_trigrams(lines):
        counts += np.bincount(hashes[used], minlength=len(counts))
    return counts


def _log_odds(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.float32]:
    seen = (source + target) > 0
    num_seen = np.count_nonzero(seen)
    shares = [np.log((counts + _PRIOR) / (counts.sum() + _PRIOR * num_seen + 1e-9)) for counts in (source, target)]
    odds = np.clip(shares[0] - shares[1], -_MAX_ODDS, _MAX_ODDS)
    return np.where(seen, odds, 0.0).astype(np.float32)
