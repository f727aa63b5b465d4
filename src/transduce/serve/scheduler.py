"""One engine's worker threads, and the queue that they share.

A free worker starts on the waiting sentences at once, so batches grow while all workers are busy. See `sentence_queue`
for the order. In float32, the result of a sentence does not depend on the others in its batch, so neither does the
answer to a request.
"""

import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from transduce.errors import TransduceError
from transduce.serve.calls import Call, Ticket
from transduce.serve.operations.log import origin
from transduce.serve.operations.metrics import Metrics
from transduce.serve.requests import DeadlineError, ModelUnavailableError, Priority, StoppingError
from transduce.serve.sentence_queue import Batch, SentenceQueue

# Tokens over which the measured speed under load is a running mean: as many as were measured, within these bounds.
# The lower bound keeps one slow batch, on a machine that is busy for a moment, from looking like the model's speed.
_FEWEST_MEMORY_TOKENS, _MOST_MEMORY_TOKENS = 256, 4096
_log = logging.getLogger(__name__)

Compute = Callable[[Any, list[Any]], Sequence[Any]]


class Scheduler:
    """Computes the inputs of many requests in batches."""

    def __init__(self, name: str, compute: Compute, num_workers: int, max_tokens: int, metrics: Metrics) -> None:
        """Starts the workers.

        Args:
            name: of the model, for the log and the metrics.
            compute: is given the work of a batch and its inputs, and returns a result for each.
            num_workers: batches that are computed at a time.
            max_tokens: of a batch.
            metrics: count what happens.
        """
        self._name, self._compute, self._max_tokens, self._metrics = name, compute, max_tokens, metrics
        self._queue = SentenceQueue()
        self._work_came = threading.Condition(self._queue.lock)
        self._num_idle = 0
        self.num_computing = 0  # sentences
        self._began: dict[int, float] = {}  # when each worker began the batch that it computes, by its thread
        self._closed = False
        self._seconds_per_token = 0.0  # 0: not measured yet
        self._num_measured_tokens = 0
        self._workers = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(num_workers)
        ]
        for worker in self._workers:
            worker.start()

    def submit(
        self, ticket: Ticket, work: Hashable, inputs: Sequence[Any], tokens: Sequence[int], on_end: Callable[[], None]
    ) -> Call:
        """Puts inputs into the queue, and returns the call whose `outcome` can be read after `on_end`.

        Args:
            ticket: of the request.
            work: what is to be done; inputs of equal work can be computed together.
            inputs: for `compute`, at least one.
            tokens: of each input.
            on_end: is called once, on any thread, when the call has ended; it may not block.

        Raises:
            CancelledRequestError: the request was cancelled.
            StoppingError: the scheduler was closed.
        """

        def end(call: Call) -> None:
            with self._queue.lock:
                self._queue.remove(call)
            on_end()

        call = Call(ticket, work, inputs, tokens, end)
        ticket.enter(call)
        with self._queue.lock:
            if self._closed:
                raise StoppingError("The service is stopping.")
            if call.is_open:
                self._queue.add(call)
                self._work_came.notify(len(inputs))
        return call

    def run(self, ticket: Ticket, work: Hashable, inputs: Sequence[Any], tokens: Sequence[int]) -> list[Any]:
        """Returns the result of each input; waits for it. For the arguments see `submit`.

        Raises:
            DeadlineError: the request's deadline came first.
            CancelledRequestError: the request was cancelled.
            StoppingError: the scheduler was closed.
            ModelUnavailableError: the engine failed.
            TransduceError: what the engine raised for these inputs.
        """
        if not inputs:
            return []
        ended = threading.Event()
        call = self.submit(ticket, work, inputs, tokens, ended.set)
        if not ended.wait(ticket.seconds_left):
            call.fail(DeadlineError())
        ticket.enter(None)
        return call.outcome()

    def close(self) -> None:
        """Computes what is queued, and ends the workers; nothing more can be run."""
        with self._queue.lock:
            self._closed = True
            self._work_came.notify_all()
        for worker in self._workers:
            worker.join()

    def expected_wait_seconds(self, priority: Priority = Priority.INTERACTIVE) -> float:
        """Returns how long a request that comes now would wait for its first batch, by the measured speed."""
        with self._queue.lock:
            tokens = self._queue.tokens_before(priority)
        return self.seconds_of(tokens)

    def seconds_of(self, num_tokens: int) -> float:
        """Returns how long these tokens take, by the measured speed; 0 where none was measured yet."""
        return num_tokens * self._seconds_per_token / len(self._workers)

    @property
    def backlog_seconds(self) -> float:
        """The seconds that the queue will take, by the measured speed."""
        return self.seconds_of(self._queue.num_tokens)

    @property
    def num_waiting(self) -> int:
        """Sentences that wait."""
        return self._queue.num_sentences

    def batch_seconds(self) -> float:
        """Returns the seconds since the oldest batch in progress was started; 0 if there is none."""
        now = time.monotonic()
        return now - min(list(self._began.values()), default=now)

    def oldest_seconds(self) -> float:
        """Returns the seconds that the oldest call has waited; 0 if none waits."""
        with self._queue.lock:
            since = self._queue.oldest()
        return 0.0 if since is None else time.monotonic() - since

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            try:
                self._compute_batch(batch)
            except BaseException as error:  # also those that would end the thread: the worker would be missing
                self._fail(batch, error)
            finally:
                with self._queue.lock:
                    self.num_computing -= len(batch.sentences)

    def _next_batch(self) -> Batch | None:
        """Waits for work; returns None when the scheduler is closed and nothing waits."""
        with self._queue.lock:
            while (batch := self._queue.next_batch(self._max_tokens, self._num_idle + 1)) is None:
                if self._closed:
                    return None
                self._num_idle += 1
                self._work_came.wait()
                self._num_idle -= 1
            self.num_computing += len(batch.sentences)
            return batch

    def _compute_batch(self, batch: Batch) -> None:
        started = time.monotonic()
        try:
            results = self._results(batch)
        except BaseException as error:  # an extension's panic, too
            if len(batch.sentences) == 1:
                self._fail(batch, error)
                return
            # One sentence may be the reason: the others need not fail with it.
            for sentence in batch.sentences:
                if sentence.call.is_open:
                    self._compute_batch(Batch(batch.work, [sentence], sentence.tokens))
            return
        seconds = time.monotonic() - started
        with self._queue.lock:  # before the callers go on, who may want to know how fast it is
            slower = seconds / batch.tokens - self._seconds_per_token
            # Small batches are slow for their size. With an empty queue, one counts only if it was fast.
            if batch.others_wait or slower < 0:
                memory = min(max(self._num_measured_tokens, _FEWEST_MEMORY_TOKENS), _MOST_MEMORY_TOKENS)
                self._seconds_per_token += slower * batch.tokens / (batch.tokens + memory)
                self._num_measured_tokens += batch.tokens
        for sentence, result in zip(batch.sentences, results, strict=True):
            ticket = sentence.call.ticket
            ticket.waited_seconds = max(ticket.waited_seconds, started - sentence.call.since)
            sentence.call.finish(sentence, result)
        self._report(batch, started, seconds)

    def _results(self, batch: Batch) -> Sequence[Any]:
        worker = threading.get_ident()
        self._began[worker] = time.monotonic()
        try:
            results = self._compute(batch.work, [sentence.input for sentence in batch.sentences])
        finally:
            del self._began[worker]
        if len(results) != len(batch.sentences):
            raise RuntimeError(f"{len(batch.sentences)} inputs gave {len(results)} results")
        return results

    def _fail(self, batch: Batch, error: BaseException) -> None:
        """Ends the calls of a batch: with the error if it is about them, else with one that names no details."""
        of_inputs = isinstance(error, TransduceError)
        for sentence in batch.sentences:
            sentence.call.fail(error if of_inputs else ModelUnavailableError("The model failed. Try again later."))
        if not of_inputs:
            # What engines raise is a RuntimeError. The message of another error may contain text of a user.
            shown = error if isinstance(error, RuntimeError) else origin(error)
            _log.error("%s: the engine failed: %s", self._name, shown, exc_info=error)
            self._record(self._metrics.model_event, self._name, "failed")

    def _report(self, batch: Batch, started: float, seconds: float) -> None:
        fill = min(1.0, batch.tokens / self._max_tokens)
        self._record(self._metrics.batch_done, self._name, len(batch.sentences), batch.tokens, fill, seconds)
        for call in dict.fromkeys(sentence.call for sentence in batch.sentences):
            self._record(self._metrics.waited, self._name, call.ticket.priority, started - call.since)

    def _record(self, method: Callable[..., None], *values: object) -> None:
        """Calls a method of the metrics, whose failure must not stop the model."""
        try:
            method(*values)
        except Exception:
            _log.exception("%s: the metrics failed", self._name)
