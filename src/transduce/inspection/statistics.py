"""Statistics that distinguish heads: how far they attend, how widely, and whether to a fixed position.

Each is a mean over the rows of a head, "</s>" included. Where the numbers of rows and columns differ (source and
target), "the diagonal" is the straight line from the first row and column to the last.
"""

from dataclasses import dataclass

import numpy as np

from transduce.inspection.view import View


@dataclass(frozen=True, eq=False)
class HeadStatistics:
    """One number a head, (layers, heads) each, float64."""

    distance: np.ndarray  # mean of |column - diagonal|, in units (pieces or words)
    entropy: np.ndarray  # of a row, in bits: 0 for one unit; log2(n) for n units with equal weights
    peak: np.ndarray  # greatest weight of a row
    previous: np.ndarray  # weight one column before the diagonal
    diagonal: np.ndarray  # weight on the diagonal
    next: np.ndarray  # weight one column after it; 0 for the decoder, which does not see its future


def head_statistics(view: View) -> HeadStatistics:
    """Returns the statistics of all heads of a view.

    In the decoder's attention, column t is what was read at step t: there the diagonal is the latest piece written.
    """
    weights = view.weights.astype(np.float64)
    num_queries, num_keys = weights.shape[-2:]
    diagonal = np.arange(num_queries) * ((num_keys - 1) / max(num_queries - 1, 1))
    offset = np.abs(np.arange(num_keys) - diagonal[:, None])
    return HeadStatistics(
        distance=(weights * offset).sum(-1).mean(-1),
        entropy=entropy_bits(weights).mean(-1),
        peak=weights.max(-1).mean(-1),
        previous=_weight_at(weights, diagonal, -1),
        diagonal=_weight_at(weights, diagonal, 0),
        next=_weight_at(weights, diagonal, 1),
    )


def entropy_bits(weights: np.ndarray) -> np.ndarray:
    """Returns the entropy of each row of weights, in bits."""
    return np.asarray(np.abs((weights * np.log2(np.where(weights > 0, weights, 1.0))).sum(-1)))


def _weight_at(weights: np.ndarray, diagonal: np.ndarray, step: int) -> np.ndarray:
    """Returns the mean weight `step` columns from the diagonal, over the rows that have such a column."""
    columns = np.rint(diagonal).astype(int) + step
    rows = np.flatnonzero((columns >= 0) & (columns < weights.shape[-1]))
    if not rows.size:
        return np.zeros(weights.shape[:2])
    return np.asarray(weights[..., rows, columns[rows]].mean(-1))
