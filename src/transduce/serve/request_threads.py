"""Threads on which requests work on their texts and wait for engines, while coroutines wait for them."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from transduce.serve.calls import Ticket
from transduce.serve.requests import DeadlineError

T = TypeVar("T")


class RequestThreads:
    """A bounded number of threads. Nobody waits for them longer than until the deadline of the request."""

    def __init__(self, num_threads: int) -> None:
        """Takes how many functions run at a time; further ones wait."""
        self._threads = ThreadPoolExecutor(num_threads, "request")
        self._shared: dict[Hashable, asyncio.Future[None]] = {}

    async def run(self, function: Callable[[], T], ticket: Ticket) -> T:
        """Returns the result of a function.

        If the caller is cancelled or the deadline comes, the ticket is cancelled: a function that checks it ends soon.

        Raises:
            DeadlineError: the deadline came first.
        """
        submitted = self._threads.submit(function)
        future = asyncio.wrap_future(submitted)
        try:
            return await _result(future, ticket)
        finally:
            if not future.done():
                ticket.cancel()
                submitted.cancel()  # if it waits for a thread, it leaves the queue
                future.cancel()

    async def run_shared(self, key: Hashable, function: Callable[[], None], ticket: Ticket) -> None:
        """Runs a function once for all who wait for the same key; it goes on if they leave.

        Raises:
            DeadlineError: the deadline came first.
        """
        future = self._shared.get(key)
        if future is None:
            future = self._shared[key] = asyncio.wrap_future(self._threads.submit(function))
            future.add_done_callback(lambda done: self._forget(key, done))
        await _result(future, ticket)

    def _forget(self, key: Hashable, done: "asyncio.Future[None]") -> None:
        del self._shared[key]
        if not done.cancelled():
            done.exception()  # asyncio would report an error for which nobody waits any more

    def close(self) -> None:
        """Waits until all functions have ended; no more can be run."""
        self._threads.shutdown()


async def _result(future: "asyncio.Future[T]", ticket: Ticket) -> T:
    """Returns the result of a future once it is there; the future is not cancelled with the caller."""
    await asyncio.wait([future], timeout=ticket.seconds_left)
    if not future.done():
        raise DeadlineError
    return future.result()
