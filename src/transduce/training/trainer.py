"""The trainer: one update after another, checkpoints, validation, a clean stop, an exact resume."""

import contextlib
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from transduce.config import Config
from transduce.data.batching import share
from transduce.data.store import ParallelStore
from transduce.engines.allocator import keep_memory_in_commands, limit_kernel_caches
from transduce.errors import BundleError, LostPeerError, TrainingError
from transduce.reporting.tables import counted
from transduce.training.ancestor import describe_start
from transduce.training.batch_order import BatchOrder
from transduce.training.block_heads import drawn_head, num_targets, trained_heads
from transduce.training.checkpoint_schedule import CheckpointSchedule
from transduce.training.checkpoint_writer import CheckpointWriter
from transduce.training.checkpoints import load_checkpoint, set_aside
from transduce.training.device import Compute, device_capacity
from transduce.training.distributed import Ranks
from transduce.training.gradients import clip_gradients, sum_over_ranks
from transduce.training.guidance import Guidance
from transduce.training.int8_tuning import rounded_weights
from transduce.training.log import TrainingLog
from transduce.training.loss import Smoothing
from transduce.training.memory import MEMORY_ERRORS, named_memory_error
from transduce.training.memory_trial import MemoryTrial
from transduce.training.micro_batches import BatchSplits
from transduce.training.optimizer import make_optimizer
from transduce.training.outcome import End, Outcome, end_of
from transduce.training.prefetch import Prefetch
from transduce.training.progress import CheckpointKind, Progress, recorded_checksum
from transduce.training.quarantine import MicroBatch, Quarantine, TrainedBatch
from transduce.training.run_folder import checkpoint_path, checkpoint_step, checkpoints
from transduce.training.schedule import describe_tuning, learning_rate, untuned_steps
from transduce.training.shapes import describe_rounding
from transduce.training.step import StepResult, StepSums, require_positions, seed_dropout, states_loss
from transduce.training.stop_signals import StopSignals
from transduce.training.trainable import TrainableModel
from transduce.training.validation import BATCH_TOKENS, Validation, update_best


