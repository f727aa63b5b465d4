"""The lines of an epoch: which pairs of the store each one consists of.

A line is a pair, or 2 to 4 pairs of one corpus that `merge` has joined. Each pair of the epoch is in one line, so an
epoch has the same text with `merge` as without. The pairs of a corpus are put into a random order, which is cut:

    random order   7 2 | 5 | 0 | 9 4 1 | 3 | …        lines of 2, 1, 1, 3, 1, … pairs
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import Indices, random_numbers, random_numbers_at

_MOST = 4  # pairs of a line


@dataclass(frozen=True)
class Lines:
    """The lines of an epoch.

    Attributes:
        rows: of the store, those of all lines one after the other.
        starts: where each line begins in `rows`, and at the end the number of rows.
        keys: a number for each line that no other line of the epoch has: its first row, and how often that came before.
    """

    rows: Indices
    starts: Indices
    keys: Indices

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, line: int) -> list[int]:
        """Returns the rows of a line."""
        found: list[int] = self.rows[self.starts[line] : self.starts[line + 1]].tolist()
        return found

    def select(self, lines: Indices) -> "Lines":
        """Returns some of the lines, in this order."""
        sizes = self.starts[lines + 1] - self.starts[lines]
        starts = np.append(0, np.cumsum(sizes))
        indices = np.repeat(self.starts[lines] - starts[:-1], sizes) + np.arange(starts[-1])
        return Lines(self.rows[indices], starts, self.keys[lines])

    def lengths(self, of_rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Returns the tokens of each line, EOS counted once, from those of each row of the store."""
        if len(self.rows) == len(self.keys):
            return of_rows[self.rows]
        sums = np.add.reduceat(of_rows[self.rows].astype(np.int64), self.starts[:-1])
        return (sums - np.diff(self.starts) + 1).astype(np.int32)


def single_lines(rows: Indices | None, num_rows: int) -> Lines:
    """Returns a line for each of `rows`, of a store of `num_rows`, some perhaps several times; None: each row once."""
    if rows is None:
        every = np.arange(num_rows)
        return Lines(every, np.arange(num_rows + 1), every)
    order = np.argsort(rows, kind="stable")
    in_order = rows[order]
    times = np.empty_like(order)
    times[order] = np.arange(len(rows)) - np.searchsorted(in_order, in_order, side="left")
    return Lines(rows, np.arange(len(rows) + 1), rows + times * num_rows)


def merged_lines(
    lines: Lines,
    ends: Sequence[int],
    lengths: Sequence[NDArray[np.int32]],
    *,
    probability: float,
    most_tokens: int,
    seed: int,
    epoch: int,
) -> Lines:
    """Returns lines of several pairs.

    Args:
        lines: of one pair each, corpus by corpus.
        ends: where each corpus ends in the store.
        lengths: of the sources and of the targets in the store, EOS counted.
        probability: that a line consists of several pairs.
        most_tokens: longer lines are not made: their pairs stay alone.
        seed: of the run.
        epoch: number of the epoch.
    """
    rows, firsts = [], []
    of_corpus = np.searchsorted(ends, lines.rows, side="right")
    bounds = np.searchsorted(of_corpus, np.arange(len(ends) + 1)).tolist()
    for corpus, (begin, end) in enumerate(pairwise(bounds)):
        keys = lines.keys[begin:end]
        order = np.argsort(random_numbers_at(keys, seed, epoch, salt=_salt("order")), kind="stable")
        numbers = random_numbers(len(keys), seed, epoch, salt=_salt(f"sizes {corpus}"))
        several = numbers.astype(np.float64) < probability * 2.0**64
        sizes = np.where(several, 2 + (numbers % np.uint64(_MOST - 1)).astype(np.int64), 1)
        starts = np.cumsum(sizes) - sizes
        first = np.zeros(len(keys), dtype=np.bool_)
        first[starts[starts < len(keys)]] = True
        rows.append(begin + order)
        firsts.append(first)
    order, first = np.concatenate(rows), np.concatenate(firsts)
    group = np.cumsum(first) - 1
    merged = Lines(lines.rows[order], np.append(np.flatnonzero(first), len(order)), lines.keys[order][first])
    too_long = np.logical_or(*(merged.lengths(each) > most_tokens for each in lengths))
    first |= too_long[group]
    return Lines(lines.rows[order], np.append(np.flatnonzero(first), len(order)), lines.keys[order][first])


def _salt(name: str) -> int:
    return zlib.crc32(f"merge {name}".encode())
