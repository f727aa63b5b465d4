"""The sentences that wait for an engine, and which of them go into its next batch.

The order in which calls are served:

1. Interactive requests before bulk.
2. Then those of which less has been served, in steps of `STEP_TOKENS`: a request of one sentence does not wait for one
   of a thousand.
3. Then the request that came first.

Each `FAIR_SHARE`th batch ignores the first two: it serves the request that came first of all. So bulk and long requests
always get a part of the engine's time, however much else comes.

A batch has one kind of work. Others join it in the order above, as long as their tokens fit; only interactive requests
join a batch of the interactive.
"""

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from transduce.serve.requests import Priority

STEP_TOKENS = 512
FAIR_SHARE = 4

_numbers = itertools.count()


class Ticket:
    """One request in the queues: its place, its deadline, and whether anybody still waits for its answer."""

    def __init__(self, priority: Priority = Priority.INTERACTIVE, deadline: float | None = None) -> None:
        """Takes the deadline as a time of `time.monotonic`; None for none."""
        self.priority, self.deadline = priority, deadline
        self.number = next(_numbers)
        self.served_tokens = 0
        self._cancelled = False
        self._call: Call | None = None
        self._lock = threading.Lock()

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits any more."""
        return self._cancelled

    def cancel(self) -> None:
        """Says that nobody waits any more: what is queued leaves the queue. Can be called from any thread."""
        with self._lock:
            self._cancelled = True
            call = self._call
        if call is not None:
            call.withdraw()

    def enter(self, call: "Call | None") -> bool:
        """Sets the call that waits now; returns False if the request was cancelled."""
        with self._lock:
            self._call = call
            return not self._cancelled


@dataclass(slots=True, eq=False)
class Sentence:
    """One input that waits."""

    call: "Call"
    index: int  # among the inputs of its call
    input: Any
    tokens: int


class Call:
    """Inputs of one request, which are computed in any order and batches; their results come back together."""

    def __init__(
        self, ticket: Ticket, work: Hashable, inputs: Sequence[Any], tokens: Sequence[int], queue: "SentenceQueue"
    ) -> None:
        """Takes what is to be done, each input, and its number of tokens."""
        self.ticket, self.work = ticket, work
        self.since = time.monotonic()
        self.waiting = deque(Sentence(self, i, *each) for i, each in enumerate(zip(inputs, tokens, strict=True)))
        self.waiting_tokens = sum(tokens)
        self.results: list[Any] = [None] * len(inputs)
        self.withdrawn = False
        self.error: BaseException | None = None
        self._queue = queue
        self._open = len(inputs)
        self._done = threading.Lock()
        self._done.acquire()

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts calls as the module says; lower goes first."""
        ticket = self.ticket
        return ticket.priority, ticket.served_tokens // STEP_TOKENS, ticket.number

    @property
    def is_open(self) -> bool:
        """Whether results are still to come."""
        return self._open > 0

    def next(self) -> Sentence:
        """Removes and returns the next sentence, and counts it as served."""
        sentence = self.waiting.popleft()
        self.waiting_tokens -= sentence.tokens
        self.ticket.served_tokens += sentence.tokens
        return sentence

    def wait(self, timeout: float | None) -> bool:
        """Waits until all results are there, or the call failed or was withdrawn; returns False after `timeout`."""
        return self._done.acquire(timeout=-1 if timeout is None else max(0.0, timeout))

    def withdraw(self) -> None:
        """Takes the call out of the queue and ends the waiting."""
        with self._queue.lock:
            if not self.withdrawn and self._open:
                self.withdrawn = True
                self._end()

    def finish(self, sentence: Sentence, result: Any) -> None:
        """Enters a result; the queue's lock is held."""
        if not self.withdrawn and self._open:
            self.results[sentence.index] = result
            self._open -= 1
            if not self._open:
                self._done.release()

    def fail(self, error: BaseException) -> None:
        """Ends the call with an error; the queue's lock is held."""
        if not self.withdrawn and self._open:
            self.error = error
            self._end()

    def _end(self) -> None:
        self._open = 0
        self._queue.remove(self)
        self._done.release()


@dataclass(slots=True)
class Batch:
    """Sentences that are computed together."""

    work: Hashable
    sentences: list[Sentence] = field(default_factory=list)
    tokens: int = 0


class SentenceQueue:
    """The calls that wait; whoever uses it holds its lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._calls: dict[Call, None] = {}  # in the order in which they came
        self._num_batches = 0
        self.num_sentences = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, call: Call) -> None:
        """Adds a call, which must have inputs."""
        self._calls[call] = None
        self.num_sentences += len(call.waiting)

    def remove(self, call: Call) -> None:
        """Removes what still waits of a call."""
        if self._calls.pop(call, self) is not self:
            self.num_sentences -= len(call.waiting)
            call.waiting.clear()
            call.waiting_tokens = 0

    def take(self, max_tokens: int, num_workers: int = 1) -> Batch | None:
        """Removes and returns the next batch, or None if nothing waits.

        Args:
            max_tokens: of the batch; a sentence of more is a batch of its own.
            num_workers: that have nothing to do: they share what waits.
        """
        if not self._calls:
            return None
        self._num_batches += 1
        is_fair = self._num_batches % FAIR_SHARE == 0
        first = min(self._calls, key=_age if is_fair else _order)
        least = Priority.BULK if is_fair else first.ticket.priority
        mates = [call for call in self._calls if call.ticket.priority <= least and call.work == first.work]
        budget = min(max_tokens, -(-sum(call.waiting_tokens for call in mates) // num_workers))
        return self._filled(Batch(first.work), mates, budget, by_age=is_fair)

    def _filled(self, batch: Batch, calls: Iterable[Call], budget: int, *, by_age: bool) -> Batch:
        order = _age if by_age else _order
        heap = [(order(call), call.ticket.number, call) for call in calls]
        heapq.heapify(heap)
        while heap:
            call = heap[0][-1]
            if batch.sentences and batch.tokens + call.waiting[0].tokens > budget:
                break
            sentence = call.next()
            batch.sentences.append(sentence)
            batch.tokens += sentence.tokens
            self.num_sentences -= 1
            if call.waiting:
                heapq.heapreplace(heap, (order(call), call.ticket.number, call))
            else:
                heapq.heappop(heap)
                del self._calls[call]
        return batch

    def tokens_before(self, priority: Priority) -> int:
        """Returns about how many tokens are served before the first of a request that comes now."""
        served_first = (call for call in self._calls if call.ticket.priority <= priority)
        return sum(min(call.waiting_tokens, STEP_TOKENS) for call in served_first)

    def oldest(self) -> float | None:
        """Returns when the call came that waits longest, in the time of `time.monotonic`; None if none waits."""
        return min((call.since for call in self._calls), default=None)


def _order(call: Call) -> tuple[int, ...]:
    return call.order


def _age(call: Call) -> tuple[int, ...]:
    return (call.ticket.number,)
