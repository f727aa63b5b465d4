"""The store of the service: the same for SQLite and PostgreSQL; full disks, databases that are gone, later versions."""

import logging
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from postgres_server import PostgresServer
from transduce.errors import ConfigError, DataError
from transduce.serve.requests import UnavailableError
from transduce.serve.state import database as database_module
from transduce.serve.state import store as store_module
from transduce.serve.state.database import StateError
from transduce.serve.state.schema import MIGRATIONS
from transduce.serve.state.sqlite import SqliteDatabase
from transduce.serve.state.store import (
    KeyUsage,
    Store,
    StoredDictionary,
    StoredGlossary,
    default_path,
    open_store,
)

ENTRIES = [("dog", "Hund"), ("100 %", "völlig?"), ("a\tb", "c\u0000\ud800")]
PETS = StoredDictionary("en", "de", tuple(ENTRIES))
ONE = StoredDictionary("en", "de", (("x", "y"),))


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "new" / "serve.db")
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.new_database()


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    opened = open_store(address)
    yield opened
    opened.close()


# --- what both do ---------------------------------------------------------------------------------------------


def test_a_glossary_comes_back_as_it_was(store: Store) -> None:
    made = store.add_glossary("key1", "Tiere 🐕", [PETS])
    found = store.glossary("key1", made.id)
    assert found == made
    assert found.dictionaries == (PETS,)
    assert abs(found.created - datetime.now(UTC)) < timedelta(minutes=5)


def test_the_limit_of_a_day_is_reached_once_by_several_at_a_time(address: str) -> None:
    stores = [open_store(address) for _ in range(3)]
    with ThreadPoolExecutor(12) as threads:
        jobs = [threads.submit(stores[number % 3].take_usage, "2026-01-01", "key1", 30, 1000) for number in range(90)]
        outcomes = [job.result() for job in jobs]
    totals = sorted(total for taken, total in outcomes if taken)
    assert totals == list(range(30, 1021, 30)), "34 times 30: the last one passed while anything was left"
    assert {total for taken, total in outcomes if not taken} == {1020}
    assert stores[0].take_usage("2026-01-02", "key1", 30, 1000) == (True, 30)
    assert stores[0].take_usage("2026-01-01", "key2", 30, 1000) == (True, 30)
    for store in stores:
        store.close()


def test_glossaries_are_listed_as_they_came(store: Store) -> None:
    """Their ids are in no order; each is a UUID in form, as clients of DeepL expect."""
    made = [store.add_glossary("key1", str(number), [PETS]) for number in range(8)]
    assert store.glossaries("key1") == made
    assert [each.id for each in made] != sorted(each.id for each in made)
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", each.id) for each in made)


def test_glossaries_belong_to_their_key(store: Store) -> None:
    first, second = (store.add_glossary("key1", name, [PETS]) for name in "ab")
    store.add_glossary("key2", "c", [PETS])
    assert [each.id for each in store.glossaries("key1")] == [first.id, second.id]
    assert store.glossary("key2", first.id) is None
    assert not store.delete_glossary("key2", first.id)
    assert store.delete_glossary("key1", first.id)
    assert not store.delete_glossary("key1", first.id)
    assert [each.id for each in store.glossaries("key1")] == [second.id]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a\udfff"])
def test_a_name_that_databases_refuse_is_the_clients_error(store: Store, name: str) -> None:
    with pytest.raises(DataError, match="name: must not hold"):
        store.add_glossary("key1", name, [PETS])
    assert not store.is_failing


