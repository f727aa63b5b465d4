"""The sentences that wait for an engine, and which of them go into its next batch.

The order in which calls are served:

1. Interactive requests before bulk.
2. Then short requests before long ones, of more than `STEP_TOKENS`.
3. Then those of which less has been served, in steps of as many tokens: long requests take turns.
4. Then the request that came first.

One batch in `FAIR_SHARE` ignores all but the last: it serves the request that came first of all. So bulk and long
requests always get a part of the engine's time, however much else comes.

A batch has one kind of work. Others join it in the order above, as long as their tokens fit; only interactive requests
join a batch of the interactive, and only short ones that of a short one: it would take as long as a full batch.
While short requests come, batches of long ones and of bulk are half as large, so that they are soon done.
"""

import heapq
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass, field

from transduce.serve.calls import Call, Sentence
from transduce.serve.requests import Priority

STEP_TOKENS = 512
FAIR_SHARE = 4
_COMING_SECONDS = 2.0  # after a short request, in which another one is expected


@dataclass(slots=True)
class Batch:
    """Sentences that are computed together."""

    work: Hashable
    sentences: list[Sentence] = field(default_factory=list)
    tokens: int = 0
    others_wait: bool = False  # whether there was more than went into it


class SentenceQueue:
    """The calls that wait; whoever uses it holds its lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._calls: dict[Call, None] = {}  # in the order in which they came
        self._num_batches = 0
        self._short_came = -_COMING_SECONDS  # when the last short request came
        self.num_sentences = 0
        self.num_tokens = 0

    def add(self, call: Call) -> None:
        """Adds a call, which must have inputs."""
        self._calls[call] = None
        if not _is_long(call):
            self._short_came = time.monotonic()
        self.num_sentences += len(call.waiting)
        self.num_tokens += call.waiting_tokens

    def remove(self, call: Call) -> None:
        """Removes what still waits of a call."""
        if call in self._calls:
            del self._calls[call]
            self.num_sentences -= len(call.waiting)
            self.num_tokens -= call.waiting_tokens
            call.waiting.clear()
            call.waiting_tokens = 0

    def next_batch(self, max_tokens: int, num_workers: int) -> Batch | None:
        """Removes and returns the next batch, or None if nothing waits.

        Args:
            max_tokens: of the batch; a sentence of more is a batch of its own.
            num_workers: that have nothing to do: they share what waits.
        """
        if not self._calls:
            return None
        self._num_batches += 1
        is_fair = self._num_batches % FAIR_SHARE == 0
        order = _age if is_fair else _order
        first = min(self._calls, key=order)
        candidates = [call for call in self._calls if call.work == first.work]
        if not is_fair:
            candidates = [call for call in candidates if _order(call)[:2] <= _order(first)[:2]]
        if _is_long(first) and time.monotonic() - self._short_came < _COMING_SECONDS:
            max_tokens //= 2
        budget = min(max_tokens, -(-sum(call.waiting_tokens for call in candidates) // num_workers))
        batch = Batch(first.work)
        heap = [(order(call), call) for call in candidates]
        heapq.heapify(heap)
        while heap:
            call = heap[0][1]
            if batch.sentences and batch.tokens + call.waiting[0].tokens > budget:
                break
            sentence = call.next()
            batch.sentences.append(sentence)
            batch.tokens += sentence.tokens
            if call.waiting:
                heapq.heapreplace(heap, (order(call), call))
            else:
                heapq.heappop(heap)
                del self._calls[call]
        self.num_sentences -= len(batch.sentences)
        self.num_tokens -= batch.tokens
        batch.others_wait = bool(self._calls)
        return batch

    def tokens_before(self, priority: Priority) -> int:
        """Returns about how many tokens are served before the first of a request that comes now."""
        served_first = (call for call in self._calls if call.ticket.priority <= priority)
        return sum(min(call.waiting_tokens, STEP_TOKENS) for call in served_first)

    def oldest(self) -> float | None:
        """Returns when the call came that waits longest, in the time of `time.monotonic`; None if none waits."""
        return min((call.since for call in self._calls), default=None)


def _is_long(call: Call) -> bool:
    return call.ticket.priority is Priority.BULK or call.ticket.served_tokens + call.waiting_tokens > STEP_TOKENS


def _order(call: Call) -> tuple[int, ...]:
    ticket = call.ticket
    return ticket.priority, _is_long(call), ticket.served_tokens // STEP_TOKENS, ticket.number


def _age(call: Call) -> tuple[int, ...]:
    return (call.ticket.number,)  # of one call each
