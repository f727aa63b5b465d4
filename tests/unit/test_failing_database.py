"""A database that fails as a test says: what is tried again, what is not, what is logged, and what clients are told."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.errors import ConfigError
from transduce.serve.state import database as module
from transduce.serve.state.database import Database, StateError, Statement


class FailedError(Exception):
    """What the driver raises."""


class Connection:
    """A connection that notes what happens to it."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.rollback_fails = False

    def rollback(self) -> None:
        self.events.append("rollback")
        if self.rollback_fails:
            raise FailedError("gone")

    def close(self) -> None:
        self.events.append("close")
        raise FailedError("closed already")  # which nobody needs to know


class Failing(Database):
    """Connects and answers, unless it is told to fail: by the beginning of a statement, or "connect"."""

    driver_error = FailedError
    begin = "BEGIN"
    lock_schema = "lock"

    def __init__(self) -> None:
        super().__init__("made up")
        self.events: list[str] = []
        self.failures: dict[str, int] = {}  # how often each fails yet
        self.is_connection_lost = True
        self.replaced = False

    def fail(self, what: str) -> None:
        if self.failures.get(what, 0):
            self.failures[what] -= 1
            raise FailedError(f"{what} failed\nhint: none")

    def connect(self) -> Connection:
        self.events.append("connect")
        self.fail("connect")
        return Connection(self.events)

    def execute(self, connection: Connection, statement: str, values: Sequence[object] = ()) -> list[Any]:
        if statement.startswith("SELECT max"):
            return [(len(module.MIGRATIONS),)]
        if not statement.startswith("CREATE"):
            self.events.append(statement)
            self.fail(statement)
        return [("row",)]

    def is_lost(self, connection: Connection, error: Exception) -> bool:
        return self.is_connection_lost

    def is_replaced(self) -> bool:
        return self.replaced


OPENING = ["connect", "BEGIN", "lock", "COMMIT"]


def work(run: Statement) -> str:
    [(found,)] = run("work")
    return str(found)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test sets."""
    now = [100.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def database(seconds: list[float]) -> Failing:
    """A database that is connected, and has noted nothing since."""
    made = Failing()
    made.open()
    assert made.events == OPENING
    made.events.clear()
    return made


def test_work_is_one_transaction(database: Failing) -> None:
    assert database.run(work) == "row"
    assert database.events == ["BEGIN", "work", "COMMIT"]


@pytest.mark.parametrize("place", ["BEGIN", "work"])
def test_what_was_lost_before_it_was_committed_is_tried_once_more_at_once(database: Failing, place: str) -> None:
    database.failures = {place: 1}
    assert database.run(work) == "row"
    begun = ["BEGIN", "work"] if place == "work" else ["BEGIN"]
    assert database.events == [*begun, "close", *OPENING, "BEGIN", "work", "COMMIT"]
    assert not database.is_failing


def test_an_outage_is_logged_once_and_so_is_its_end(
    database: Failing, seconds: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    database.failures = {"work": 2}
    with pytest.raises(StateError, match="The service's store cannot be used now") as raised:
        database.run(work)
    assert raised.value.retry_after_seconds == 5
    database.failures = {"connect": 2}
    for later, attempts in ((0.0, 1), (0.9, 1), (1.1, 2), (1.9, 2)):
        seconds[0] = 100.0 + later
        with pytest.raises(StateError):
            database.run(work)
        assert 2 - database.failures["connect"] == attempts, "a second passes between attempts to connect"
    assert caplog.messages == ["the store made up cannot be used: work failed"]
    assert database.is_failing
    for later, is_failing in ((2.2, True), (4.0, True), (4.2, False)):  # it was last tried in vain at 1.1
        seconds[0] = 100.0 + later
        assert database.run(work) == "row"
        assert database.is_failing is is_failing
    assert caplog.messages[1:] == ["the store made up can be used again"]
    assert database.run(work) == "row"
    assert len(caplog.messages) == 2


def test_a_full_disk_where_all_but_writing_works_is_one_outage(
    database: Failing, seconds: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    database.is_connection_lost = False
    for later in range(20):
        seconds[0] = 100.0 + later
        database.failures = {"work": 1}
        with pytest.raises(StateError):
            database.run(work)
        assert database.run(work) == "row"
        assert database.is_failing
    assert caplog.messages == ["the store made up cannot be used: work failed"]


def test_a_commit_whose_outcome_nobody_knows_is_not_tried_again(database: Failing) -> None:
    database.failures = {"COMMIT": 1}
    with pytest.raises(StateError):
        database.run(work)
    assert database.events == ["BEGIN", "work", "COMMIT", "close"]


@pytest.mark.parametrize("rollback_fails", [False, True])
def test_a_statement_that_is_refused_is_taken_back_and_not_tried_again(database: Failing, rollback_fails: bool) -> None:
    database.is_connection_lost = False
    database._connection.rollback_fails = rollback_fails
    database.failures = {"work": 1}
    with pytest.raises(StateError):
        database.run(work)
    assert database.events == ["BEGIN", "work", "rollback", *["close"] * rollback_fails]
    assert (database._connection is None) is rollback_fails


def test_an_error_of_the_work_itself_takes_the_transaction_back(database: Failing) -> None:
    def wrong(run: Statement) -> None:
        run("work")
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        database.run(wrong)
    assert database.events == ["BEGIN", "work", "rollback"]
    assert not database.is_failing


def test_a_database_that_was_replaced_is_opened_anew(database: Failing, caplog: pytest.LogCaptureFixture) -> None:
    database.replaced = True
    assert database.run(work) == "row"
    assert database.events == ["close", *OPENING, "BEGIN", "work", "COMMIT"]
    assert caplog.messages[0].startswith("the store made up was deleted or replaced while it was used")


def test_a_database_that_cannot_be_opened_is_one_line() -> None:
    database = Failing()
    database.failures = {"connect": 1}
    with pytest.raises(ConfigError, match=r"^\[state\] url: made up: connect failed$"):
        database.open()
    unknown = Failing()
    unknown.failures = {"BEGIN": 1}
    with pytest.raises(ConfigError, match="BEGIN failed"):
        unknown.open()
    assert unknown.events == ["connect", "BEGIN", "close"], "half of an opened connection is not kept"
    assert module._first_line(FailedError()) == "FailedError"


def test_closing_lets_the_next_use_connect_again(database: Failing) -> None:
    database.close()
    database.close()
    assert database.run(work) == "row"
    assert database.events == ["close", *OPENING, "BEGIN", "work", "COMMIT"]
