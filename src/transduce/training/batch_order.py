"""Which global batch comes next: a pure function of the step, the epoch and the batch that a checkpoint records.

An epoch is what the weights of the corpora make of the store (`data/mixture.py`). Where a phase with other weights
begins, the epoch before it ends early.
"""

import numpy as np

from transduce.config import Config
from transduce.data.batching import BatchPlan
from transduce.data.mixture import Mixture, Phase
from transduce.data.mixture_report import corpus_shares, describe_shares
from transduce.data.modifiers.modified import Modifiers
from transduce.data.store import Pairs, ParallelStore, plan_pairs
from transduce.errors import TrainingError
from transduce.training.progress import Progress


class BatchOrder:
    """The global batches of a training, in order; the same on every rank."""

    def __init__(self, store: ParallelStore, config: Config) -> None:
        """Takes the training pairs, and the configuration with weights, phases, budgets and seed.

        Raises:
            DataError: the configuration weights other corpora than the store has, or has modifiers, and the store has
                no tokenizer next to it.
        """
        self.mixture = Mixture.of(config, store.corpora)
        self._store, self._train = store, config.train
        self._modifiers = Modifiers.of(config, store) if config.train.modifiers else None
        self._planned: tuple[Phase, int, BatchPlan, Pairs] | None = None

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
            rows = self.mixture.rows(phase, self._train.seed, epoch)
            pairs: Pairs = self._store
            if self._modifiers is not None:
                pairs, rows = self._modifiers.epoch(epoch, rows), None
            self._planned = (phase, epoch, plan_pairs(pairs, self._train, epoch, rows), pairs)
        return self._planned[2], self._planned[3]

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