class Trainer:
    """Trains a model on a store of pairs, in a run folder."""

    def __init__(
        self,
        model: TrainableModel,
        config: Config,
        run: Path,
        train: ParallelStore,
        validation: Validation | None = None,
        *,
        guidance: Guidance | None = None,
        compute: Compute | None = None,
        show_progress: bool = True,
    ) -> None:
        self.config, self.run = config, run
        self.clock: Callable[[], float] = time.perf_counter  # of updates, in seconds; another may be set
        self.train, self.validation, self.guidance = train, validation, guidance
        self.compute = compute or Compute.of(config.train.device, config.train.precision)
        self.ranks = Ranks.join(self.compute.device)
        keep_memory_in_commands()
        limit_kernel_caches()
        for store in (train, *([validation.store] if validation is not None else [])):
            require_positions(config, store)
        self.model, self.heads = model, trained_heads(model)
        self.optimizer = make_optimizer(model.parameters(), config.train)
        self.checkpoint_schedule = CheckpointSchedule(config.train)
        self.progress = Progress()
        self.order = BatchOrder(train, config, self.ranks, self.compute.device)
        links = guidance.alignment.links if guidance is not None else None
        self.splits = BatchSplits(run, config.train, model, train, self.compute.device, self.ranks, links)
        self.prefetch = Prefetch(self.order, self.splits)
        self.capacity = device_capacity(self.compute)
        if config.train.compile:
            model.compile(dynamic=True)
        is_main = self.ranks.is_main
        self.log = TrainingLog(run, config.train, show=show_progress and is_main, write=is_main)
        self.writer = CheckpointWriter(run, config.train.keep_checkpoints, model, self.optimizer, self.log)
        self.quarantine = Quarantine(run, config.train, model, train, self.compute, self.ranks, self.log)
        self._is_whole = True  # weights and progress are of the same step
        self._micro_batches: list[MicroBatch] = []  # of the last step

    def prepare(self) -> None:
        """Decides how batches are split, so that updates fit into memory, and says what is trained how."""
        self.fit_memory()
        self.announce()

    def fit_memory(self) -> None:
        """Decides how batches are split, so that updates fit into memory; a resumed training keeps to its record.

        Raises:
            TrainingError: an update on a single pair does not fit.
        """
        progress, compute = self.progress, self.compute
        if not self.splits.load(progress.step):
            begins = {max(progress.step, phase.from_step) for phase in self.order.mixture.phases}
            plans = [self.order.stored_plan(step, progress.epoch) for step in sorted(begins)]
            trial = MemoryTrial(self.model, self.config, self.train, plans, compute, self.ranks, self.guidance)
            limit, peak = trial.fit(moments_exist=bool(self.optimizer.state))
            self.splits.add(progress.step + 1, [limit] * self.ranks.world_size, "tried", peak_bytes=peak)
        for line in self.splits.announcement():
            self.log.say(line)

    def announce(self) -> None:
        """Prints the sizes of the model, the data and the training, and what it starts from."""
        plan, max_steps = self.order.plan(self.progress.step, self.progress.epoch), self.config.train.max_steps
        self.log.say(
            f"{self.config.name}: {self.model.num_parameters:,} parameters on {self.compute}; "
            f"{counted(len(self.train), 'pair')}, {counted(len(plan), 'batch', 'batches')} an epoch "
            f"({plan.padding_share:.1%} padding), {counted(max_steps, 'step')}"
            + (f" = {max_steps / max(len(plan), 1):.1f} epochs" if len(self.order.mixture.phases) == 1 else "")
        )
        if corpora := self.order.description(plan):
            self.log.say(corpora)
        if self.model.rounded_shapes:
            self.log.say(describe_rounding(plan, self.order.pairs(self.progress)))
        if self.config.train.int8_tuning_steps:
            self.log.say(describe_tuning(self.config.train))
        for line in describe_start(self.run, self.config):
            self.log.say(line)

    def resume(self) -> bool:
        """Goes back to the last undamaged checkpoint; returns False if there is no checkpoint.

        Later ones, which are damaged or not finite, are set aside, so that they are not averaged.

        Raises:
            TrainingError: all checkpoints are damaged, or processes see different ones, or other weights in them.
        """
        found = checkpoints(self.run)
        self.ranks.require_same([*map(checkpoint_step, found)], f"{self.run}: checkpoints")
        for index, path in reversed(list(enumerate(found))):
            damage = None
            try:
                self.progress = load_checkpoint(path, self.model, self.optimizer, self.config.train)
            except BundleError as error:
                damage = error
            if ranks := self.ranks.with_flag(damage is not None):  # all processes resume from the same one
                if self.ranks.rank == ranks[0]:
                    who = f"rank {ranks[0]}: " if ranks[0] else ""
                    print(f"warning: {who}{damage} Trying the checkpoint before it.", file=sys.stderr, flush=True)
                continue
            if self.ranks.world_size > 1:  # each may have a folder of its own, with a training of its own
                checksum = int(recorded_checksum(path)[:15], 16)
                self.ranks.require_same([checksum], f"{path}: checksums of the weights, as numbers")
            if self.ranks.is_main:
                for later in found[index + 1 :]:
                    self.log.warn(f"set aside as {set_aside(later)}")
            self.checkpoint_schedule.restore(found[: index + 1], self.progress)
            self.log.say(f"resuming after step {self.progress.step} ({path})")
            return True
        if found:
            which = "its only checkpoint is" if len(found) == 1 else f"all {len(found)} checkpoints are"
            raise TrainingError(
                f"{self.run}: {which} damaged (see above); nothing to resume from. To begin again, choose another "
                "--output or remove this folder's checkpoints."
            )
        return False

    def fit(self) -> Outcome:
        """Trains until one of the ends of `End`; writes a checkpoint in each case.

        Raises:
            TrainingError: weights or gradients are not finite, memory is short, or a checkpoint cannot be written.
            LostPeerError: another process has failed; the main one has written a checkpoint.
        """
        closing = contextlib.closing
        with StopSignals() as stop, self.log, closing(self.order), closing(self.quarantine), self.writer:
            self.log.begin(self.progress.step, is_validated=self._is_validated())
            self.quarantine.begin(self.progress.step)
            self.checkpoint_schedule.start()
            try:
                begun = self.progress.step > 0 or bool(self.config.init.model)  # random weights need no validation
                if begun and self._validation_is_due() and not self._is_validated():
                    self._validate()  # of the model to start from, or one that a signal prevented
                while (end := self._end()) is None:
                    started = self.clock()
                    rows = self.order.next_rows(self.progress)
                    self.writer.check()
                    left_out = self.progress.step + 1 in self.config.train.skip_steps
                    with named_memory_error(f"{self.run}: step {self.progress.step + 1}: {self.compute}"):
                        result = self._left_out() if left_out else self.train_step(rows)
                    self._advance(result, rows, started)
                    stopped = self._any_rank(stop.received is not None)
                    kind = self.checkpoint_schedule.due(self.progress.step, self._any_rank)
                    if stopped or kind is not None:
                        self._checkpoint(kind or CheckpointKind.RESUME_ONLY)
                    if not stopped and self._validation_is_due():
                        self._validate()
                    if stopped:
                        self.log.end(self.progress)
                        return Outcome(End.SIGNAL, self.progress, stop.received, self.ranks.is_main)
                if (kind := self.checkpoint_schedule.last_kind(self.progress.step)) is not None:
                    self._checkpoint(kind)
                self.log.end(self.progress)
                if not self._is_validated():
                    self._validate()
                self.writer.wait()
                if self._any_rank(stop.received is not None):
                    end = End.SIGNAL
                return Outcome(end, self.progress, stop.received, self.ranks.is_main)
            except LostPeerError as error:
                raise LostPeerError(f"{self.run}: {error} {self._checkpoint_alone()}") from error

    def _end(self) -> End | None:
        end = end_of(self.config.train, self.progress)
        if self.config.train.max_minutes > 0 and end in (End.MAX_MINUTES, None):  # clocks differ between processes
            return End.MAX_MINUTES if self._any_rank(end is not None) else None
        return end

    def _any_rank(self, flag: bool) -> bool:
        return self.ranks.any_rank(flag, self.compute.device)

    # --- one update -------------------------------------------------------------------------------------------

    def train_step(self, rows: np.ndarray) -> StepResult:
        """Makes the next update, on the global batch `rows`, of which this process takes its share.

        The loss is divided by the global number of target tokens, over processes and micro-batches, so that neither
        changes the update. Of modified pairs it is the planned number, until all processes know the real one.
        """
        model, train, step = self.model, self.config.train, self.progress.step + 1
        self.splits.pairs = self.order.pairs(self.progress)
        head = drawn_head(self.heads, train.seed, step)
        planned = num_targets(self.splits.pairs.target_lengths[rows], head)
        own = share(rows, self.ranks.rank, self.ranks.world_size)
        smoothing = Smoothing.of(train.label_smoothing, self.config.model.output_vocab_size, train.smoothing)
        model.train(1 in self.heads)  # a model whose heads alone are trained is used as it is: without dropout
        with rounded_weights(model) if step > untuned_steps(train) else contextlib.nullcontext():
            while True:  # once, or again in smaller parts if memory runs out
                seed_dropout(train.seed, step, self.ranks.rank)
                self.optimizer.zero_grad(set_to_none=True)
                states_ND = loss = nll = None  # free the tensors of a failed attempt
                if self.guidance is not None:
                    self.guidance.forget()
                sums, self._micro_batches = StepSums(self.compute.device), []
                try:
                    for part in self.splits.parts(own, step):
                        self.ranks.check()
                        batch = replace(self.prefetch.take(part) or self.splits.collate(part), head=head)
                        with self.compute.autocast():
                            states_ND = model(*batch.inputs)
                        loss, nll = states_loss(
                            states_ND.to(self.compute.dtype), model, batch, smoothing, self.guidance
                        )
                        (loss / planned).backward()
                        sums.add(loss, nll, batch, model.training_flops(batch.sizes))
                        self._micro_batches.append(MicroBatch(part, loss.detach()))
                    break
                except MEMORY_ERRORS as error:
                    self.splits.lower(error, own, step)
        sums.finish(lowered=self.splits.own_limit is not None)
        return self._update(sums, planned)

    def _update(self, sums: StepSums, planned_targets: int) -> StepResult:
        """Moves the weights by the gradients of all processes, unless the loss or a gradient is not finite."""
        step = self.progress.step + 1
        sum_over_ranks(self.ranks, self.model, sums.tensor)
        if self.config.train.modifiers:
            sums.rescale((each.grad for each in self.model.parameters() if each.grad is not None), planned_targets)
        norm = clip_gradients(self.model, self.config.train.max_gradient_norm)
        self.prefetch.make_next(self.progress)  # the GPU still computes; it then updates while the next pass is queued
        gradient_norm, loss, nll, num_lowered, *counts = sums.read(norm)
        if num_lowered:
            self.log.warn(self.splits.settle(step))
        rate = learning_rate(step, self.config)
        flops, num_sources, num_targets = map(int, counts)
        result = StepResult(loss, nll, num_targets, num_sources, gradient_norm, rate, flops)
        self._is_whole = False
        if result.finite:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        return result

    def _left_out(self) -> StepResult:
        """Makes no update, of a step in `train.skip_steps`."""
        self.log.warn(f"step {self.progress.step + 1}: left out, as train.skip_steps says")
        return StepResult(math.nan, math.nan, 0, 0, math.nan, learning_rate(self.progress.step + 1, self.config))

    def _advance(self, result: StepResult, rows: np.ndarray, started: float) -> None:
        """Records the result of a step on `rows` that began at `started`."""
        progress = self.progress
        batch = TrainedBatch(progress.epoch, progress.batch, rows, self._micro_batches, self.order.pairs(progress))
        self.order.advance(progress)
        progress.target_tokens += result.target_tokens
        seconds = self.clock() - started
        progress.seconds += seconds
        progress.cost.add(result.flops, seconds, str(self.compute), self.capacity, self.ranks.world_size)
        if result.target_tokens:
            self.quarantine.examine(result, batch, progress)
        self.log.step(result, progress)
        self._is_whole = True

    # --- checkpoints and validation --------------------------------------------------------------------------------

    def _checkpoint(self, kind: CheckpointKind) -> None:
        with self.log.paused():
            self._save(checkpoint_path(self.run, self.progress.step), kind)
        self.checkpoint_schedule.written(kind, self.progress.step)

    def _save(self, path: Path, kind: CheckpointKind) -> None:
        if self.ranks.is_main:
            self.writer.save(path, self.progress, kind)

    def _checkpoint_alone(self) -> str:
        """Writes a checkpoint after another process has failed, if this is the main one; returns how to continue."""
        step = self.progress.step
        if not (self.ranks.is_main and self._is_whole and step > 0):
            return "Continue with --resume."
        self.writer.wait()
        if not (path := checkpoint_path(self.run, step)).exists():
            self._save(path, self.checkpoint_schedule.due(step, bool) or CheckpointKind.RESUME_ONLY)
            self.writer.wait()
        done = f"The checkpoint after step {step} is complete."
        self.log.warn(done)  # at once: torchrun ends this process as soon as signals are no longer held back
        return f"{done} Continue with --resume."

    def _validation_is_due(self) -> bool:
        every = self.config.train.validate_steps
        return every > 0 and self.progress.step % every == 0

    def _is_validated(self) -> bool:
        return self.progress.validations.get("step") == self.progress.step

    def _validate(self) -> None:
        if self.validation is None:
            return
        with self.log.paused():
            least = self.splits.least  # where training splits its batches, memory is short
            most = least if least < self.splits.whole else BATCH_TOKENS
            scores = self.validation.scores(self.model, self.compute, self.ranks, most_tokens=most)
            # Processes may differ in the last digit, and must all see the same best score, to stop at the same step.
            scores = dict(zip(scores, self.ranks.broadcast([*scores.values()], self.compute.device), strict=True))
            best = update_best(self.progress, scores, self.config.train.best_by)
            self.log.validation(scores, self.progress, best=best)
            if best:
                self._save(self.run / "best", CheckpointKind.BEST)
            if self.ranks.is_main:
                self.writer.record_validation(checkpoint_path(self.run, self.progress.step), self.progress)
