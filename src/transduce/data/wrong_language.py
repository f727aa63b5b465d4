"""Lines that are in the other side's language: naive Bayes over byte trigrams, learned from the corpus itself.

No list of languages and no model from elsewhere. All that is asked is whether a line looks more like the lines of the
other side than like those of its own, and the corpus knows what its sides look like. The log-odds of a trigram are
log P(trigram | source) - log P(trigram | target); a line's are the mean of its trigrams'. From English to German:

    "the dog runs"     +0.9     typical of a source line
    "der Hund rennt"   -1.0     typical of a target line
    "Angela Merkel"    -0.2     a name says little

A line is *misplaced* if its mean is on the other side of zero and at least halfway to what is typical there. Short
lines are not judged, nor is a corpus whose sides cannot be told apart: a copy task, simplification, close dialects.
A third language looks like neither side, and is not found.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Lines = Sequence[str]

SAMPLE_PAIRS = 20_000  # every second one is learned from; the others test what was learned
_MIN_TRIGRAMS = 24  # of a line that is judged: about as many letters
_MIN_LINES = 100  # of each side to test with
# Lines of a file that is said to be in the wrong language; and the share of them that must be. Of fewer, all must be.
_MIN_JUDGED, _MOST = 20, 0.6
_MIN_JUDGED_ALL = 8
_MIN_RIGHT = 0.95  # share of the test lines that must be on their own side of zero

_MAX_CHARACTERS = 1000  # of a line that are looked at: a bound for time and memory
_BLOCK_LINES = 4096
_TABLE_BITS = 18
_MAX_ODDS = 3.0  # no rare trigram may outweigh a sentence
_PRIOR = 0.5  # added to every count

_LETTERS_ONLY = bytes(byte if byte >= 0x80 or chr(byte).isalpha() else 0x20 for byte in range(256))
_LINE_FEED, _BLANK = 0x0A, 0x202020


@dataclass(frozen=True)
class SideLanguages:
    """What the two sides of a corpus look like.

    Attributes:
        odds: of each trigram, by its hash: above 0 where it is more frequent in the source.
        typical: the median of a line's mean odds, in the source (above 0) and in the target (below 0).
    """

    odds: NDArray[np.float32]
    typical: tuple[float, float]

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]]) -> "SideLanguages | None":
        """Learns from the first `SAMPLE_PAIRS` pairs of some length; reads no further than it must.

        Returns None where the sides cannot be told apart, or there are too few lines to tell.
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
        """Returns which of the lines, which stand on `side` (0 source, 1 target), are in the other side's language."""
        means = self.mean_odds(lines)
        wrong = means > self.typical[0] / 2 if side else means < self.typical[1] / 2
        places: list[int] = np.flatnonzero(wrong).tolist()
        return places

    def turned(self, pairs: Sequence[tuple[str, str]]) -> tuple[bool, bool]:
        """Returns for each side whether most of its lines that can be judged are in the other side's language."""
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
        for trigrams in _blocks_of_trigrams(lines):
            odds = np.where(trigrams.telling, self.odds[trigrams.hashes], 0.0)
            sums = np.add.reduceat(odds, trigrams.starts)
            counts = np.add.reduceat(trigrams.telling.astype(np.int64), trigrams.starts)
            blocks.append(np.where(counts >= _MIN_TRIGRAMS, sums / np.maximum(counts, 1), np.nan))
        return np.concatenate(blocks)


def _are_most(wrong: NDArray[np.bool_], num_judged: int) -> bool:
    if num_judged < _MIN_JUDGED:
        return num_judged >= _MIN_JUDGED_ALL and int(wrong.sum()) == num_judged
    return bool(wrong.sum() > _MOST * num_judged)


@dataclass(frozen=True)
class _Trigrams:
    """The byte trigrams of some lines, end to end: as many of each line as it has bytes, for its ends count as well.

    Attributes:
        hashes: place of each trigram in a table.
        telling: False for those of white space alone, and for those that reach into the next line.
        starts: where each line's begin.
    """

    hashes: NDArray[np.uint32]
    telling: NDArray[np.bool_]
    starts: NDArray[np.int64]


def _blocks_of_trigrams(lines: Lines) -> Iterator[_Trigrams]:
    for start in range(0, len(lines), _BLOCK_LINES):
        block = [line[:_MAX_CHARACTERS] for line in lines[start : start + _BLOCK_LINES]]
        text = ("\n" + "\n".join(block).lower() + "\n\n").encode(errors="replace")
        feeds = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == _LINE_FEED)[:-1]
        last = np.cumsum([1 + line.count("\n") for line in block])  # several short ones may be judged as one
        letters = np.frombuffer(text.translate(_LETTERS_ONLY), dtype=np.uint8).astype(np.uint32)
        trigrams = letters[:-2] << np.uint32(16) | letters[1:-1] << np.uint32(8) | letters[2:]
        telling = trigrams != _BLANK
        telling[feeds[1:] - 1] = False
        hashes = (trigrams * np.uint32(2654435761)) >> np.uint32(32 - _TABLE_BITS)
        yield _Trigrams(hashes, telling, feeds[[0, *last[:-1]]])


def _counts(lines: Lines) -> NDArray[np.int64]:
    counts = np.zeros(1 << _TABLE_BITS, dtype=np.int64)
    for trigrams in _blocks_of_trigrams(lines):
        counts += np.bincount(trigrams.hashes[trigrams.telling], minlength=len(counts))
    return counts


def _log_odds(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.float32]:
    seen = (source + target) > 0
    num_seen = np.count_nonzero(seen)
    shares = [np.log((counts + _PRIOR) / (counts.sum() + _PRIOR * num_seen + 1e-9)) for counts in (source, target)]
    odds = np.clip(shares[0] - shares[1], -_MAX_ODDS, _MAX_ODDS)
    return np.where(seen, odds, 0.0).astype(np.float32)