def test_a_key_may_have_so_many_glossaries(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.serve.state.store._MAX_GLOSSARIES", 2)
    made = [store.add_glossary("a", "n", [ONE]) for _ in range(2)]
    with pytest.raises(
        DataError, match="There are 2 other glossaries of 24 characters already: at most 2 and 20,000,000"
    ):
        store.add_glossary("a", "n", [ONE])
    assert len(store.glossaries("a")) == 2
    store.add_glossary("b", "n", [ONE])
    assert store.delete_glossary("a", made[0].id)
    monkeypatch.setattr("transduce.serve.state.store._MAX_GLOSSARY_CHARACTERS", 23)
    with pytest.raises(DataError, match="There are 1 other glossaries of 12 characters already"):
        store.add_glossary("a", "n", [ONE])
    monkeypatch.setattr("transduce.serve.state.store._MAX_GLOSSARY_CHARACTERS", 24)
    store.add_glossary("a", "n", [ONE])


def test_usage_adds_up_by_key_and_day(store: Store) -> None:
    assert store.add_usage("2026-01-31", {"a": 10, "b": 1}) == {"a": 10, "b": 1}
    assert store.add_usage("2026-01-31", {"a": 5}) == {"a": 15}
    assert store.add_usage("2026-02-01", {"a": 2**40}) == {"a": 2**40}
    assert store.usage("a", "2026-01-01", "2026-01-31") == 15
    assert store.usage("a", "2026-01-31", "2026-02-01") == 15 + 2**40
    assert store.usage("c", "2026-01-01", "2026-12-31") == 0
    assert store.usage("a", "2026-02-01", "2026-12-31") == 2**40
    assert store.usage_of_day("2026-01-31") == {"a": 15, "b": 1}
    assert store.take_usage("2026-01-31", "a", 7, 15) == (False, 15)
    assert store.take_usage("2026-01-31", "a", 7, 16) == (True, 22)


def test_no_usage_is_lost_between_replicas(store: Store, address: str) -> None:
    replicas = [store, open_store(address)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: replicas[number % 2].add_usage("2026-01-01", {"a": 1, "b": 2}), range(80)))
    assert store.usage("a", "2026-01-01", "2026-01-01") == 80
    assert store.usage("b", "2026-01-01", "2026-01-01") == 160
    replicas[1].close()


def test_what_was_kept_outlasts_the_service(store: Store, address: str) -> None:
    made = store.add_glossary("key1", "a", [PETS])
    store.close()
    again = open_store(address)
    assert again.glossaries("key1") == [made]
    again.close()


def test_several_replicas_may_start_at_once(address: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: open_store(address), range(4)))
    stores[0].add_usage("2026-01-01", {"a": 1})
    assert stores[3].usage("a", "2026-01-01", "2026-01-01") == 1
    for each in stores:
        each.close()


def test_migrations_are_applied_by_number(store: Store, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add_usage("2026-01-01", {"a": 1})
    store.close()
    later = (*MIGRATIONS, ("CREATE TABLE extra (id TEXT PRIMARY KEY)", "INSERT INTO extra VALUES ('x')"))
    monkeypatch.setattr(database_module, "MIGRATIONS", later)
    for _ in range(2):  # the second time there is nothing to do
        upgraded = open_store(address)
        assert upgraded.usage("a", "2026-01-01", "2026-01-01") == 1
        upgraded.close()
    monkeypatch.undo()
    number = len(MIGRATIONS)
    with pytest.raises(ConfigError, match=rf"has schema {number + 1}, of a later version .* up to {number}\. Install"):
        open_store(address)


def test_glossaries_of_earlier_versions_become_their_first_dictionary(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "MIGRATIONS", MIGRATIONS[:2])
    old = open_store(address)
    insert = "INSERT INTO glossaries (id, owner, name, source, target, entries, created) VALUES (?, ?, ?, ?, ?, ?, ?)"
    old._database.query(insert, "7", "key1", "Tiere", "en", "de", '[["dog", "Hund"], ["cat", "Katze"]]', 0.0)
    old.close()
    monkeypatch.undo()
    store = open_store(address)
    terms = StoredDictionary("en", "de", (("dog", "Hund"), ("cat", "Katze")))
    assert store.glossary("key1", "7") == StoredGlossary("7", "key1", "Tiere", (terms,), datetime.fromtimestamp(0, UTC))
    store.close()


def test_changes_by_several_replicas_all_count(store: Store, address: str) -> None:
    made = store.add_glossary("key1", "n", [ONE])
    replicas = [store, open_store(address)]

    def add(number: int) -> None:
        more = StoredDictionary("en", f"x{number}", (("a", str(number)),))
        replicas[number % 2].change_glossary(
            "key1", made.id, lambda found: replace(found, dictionaries=(*found.dictionaries, more))
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(20)))
    found = store.glossary("key1", made.id)
    assert found is not None
    assert {each.target for each in found.dictionaries} == {"de", *(f"x{number}" for number in range(20))}
    assert store.dictionary("key1", made.id, "en", "x7") == StoredDictionary("en", "x7", (("a", "7"),))
    assert store.dictionary("key2", made.id, "en", "x7") is None
    assert store.change_glossary("key2", made.id, lambda found: replace(found, name="theirs")) is None
    assert store.delete_glossary("key1", made.id)
    assert store._database.query("SELECT * FROM dictionaries") == []
    replicas[1].close()


