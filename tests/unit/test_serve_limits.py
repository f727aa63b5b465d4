"""Budgets of characters by key; usage that survives a store that fails; who may use the service."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from transduce.serve.operations import access as access_module
from transduce.serve.operations.access import (
    Access,
    DayLimitError,
    KeyChecks,
    KeyRequiredError,
    MinuteLimitError,
    Scope,
    UnknownKeyError,
    WrongKeysError,
)
from transduce.serve.operations.keys import ANONYMOUS, Key, KeyRing, add_key
from transduce.serve.operations.limits import Budgets, MinuteBudget, Usage, seconds_of_day_left
from transduce.serve.operations.request_record import record_of
from transduce.serve.state.database import StateError
from transduce.serve.state.store import Store, open_store

DAY = "2026-01-01"
T = TypeVar("T")


def http_scope() -> dict[str, Any]:
    return {"type": "http"}


class Clock:
    """A time that tests set."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> Iterator[Store]:
    opened = open_store("memory")
    yield opened
    opened.close()


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
def usage(store: Store, failures: list[str]) -> Usage:
    return Usage(store, lambda: failures.append("failed"), lambda: DAY)


@pytest.fixture
def budgets(usage: Usage, clock: Clock) -> Budgets:
    return Budgets(usage, clock)


def key(**limits: int) -> Key:
    return Key("weblate", "0" * 64, **limits)


@contextlib.contextmanager
def charged(access: Access, scope: Scope, key: Key, characters: int) -> Iterator[None]:
    """Is `Access.charged` in an event loop of its own."""
    with asyncio.Runner() as runner:
        block = access.charged(scope, key, characters)
        runner.run(_awaited(block.__aenter__()))
        try:
            yield
        except BaseException as error:
            if not runner.run(_awaited(block.__aexit__(type(error), error, error.__traceback__))):
                raise
        else:
            runner.run(_awaited(block.__aexit__(None, None, None)))


async def _awaited(work: Awaitable[T]) -> T:
    return await work


# --- the minute -----------------------------------------------------------------------------------------------


def test_a_budget_is_refilled_steadily_up_to_a_minutes_characters(clock: Clock) -> None:
    budget = MinuteBudget(600, clock)
    budget.change(500)
    assert budget.left == 100
    clock.seconds += 6
    assert budget.left == pytest.approx(160)
    assert budget.seconds_until(200) == 4
    clock.seconds += 3600
    assert budget.left == 600


def test_a_long_text_passes_and_is_paid_off_later(clock: Clock) -> None:
    budget = MinuteBudget(600, clock)
    budget.change(1200)
    assert budget.left == -600
    assert budget.seconds_until(1) == 61
    clock.seconds += 60
    assert budget.left == pytest.approx(0)


def test_the_average_stays_below_the_limit(budgets: Budgets, clock: Clock) -> None:
    access, scope = Access(None, budgets), http_scope()
    passed = 0
    for _ in range(6000):  # ten a second for ten minutes, 50 characters each: five times as many as allowed
        clock.seconds += 0.1
        try:
            with charged(access, scope, key(characters_per_minute=6000), 50):
                passed += 50
        except MinuteLimitError:
            continue
    assert 10 * 6000 <= passed <= 11 * 6000 + 50


def test_a_changed_limit_counts_at_once(budgets: Budgets) -> None:
    asyncio.run(budgets.take(key(characters_per_minute=100), 100))
    changed = budgets.minute(key(characters_per_minute=200))
    assert changed is not None
    assert changed.left == 200


# --- the day --------------------------------------------------------------------------------------------------


def test_usage_is_known_before_and_after_it_is_saved(usage: Usage, store: Store) -> None:
    usage.change("weblate", 10)
    assert usage.of_today("weblate") == 10
    assert asyncio.run(usage.save())
    assert usage.of_today("weblate") == 10
    store.add_usage(DAY, {"weblate": 100})  # another replica
    usage.change("weblate", 1)
    assert asyncio.run(usage.save())
    assert usage.of_today("weblate") == 111
    assert usage.of_today("other") == 0


@pytest.mark.parametrize(("seconds", "left"), [(3 * 86_400.0, 86_400), (3 * 86_400 + 3600.9, 82_800), (86_399.5, 1)])
def test_a_day_ends_at_midnight(monkeypatch: pytest.MonkeyPatch, seconds: float, left: int) -> None:
    monkeypatch.setattr("transduce.serve.operations.limits.time.time", lambda: seconds)
    assert seconds_of_day_left() == left


