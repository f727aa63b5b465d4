"""The log of a training: a live line, metrics as JSON lines, TensorBoard."""

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from tqdm import tqdm

from transduce.config import TrainConfig
from transduce.reporting.tables import clock
from transduce.training.progress import Progress
from transduce.training.records import RecordFile
from transduce.training.run_folder import METRICS
from transduce.training.schedule import untuned_steps
from transduce.training.step import StepResult


class TimeLeft:
    """A smooth estimate of the time until the last step.

    The pace is a mean over hundreds of steps, since batches differ in size; older steps count less. The time of
    validations and checkpoints, which are rare, is spread over all steps of this session.
    """

    _SPAN_STEPS = 300

    def __init__(self, max_steps: int) -> None:
        self._max_steps = max_steps
        self.start(0)

    def start(self, step: int) -> None:
        """Starts a session after `step` updates."""
        self._first = self._step = step
        self._weight = self._weighted_seconds = self._paused_seconds = 0.0
        self._since = time.perf_counter()

    def step(self, step: int) -> None:
        """Records the end of a step."""
        now = time.perf_counter()
        decay = 1 - 1 / self._SPAN_STEPS
        self._weight = decay * self._weight + 1
        self._weighted_seconds = decay * self._weighted_seconds + now - self._since
        self._since, self._step = now, step

    def pause(self, seconds: float) -> None:
        """Records time spent between steps."""
        self._paused_seconds += seconds
        self._since += seconds

    @property
    def pace(self) -> float:
        """Seconds a step; 0 before the first one."""
        num_steps = self._step - self._first
        if num_steps == 0:
            return 0.0
        return self._weighted_seconds / self._weight + self._paused_seconds / max(num_steps, self._SPAN_STEPS)

    @property
    def seconds(self) -> float:
        """The estimate; 0 before the first step."""
        return (self._max_steps - self._step) * self.pace


