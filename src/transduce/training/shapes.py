"""The sizes of a plan's batches, and what it costs to round them up to few."""

import numpy as np

from transduce.data.batching import BatchPlan
from transduce.data.store import Pairs
from transduce.model.packing import ROUNDED_MULTIPLE, num_rows, rounded_size


def plan_sizes(plan: BatchPlan, pairs: Pairs, *, rounded: bool) -> tuple[int, int, int]:
    """Returns sums over the batches of a plan for `pairs`, as they are or rounded up.

    These are how many numbers of rows there are, as which most of a model's tensors have; all rows, what all but
    attention computes; and all positions, with padding, what attention computes.
    """
    counts, num_positions = list[int](), 0
    for lengths in (pairs.source_lengths, pairs.target_lengths):
        of_rows, starts = lengths[plan.rows].astype(np.int64), plan.starts[:-1]
        longest, tokens = np.maximum.reduceat(of_rows, starts), np.add.reduceat(of_rows, starts)
        for num_sentences, length, real in zip(np.diff(plan.starts), longest, tokens, strict=True):
            shape = int(num_sentences), int(length)
            if rounded:
                shape = rounded_size(shape[0]), rounded_size(shape[1], ROUNDED_MULTIPLE)
            counts.append(num_rows(int(real), *shape, rounded=rounded))
            num_positions += shape[0] * shape[1]
    return len(set(counts)), sum(counts), num_positions


def describe_rounding(plan: BatchPlan, pairs: Pairs) -> str:
    """Returns a line that says how few sizes rounding leaves, and what is computed for it."""
    num_exact, exact_rows, exact_positions = plan_sizes(plan, pairs, rounded=False)
    num_rounded, rows, positions = plan_sizes(plan, pairs, rounded=True)
    return (
        f"batches with {num_rounded:,} numbers of rows instead of {num_exact:,}, for {rows / exact_rows - 1:.1%} more "
        f"rows, and {positions / exact_positions - 1:.1%} more positions in attention"
    )
