"""Pairs that repeat an earlier one, found by their hashes in a few bytes of memory for each pair."""

import numpy as np
from numpy.typing import NDArray


def find_repeats(hashes: NDArray[np.integer], among: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the indices of pairs whose hash an earlier pair has, and the first such pair of each, in order.

    Args:
        hashes: of each pair.
        among: the pairs that count.
    """
    indices = np.flatnonzero(among)
    ordered = np.sort(hashes[indices])
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(repeated):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    # Few pairs repeat. Only those are compared, to save memory.
    nearest = np.minimum(np.searchsorted(repeated, hashes[indices]), len(repeated) - 1)
    suspects = indices[repeated[nearest] == hashes[indices]]
    _, first, group = np.unique(hashes[suspects], return_index=True, return_inverse=True)
    earliest = suspects[first[group]]
    is_later = earliest != suspects
    return suspects[is_later], earliest[is_later]
