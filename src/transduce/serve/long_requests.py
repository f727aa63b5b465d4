"""Long requests: one that cannot be answered before its deadline is refused at once.

Several long requests share the engines. Otherwise all of them would reach their deadlines, and all work would be lost.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Sequence

from transduce.serve.calls import Ticket
from transduce.serve.requests import DeadlineError, OverloadedError, Priority, TooLongError
from transduce.serve.scheduler import Scheduler
from transduce.serve.sentence_queue import STEP_TOKENS

_POLL_SECONDS = 0.05
_MARGIN = 1.25  # how much longer than expected a request may take: shorter ones come meanwhile and go first


class LongRequests:
    """The interactive requests of many tokens that are worked on."""

    def __init__(self) -> None:
        self._open: dict[Ticket, tuple[int, Sequence[Scheduler]]] = {}

    @contextlib.asynccontextmanager
    async def admitted(self, ticket: Ticket, num_tokens: int, schedulers: Sequence[Scheduler]) -> AsyncIterator[None]:
        """Counts a request as worked on for the time of the context.

        Args:
            ticket: of the request.
            num_tokens: about how many tokens it has.
            schedulers: those that it goes through, one after the other.

        Raises:
            TooLongError: it would take longer than its time limit, even alone.
            OverloadedError: it would with the other requests.
            DeadlineError: it was not done in time; the error has the seconds after which the others are done.
        """
        if num_tokens <= STEP_TOKENS or ticket.priority is Priority.BULK:
            yield
            return
        while self._open and not all(scheduler.seconds_of(1) for scheduler in schedulers):
            await asyncio.sleep(_POLL_SECONDS)  # until the first request has shown how fast the engine is
            ticket.check()
        self._require_time(ticket, num_tokens, schedulers)
        self._open[ticket] = (num_tokens, schedulers)
        try:
            yield
        except DeadlineError:
            wait = self._seconds_before(ticket, schedulers)
            raise DeadlineError(max(1, math.ceil(wait))) from None
        finally:
            del self._open[ticket]

    def _require_time(self, ticket: Ticket, num_tokens: int, schedulers: Sequence[Scheduler]) -> None:
        """Raises where this request, or one of the others, would not be answered in time."""
        if ticket.seconds_left is None:
            return
        own = _MARGIN * sum(scheduler.seconds_of(num_tokens) for scheduler in schedulers)
        if own > ticket.seconds_left:
            raise TooLongError(own, ticket.seconds_left)
        limits = [left for each in (ticket, *self._open) if (left := each.seconds_left) is not None]
        wait = own + _MARGIN * self._seconds_before(ticket, schedulers) - min(limits)
        if wait > 0 and self._open:
            message = "Other long requests are worked on. Try again later, or send fewer texts at once."
            raise OverloadedError(message, math.ceil(wait))

    def _seconds_before(self, ticket: Ticket, schedulers: Sequence[Scheduler]) -> float:
        """Returns how many seconds the rest of the other requests will take."""
        seconds = 0.0
        for other, (num_tokens, used) in self._open.items():
            if other is not ticket:
                # Queued tokens are known, later ones are estimated. With a pivot, each token is served twice.
                left = max(other.waiting_tokens, num_tokens - other.served_tokens / max(1, len(used)))
                seconds += sum(scheduler.seconds_of(1) * left for scheduler in schedulers if scheduler in used)
        return seconds
