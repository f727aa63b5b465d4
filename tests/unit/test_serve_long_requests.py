"""Long requests: those that cannot be answered in time are refused at once, and say when they can be."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import pytest

from transduce.serve.calls import Call, Ticket
from transduce.serve.long_requests import LongRequests
from transduce.serve.requests import DeadlineError, OverloadedError, Priority, TooLongError


class Speed:
    """A scheduler of a known speed."""

    def __init__(self, seconds_per_token: float) -> None:
        self.seconds_per_token = seconds_per_token

    def seconds_of(self, num_tokens: float) -> float:
        return num_tokens * self.seconds_per_token


def ticket(seconds: float = 30.0, priority: Priority = Priority.INTERACTIVE) -> Ticket:
    return Ticket(priority, time.monotonic() + seconds)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))  # type: ignore[arg-type]


def test_of_four_lists_as_many_are_worked_on_as_can_be_answered() -> None:
    """10,000 tokens take 10 seconds: with a margin of a quarter, two fit into 30 seconds, and three do not."""
    requests, speed = LongRequests(), Speed(0.001)

    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            first = ticket()
            for each in (first, ticket()):
                await stack.enter_async_context(requests.admitted(each, 10_000, [speed]))  # type: ignore[list-item]
            for _ in range(2):
                with pytest.raises(OverloadedError) as raised:
                    await stack.enter_async_context(requests.admitted(ticket(), 10_000, [speed]))  # type: ignore[list-item]
                assert raised.value.retry_after_seconds == 8, "37.5 s of work, and 30 s for it"
            first.served_tokens = 8000
            await stack.enter_async_context(requests.admitted(ticket(), 10_000, [speed]))  # type: ignore[list-item]
        async with requests.admitted(ticket(), 20_000, [speed]):  # type: ignore[list-item]
            pass

    run(test)


def test_one_that_never_fits_is_refused_with_the_limit() -> None:
    async def test() -> None:
        requests, two_models = LongRequests(), [Speed(0.001), Speed(0.002)]
        with pytest.raises(TooLongError, match=r"about 38 s here, and is cancelled after 30 s\. Send fewer texts"):
            async with requests.admitted(ticket(), 10_000, two_models):  # type: ignore[arg-type]
                pytest.fail("it would take 1.25 times 30 s")

    run(test)


def test_an_accepted_request_is_not_made_late_by_a_later_one() -> None:
    async def test() -> None:
        requests, speed = LongRequests(), Speed(0.001)
        async with requests.admitted(ticket(14.0), 10_000, [speed]):  # type: ignore[list-item]
            with pytest.raises(OverloadedError) as raised:
                async with requests.admitted(ticket(30.0), 5000, [speed]):  # type: ignore[list-item]
                    pytest.fail("the first has 14 s for 12.5 s of work")
            assert raised.value.retry_after_seconds == 5, "18.75 s of work, and 14 s for the first"
            async with requests.admitted(ticket(30.0), 5000, [Speed(0.001)]):  # type: ignore[list-item]
                pass  # with another engine

    run(test)


def test_what_waits_in_the_queue_counts_where_the_estimate_was_too_low() -> None:
    async def test() -> None:
        requests, speed, first = LongRequests(), Speed(0.001), ticket()
        async with requests.admitted(first, 10_000, [speed]):  # type: ignore[list-item]
            first.enter(Call(first, "work", ["a", "b"], [4000, 16_000], lambda _: None))
            first.served_tokens = 12_000
            with pytest.raises(OverloadedError) as raised:
                async with requests.admitted(ticket(), 5000, [speed]):  # type: ignore[list-item]
                    pytest.fail("20,000 tokens wait")
            assert raised.value.retry_after_seconds == 2, "31.25 s of work, and 30 s for it"

    run(test)


@pytest.mark.parametrize(("num_tokens", "priority"), [(512, Priority.INTERACTIVE), (10**9, Priority.BULK)])
def test_short_ones_and_documents_are_not_concerned(num_tokens: int, priority: Priority) -> None:
    async def test() -> None:
        requests, speed = LongRequests(), Speed(1.0)
        async with requests.admitted(ticket(0.001, priority), num_tokens, [speed]):  # type: ignore[list-item]
            pass

    run(test)


def test_of_the_first_requests_of_all_one_shows_how_fast_the_engine_is() -> None:
    async def test() -> None:
        requests, speed, ended = LongRequests(), Speed(0.0), asyncio.Event()

        async def ask() -> None:
            async with requests.admitted(ticket(), 10_000, [speed]):  # type: ignore[list-item]
                await ended.wait()

        asking = [asyncio.create_task(ask()) for _ in range(4)]
        await asyncio.sleep(0.2)
        assert len(requests._open) == 1
        speed.seconds_per_token = 0.001
        while not (len(requests._open) == 2 and sum(each.done() for each in asking) == 2):
            await asyncio.sleep(0.01)
        ended.set()
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(each) for each in outcomes] == [type(None), type(None), OverloadedError, OverloadedError]
        assert not requests._open

    run(test)


def test_one_that_is_late_all_the_same_says_when_the_others_are_done() -> None:
    async def test() -> None:
        requests, speed = LongRequests(), Speed(0.001)
        async with requests.admitted(ticket(), 7000, [speed]):  # type: ignore[list-item]
            with pytest.raises(DeadlineError) as raised:
                async with requests.admitted(ticket(), 1000, [speed]):  # type: ignore[list-item]
                    raise DeadlineError
            assert raised.value.retry_after_seconds == 7

    run(test)


def test_over_a_pivot_each_token_is_served_twice() -> None:
    """10,000 tokens by two models are served when 20,000 were: after 8000, 6000 are left for each."""

    async def test() -> None:
        requests, models, first = LongRequests(), [Speed(0.001), Speed(0.001)], ticket()
        async with requests.admitted(first, 10_000, models):  # type: ignore[arg-type]
            first.served_tokens = 8000
            with pytest.raises(OverloadedError) as raised:
                async with requests.admitted(ticket(), 6100, models):  # type: ignore[arg-type]
                    pytest.fail("15 s of work for the first, and 15.25 s")
            assert raised.value.retry_after_seconds == 1
            async with requests.admitted(ticket(), 5900, models):  # type: ignore[arg-type]
                pass

    run(test)