def test_a_new_day_begins_at_nothing(store: Store) -> None:
    days = ["2026-01-01"]
    usage = Usage(store, lambda: None, lambda: days[-1])
    usage.change("weblate", 10)
    days.append("2026-01-02")
    usage.change("weblate", 3)
    assert usage.of_today("weblate") == 3
    asyncio.run(usage.save())
    assert store.usage("weblate", "2026-01-01", "2026-01-01") == 10
    assert store.usage("weblate", "2026-01-02", "2026-01-02") == 3
    assert list(usage._saved) == ["2026-01-02"]


def test_two_that_save_at_the_same_time_save_all_days(usage: Usage, store: Store) -> None:
    """A document that is charged late saves while the service does so every second."""

    async def save_twice() -> list[bool]:
        return await asyncio.gather(usage.save(), usage.save())

    days = ["2025-12-31", DAY]
    for day, characters in zip(days, (-70, 5), strict=True):
        usage.change("one", characters, day)
    assert asyncio.run(save_twice()) == [True, True]
    assert [store.usage("one", day, day) for day in days] == [-70, 5]


def test_usage_of_before_the_start_and_of_other_replicas_counts(store: Store) -> None:
    store.add_usage(DAY, {"weblate": 100})
    usage = Usage(store, lambda: None, lambda: DAY)
    assert asyncio.run(usage.total_of_today("weblate")) == 100
    assert usage.of_today("weblate") == 0
    asyncio.run(usage.load())
    assert usage.of_today("weblate") == 100
    usage.change("weblate", 10)
    store.add_usage(DAY, {"weblate": 1})
    assert asyncio.run(usage.total_of_today("weblate")) == 111
    assert asyncio.run(usage.save())
    assert usage.of_today("weblate") == 111


def test_characters_are_given_back_to_the_day_of_which_they_were_taken(store: Store) -> None:
    days = ["2026-01-01"]
    usage = Usage(store, lambda: None, lambda: days[-1])
    access = Access(None, Budgets(usage))

    def fail_after_midnight() -> None:
        with charged(access, {}, ANONYMOUS, 10):
            days.append("2026-01-02")
            raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        fail_after_midnight()
    assert usage.of_today("") == 0
    asyncio.run(usage.save())
    assert store.usage("", "2026-01-01", "2026-01-02") == 0
    assert store.usage("", "2026-01-01", "2026-01-01") == 0


