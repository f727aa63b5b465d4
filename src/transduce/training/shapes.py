"""The sizes of a plan's batches, and what it costs to round them up to few."""

from dataclasses import dataclass

import numpy as np

from transduce.data.batching import BatchPlan
from transduce.data.store import ParallelStore
from transduce.model.packing import ROUNDED_MULTIPLE, num_rows, rounded_size


@dataclass(frozen=True)
class PlanSizes:
    """Sums over the batches of a plan, each as a whole and both of its sides."""

    row_counts: int  # different numbers of rows: most of a model's tensors have as many rows
    rows: int  # what all but attention computes
    positions: int  # what attention computes, with padding

    @classmethod
    def of(cls, plan: BatchPlan, store: ParallelStore, *, rounded: bool) -> "PlanSizes":
        """Returns the sums for batches as they are, or rounded up."""
        counts, positions = list[int](), 0
        for lengths in (store.source_lengths, store.target_lengths):
            of_rows, starts = lengths[plan.rows].astype(np.int64), plan.starts[:-1]
            longest, tokens = np.maximum.reduceat(of_rows, starts), np.add.reduceat(of_rows, starts)
            for num_sentences, length, real in zip(np.diff(plan.starts), longest, tokens, strict=True):
                shape = int(num_sentences), int(length)
                if rounded:
                    shape = rounded_size(shape[0]), rounded_size(shape[1], ROUNDED_MULTIPLE)
                counts.append(num_rows(int(real), *shape, rounded=rounded))
                positions += shape[0] * shape[1]
        return cls(len(set(counts)), sum(counts), positions)


def describe_rounding(plan: BatchPlan, store: ParallelStore) -> str:
    """Returns a line that says how few sizes rounding leaves, and what is computed for it."""
    exact, rounded = (PlanSizes.of(plan, store, rounded=each) for each in (False, True))
    return (
        f"batches with {rounded.row_counts:,} numbers of rows instead of {exact.row_counts:,}, for "
        f"{rounded.rows / exact.rows - 1:.1%} more rows, and {rounded.positions / exact.positions - 1:.1%} more "
        "positions in attention"
    )
