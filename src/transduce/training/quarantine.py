"""Batches with a spike or a loss that is not finite, recorded with their text: RUN/quarantine.jsonl.

An update whose loss or gradient is not finite is left out. A spike of the loss (`transduce.training.spikes`) is
reported, and its update is made. Both get a line, which a resumed training neither doubles nor loses:

    kind            "not finite" or "spike"
    step            the number of the update, from 1
    epoch, batch    which batch it was, from 0
    loss            per token, of the whole batch; "nan" or "inf" if it is not finite
    limit           the loss per token above which it is a spike; null if it is not finite
    gradient_norm   of the whole batch
    at_fault        [{"rank", "micro_batch", "loss"}]: micro-batches whose own loss is not finite; empty if none is
    pairs           the highest loss first, each with
        row                         in train.arrow; of merged pairs, the first one's
        corpus                      its name; null where the data do not say it
        source_line, target_line    file and line of both sides, when the corpus was prepared: "train.en:7", of a
                                    treebank "02.mrg: tree 7"; null where the data do not say it
        rank, micro_batch           which process had it in which micro-batch
        loss                        per token, without dropout
        source, target              the text that the model read, after modifiers; null where their tokenizer is not in
                                    the same folder
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.config import TrainConfig
from transduce.data.batching import Indices, share
from transduce.data.origins import origins
from transduce.data.prepared import TOKENIZER
from transduce.data.store import Pairs, ParallelStore
from transduce.errors import TrainingError
from transduce.text import load_tokenizer
from transduce.training.batch import collate
from transduce.training.checkpoints import advice_not_finite
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.log import TrainingLog
from transduce.training.loss import NO_SMOOTHING, projected_loss
from transduce.training.progress import Progress
from transduce.training.records import RecordFile
from transduce.training.run_folder import QUARANTINE
from transduce.training.step import StepResult, with_bias
from transduce.training.trainable import TrainableModel, evaluating


@dataclass(frozen=True)
class MicroBatch:
    """One forward and backward pass of this process: its rows, and its summed loss, still on the device."""

    rows: Indices
    loss: Tensor


@dataclass(frozen=True)
class TrainedBatch:
    """A global batch that an update was made of: its position in the plan, its rows, and this process's part of it.

    Rows are those of `pairs`: of the store, or of the modified pairs of the epoch.
    """

    epoch: int
    number: int
    rows: Indices
    own: Sequence[MicroBatch]
    pairs: Pairs


@dataclass
class Quarantine:
    """Examines each update, and records the batches that went wrong."""

    run: Path
    train: TrainConfig
    model: TrainableModel
    store: ParallelStore
    compute: Compute
    ranks: Ranks
    log: TrainingLog

    def __post_init__(self) -> None:
        self._records = RecordFile(self.run / QUARANTINE)

    def begin(self, step: int) -> None:
        """Prepares the file for the steps after `step`."""
        if self.ranks.is_main:
            self._records.begin(step)

    def close(self) -> None:
        """Closes the file, whose records are all on the disk: a write that failed is reported, and fails again here."""
        with contextlib.suppress(OSError):
            self._records.close()

    def examine(self, result: StepResult, batch: TrainedBatch, progress: Progress) -> None:
        """Counts an update that was skipped and checks for a spike, after `progress` was advanced.

        All processes decide alike, since they have the same sums.

        Raises:
            TrainingError: `train.max_skipped_steps` updates in a row were not finite, or the disk is full.
        """
        recent, step, loss = progress.recent, progress.step, result.loss / result.target_tokens
        if result.finite:
            limit = recent.limit(self.train.spike_deviations) if self.train.spike_deviations else None
            if limit is not None and loss > limit:
                self._set_aside("spike", result, batch, step, limit)
                self.log.warn(
                    f"warning: step {step}: a spike of the loss, {loss:.3f} per token (limit {limit:.3f}); its pairs "
                    f"are in {self._records.path}"
                )
            recent.add(loss)
            return
        progress.skipped_steps += 1
        recent.skipped += 1
        self._set_aside("not finite", result, batch, step, None)
        self.log.warn(
            f"warning: step {step}: not finite (loss {loss}, gradient norm {result.gradient_norm}); update left out, "
            f"its pairs are in {self._records.path}"
        )
        if recent.skipped >= self.train.max_skipped_steps:
            raise TrainingError(
                f"{self.run}: {recent.skipped} updates in a row up to step {step} had a loss or gradients that are not "
                f"finite. Their pairs are in {self._records.path}. {advice_not_finite(self.run)}"
            )

    def _set_aside(self, kind: str, result: StepResult, batch: TrainedBatch, step: int, limit: float | None) -> None:
        """Writes a line about a batch; all processes take part."""
        ranks, micro_batches, losses, own_losses = self._gather(batch)
        at_fault = {
            (rank, number): _json(loss)
            for rank, number, loss in zip(ranks.tolist(), micro_batches.tolist(), own_losses.tolist(), strict=True)
            if not math.isfinite(loss)
        }
        if not self.ranks.is_main:
            return
        rows = batch.pairs.store_rows(batch.rows)
        texts, corpora = self._texts(batch), self._corpora(rows)
        lines = origins(self.store.path.parent, rows)
        order = np.argsort(-np.where(np.isfinite(losses), losses, np.inf), kind="stable").tolist()
        record = {
            "kind": kind,
            "step": step,
            "epoch": batch.epoch,
            "batch": batch.number,
            "loss": _json(result.loss / result.target_tokens),
            "limit": limit,
            "gradient_norm": _json(result.gradient_norm),
            "at_fault": [
                {"rank": rank, "micro_batch": number, "loss": loss} for (rank, number), loss in sorted(at_fault.items())
            ],
            "pairs": [
                {
                    "row": int(rows[i]),
                    "corpus": corpora[i],
                    "source_line": lines[i][0],
                    "target_line": lines[i][1],
                    "rank": int(ranks[i]),
                    "micro_batch": int(micro_batches[i]),
                    "loss": _json(float(losses[i])),
                    "source": texts[i][0],
                    "target": texts[i][1],
                }
                for i in order
            ],
        }
        self._records.write(record, durable=True)

    def _gather(self, batch: TrainedBatch) -> tuple[NDArray[Any], ...]:
        """Returns of each pair its process, its micro-batch, its own loss per token and the loss of its micro-batch."""
        count, rank, world_size = len(batch.rows), self.ranks.rank, self.ranks.world_size
        gathered = np.zeros((4, count))
        own = share(np.arange(count), rank, world_size)
        passes = batch.own or [MicroBatch(batch.rows[own], torch.tensor(0.0))] * (len(own) > 0)
        # Micro-batches hold the same rows in another order; a row may occur twice.
        in_order = np.concatenate([each.rows for each in passes]) if passes else batch.rows[:0]
        indices = np.empty_like(own)
        indices[np.argsort(in_order, kind="stable")] = own[np.argsort(batch.rows[own], kind="stable")]
        start = 0
        for number, each in enumerate(passes):
            at = indices[start : start + len(each.rows)]
            start += len(each.rows)
            gathered[:2, at] = [[rank], [number]]
            gathered[2, at] = losses_a_token(self.model, batch.pairs, each.rows, self.compute)
            gathered[3, at] = float(each.loss)
        shared = torch.from_numpy(gathered).to(self.compute.device)
        self.ranks.sum([shared])
        ranks, micro_batches, losses, own_losses = shared.cpu().numpy()
        return ranks.astype(int), micro_batches.astype(int), losses, own_losses

    def _corpora(self, rows: Indices) -> list[str | None]:
        if not self.store.corpora:
            return [None] * len(rows)
        ends = np.cumsum([corpus.num_pairs for corpus in self.store.corpora])
        return [self.store.corpora[index].name for index in np.searchsorted(ends, rows, side="right").tolist()]

    def _texts(self, batch: TrainedBatch) -> list[tuple[str | None, str | None]]:
        path = self.store.path.with_name(TOKENIZER)
        tokenizer = load_tokenizer(path) if path.is_file() else None
        if tokenizer is None or tokenizer.fingerprint != self.store.tokenizer_fingerprint:
            return [(None, None)] * len(batch.rows)
        sources, targets = ([ids.tolist() for ids in side] for side in batch.pairs.pairs(batch.rows))
        return list(zip(tokenizer.decode_batch(sources), tokenizer.target.decode_batch(targets), strict=True))


def losses_a_token(model: TrainableModel, pairs: Pairs, rows: Indices, compute: Compute) -> NDArray[np.float64]:
    """Returns the mean -log p of each pair's target tokens, EOS counted, without dropout and label smoothing."""
    batch = collate(pairs, rows, compute.device)
    with evaluating(model), torch.no_grad():
        with compute.autocast():
            states_ND = model(*batch.inputs)
        states_ND, lengths = states_ND.to(compute.dtype), batch.target_lengths_B.tolist()
        by_pair = zip(states_ND.split(lengths), batch.targets_N.split(lengths), strict=True)
        sums = [projected_loss(*with_bias(states, model), targets, NO_SMOOTHING)[1] for states, targets in by_pair]
        losses = torch.stack(sums).cpu().double().numpy() / np.asarray(lengths)
    return np.asarray(losses, np.float64)


def _json(value: float) -> float | str:
    """Returns a number as JSON can hold it."""
    return value if math.isfinite(value) else str(value)