class TrainingLog:
    """Collects the results of steps and shows and writes them every `log_steps` steps.

    On a terminal it is one live line; elsewhere, a plain line each time. `metrics.jsonl` gets one object for each
    record, whose `"kind"` is `train` or `validation`.
    """

    def __init__(self, run: Path, train: TrainConfig, *, show: bool, write: bool = True) -> None:
        self.run, self.show, self.write = run, show, write
        self.max_steps, self.log_steps = train.max_steps, train.log_steps
        self._max_seconds, self._max_flops = 60 * train.max_minutes, train.max_flops  # 0: no limit
        self._untuned_steps = untuned_steps(train)
        self.bar: Any = None
        self._results: list[StepResult] = []
        self._since = time.perf_counter()
        self._left = TimeLeft(train.max_steps)
        self._brief = ""
        self._metrics = RecordFile(run / METRICS)
        self._board: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._for_viewing():
            if self._board is not None:
                self._board.close()
        for part in (self.bar, self._metrics):
            # Closing a file retries a write that a full disk refused; the error being raised already reports it.
            with contextlib.suppress(*([] if kind is None else [OSError])):
                if part is not None:
                    part.close()

    def begin(self, step: int, *, is_validated: bool = True) -> None:
        """Opens the files and starts the live line, after `step` updates.

        If `is_validated` is False, the validation after `step` comes again: its record is dropped.

        Raises:
            TrainingError: `metrics.jsonl` is a pipe or a device: opening it could wait for ever, or lose the records.
        """
        if self.write:
            self._metrics.begin(step, without="" if is_validated else "validation")
            with self._for_viewing():
                self._board = _tensorboard(self.run / "tensorboard", step)
        if self.show and sys.stderr.isatty():
            self.bar = tqdm(
                total=self.max_steps,
                initial=step,
                desc="train",
                unit="step",
                dynamic_ncols=True,
                bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt}, {elapsed} so far{postfix}",  # the time left is ours
            )
        self._since = time.perf_counter()
        self._left.start(step)

    def step(self, result: StepResult, progress: Progress) -> None:
        """Records one update; the first one is shown and written at once."""
        self._results.append(result)
        self._left.step(progress.step)
        if progress.step == 1 or progress.step % self.log_steps == 0 or progress.step == self.max_steps:
            self._flush(progress)
        if self.bar is not None:
            self.bar.set_postfix_str(f"{clock(self._seconds_left(progress))} left, {self._brief}", refresh=False)
            self.bar.update(1)

    def end(self, progress: Progress) -> None:
        """Shows and writes the updates since the last record, where training ends or stops between two."""
        if self._results:
            self._flush(progress)

    def _seconds_left(self, progress: Progress) -> float:
        """Returns the estimate until the first of the limits of steps, minutes and operations."""
        limits = [self._left.seconds]
        if self._max_seconds:
            limits.append(self._max_seconds - progress.seconds)
        if self._max_flops and progress.cost.flops:
            limits.append((self._max_flops / progress.cost.flops - 1) * progress.step * self._left.pace)
        return max(0.0, min(limits))

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Excludes the time spent inside from the training speed."""
        started = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - started
            self._since += seconds
            self._left.pause(seconds)

    def validation(self, scores: dict[str, float], progress: Progress, *, best: bool) -> None:
        """Shows and writes the scores of a validation."""
        shown = "  ".join(
            f"{name.replace('_', ' ').replace('.', ' of ')} {value:.2f}" for name, value in scores.items()
        )
        weights = " of the float32 weights" if progress.step > self._untuned_steps else ""
        self.say(f"step {progress.step}: validation{weights} {shown}{'  (best so far)' if best else ''}")
        self._record("validation", progress, scores)

    def say(self, message: str) -> None:
        """Prints a line above the live one."""
        if self.show:
            self.warn(message)

    def warn(self, message: str) -> None:
        """Prints a line even if the log is quiet."""
        if self.bar is not None:
            self.bar.write(message, file=sys.stderr)
        elif self.write:
            print(message, file=sys.stderr, flush=True)

    def _flush(self, progress: Progress) -> None:
        seconds = max(time.perf_counter() - self._since, 1e-9)
        tokens = sum(result.target_tokens for result in self._results)
        made = [result for result in self._results if result.finite]
        made_tokens = sum(result.target_tokens for result in made) or math.nan
        last = self._results[-1]
        values = {
            "loss": sum(r.loss for r in made) / made_tokens,
            "perplexity": math.exp(min(sum(r.negative_log_likelihood for r in made) / made_tokens, 700.0)),
            "learning_rate": last.learning_rate,
            "gradient_norm": last.gradient_norm,
            "target_tokens_per_second": tokens / seconds,
            "source_tokens_per_second": sum(r.source_tokens for r in self._results) / seconds,
        }
        self._record("train", progress, values)
        rate = f"{values['target_tokens_per_second']:,.0f}"
        losses = f"loss {values['loss']:.3f}  ppl {values['perplexity']:.2f}"
        self._brief = f"{losses}  lr {last.learning_rate:.2e}  {rate} tok/s"
        if self.bar is None:
            self.say(f"step {progress.step}/{self.max_steps}  {self._brief}  ETA {clock(self._seconds_left(progress))}")
        self._results.clear()
        self._since = time.perf_counter()

    def _record(self, kind: str, progress: Progress, values: dict[str, float]) -> None:
        if not self.write:
            return
        record = {"kind": kind, "step": progress.step, "epoch": progress.epoch, "seconds": round(progress.seconds, 3)}
        record |= {"target_tokens": progress.target_tokens, "flops": progress.cost.flops}
        record |= {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._metrics.write(record)
        if self._board is not None:
            with self._for_viewing():
                for name, value in values.items():
                    self._board.add_scalar(f"{kind}/{name}", value, progress.step)

    @contextlib.contextmanager
    def _for_viewing(self) -> Iterator[None]:
        """Continues without TensorBoard if its files cannot be written: metrics.jsonl has the same numbers."""
        try:
            yield
        except OSError as error:
            self._board = None
            self.warn(
                f"warning: {self.run / 'tensorboard'}: cannot be written ({error.strerror}); continuing without. "
                "metrics.jsonl has the same numbers."
            )


def _tensorboard(folder: Path, step: int) -> Any:
    try:
        from transduce.training.event_file import EventFile
    except ImportError:  # not installed: metrics.jsonl has the same numbers
        return None
    return EventFile(folder, step)
