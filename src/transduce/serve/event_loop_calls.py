"""Calls to schedulers that coroutines wait for, without a thread for each."""

import asyncio
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

from transduce.serve.calls import Ticket
from transduce.serve.requests import DeadlineError
from transduce.serve.scheduler import Scheduler


class EventLoopCalls:
    """The calls that wait in one event loop. A batch wakes the loop once, however many calls end with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Takes the loop, in which `run` is awaited."""
        self._loop = loop
        self._ended: deque[asyncio.Future[None]] = deque()
        self._is_woken = False

    async def run(
        self, scheduler: Scheduler, ticket: Ticket, work: Hashable, inputs: Sequence[Any], tokens: Sequence[int]
    ) -> list[Any]:
        """Returns the result of each input; see `Scheduler.run`. If the caller is cancelled, the call is withdrawn."""
        if not inputs:
            return []
        future: asyncio.Future[None] = self._loop.create_future()
        call = scheduler.submit(ticket, work, inputs, tokens, lambda: self._end(future))
        try:
            async with asyncio.timeout(ticket.seconds_left):
                await future
        except TimeoutError:
            call.fail(DeadlineError())
        except asyncio.CancelledError:
            call.withdraw()
            raise
        finally:
            ticket.enter(None)
        return call.outcome()

    def _end(self, future: "asyncio.Future[None]") -> None:
        """Is called on any thread."""
        self._ended.append(future)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_woken = False  # first: what ends from now on wakes the loop again
        while self._ended:
            future = self._ended.popleft()
            if not future.done():  # else its caller was cancelled
                future.set_result(None)
