"""The training loop: epochs of the plan, checkpoints, validation, a clean stop, an exact resume."""

import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch

from transduce.config import Config
from transduce.data.batching import BatchPlan, plan_epoch
from transduce.data.store import ParallelStore
from transduce.engines.allocator import keep_memory
from transduce.errors import BundleError, DataError, TrainingError
from transduce.model import Transformer
from transduce.training.cost import device_capacity
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.guidance import Guidance
from transduce.training.report import Report
from transduce.training.state import (
    Progress,
    Purpose,
    checkpoint_path,
    checkpoints,
    last_finite_checkpoint,
    load_checkpoint,
    prune,
    purpose,
    read_progress,
    save_checkpoint,
    set_aside,
)
from transduce.training.step import make_optimizer, train_step
from transduce.training.validation import perplexity

_MAX_SKIPPED_IN_A_ROW = 20

# Decodes and scores the model as it is, {"bleu": 31.2}; the first score is what models are chosen by, and higher is
# better. Passed in, since training knows nothing of decoding.
Scorer = Callable[[Transformer], dict[str, float]]


@dataclass(frozen=True)
class Outcome:
    """How training ended: `finished`, `early` (stopping), or `stopped` by a signal."""

    reason: str
    progress: Progress
    signal: int | None = None


class Trainer:
    """Trains one model in one run folder."""

    def __init__(
        self,
        config: Config,
        run: Path,
        train: ParallelStore,
        validation: ParallelStore | None = None,
        *,
        scorer: Scorer | None = None,
        guidance: Guidance | None = None,
        show_progress: bool = True,
        compute: Compute | None = None,
    ) -> None:
        self.config, self.run = config, run
        self.train, self.validation, self.scorer, self.guidance = train, validation, scorer, guidance
        self.compute = compute or Compute.of(config.train.device, config.train.precision)
        self.ranks = Ranks.join(self.compute.device)
        keep_memory()
        torch.manual_seed(config.train.seed)
        self.model = Transformer(config.model).to(self.compute.device)
        for store in filter(None, (train, validation)):
            _require_positions(self.model, store)
        if guidance is not None:
            guidance.watch(self.model)
        self.optimizer = make_optimizer(self.model, config)
        self.progress = Progress()
        self.capacity = device_capacity(self.compute)
        if config.train.compile:
            self.model.compile(dynamic=True)
        self.report = Report(
            run,
            max_steps=config.train.max_steps,
            log_steps=config.train.log_steps,
            show=show_progress and self.ranks.leads,
            write=self.ranks.leads,
        )

    def resume(self) -> bool:
        """Goes back to the last whole checkpoint; returns False where there is none at all.

        Damaged ones after it, and those with values that are not finite, are set aside: they must not be averaged.

        Raises:
            TrainingError: there are checkpoints, and all are damaged.
        """
        found = checkpoints(self.run)
        for place, path in reversed(list(enumerate(found))):
            damaged = False
            try:
                self.progress = load_checkpoint(path, self.model, self.optimizer)
            except BundleError as error:
                self.report.warn(f"warning: {error} Trying the checkpoint before it.")
                damaged = True
            if self.ranks.agree(damaged, self.compute.device):  # all go on from the same one
                continue
            if self.ranks.leads:
                for later in found[place + 1 :]:
                    self.report.warn(f"set aside as {set_aside(later)}")
            self._note_schedule(found[: place + 1])
            self.report.say(f"resuming after step {self.progress.step} ({path})")
            return True
        if found:
            which = "its only checkpoint is" if len(found) == 1 else f"all {len(found)} checkpoints are"
            raise TrainingError(
                f"{self.run}: {which} damaged (see above); nothing to resume from. To begin again, choose another "
                "--output or remove this folder's checkpoints."
            )
        return False

    def _note_schedule(self, found: Sequence[Path]) -> None:
        """Takes up the schedule where the last scheduled checkpoint left it."""
        last = next((path for path in reversed(found) if purpose(path) == "scheduled"), None)
        before = Progress() if last is None else read_progress(last)
        self._scheduled_step = before.step
        self._seconds_carried = max(0.0, self.progress.seconds - before.seconds)

    _scheduled_step = 0  # where the last scheduled checkpoint was made
    _seconds_carried = 0.0  # of training since then, before this session

    def fit(self) -> Outcome:
        """Trains until `max_steps`, `max_minutes`, early stopping, or a signal; leaves a checkpoint in each case.

        Raises:
            TrainingError: weights or gradients are not finite, memory is short, or a checkpoint cannot be written.
        """
        with self.report as report, _StopSignals() as stop:
            report.begin(self.progress.step)
            reason = "early" if self._stops_early() else "finished"
            self._last_checkpoint = time.monotonic() - self._seconds_carried
            if self.progress.step and self._is_due(self.config.train.validate_steps) and not self._is_validated():
                reason = "early" if self._validate() else "finished"  # a signal came before this one could be made
            while not self._is_spent() and reason != "early":
                self._one_step()
                stopped = self.ranks.agree(stop.received is not None, self.compute.device)
                if not stopped and self._is_due(self.config.train.validate_steps):
                    reason = "early" if self._validate() else "finished"
                due = self._due_checkpoint()
                if stopped or due is not None:
                    self._checkpoint(due or "interim")
                if stopped:
                    return Outcome("stopped", self.progress, stop.received)
            if not self._is_validated():
                self._validate()
            by_schedule = self._is_due(self.config.train.checkpoint_steps) or self._scheduled_step == self.progress.step
            self._checkpoint("scheduled" if by_schedule else "end")
            if self.ranks.agree(stop.received is not None, self.compute.device):
                reason = "stopped"
            return Outcome(reason, self.progress, stop.received)

    def _one_step(self) -> None:
        started = time.perf_counter()
        plan = self.plan(self.progress.epoch)
        if self.progress.batch >= len(plan):
            raise TrainingError(
                f"{self.run}: batch {self.progress.batch} of epoch {self.progress.epoch} is next, and an epoch has "
                f"{len(plan)}: the checkpoint is of other data, or damaged."
            )
        rows = plan.batch(self.progress.batch)
        step = self.progress.step + 1
        model, optimizer = self.model, self.optimizer
        try:
            result = train_step(
                model, optimizer, self.train, rows, step, self.config, self.compute, self.ranks, self.guidance
            )
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"{self.run}: step {step}: {self.compute} has not enough memory. Go on from the last checkpoint with "
                "--resume and a lower train.micro_batch_tokens, such as --set train.micro_batch_tokens=4000."
            ) from error
        progress = self.progress
        progress.step, progress.batch = step, progress.batch + 1
        if progress.batch == len(plan):
            progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.target_tokens += result.target_tokens
        seconds = time.perf_counter() - started
        progress.seconds += seconds
        progress.cost.add(result.flops, seconds, str(self.compute), self.capacity, self.ranks.world_size)
        self._watch(result.finite, result.loss)
        self.report.step(result, progress)

    def _watch(self, finite: bool, loss: float) -> None:
        """Counts updates left out for a gradient that is not finite; too many in a row end the training."""
        if finite:
            self._skipped_in_a_row = 0
            return
        self.progress.skipped_steps += 1
        self._skipped_in_a_row += 1
        self.report.warn(
            f"warning: step {self.progress.step}: the gradient is not finite (loss {loss}); update left out"
        )
        if self._skipped_in_a_row >= _MAX_SKIPPED_IN_A_ROW:
            raise TrainingError(
                f"{self.run}: {_MAX_SKIPPED_IN_A_ROW} updates in a row up to step {self.progress.step} had gradients "
                f"that are not finite. {self._way_out()}"
            )

    _skipped_in_a_row = 0
    _planned: tuple[int, BatchPlan] | None = None

    def plan(self, epoch: int) -> BatchPlan:
        """Returns the batches of an epoch; the last one asked for is kept."""
        if self._planned is None or self._planned[0] != epoch:
            train = self.config.train
            plan = plan_epoch(
                self.train.source_lengths,
                self.train.target_lengths,
                source_budget=train.source_batch_tokens,
                target_budget=train.target_batch_tokens,
                seed=train.seed,
                epoch=epoch,
            )
            self._planned = (epoch, plan)
        return self._planned[1]

    def _is_spent(self) -> bool:
        """Whether the steps or the minutes of training that the configuration allows are used up."""
        train = self.config.train
        if self.progress.step >= train.max_steps or train.max_minutes == 0:
            return self.progress.step >= train.max_steps
        return self.ranks.agree(self.progress.seconds >= 60 * train.max_minutes, self.compute.device)

    def _is_due(self, every: int) -> bool:
        return every > 0 and self.progress.step % every == 0

    def _due_checkpoint(self) -> Purpose | None:
        """Returns for what a checkpoint is due, if one is.

        Steps are the schedule where `checkpoint_steps` is set, since they do not depend on the machine: those by time
        then serve resuming only.
        """
        train = self.config.train
        if self._is_due(train.checkpoint_steps):
            return "scheduled"
        up = time.monotonic() - self._last_checkpoint >= 60 * train.checkpoint_minutes
        if train.checkpoint_minutes > 0 and self.ranks.agree(up, self.compute.device):
            return "interim" if train.checkpoint_steps else "scheduled"
        return None

    def _checkpoint(self, purpose: Purpose) -> None:
        with self.report.paused():
            if self.ranks.leads:
                self._save(checkpoint_path(self.run, self.progress.step), purpose)
                prune(self.run, self.config.train.keep_checkpoints)
            self.ranks.wait()
        self._last_checkpoint = time.monotonic()
        if purpose == "scheduled":
            self._scheduled_step = self.progress.step

    def _save(self, path: Path, purpose: Purpose) -> None:
        try:
            save_checkpoint(path, self.model, self.optimizer, self.progress, purpose)
        except BundleError as error:
            raise TrainingError(f"{self.run}: {error} {self._way_out()}") from None
        except OSError as error:
            found = checkpoints(self.run)
            left = f"{found[-1].name} is whole: make room and go on with --resume" if found else "make room"
            raise TrainingError(f"{path}: cannot be written: {error.strerror or error}. {left}.") from error

    def _way_out(self) -> str:
        """Says from where, and how, a training goes on whose numbers are no longer finite."""
        found = last_finite_checkpoint(self.run)
        gentler = "a lower train.learning_rate_factor, or with train.max_gradient_norm"
        if found is None:
            return f"No checkpoint with finite weights is left: begin again with {gentler} (1.0, say)."
        return (
            f"The last checkpoint with finite weights is {found}: go on from there with --resume and {gentler}, such "
            "as --set train.max_gradient_norm=1.0."
        )

    def _validate(self) -> bool:
        """Scores the model as it is; returns whether training should stop early."""
        if self.validation is not None:
            with self.report.paused():
                self._score(self.validation)
        return self._stops_early()

    def _score(self, validation: ParallelStore) -> None:
        progress, train = self.progress, self.config.train
        scores = {"perplexity": perplexity(self.model, validation, self.compute)}
        decoded = self.scorer(self.model) if self.scorer is not None and train.validate_bleu else {}
        scores |= decoded
        # Processes may differ in the last digit, and must agree on what is best and when to stop.
        scores = dict(zip(scores, self.ranks.of_leader([*scores.values()], self.compute.device), strict=True))
        name = "perplexity" if train.best_by == "perplexity" else next(iter(decoded), "perplexity")
        score = -scores[name] if name == "perplexity" else scores[name]
        if progress.best_by != name:  # at first, or where a resumed training has changed its measure
            progress.best_by, progress.best_score, progress.validations_since_best = name, None, 0
        best = not math.isnan(score) and (progress.best_score is None or score > progress.best_score)
        progress.validations = scores | {"step": float(progress.step)}
        progress.validations_since_best = 0 if best else progress.validations_since_best + 1
        self.report.validation(scores, progress, best=best)
        if best:
            progress.best_score, progress.best_step = score, progress.step
            if self.ranks.leads:
                self._save(self.run / "best", "best")
        self.ranks.wait()

    def _is_validated(self) -> bool:
        return self.progress.validations.get("step") == self.progress.step

    def _stops_early(self) -> bool:
        patience = self.config.train.early_stopping
        return patience > 0 and self.progress.validations_since_best >= patience


def _require_positions(model: Transformer, store: ParallelStore) -> None:
    """Refuses at once a text that learned positions do not reach, which would end the training when its batch comes."""
    limit = model.source_positions.limit
    longest = int(max(store.source_lengths.max(initial=0), store.target_lengths.max(initial=0)))
    if limit is not None and longest > limit:
        raise DataError(
            f"{store.path}: its longest side has {longest} tokens, the end mark counted, and the model has learned "
            f"positions for {limit}. Raise model.max_positions, or shorten the text: data.max_tokens drops training "
            "pairs, and never validation pairs."
        )


class _StopSignals:
    """Turns the first Ctrl-C or SIGTERM into a note to stop after the step at hand; a second one acts at once."""

    received: int | None = None

    def __enter__(self) -> Self:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
