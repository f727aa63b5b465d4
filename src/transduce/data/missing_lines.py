"""Where lines are missing in one of two files: a guess, made only if the text is clear about it.

If one file has d extra lines, all in one place, then before that place line i of one file belongs to line i of the
other, and after it to line i + d. Three things that translations have in common show which: the numbers in the line,
its final punctuation, and its length. Each line votes. The place where the votes change is the answer, if the lines
just before it vote one way and those just after it the other.
"""

import re
import zlib
from collections.abc import Iterable
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from transduce.reporting.tables import counted

_MAX_LINES = 4_000_000  # each takes 9 bytes of memory a side
_WINDOW_LINES = 400  # before and after the place
_MIN_LINES = 8
_CLEAR = 4.0  # standard errors
_NUMBERS = re.compile(r"\d+")
_ENDINGS = {".": 1, "?": 2, "!": 3, ":": 4, ";": 5, ")": 6, "…": 1, "。": 1, "？": 2, "！": 3, "：": 4}


def describe_missing_lines(
    source: Iterable[str], target: Iterable[str], counts: tuple[int, int], names: tuple[str, str]
) -> str:
    """Returns a sentence, with a leading space, that says where lines are missing; empty if that is unclear.

    Args:
        source: the lines of one file.
        target: the lines of the other file.
        counts: the number of lines of each; they differ.
        names: the names of the two files.
    """
    if max(counts) > _MAX_LINES or min(counts) < _MIN_LINES:
        return ""
    longer, shorter = (_features(lines) for lines in ((source, target) if counts[0] > counts[1] else (target, source)))
    num_aligned = find_missing_lines(longer, shorter)
    if num_aligned is None:
        return ""
    name = names[0] if counts[0] > counts[1] else names[1]
    extra = counted(max(counts) - min(counts), "extra line")
    if num_aligned >= min(counts):
        return f" They seem to be aligned up to line {min(counts)}; {name} then has {extra}."
    return f" They probably differ from near line {num_aligned + 1} on, where {name} has {extra}."


Features = tuple[NDArray[np.float32], NDArray[np.uint32], NDArray[np.uint8]]


def _features(lines: Iterable[str]) -> Features:
    """Returns for each line the log of its length, a hash of its numbers (0: none), and its final punctuation."""
    lengths, numbers, endings = [], [], []
    for line in islice(lines, _MAX_LINES):
        digits = " ".join(sorted(_NUMBERS.findall(line)))
        lengths.append(len(line))
        numbers.append(zlib.crc32(digits.encode()) | 1 if digits else 0)
        endings.append(_ENDINGS.get(line.rstrip()[-1:], 0))
    return (
        np.log(np.array(lengths, dtype=np.float32) + 5),
        np.array(numbers, dtype=np.uint32),
        np.array(endings, dtype=np.uint8),
    )


def find_missing_lines(longer: Features, shorter: Features) -> int | None:
    """Returns how many lines are aligned before the extra lines of `longer`; None if that is unclear."""
    count = len(shorter[0])
    surplus = len(longer[0]) - count
    votes = _similarity(longer, shorter, 0, count) - _similarity(longer, shorter, surplus, count)
    gain = np.concatenate([[0.0], np.cumsum(votes)])  # gain[p]: the votes for the extra lines being at p
    split = int(np.argmax(gain))
    before = votes[max(0, split - _WINDOW_LINES) : split]
    after = -votes[split : split + _WINDOW_LINES]
    # Extra lines at the very start or end leave too few lines on one side. Then the other side decides alone.
    clear_before = _is_clear(before) or split < _MIN_LINES
    clear_after = _is_clear(after) or count - split < _MIN_LINES
    if not (clear_before and clear_after and (_is_clear(before) or _is_clear(after))):
        return None
    return count if count - split < _MIN_LINES else split


def _similarity(longer: Features, shorter: Features, offset: int, count: int) -> NDArray[np.float64]:
    lengths, numbers, endings = (feature[offset : offset + count] for feature in longer)
    stretch = float(np.median(longer[0]) - np.median(shorter[0]))
    same_length = -np.minimum(np.abs(lengths - shorter[0] - stretch), 1.0)
    any_number = (numbers != 0) | (shorter[1] != 0)
    same_numbers = np.where(any_number, np.where(numbers == shorter[1], 1.0, -1.0), 0.0)
    same_ending = np.where(endings == shorter[2], 0.5, -0.5)
    return np.asarray(2 * same_length + same_numbers + same_ending, dtype=np.float64)


def _is_clear(votes: NDArray[np.float64]) -> bool:
    """Returns whether the mean of `votes` is above zero by several standard errors."""
    if len(votes) < _MIN_LINES:
        return False
    error = float(votes.std()) / np.sqrt(len(votes)) + 1e-9
    return bool(votes.mean() / error > _CLEAR)
