"""Which global batch comes next: a pure function of the step, the epoch and the batch that a checkpoint records.

An epoch is what the weights of the corpora make of the store (`data/mixture.py`). Where a phase with other weights
begins, the epoch before it ends early.
"""

import os
from concurrent.futures import Future

import numpy as np
import torch

from transduce.config import Config, TrainConfig
from transduce.data.batching import BatchPlan, share
from transduce.data.mixture import Mixture, Phase
from transduce.data.mixture_report import corpus_shares, describe_shares
from transduce.data.modifiers.modified import ModifiedPairs, Modifiers
from transduce.data.modifiers.workers import Workers
from transduce.data.store import Pairs, ParallelStore
from transduce.engines.allocator import num_cores
from transduce.errors import TrainingError
from transduce.training.distributed import ALONE, Ranks
from transduce.training.progress import Progress

_CPU = torch.device("cpu")
_MOST_WORKERS = 4  # by default


class BatchOrder:
    """The global batches of a training, in order; the same on every rank."""

    def __init__(self, store: ParallelStore, config: Config, ranks: Ranks = ALONE, device: torch.device = _CPU) -> None:
        """Takes the training pairs, the configuration with weights, phases, budgets and seed, and who trains where.

        Raises:
            DataError: the configuration weights other corpora than the store has, or has modifiers, and the store has
                no tokenizer next to it.
        """
        self.mixture = Mixture.of(config, store.corpora)
        self._store, self._train, self._ranks = store, config.train, ranks
        self._modifiers = Modifiers.of(config, store) if config.train.modifiers else None
        self._workers = Workers(self._modifiers, num_workers(config.train, device)) if self._modifiers else None
        self._planned: tuple[Phase, int, BatchPlan, Pairs] | None = None
        self._next: tuple[Phase, int, Future[tuple[BatchPlan, Pairs]]] | None = None  # the epoch after it
        self._num_begun = 0  # batches of the epoch whose pairs workers make, or have made

    def close(self) -> None:
        """Ends the workers."""
        self._next = None
        if self._workers is not None:
            self._workers.close()

    def plan(self, step: int, epoch: int) -> BatchPlan:
        """Returns the batches of an epoch that is under way after `step` updates; the last plan is kept."""
        return self._epoch(step, epoch)[0]

    def pairs(self, progress: Progress) -> Pairs:
        """Returns what the rows of the next batch are rows of: the store, or the modified pairs of the epoch."""
        return self._store if self._modifiers is None else self._epoch(progress.step, progress.epoch)[1]

    def stored_plan(self, step: int, epoch: int) -> BatchPlan:
        """Returns the batches that the epoch would have without modifiers: their rows are those of the store."""
        if self._modifiers is None:
            return self.plan(step, epoch)
        rows = self.mixture.rows(self.mixture.phase_at(step), self._train.seed, epoch)
        return self._store.plan_epoch(self._train, epoch, rows)

    def _epoch(self, step: int, epoch: int) -> tuple[BatchPlan, Pairs]:
        phase = self.mixture.phase_at(step)
        if self._planned is None or self._planned[:2] != (phase, epoch):
            begun, self._next = self._next, None
            self._planned = None  # frees the lines of the epoch before
            made = begun[2].result() if begun and begun[:2] == (phase, epoch) else self._make_epoch(phase, epoch)
            self._planned = (phase, epoch, *made)
        return self._planned[2], self._planned[3]

    def _make_epoch(self, phase: Phase, epoch: int) -> tuple[BatchPlan, Pairs]:
        rows = self.mixture.rows(phase, self._train.seed, epoch)
        if self._modifiers is None or self._workers is None:
            return self._store.plan_epoch(self._train, epoch, rows), self._store
        pairs = self._modifiers.epoch(epoch, rows, self._workers)
        plan = self._workers.submit(Modifiers.plan, epoch, pairs.source_lengths, pairs.target_lengths)
        return plan(), pairs

    def _make_ahead(self, progress: Progress) -> None:
        """Has workers make the next epoch, and the pairs of the next batches where they are not made with the epoch."""
        plan, pairs = self._epoch(progress.step, progress.epoch)
        if self._workers is None or self._workers.count == 0 or not isinstance(pairs, ModifiedPairs):
            return
        first = max(self._num_begun, progress.batch) if progress.batch else 0
        for index in range(first, min(progress.batch + pairs.num_ahead, len(plan))):
            pairs.make_ahead(share(plan.batch(index), self._ranks.rank, self._ranks.world_size))
            self._num_begun = index + 1
        if self._next is None:
            ends = [phase.from_step for phase in self.mixture.phases if phase.from_step > progress.step]
            step = min([progress.step + len(plan) - progress.batch, *ends])  # when the next epoch begins
            if step < self._train.max_steps:
                phase, epoch = self.mixture.phase_at(step), progress.epoch + 1
                self._next = phase, epoch, self._workers.run(self._make_epoch, phase, epoch)

    def next_rows(self, progress: Progress) -> np.ndarray:
        """Returns the rows of the batch that follows what `progress` records.

        Raises:
            TrainingError: the epoch has no such batch.
        """
        plan = self.plan(progress.step, progress.epoch)
        if progress.batch >= len(plan):
            raise TrainingError(
                f"batch {progress.batch} of epoch {progress.epoch} is next, and an epoch has {len(plan)}: the "
                "checkpoint is of other data, or damaged."
            )
        self._make_ahead(progress)
        return plan.batch(progress.batch)

    def rows_after_next(self, progress: Progress) -> np.ndarray | None:
        """Returns the rows of the batch after the next one; None where another epoch begins in between."""
        plan, phase_at = self.plan(progress.step, progress.epoch), self.mixture.phase_at
        if progress.batch + 1 >= len(plan) or phase_at(progress.step + 1) != phase_at(progress.step):
            return None
        return plan.batch(progress.batch + 1)

    def advance(self, progress: Progress) -> None:
        """Records that the next batch is done."""
        before, num_batches = self.mixture.phase_at(progress.step), len(self.plan(progress.step, progress.epoch))
        progress.step, progress.batch = progress.step + 1, progress.batch + 1
        if progress.batch == num_batches or self.mixture.phase_at(progress.step) != before:
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def description(self, plan: BatchPlan) -> str:
        """Returns a table of how often training sees each corpus; "" for a single one that each epoch has once."""
        return describe_shares(corpus_shares(self.mixture, self._train, plan.real_tokens[1] / max(1, len(plan))))


def num_workers(train: TrainConfig, device: torch.device) -> int:
    """Returns how many processes make modified pairs ahead: by default a few on a GPU, none where the cores train."""
    if train.num_workers != "auto":
        return train.num_workers
    own = num_cores() // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    return 0 if device.type == "cpu" else max(0, min(_MOST_WORKERS, own - 1))