def test_a_statement_that_is_refused_takes_back_the_transaction(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_CALM_SECONDS", 0.0)

    def work(run: Callable[..., list[tuple[object, ...]]]) -> None:
        run("INSERT INTO usage_by_day (owner, day, characters) VALUES (?, ?, ?)", "a", "2026-01-01", 1)
        run("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(StateError):
        store._database.run(work)
    assert store.usage("a", "2026-01-01", "2026-01-01") == 0
    assert not store.is_failing


def test_a_commit_whose_answer_is_lost_is_not_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been committed: to add the usage again could count it twice."""
    database = store._database
    execute = database.execute

    def losing_the_answer(connection: Any, statement: str, values: Sequence[object] = ()) -> list[Any]:
        rows = execute(connection, statement, values)
        if statement == "COMMIT":
            raise database.driver_error("the connection was lost")
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(database, "execute", losing_the_answer)
        with pytest.raises(StateError):
            store.add_usage("2026-01-01", {"a": 1})
    assert database._connection is None  # nobody knows its state
    assert store.usage("a", "2026-01-01", "2026-01-01") == 1


# --- faults ---------------------------------------------------------------------------------------------------


def test_the_message_for_clients_names_no_place(address: str, store: Store) -> None:
    with pytest.raises(UnavailableError) as raised:
        store._database.run(lambda run: run("SELECT * FROM nowhere"))
    assert "store cannot be used now" in str(raised.value)
    assert "nowhere" not in str(raised.value)
    assert raised.value.retry_after_seconds == 5


def test_who_waits_too_long_for_another_thread_is_told_to_come_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_TURN_SECONDS", 0.01)
    with store._database._in_turn(), pytest.raises(StateError):
        store.glossaries("key1")
    assert store.glossaries("key1") == []


def test_a_server_that_was_restarted_is_used_again_without_an_error(postgres: PostgresServer) -> None:
    store = open_store(postgres.new_database())
    store.add_usage("2026-01-01", {"a": 1})
    postgres.stop()
    postgres.start()
    store.add_usage("2026-01-01", {"a": 1})
    assert store.usage("a", "2026-01-01", "2026-01-01") == 2
    store.close()


def test_a_server_that_is_gone_is_an_error_until_it_is_back(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(postgres.new_database())
    made = store.add_glossary("key1", "a", [PETS])
    postgres.stop()
    try:
        with caplog.at_level(logging.INFO):
            for _ in range(3):
                with pytest.raises(StateError):
                    store.glossary("key1", made.id)
        assert store.is_failing
        assert len(caplog.records) == 1  # one line for the outage
        assert "cannot be used" in caplog.text
    finally:
        postgres.start()
    monkeypatch.setattr(database_module, "_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(database_module, "_CALM_SECONDS", 0.0)
    assert store.glossary("key1", made.id) == made
    assert not store.is_failing
    assert "can be used again" in caplog.text
    store.close()


def test_a_server_that_is_gone_is_not_asked_for_each_request(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(postgres.new_database())
    monkeypatch.setattr(database_module, "_RETRY_SECONDS", 1000.0)
    attempts = []
    connect = store._database.connect
    monkeypatch.setattr(store._database, "connect", lambda: (attempts.append(1), connect())[1])
    postgres.stop()
    try:
        for _ in range(5):
            with pytest.raises(StateError):
                store.glossaries("key1")
    finally:
        postgres.start()
    assert len(attempts) == 1
    monkeypatch.undo()


def test_a_server_that_became_a_standby_is_left(postgres: PostgresServer) -> None:
    """A session that can only be read stays so; a new one goes to a server that can be written to."""
    store = open_store(postgres.new_database())
    store._database._connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    assert store.add_usage("2026-01-01", {"a": 1}) == {"a": 1}
    assert not store.is_failing
    store.close()


def test_a_standby_is_an_error_until_it_can_be_written_to(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr(database_module, "_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(database_module, "_CALM_SECONDS", 0.0)
    address = postgres.new_database()
    store = open_store(address)
    with psycopg.connect(address, autocommit=True, options="-c default_transaction_read_only=off") as connection:
        database = connection.info.dbname

        def set_read_only(value: str) -> None:
            connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = {value}".encode())

        set_read_only("on")
        store._database._connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        for _ in range(2):
            with pytest.raises(StateError):
                store.add_usage("2026-01-01", {"a": 1})
        assert store.is_failing
        with pytest.raises(ConfigError, match="session is read-only"):
            open_store(address)
        set_read_only("off")
    assert store.add_usage("2026-01-01", {"a": 1}) == {"a": 1}
    assert not store.is_failing
    store.close()


def test_nothing_is_kept_in_a_session_of_the_server(postgres: PostgresServer) -> None:
    """PgBouncer may give each transaction another session."""
    store = open_store(postgres.new_database())
    for _ in range(10):
        store.add_usage("2026-01-01", {"a": 1})
    assert store._database.run(lambda run: run("SHOW statement_timeout") + run("SHOW lock_timeout")) == [
        ("4s",),
        ("3s",),
    ]
    connection = store._database._connection
    assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]
    for setting in ("statement_timeout", "lock_timeout"):
        assert connection.execute(f"SHOW {setting}".encode()).fetchall() == [("0",)]
    store.close()


def test_a_full_disk_is_an_error_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path / "serve.db"))
    store.add_usage("2026-01-01", {"a": 1})
    connection = store._database._connection
    [(pages,)] = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    terms = tuple((f"term {number}", "x" * 1000) for number in range(100))
    long = StoredDictionary("en", "de", terms)
    for _ in range(3):
        with pytest.raises(StateError):
            store.add_glossary("key1", "long", [long])
    assert "database or disk is full" in caplog.text
    assert len(caplog.records) == 1
    assert store.glossaries("key1") == []  # reading goes on
    assert store.is_failing  # all the same
    connection.execute("PRAGMA max_page_count = 1000000")
    monkeypatch.setattr(database_module, "_CALM_SECONDS", 0.0)
    store.add_glossary("key1", "long", [long])
    assert not store.is_failing
    store.close()


def test_a_locked_file_is_an_error_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.serve.state.sqlite._BUSY_SECONDS", 0.05)
    store = open_store(str(tmp_path / "serve.db"))
    other = sqlite3.connect(tmp_path / "serve.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StateError):
        store.add_usage("2026-01-01", {"a": 1})
    other.execute("ROLLBACK")
    other.close()
    assert store.add_usage("2026-01-01", {"a": 1}) == {"a": 1}
    store.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"this is not a database, but a text " * 40, r"is damaged, or no SQLite database \(file is not"),
        (None, "this is a folder"),
    ],
)
def test_a_wrong_file_is_one_line_at_start(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "serve.db"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"\[state\] url: {path}: {message}"):
        open_store(str(path))


def test_a_file_that_was_damaged_in_place_is_one_line_at_start(tmp_path: Path) -> None:
    path = tmp_path / "serve.db"
    store = open_store(str(path))
    for number in range(20):
        store.add_glossary("owner", f"glossary {number}", [StoredDictionary("en", "de", (("term" * 5000, "Wort"),))])
    store.close()
    content = path.read_bytes()
    for place in (6 * 4096, 40 * 4096):  # pages of glossaries, which nothing reads at the start
        path.write_bytes(content[:place] + bytes(4096) + content[place + 4096 :])
        with pytest.raises(
            ConfigError, match=rf"^\[state\] url: {path}: is damaged, .*sqlite3 {path} \.recover"
        ) as found:
            open_store(str(path))
        assert "\n" not in str(found.value)
    path.write_bytes(content)
    store = open_store(str(path))
    assert len(store.glossaries("owner")) == 20
    store.close()


def test_usage_by_key_is_of_today_the_month_and_all_days(store: Store) -> None:
    for day, characters in (
        ("2025-12-31", {"weblate": 1000}),
        ("2026-01-01", {"weblate": 200, "": 7}),
        ("2026-01-15", {"weblate": 30, "docs": 5}),
    ):
        store.add_usage(day, characters)
    assert store.usage_of_keys("2026-01-15") == [
        KeyUsage("", 0, 7, 7, "2026-01-01"),
        KeyUsage("docs", 5, 5, 5, "2026-01-15"),
        KeyUsage("weblate", 30, 230, 1230, "2025-12-31"),
    ]


def test_reading_the_usage_leaves_the_schema_of_a_service_of_an_earlier_version(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "MIGRATIONS", MIGRATIONS[:1])
    old = open_store(address)
    old.add_usage("2026-01-31", {"weblate": 7})
    monkeypatch.undo()
    newer = open_store(address, must_exist=True)
    assert newer.usage_of_keys("2026-01-31") == [KeyUsage("weblate", 7, 7, 7, "2026-01-31")]
    newer.close()
    monkeypatch.setattr(database_module, "MIGRATIONS", MIGRATIONS[:1])
    old.close()  # the next call connects again, and would find a later schema
    assert old.usage("weblate", "2026-01-31", "2026-01-31") == 7
    old.close()


def test_a_store_that_must_exist_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "serve.db"
    for url in (str(path), "memory"):
        with pytest.raises(ConfigError, match=r"no store is there\. Name that of the service: --state, --config"):
            open_store(url, must_exist=True)
    assert not path.exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/db", r"must be the path of an SQLite file"),
        ("postgresql://transduce@/x?host=/nonexistent", "x at /nonexistent: connection .* failed: No such file"),
        ("postgresql://transduce@/x?hosst=here", 'invalid URI query parameter: "hosst"'),
        ("/proc/nowhere/serve.db", "/proc/nowhere/serve.db: cannot be made"),
    ],
)
def test_a_wrong_address_is_one_line_at_start(url: str, message: str) -> None:
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")
    with pytest.raises(ConfigError, match=message) as raised:
        open_store(url)
    assert "\n" not in str(raised.value)


def test_a_password_is_in_no_message() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")
    with pytest.raises(ConfigError) as raised:
        open_store("postgresql://transduce:geheim@/x?host=/nonexistent")
    assert "geheim" not in str(raised.value)


# --- files ----------------------------------------------------------------------------------------------------


def test_a_file_that_was_deleted_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "serve.db"
    store = open_store(str(path))
    store.add_usage("2026-01-01", {"a": 1})
    for file in tmp_path.iterdir():
        file.unlink()
    assert store.add_usage("2026-01-01", {"a": 2}) == {"a": 2}
    assert caplog.text.count("was deleted or replaced while it was used") == 1
    store.close()
    reopened = open_store(str(path))
    assert reopened.usage_of_day("2026-01-01") == {"a": 2}
    reopened.close()


def test_a_file_that_was_replaced_is_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stores = {}
    for name, count in (("serve.db", 1), ("backup.db", 10)):
        stores[name] = open_store(str(tmp_path / name))
        stores[name].add_usage("2026-01-01", {"a": count})
    stores["backup.db"].close()
    (tmp_path / "backup.db").replace(tmp_path / "serve.db")
    assert stores["serve.db"].add_usage("2026-01-01", {"a": 1}) == {"a": 11}
    assert stores["serve.db"].add_usage("2026-01-01", {"a": 1}) == {"a": 12}
    assert caplog.text.count("was deleted or replaced while it was used") == 1
    stores["serve.db"].close()
    reopened = open_store(str(tmp_path / "serve.db"))
    assert reopened.usage_of_day("2026-01-01") == {"a": 12}
    reopened.close()


def test_the_file_is_for_its_owner_only_and_in_write_ahead_mode(tmp_path: Path) -> None:
    path = tmp_path / "serve.db"
    store = open_store(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    read = [("journal_mode", "wal"), ("synchronous", 1), ("secure_delete", 1), ("busy_timeout", 3000)]
    for name, value in read:
        assert store._database._connection.execute(f"PRAGMA {name}").fetchone() == (value,)
    store.close()


@pytest.mark.parametrize(
    ("code", "is_lost"),
    [
        (sqlite3.SQLITE_IOERR, True),
        (sqlite3.SQLITE_IOERR_READ, True),  # what kind of failure it is stands in the second byte
        (sqlite3.SQLITE_CANTOPEN_ISDIR, True),
        (sqlite3.SQLITE_NOTADB, True),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, False),
        (sqlite3.SQLITE_FULL, False),
        (None, False),
    ],
)
def test_a_connection_is_lost_where_the_file_itself_is_in_doubt(
    tmp_path: Path, code: int | None, is_lost: bool
) -> None:
    error = sqlite3.OperationalError("failed")
    if code is not None:
        error.sqlite_errorcode = code
    connection: Any = None
    assert SqliteDatabase(tmp_path / "serve.db").is_lost(connection, error) is is_lost
    assert not SqliteDatabase(None).is_lost(connection, error), "a database in memory would be empty"


def test_what_a_server_of_postgresql_is_asked_with_unless_the_address_says_otherwise() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")
    from psycopg.conninfo import conninfo_to_dict

    from transduce.serve.state.postgresql import PostgresqlDatabase

    database = PostgresqlDatabase("postgres://me:geheim@db.example/state?connect_timeout=9")
    assert database.shown == "state at db.example"
    assert conninfo_to_dict(database._conninfo) == {
        "user": "me",
        "password": "geheim",
        "host": "db.example",
        "dbname": "state",
        "connect_timeout": "9",
        "tcp_user_timeout": "5000",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "application_name": "transduce",
        "target_session_attrs": "read-write",
    }
    assert isinstance(store_module._database("postgres://db.example/state"), PostgresqlDatabase)


def test_the_address_of_a_file_may_be_a_url_or_in_the_user_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for url in (f"sqlite://{tmp_path}/one.db", "~/two.db"):
        open_store(url).close()
    assert (tmp_path / "one.db").is_file()
    assert (tmp_path / "two.db").is_file()


def test_memory_keeps_nothing() -> None:
    store = open_store("memory")
    store.add_usage("2026-01-01", {"a": 1})
    store.close()
    other = open_store("memory")
    assert other.usage("a", "2026-01-01", "2026-01-01") == 0
    other.close()


def test_the_default_is_the_users_folder_for_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "transduce" / "serve.db"
    open_store().close()
    assert default_path().is_file()
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_path() == tmp_path / "home" / ".local" / "state" / "transduce" / "serve.db"
