"""What a request asks of an engine: inputs that wait, are computed in any batches, and come back together."""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from transduce.serve.requests import DeadlineError, Priority, ServiceError

_numbers = itertools.count()


class CancelledRequestError(ServiceError):
    """Nobody waits for the answer any more."""

    def __init__(self) -> None:
        super().__init__("The request was cancelled.")


class Ticket:
    """One request in the queues: its priority, its deadline, and whether anybody still waits for its answer."""

    def __init__(self, priority: Priority = Priority.INTERACTIVE, deadline: float | None = None) -> None:
        """Takes the deadline as a time of `time.monotonic`; None for none."""
        self.priority, self.deadline = priority, deadline
        self.number = next(_numbers)  # requests that came earlier have lower ones
        self.served_tokens = 0
        self.waited_seconds = 0.0  # of the sentence that waited longest
        self._cancelled = False
        self._call: Call | None = None
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """Says that nobody waits any more: what is queued leaves the queue. Can be called from any thread."""
        with self._lock:
            self._cancelled = True
            call = self._call
        if call is not None:
            call.withdraw()

    def check(self) -> None:
        """Is called now and then by work that takes long: raises where nobody waits for it any more.

        Raises:
            CancelledRequestError: the request was cancelled.
            DeadlineError: its deadline has come.
        """
        if self._cancelled:
            raise CancelledRequestError
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise DeadlineError

    def enter(self, call: "Call | None") -> None:
        """Sets the call that waits now, of which there is one at a time.

        Raises:
            CancelledRequestError: the request was cancelled.
        """
        with self._lock:
            self._call = call
            if self._cancelled and call is not None:
                raise CancelledRequestError

    @property
    def waiting_tokens(self) -> int:
        """The tokens that wait for a batch now."""
        call = self._call
        return 0 if call is None else call.waiting_tokens

    @property
    def seconds_left(self) -> float | None:
        """The time until the deadline, at least 0; None if there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


@dataclass(slots=True, eq=False)
class Sentence:
    """One input that waits."""

    call: "Call"
    index: int  # among the inputs of its call
    input: Any
    tokens: int


class Call:
    """Inputs of one request for one kind of work."""

    def __init__(
        self,
        ticket: Ticket,
        work: Hashable,
        inputs: Sequence[Any],
        tokens: Sequence[int],
        on_end: "Callable[[Call], None]",
    ) -> None:
        """Makes a call that waits nowhere yet.

        Args:
            ticket: of the request.
            work: what is to be done; inputs of equal work can be computed together.
            inputs: at least one.
            tokens: of each input.
            on_end: is called once, on any thread, when all results are there or none will come; it may not block.
        """
        self.ticket, self.work = ticket, work
        self.since = time.monotonic()
        self.waiting = deque(Sentence(self, i, *each) for i, each in enumerate(zip(inputs, tokens, strict=True)))
        self.waiting_tokens = sum(tokens)
        self._results: list[Any] = [None] * len(inputs)
        self._error: BaseException | None = None
        self._num_open = len(inputs)
        self._lock = threading.Lock()
        self._on_end = on_end

    @property
    def is_open(self) -> bool:
        """Whether results are still to come."""
        return self._num_open > 0

    def next(self) -> Sentence:
        """Removes and returns the sentence that waits first, and counts it as served."""
        sentence = self.waiting.popleft()
        self.waiting_tokens -= sentence.tokens
        self.ticket.served_tokens += sentence.tokens
        return sentence

    def finish(self, sentence: Sentence, result: Any) -> None:
        """Enters the result of a sentence."""
        with self._lock:
            if not self._num_open:
                return
            self._results[sentence.index] = result
            self._num_open -= 1
            if self._num_open:
                return
        self._on_end(self)

    def fail(self, error: BaseException) -> None:
        """Ends the call with an error."""
        with self._lock:
            if not self._num_open:
                return
            self._num_open, self._error = 0, error
        self._on_end(self)

    def withdraw(self) -> None:
        """Ends the call because nobody waits for it."""
        self.fail(CancelledRequestError())

    def outcome(self) -> list[Any]:
        """Returns the results of a call that has ended, or raises its error."""
        if self._error is not None:
            raise self._error
        return self._results
