"""Threads that coroutines wait for: until the deadline, until the caller leaves, and together."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from transduce.serve.calls import CancelledRequestError, Ticket
from transduce.serve.request_threads import RequestThreads
from transduce.serve.requests import DeadlineError, ModelUnavailableError

LONG = 30.0  # seconds within which anything happens on a busy machine


def run(test: Callable[[RequestThreads], Coroutine[Any, Any, None]], num_threads: int = 4) -> None:
    """Runs a test with threads; checks at the end that they have ended."""

    async def awaited() -> None:
        threads = RequestThreads(num_threads)
        try:
            await asyncio.wait_for(test(threads), 4 * LONG)
        finally:
            await asyncio.to_thread(threads.close)
        assert not [each for each in threading.enumerate() if each.name.startswith("request")]

    asyncio.run(awaited())


def ticket(seconds: float = 10 * LONG) -> Ticket:
    return Ticket(deadline=time.monotonic() + seconds)


class Working:
    """A function that works until its ticket tells that nobody waits."""

    def __init__(self, of_request: Ticket) -> None:
        self.started, self.ended = threading.Event(), threading.Event()
        self._ticket = of_request
        self.error: Exception | None = None

    def __call__(self) -> None:
        self.started.set()
        end = time.monotonic() + LONG
        try:
            while time.monotonic() < end:
                self._ticket.check()
                time.sleep(0.002)
        except (CancelledRequestError, DeadlineError) as error:
            self.error = error
            raise
        finally:
            self.ended.set()


def test_a_result_or_an_error_is_the_functions() -> None:
    async def test(threads: RequestThreads) -> None:
        assert await threads.run(lambda: 3, ticket()) == 3
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 // 0, ticket())

    run(test)


def test_at_the_deadline_the_caller_goes_on_and_the_function_ends() -> None:
    async def test(threads: RequestThreads) -> None:
        of_request = ticket(0.1)
        working = Working(of_request)
        with pytest.raises(DeadlineError):
            await threads.run(working, of_request)
        assert await asyncio.to_thread(working.ended.wait, LONG)
        assert working.error is not None

    run(test)


def test_a_function_that_never_looks_does_not_hold_its_caller() -> None:
    async def test(threads: RequestThreads) -> None:
        gate = threading.Event()
        with pytest.raises(DeadlineError):
            await threads.run(lambda: gate.wait(LONG), ticket(0.1))
        gate.set()

    run(test)


def test_a_function_whose_caller_leaves_ends() -> None:
    async def test(threads: RequestThreads) -> None:
        of_request = ticket()
        working = Working(of_request)
        waiting = asyncio.create_task(threads.run(working, of_request))
        assert await asyncio.to_thread(working.started.wait, LONG)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await asyncio.to_thread(working.ended.wait, LONG)
        assert isinstance(working.error, CancelledRequestError)

    run(test)


def test_what_waits_for_a_thread_is_dropped_at_the_deadline() -> None:
    async def test(threads: RequestThreads) -> None:
        gate, ran = threading.Event(), threading.Event()
        first = asyncio.create_task(threads.run(lambda: gate.wait(4 * LONG), ticket()))
        await asyncio.sleep(0)
        with pytest.raises(DeadlineError):
            await threads.run(ran.set, ticket(0.1))
        gate.set()
        assert await first
        await threads.run(lambda: None, ticket())
        assert not ran.is_set()

    run(test, num_threads=1)


def test_what_is_shared_runs_once_and_outlasts_who_leaves() -> None:
    async def test(threads: RequestThreads) -> None:
        gate, runs = threading.Event(), []

        def load() -> None:
            runs.append(threading.get_ident())
            assert gate.wait(4 * LONG)

        late = [asyncio.create_task(threads.run_shared("model", load, ticket(0.1))) for _ in range(8)]
        patient = asyncio.create_task(threads.run_shared("model", load, ticket()))
        for each in late:
            with pytest.raises(DeadlineError):
                await each
        assert await threads.run(lambda: 3, ticket()) == 3, "eight who wait take one thread"
        gate.set()
        await patient
        assert len(runs) == 1
        await threads.run_shared("model", load, ticket())
        assert len(runs) == 2, "it is run again for those who come later"

    run(test, num_threads=2)


def test_an_error_of_what_is_shared_is_that_of_all_who_wait() -> None:
    async def test(threads: RequestThreads) -> None:
        gate = threading.Event()

        def failing() -> None:
            assert gate.wait(4 * LONG)
            raise ModelUnavailableError("It is damaged.")

        waiting = [asyncio.create_task(threads.run_shared("model", failing, ticket())) for _ in range(3)]
        await asyncio.sleep(0)
        gate.set()
        for each in waiting:
            with pytest.raises(ModelUnavailableError):
                await each

    run(test)
