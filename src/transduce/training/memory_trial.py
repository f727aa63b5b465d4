"""How large micro-batches may be for the memory at hand: the worst ones of the plan are tried before training begins.

A formula says which micro-batch of the plan needs the most memory, and about how much. Where that is not little, two
small micro-batches of the same lengths are computed, forward and backward, and a straight line through what they needed
says how large a micro-batch may be. The worst micro-batch of that size is then computed too. What it needed, and
what the optimiser will need, is the predicted peak. A trial makes no update and leaves no trace: no gradients, and the
random state as it was.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from transduce.config import Config
from transduce.config.choices import scores_additively
from transduce.config.estimates import kept_numbers
from transduce.data.batching import BatchPlan, Indices, micro_batches, share
from transduce.data.store import ParallelStore
from transduce.errors import TrainingError
from transduce.model.packing import num_rows
from transduce.training.batch import collate
from transduce.training.block_heads import trained_heads
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.guidance import Guidance
from transduce.training.int8_tuning import copied_bytes
from transduce.training.loss import Smoothing
from transduce.training.memory import (
    MEMORY_ERRORS,
    Usage,
    available_bytes,
    gibibytes,
    is_out_of_memory,
    measured,
    return_freed_memory,
)
from transduce.training.micro_batches import LEAST_TOKENS, snapshot_bytes
from transduce.training.optimizer import kept_bytes
from transduce.training.step import batch_loss
from transduce.training.trainable import TrainableModel

Sizes = NDArray[np.float64]

_USABLE = 0.9  # of the available memory: batches of other shapes leave gaps between what is allocated
_PROBES = (128, 512, 2048)  # target tokens of the small micro-batches; the first one only loads kernels
_CANDIDATES = 16  # batches whose micro-batches are computed exactly
_SLOPE, _FIXED_BYTES = 2.0, 128 << 20  # of the line, before anything is measured


@dataclass
class MemoryTrial:
    """Tries the micro-batches of plans, one for each phase, with a model that is about to be trained."""

    model: TrainableModel
    config: Config
    store: ParallelStore
    plans: Sequence[BatchPlan]
    compute: Compute
    ranks: Ranks
    guidance: Guidance | None = None

    def __post_init__(self) -> None:
        model, train = self.config.model, self.config.train
        self.smoothing = Smoothing.of(train.label_smoothing, model.output_vocab_size, train.smoothing)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.weight_bytes = sum(each.nbytes for each in trained)
        self.moment_bytes = sum(kept_bytes(train, each) for each in trained)

    def fit(self, *, moments_exist: bool) -> tuple[int, int]:
        """Returns how large micro-batches may be, and turns activation checkpointing on where it is needed.

        The first number is the most target tokens of a micro-batch, the second the memory that this process will use at
        most, in bytes; 0 where the system does not say.

        Args:
            moments_exist: whether the optimiser has its moments; it allocates them with its first update.

        Raises:
            TrainingError: not even a pair at a time fits.
        """
        missing_bytes = 0 if moments_exist else self.moment_bytes
        missing_bytes += copied_bytes(self.model, self.config.train)
        device, setting = self.compute.device, self.config.train.activation_checkpointing
        return_freed_memory(device)
        free = available_bytes(device)
        copied = snapshot_bytes(self.model, device, self.ranks, self.config.train)
        usable = math.inf if free is None else _USABLE * free - missing_bytes - copied
        with self._without_trace():
            for checkpointing in (False, True) if setting == "auto" else (setting,):
                self.model.checkpointing = checkpointing
                limits = self._limits(smallest=1 if checkpointing or setting is False else LEAST_TOKENS)
                line = self._line(self._worst(limits[0]), usable)
                for limit in limits:
                    usage = self._tried(limit, line, usable)
                    if usage is not None:
                        return limit, usage.peak + missing_bytes if usage.peak else 0
        raise TrainingError(
            f"{gibibytes(free or 0)} of memory are available for updates, and one on the largest pair needs more. Free "
            "memory, lower data.max_tokens, make the model smaller, or set train.micro_batch_tokens to a number, which "
            "is not tried first."
        )

    def _limits(self, smallest: int) -> list[int]:
        """Returns the limits to choose from, in target tokens, greatest first; the first splits no batch."""
        whole = self.config.train.target_batch_tokens
        limits, parts = [whole], 2
        while (limit := math.ceil(whole / (self.ranks.world_size * parts))) >= smallest and limit < limits[-1]:
            limits.append(limit)
            parts = max(parts + 1, math.floor(1.2 * parts))
        return limits

    # --- which micro-batch is the worst -------------------------------------------------------------------------

    def _worst(self, limit: int) -> Indices:
        """Returns the micro-batch of this process that needs the most memory, by the formula."""
        world, found = self.ranks.world_size, list[Indices]()
        for plan, (sentences, source, target) in zip(self.plans, self._shapes, strict=True):
            most = np.minimum(np.ceil(sentences / world), np.maximum(1, limit // target))
            bound = self._kept_bytes(most, source, target, most * source, most * target)
            for batch in np.argsort(-bound, kind="stable")[:_CANDIDATES]:
                rows = share(plan.rows[plan.starts[batch] : plan.starts[batch + 1]], self.ranks.rank, world)
                found += micro_batches(rows, self.store.source_lengths, self.store.target_lengths, limit)
        return max(found, key=self._kept, default=self.plans[0].rows[:1])

    @cached_property
    def _shapes(self) -> list[tuple[Sizes, Sizes, Sizes]]:
        """For each plan the number of sentences, and the longest source and target, of each batch."""
        shapes = []
        for plan in self.plans:
            lengths = (self.store.source_lengths, self.store.target_lengths)
            source, target = (np.maximum.reduceat(each[plan.rows], plan.starts[:-1]) for each in lengths)
            sentences = np.diff(plan.starts)
            shapes.append((sentences.astype(np.float64), source.astype(np.float64), target.astype(np.float64)))
        return shapes

    def _kept(self, rows: Indices) -> float:
        """Returns what the formula says of one micro-batch."""
        sizes = [len(rows)]
        for lengths in (self.store.source_lengths[rows], self.store.target_lengths[rows]):
            longest = int(lengths.max())
            sizes += [longest, num_rows(int(lengths.sum()), len(rows), longest)]
        sentences, source, source_rows, target, target_rows = (np.array(size, dtype=np.float64) for size in sizes)
        return float(self._kept_bytes(sentences, source, target, source_rows, target_rows))

    def _kept_bytes(
        self, sentences: Sizes, source: Sizes, target: Sizes, source_rows: Sizes, target_rows: Sizes
    ) -> Sizes:
        """Returns about how many bytes are kept for the gradient; with checkpointing, those of one layer at a time."""
        model = self.config.model
        encoder, decoder = kept_numbers(model)
        within = sentences * model.num_heads  # attention weights, and what scores them
        within = within * (1 + model.d_k) if scores_additively(model) else within
        of_encoder = source_rows * encoder + within * source * source
        of_decoder = target_rows * decoder + within * target * (source + target)
        if self.model.checkpointing:
            inputs = source_rows * model.num_encoder_layers + target_rows * model.num_decoder_layers
            numbers = inputs * model.d_model + np.maximum(of_encoder, of_decoder)
        else:
            numbers = of_encoder * model.num_encoder_layers + of_decoder * model.num_decoder_layers
        return numbers * self.compute.dtype.itemsize

    # --- what is needed -----------------------------------------------------------------------------------------

    def _line(self, worst: Indices, usable: float) -> Polynomial:
        """Returns memory in use as a function of what the formula says, for a micro-batch like `worst`.

        The line is made up if that is little by it, and else goes through what small micro-batches need.
        """
        line = Polynomial([self.weight_bytes + _FIXED_BYTES, _SLOPE])
        if line(self._kept(worst)) < usable / 4:
            return line
        longest = worst[np.argsort(-self.store.target_lengths[worst], kind="stable")]
        points: list[tuple[float, float]] = []
        for tokens in _PROBES:
            rows = longest[: max(1, tokens // int(self.store.target_lengths[longest[0]]))]
            usage = self._compute(rows, whole=False)
            if usage is None or usage.peak == 0:
                return line
            points.append((self._kept(rows), usage.growth))
        (few, less), (many, more) = points[-2:]
        slope = (more - less) / (many - few) if many > few else 0.0
        return Polynomial([more - slope * many, slope]) if slope > 0 else line

    def _tried(self, limit: int, line: Polynomial, usable: float) -> Usage | None:
        """Computes the worst micro-batch of `limit`; returns the memory in use, None if it does not fit."""
        worst, whole = self._worst(limit), limit >= self.config.train.target_batch_tokens
        needed = line(self._kept(worst)) - (self.weight_bytes if whole else 0)
        if self.ranks.any_rank(bool(needed > usable), self.compute.device):
            return None
        usage = self._compute(worst, whole=whole)
        if self.ranks.any_rank(usage is None or usage.growth > usable, self.compute.device):
            return None
        return usage

    def _compute(self, rows: Indices, *, whole: bool) -> Usage | None:
        """Computes a micro-batch forward and backward; returns the memory in use, None if it ran out.

        Args:
            rows: the pairs.
            whole: whether it is the only micro-batch of its batch. Otherwise it is computed twice: the first time
                leaves gradients between what is then free, so that the second time needs more.
        """
        links = None
        if self.guidance is not None:
            links = self.guidance.alignment.links
            self.guidance.forget()  # of a micro-batch that did not fit: its tensors would count as memory in use
        self.model.train()
        for parameter in self.model.parameters():
            parameter.grad = None
        try:
            with measured(self.compute.device) as usage:
                for _ in range(1 if whole else 2):
                    batch = collate(self.store, rows, self.compute.device, model=self.model, links=links)
                    batch = replace(batch, head=min(2, trained_heads(self.model)[-1]))
                    loss, _nll = batch_loss(self.model, batch, self.smoothing, self.compute, self.guidance)
                    loss.backward()
        except MEMORY_ERRORS as error:
            if not is_out_of_memory(error):
                raise
            return None
        return usage

    @contextlib.contextmanager
    def _without_trace(self) -> Iterator[None]:
        """Restores the random state, and leaves no gradients."""
        training = self.model.training
        try:
            with torch.random.fork_rng([self.compute.device] if self.compute.device.type == "cuda" else []):
                yield
        finally:
            self.model.train(training)
            for parameter in self.model.parameters():
                parameter.grad = None