def test_a_store_that_fails_loses_no_usage(
    usage: Usage, store: Store, failures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(day: str, characters: Mapping[str, int]) -> dict[str, int]:
        raise StateError

    usage.change("weblate", 10)
    with monkeypatch.context() as patch:
        patch.setattr(store, "add_usage", failing)
        for _ in range(3):
            assert not asyncio.run(usage.save())
            usage.change("weblate", 1)
    assert len(failures) == 3
    assert usage.of_today("weblate") == 13
    assert asyncio.run(usage.save())
    assert usage.of_today("weblate") == 13
    assert store.usage("weblate", DAY, DAY) == 13


def test_usage_is_saved_when_the_service_ends(usage: Usage, store: Store) -> None:
    async def short_life() -> None:
        saving = asyncio.create_task(usage.keep_saving())
        await asyncio.sleep(0)
        usage.change("weblate", 10)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving

    asyncio.run(short_life())
    assert store.usage("weblate", DAY, DAY) == 10


def test_what_is_being_saved_when_the_service_ends_is_saved_again_where_that_fails(
    usage: Usage, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.serve.operations.limits._SAVE_SECONDS", 0)
    add_usage, began, ended, calls = store.add_usage, threading.Event(), threading.Event(), list[str]()

    def failing_once(day: str, characters: Mapping[str, int]) -> dict[str, int]:
        calls.append(day)
        if len(calls) > 1:
            return add_usage(day, characters)
        began.set()
        assert ended.wait(30)
        raise StateError

    async def short_life() -> None:
        usage.change("weblate", 10)
        saving = asyncio.create_task(usage.keep_saving())
        while not began.is_set():
            await asyncio.sleep(0.001)
        saving.cancel()
        await asyncio.sleep(0.01)
        ended.set()
        with pytest.raises(asyncio.CancelledError):
            await saving

    monkeypatch.setattr(store, "add_usage", failing_once)
    asyncio.run(short_life())
    assert store.usage("weblate", DAY, DAY) == 10


def test_usage_that_is_lost_at_the_end_is_told(
    usage: Usage, store: Store, failures: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object) -> None:
        raise StateError

    async def short_life() -> None:
        saving = asyncio.create_task(usage.keep_saving())
        await asyncio.sleep(0)
        usage.change("weblate", 10)
        usage.change("other", 5)
        usage.change("weblate", 2, "2025-12-31")
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving

    monkeypatch.setattr(store, "add_usage", failing)
    asyncio.run(short_life())
    assert caplog.messages == ["the store failed: the usage of the last 17 characters is lost"]
    assert failures == ["failed"]


def test_usage_is_saved_every_second(usage: Usage, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError
        usage.change("weblate", 10)

    monkeypatch.setattr("transduce.serve.operations.limits.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(usage.keep_saving())
    assert slept == [1.0] * 3
    assert store.usage("weblate", DAY, DAY) == 20


def test_what_is_left_is_told_in_headers(budgets: Budgets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.serve.operations.limits.time.time", lambda: 86_400.0 * 3 + 400)
    both = key(characters_per_minute=100, characters_per_day=150)
    assert budgets.headers(both) == [
        (b"ratelimit-policy", b'"minute";q=100;w=60, "day";q=150;w=86400'),
        (b"ratelimit", b'"minute";r=100;t=0, "day";r=150;t=86000'),
    ]
    assert asyncio.run(budgets.take(both, 190)) == DAY
    assert budgets.headers(both)[1] == (b"ratelimit", b'"minute";r=0;t=114, "day";r=0;t=86000')
    assert asyncio.run(budgets.take(both, 50)) is None
    assert budgets.headers(both)[1] == (b"ratelimit", b'"minute";r=0;t=114, "day";r=0;t=86000')
    assert budgets.headers(key(characters_per_day=200)) == [
        (b"ratelimit-policy", b'"day";q=200;w=86400'),
        (b"ratelimit", b'"day";r=10;t=86000'),
    ]
    budgets.refund("weblate", 100, DAY)
    assert budgets.headers(both)[1] == (b"ratelimit", b'"minute";r=10;t=54, "day";r=60;t=86000')
    budgets.refund("nobody", 5, DAY)
    assert budgets.usage.of_today("nobody") == -5


def test_with_a_character_left_of_the_minute_a_request_passes(budgets: Budgets, clock: Clock) -> None:
    access, limited = Access(None, budgets), key(characters_per_minute=60)
    with charged(access, http_scope(), limited, 59):
        pass
    with charged(access, http_scope(), limited, 1):
        pass
    clock.seconds += 0.5
    with pytest.raises(MinuteLimitError, match="try again in 1 s") as raised, charged(access, http_scope(), limited, 1):
        pytest.fail("half a character is left")
    assert raised.value.retry_after_seconds == 1


class FailingStore:
    """A store whose usage can be made to fail."""

    def __init__(self, store: Store) -> None:
        self._store, self.is_failing = store, False

    def __getattr__(self, name: str) -> Any:
        if self.is_failing:
            raise StateError
        return getattr(self._store, name)


def test_replicas_spend_the_quota_of_a_day_once(tmp_path: Path) -> None:
    limited, passed = key(characters_per_day=1000), 0
    stores = [open_store(str(tmp_path / "serve.db")) for _ in range(2)]
    replicas = [Access(None, Budgets(Usage(each, lambda: None, lambda: DAY))) for each in stores]

    async def ask(access: Access) -> None:
        nonlocal passed
        with contextlib.suppress(DayLimitError):
            async with access.charged(http_scope(), limited, 50):
                passed += 50

    async def test() -> None:
        await asyncio.gather(*(ask(access) for _ in range(30) for access in replicas))

    asyncio.run(test())
    assert passed == 1000
    assert stores[0].usage("weblate", DAY, DAY) == 1000
    assert [access.budgets.left_today(limited) for access in replicas] == [0, 0]
    replicas[0].budgets.refund("weblate", 100, DAY)
    asyncio.run(replicas[0].budgets.usage.save())
    asyncio.run(ask(replicas[1]))
    assert passed == 1050, "what one replica gives back, another may spend"
    for store in stores:
        store.close()


def test_a_store_that_fails_leaves_each_replica_to_hold_the_limit(store: Store) -> None:
    failing = FailingStore(store)
    access = Access(None, Budgets(Usage(failing, lambda: None, lambda: DAY)))  # type: ignore[arg-type]
    limited = key(characters_per_day=100)
    with charged(access, http_scope(), limited, 60):
        pass
    failing.is_failing = True
    with charged(access, http_scope(), limited, 60):
        pass
    with pytest.raises(DayLimitError), charged(access, http_scope(), limited, 1):
        pytest.fail("there was nothing left")
    failing.is_failing = False
    with pytest.raises(DayLimitError), charged(access, http_scope(), limited, 1):
        pytest.fail("there was nothing left")
    assert asyncio.run(access.budgets.usage.save())
    assert store.usage("weblate", DAY, DAY) == 120


def test_a_store_that_is_known_to_fail_is_not_asked_for_each_request(store: Store, failures: list[str]) -> None:
    asked: list[object] = []

    class Failing:
        is_failing = True

        def take_usage(self, *arguments: object) -> tuple[bool, int]:
            asked.append(arguments)
            raise StateError

    usage = Usage(Failing(), lambda: failures.append("failed"), lambda: DAY)  # type: ignore[arg-type]
    assert asyncio.run(usage.take("weblate", 10, 100)) == DAY
    assert (asked, failures, usage.of_today("weblate")) == ([], [], 10)
    Failing.is_failing = False
    assert asyncio.run(usage.take("weblate", 10, 100)) == DAY
    assert (asked, failures) == ([(DAY, "weblate", 10, 90)], ["failed"])
    assert usage.of_today("weblate") == 20


def test_who_is_refused_is_told_what_is_left(budgets: Budgets) -> None:
    access, scope = Access(None, budgets), http_scope()
    limited = key(characters_per_day=100)
    assert asyncio.run(budgets.take(limited, 100)) == DAY
    with pytest.raises(DayLimitError), charged(access, scope, limited, 1):
        pytest.fail("there was nothing left")
    [policy, left] = record_of(scope).headers
    assert policy == (b"ratelimit-policy", b'"day";q=100;w=86400')
    assert left[1].startswith(b'"day";r=0;t=')
    assert record_of(scope).characters == 0


# --- who may use the service ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [StateError, asyncio.CancelledError])  # the latter where a client has left
def test_charged_characters_are_given_back_where_nothing_was_translated(
    budgets: Budgets, error: type[BaseException]
) -> None:
    access, scope = Access(None, budgets), http_scope()
    limited = key(characters_per_minute=100, characters_per_day=150)

    def failing() -> None:
        with charged(access, scope, limited, 60):
            assert record_of(scope).headers[1][1].startswith(b'"minute";r=40;t=36, "day";r=90;t=')
            raise error

    with pytest.raises(error):
        failing()
    assert budgets.usage.of_today("weblate") == 0
    assert record_of(scope).characters == 0
    assert b'"minute";r=100;t=0' in record_of(scope).headers[1][1]
    with charged(access, scope, limited, 60):
        pass
    assert budgets.usage.of_today("weblate") == 60


@pytest.mark.parametrize("fails", [False, True])
def test_a_client_that_leaves_while_it_is_charged_pays_nothing(
    usage: Usage, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    started, gate, take = threading.Event(), threading.Event(), store.take_usage

    def slowly(*arguments: Any) -> Any:
        started.set()
        assert gate.wait(30)
        if fails:
            raise StateError
        return take(*arguments)

    monkeypatch.setattr(store, "take_usage", slowly)
    access, limited = Access(None, Budgets(usage, clock)), key(characters_per_minute=600, characters_per_day=1000)

    async def translate() -> None:
        async with access.charged(http_scope(), limited, 100):
            pytest.fail("the client has left")

    async def test() -> None:
        charging = asyncio.create_task(translate())
        assert await asyncio.to_thread(started.wait, 30)
        charging.cancel()
        asyncio.get_running_loop().call_later(0.05, gate.set)
        with pytest.raises(asyncio.CancelledError):
            await charging
        await usage.save()

    asyncio.run(test())
    minute = access.budgets.minute(limited)
    assert minute is not None
    assert (minute.left, store.usage("weblate", DAY, DAY)) == (600, 0)


def test_a_key_without_characters_left_is_told_when_to_come_back(budgets: Budgets, clock: Clock) -> None:
    access, scope = Access(None, budgets), http_scope()
    limited = key(characters_per_minute=60, characters_per_day=100)
    with charged(access, scope, limited, 90):
        pass
    with pytest.raises(MinuteLimitError, match="60 characters a minute") as raised, charged(access, scope, limited, 1):
        pytest.fail("there was nothing left")
    assert raised.value.retry_after_seconds == 31
    clock.seconds += raised.value.retry_after_seconds
    with charged(access, scope, limited, 10):
        pass
    clock.seconds += 60
    with pytest.raises(DayLimitError, match="100 characters of today") as raised, charged(access, scope, limited, 1):
        pytest.fail("there was nothing left")
    assert 0 < raised.value.retry_after_seconds <= 86_400
    assert budgets.usage.of_today("weblate") == 100


def test_a_key_without_limits_has_no_headers(budgets: Budgets) -> None:
    access, scope = Access(None, budgets), http_scope()
    assert access.authorise(scope, None) is ANONYMOUS
    with charged(access, scope, ANONYMOUS, 10**9):
        pass
    assert record_of(scope).headers == []
    assert record_of(scope).characters == 10**9


@pytest.mark.parametrize("required", [True, False])
def test_keys_are_asked_for(tmp_path: Path, budgets: Budgets, required: bool) -> None:
    secret = add_key(tmp_path / "keys.toml", "weblate", per_minute=60)
    access = Access(KeyRing(tmp_path / "keys.toml"), budgets, required=required)
    scope: dict[str, Any] = {"type": "http"}
    assert access.authorise(scope, secret).name == "weblate"
    assert record_of(scope).key_name == "weblate"
    assert record_of(scope).headers[0] == (b"ratelimit-policy", b'"minute";q=60;w=60')
    with pytest.raises(UnknownKeyError):
        access.authorise({"type": "http"}, secret + "x")
    for nothing in (None, ""):
        if required:
            with pytest.raises(KeyRequiredError):
                access.authorise({"type": "http"}, nothing)
        else:
            assert access.authorise({"type": "http"}, nothing) is ANONYMOUS


def _outcome(checks: KeyChecks, address: str, key: Key | None) -> str | int:
    """Returns the name of the key, "wrong", or the seconds to wait."""
    try:
        return checks.check(address, key).name
    except WrongKeysError as error:
        return error.retry_after_seconds
    except UnknownKeyError:
        return "wrong"


def test_an_address_may_send_ten_wrong_keys_a_minute(clock: Clock) -> None:
    checks, own, new = KeyChecks(clock), Key("own", "0" * 64), Key("new", "1" * 64)
    assert _outcome(checks, "10.0.0.1", own) == "own"
    assert [_outcome(checks, "10.0.0.1", None) for _ in range(12)] == ["wrong"] * 10 + [6, 6]  # 60 s for 10
    assert _outcome(checks, "10.0.0.1", new) == 6  # a right guess is not recognised
    assert _outcome(checks, "10.0.0.1", own) == "own"
    assert _outcome(checks, "10.0.0.2", new) == "new"
    clock.seconds += 5.5
    assert _outcome(checks, "10.0.0.1", new) == 1
    clock.seconds += 0.5
    assert [_outcome(checks, "10.0.0.1", each) for each in (new, None, None)] == ["new", "wrong", 6]
    clock.seconds += 600
    assert [_outcome(checks, "10.0.0.1", None) for _ in range(11)] == ["wrong"] * 10 + [6]


@pytest.mark.parametrize(
    ("first", "other", "is_one"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("testclient", "other", False),
    ],
)
def test_a_network_of_ipv6_is_one_address(clock: Clock, first: str, other: str, is_one: bool) -> None:
    checks = KeyChecks(clock)
    assert [_outcome(checks, first, None) for _ in range(11)][-1] == 6
    assert _outcome(checks, other, None) == (6 if is_one else "wrong")


def test_as_many_addresses_are_remembered_as_fit(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "_MAX_ADDRESSES", 2)
    checks = KeyChecks(clock)
    for address in ["a", "b"] * 10:
        assert _outcome(checks, address, None) == "wrong"
    assert _outcome(checks, "a", None) == 6
    assert _outcome(checks, "c", None) == "wrong"  # in place of b, which was silent for longest
    assert _outcome(checks, "a", None) == 6
    assert _outcome(checks, "b", None) == "wrong"


def test_wrong_keys_of_a_client_are_limited(tmp_path: Path, budgets: Budgets) -> None:
    secret = add_key(tmp_path / "keys.toml", "weblate")
    access = Access(KeyRing(tmp_path / "keys.toml"), budgets)
    for number in range(10):
        with pytest.raises(UnknownKeyError):
            access.authorise({"type": "http", "client": ("10.0.0.1", number)}, "wrong")
    with pytest.raises(WrongKeysError, match="from this address: try again in 6 s"):
        access.authorise({"type": "http", "client": ("10.0.0.1", 99)}, secret)
    assert access.authorise({"type": "http", "client": ("10.0.0.2", 1)}, secret).name == "weblate"


def test_without_a_file_of_keys_everybody_may_use_the_service(budgets: Budgets) -> None:
    access = Access(None, budgets)
    assert not access.required
    assert access.authorise({"type": "http"}, "any key") is ANONYMOUS
