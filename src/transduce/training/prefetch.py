"""The next batch, made while a GPU still computes the last one."""

import contextlib

import numpy as np

from transduce.data.batching import Indices, share
from transduce.data.store import Pairs
from transduce.training.batch import Batch
from transduce.training.batch_order import BatchOrder
from transduce.training.memory import MEMORY_ERRORS
from transduce.training.micro_batches import BatchSplits
from transduce.training.progress import Progress


class Prefetch:
    """Keeps one batch that was made before its turn.

    The host runs ahead of a GPU until the end of an update, where it waits for the sums. Before it waits, it makes the
    first micro-batch of the next update, and queues its copy after the GPU's pending work. No thread is needed, and
    nothing has to be saved: the batch is used only if exactly these rows are requested. On a CPU nothing is prefetched:
    there, the host itself computes the update.
    """

    def __init__(self, order: BatchOrder, splits: BatchSplits) -> None:
        self.order, self.splits = order, splits
        self.enabled = splits.device.type != "cpu"
        self._made: tuple[Pairs, Indices, Batch] | None = None

    def make_next(self, progress: Progress) -> None:
        """Makes the first micro-batch of the update after the one that follows `progress`, if its rows are known."""
        splits = self.splits
        if not self.enabled or splits.own_limit is not None:
            return
        rows = self.order.rows_after_next(progress)
        if rows is None:
            return
        own = share(rows, splits.ranks.rank, splits.ranks.world_size)
        for part in splits.parts(own, progress.step + 2)[:1]:
            with contextlib.suppress(*MEMORY_ERRORS):  # its turn comes again, and then a smaller one is tried
                self._made = splits.pairs, part, splits.collate(part)

    def take(self, rows: Indices) -> Batch | None:
        """Returns the batch of `rows` if it was made, and forgets it; else None."""
        made, self._made = self._made, None
        if made is None or made[0] is not self.splits.pairs:
            return None
        return made[2] if np.array_equal(made[1], rows) else None
