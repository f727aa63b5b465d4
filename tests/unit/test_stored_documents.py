"""Documents in the store: claims and leases of replicas, files in pieces, nothing left behind; in both databases."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from postgres_server import PostgresServer
from transduce.serve.state import documents as module
from transduce.serve.state import sqlite as sqlite_module
from transduce.serve.state.database import StateError
from transduce.serve.state.documents import READING, TRANSLATING, DocumentStore, NewDocument, StoredDocument
from transduce.serve.state.store import Store, open_store

CONTENT = bytes(range(256)) * 3


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "serve.db")
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.new_database()


@pytest.fixture
def store(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(module, "CHUNK_BYTES", 100)
    opened = open_store(address)
    yield opened
    opened.close()


@pytest.fixture
def documents(store: Store) -> DocumentStore:
    return store.documents


def given(owner: str = "one", **values: Any) -> NewDocument:
    fields: dict[str, Any] = {"protocol": "transduce", "name": "ü.docx", "source": "en", "target": "de"}
    return NewDocument(**fields | {"owner": owner, "num_segments": 7, "num_characters": 70} | values)


def found(documents: DocumentStore, document: StoredDocument) -> StoredDocument:
    """Returns a document as it is now."""
    now = documents.find(document.protocol, document.owner, document.id)
    assert now is not None
    return now


def chunks(store: Store) -> int:
    """Returns how many pieces of files the store has."""
    [(number,)] = store._database.run(lambda run: run("SELECT count(*) FROM document_chunks"))
    return int(number)


def test_a_document_comes_back_as_it_was(documents: DocumentStore) -> None:
    options = {"glossary": {"Hund\0": ["dog", "\ud800"]}, "search": {"beam_size": 4}}
    made = documents.add(given(options=options), CONTENT)
    assert found(documents, made) == made
    assert (made.state, made.options, made.num_bytes) == ("queued", options, len(CONTENT))
    assert documents.content(made.id, "source") == CONTENT
    assert documents.content(made.id, "result") == b""
    assert documents.find("transduce", None, made.id) == made
    for protocol, owner in (("transduce", "other"), ("deepl", "one"), ("transduce", "")):
        assert documents.find(protocol, owner, made.id) is None
        assert documents.delete(protocol, owner, made.id) is None


def test_a_document_runs_through_its_states(documents: DocumentStore, store: Store) -> None:
    made = documents.add(given(), CONTENT)
    claimed = documents.claim(TRANSLATING, "a", 60)
    assert claimed is not None
    assert (claimed.id, claimed.state, claimed.attempts) == (made.id, "translating", 1)
    assert documents.claim(TRANSLATING, "b", 60) is None
    assert documents.renew(made.id, "a", 60, 3, 30)
    assert (found(documents, made).segments_done, found(documents, made).characters_done) == (3, 30)
    for _ in range(2):  # the second time because the answer was lost
        assert documents.add_result_chunk(made.id, "a", 0, b"Hund")
    assert documents.add_result_chunk(made.id, "a", 1, b"e")
    assert documents.finish(made.id, "a", ["a warning"], 60)
    done = found(documents, made)
    assert (done.state, done.segments_done, done.characters_done, done.num_bytes) == ("done", 7, 70, 5)
    assert done.warnings == ("a warning",)
    assert documents.content(made.id, "result") == b"Hunde"
    assert documents.content(made.id, "source") == b""
    assert documents.claim(TRANSLATING, "a", 60) is None
    assert documents.delete("transduce", "one", made.id) == done
    assert documents.delete("transduce", "one", made.id) is None
    assert chunks(store) == 0


def test_of_a_document_that_failed_only_the_reason_is_left(documents: DocumentStore, store: Store) -> None:
    made = documents.add(given(), CONTENT)
    documents.claim(TRANSLATING, "a", 60)
    documents.add_result_chunk(made.id, "a", 0, b"Hund")
    assert documents.fail(made.id, "a", "ü.docx: is \0 \ud800 damaged", 60)
    assert (found(documents, made).state, found(documents, made).message) == ("failed", "ü.docx: is  ? damaged")
    assert chunks(store) == 0
    assert documents.occupancy("one").num_bytes == 0


def test_a_long_reason_is_cut(documents: DocumentStore) -> None:
    """It is sent with each answer about the document, and may have a line of the document in it."""
    made = documents.add(given(), CONTENT)
    documents.claim(TRANSLATING, "a", 60)
    assert documents.fail(made.id, "a", "ü" * 1999 + "ab", 60)
    assert found(documents, made).message == "ü" * 1999 + "a"


def test_who_has_lost_a_document_can_change_nothing(documents: DocumentStore, store: Store) -> None:
    made = documents.add(given(), CONTENT)
    documents.claim(TRANSLATING, "a", 0.0)
    time.sleep(0.01)
    again = documents.claim(TRANSLATING, "b", 60)
    assert again is not None
    assert again.attempts == 2
    assert not documents.renew(made.id, "a", 60, 1, 1)
    assert not documents.add_result_chunk(made.id, "a", 0, b"x")
    assert not documents.finish(made.id, "a", [], 60)
    assert not documents.fail(made.id, "a", "", 60)
    assert not documents.requeue(made.id, "a")
    assert documents.renew(made.id, "b", 60, 1, 1)
    assert documents.delete("transduce", "one", made.id) is not None
    assert not documents.renew(made.id, "b", 60, 1, 1)
    assert not documents.add_result_chunk(made.id, "b", 0, b"x")
    assert chunks(store) == 0


def test_a_document_that_is_taken_over_begins_anew(documents: DocumentStore) -> None:
    made = documents.add(given(), CONTENT)
    documents.claim(TRANSLATING, "a", 0.0)
    documents.add_result_chunk(made.id, "a", 0, b"half")
    documents.renew(made.id, "a", 0.0, 3, 30)
    time.sleep(0.01)
    again = documents.claim(TRANSLATING, "b", 60)
    assert again is not None
    assert (again.segments_done, again.characters_done) == (0, 0)
    assert documents.content(made.id, "result") == b""
    assert documents.content(made.id, "source") == CONTENT


def test_a_document_that_is_put_back_counts_as_not_begun(documents: DocumentStore) -> None:
    made = documents.add(given(), CONTENT)
    for name in "abcdef":
        claimed = documents.claim(TRANSLATING, name, 60)
        assert claimed is not None
        assert claimed.attempts == 1
        assert documents.requeue(made.id, name)
        assert found(documents, made).state == "queued"


def test_a_document_that_is_still_to_be_read_is_read_and_only_then_translated(documents: DocumentStore) -> None:
    made = documents.add(given(source="auto", num_segments=0, num_characters=0), CONTENT, READING)
    assert (made.state, found(documents, made)) == ("reading", made)
    assert documents.claim(TRANSLATING, "a", 60) is None
    claimed = documents.claim(READING, "b", -1.0)
    assert claimed is not None
    assert (claimed.id, claimed.state, claimed.attempts) == (made.id, "reading", 1)
    for name, seconds in (("c", 60), ("d", 60)):  # the first reader has died; the second gives it back
        claimed = documents.claim(READING, name, seconds)
        assert claimed is not None
        assert documents.claim(READING, "e", 60) is None
        assert documents.requeue(made.id, name)
        assert (found(documents, made).state, found(documents, made).attempts) == ("reading", 1)
    assert documents.claim(READING, "f", 60) is not None
    assert documents.content(made.id, "source") == CONTENT
    read = given(source="en", num_segments=7, num_characters=70)
    assert documents.queue(made.id, "b", read, "2026-01-02", 0) is None
    assert documents.queue(made.id, "f", read, "2026-01-02", 0) == (True, 70)
    queued = found(documents, made)
    assert (queued.state, queued.source, queued.num_segments, queued.num_characters) == ("queued", "en", 7, 70)
    assert queued.attempts == 0, "of translating"
    assert documents.claim(READING, "g", 60) is None
    translated = documents.claim(TRANSLATING, "h", 60)
    assert translated is not None
    assert (translated.state, translated.source, translated.attempts) == ("translating", "en", 1)


def test_a_document_is_queued_exactly_where_its_key_is_charged(documents: DocumentStore) -> None:
    read = given(num_segments=7, num_characters=70)
    ids = [documents.add(given(num_segments=0, num_characters=0), CONTENT, READING).id for _ in range(4)]
    for name in "abcd":
        documents.claim(READING, name, 60)
    day = "2026-01-02"
    assert documents.queue(ids[0], "z", read, day, 0) is None, "another's claim"
    assert documents.queue(ids[0], "a", read, day, 71) == (True, 70)
    assert documents.queue(ids[0], "a", read, day, 71) is None, "once"
    assert documents.queue(ids[1], "b", read, day, 71) == (True, 140), "one character was left"
    assert documents.queue(ids[2], "c", read, day, 140) == (False, 140)
    assert documents.queue(ids[3], "d", read, day, 0) == (True, 210)
    found = [documents.find("transduce", "one", each) for each in ids]
    assert [each and (each.state, each.num_characters) for each in found] == [
        ("queued", 70),
        ("queued", 70),
        ("reading", 0),
        ("queued", 70),
    ]


def test_keys_take_turns(documents: DocumentStore) -> None:
    first, second, third = (documents.add(given(owner), b"x") for owner in ("one", "one", "other"))
    order = [documents.claim(TRANSLATING, name, 60) for name in "abc"]
    assert [each.id for each in order if each is not None] == [first.id, third.id, second.id]


def test_documents_of_a_key_are_claimed_as_they_came(documents: DocumentStore) -> None:
    made = [documents.add(given(), b"x").id for _ in range(8)]
    claimed = [documents.claim(TRANSLATING, str(number), 60) for number in range(8)]
    assert [each.id for each in claimed if each is not None] == made
    assert made != sorted(made), "not by their ids"


def test_a_replica_claims_what_it_translates(documents: DocumentStore, store: Store) -> None:
    foreign, ours = (documents.add(given(target=target), b"x").id for target in ("fr", "de"))

    def claim(runner: str) -> str | None:
        claimed = documents.claim(TRANSLATING, runner, 60, lambda *pair: pair == ("en", "de"))
        return claimed and claimed.id

    assert [claim(runner) for runner in "ab"] == [ours, None]
    for seconds, expected in ((86_300, None), (86_500, foreign)):  # a day: nobody else claims it either
        store._database.query("UPDATE documents SET created = ?", time.time() - seconds)
        assert claim("c") == expected


def test_a_document_is_claimed_once(documents: DocumentStore, address: str) -> None:
    made = {documents.add(given(f"{number % 3}"), b"x").id for number in range(20)}
    other = open_store(address)
    replicas = [documents, other.documents]
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda number: replicas[number % 2].claim(TRANSLATING, f"{number}", 60), range(30)))
    ids = [each.id for each in claimed if each is not None]
    assert len(ids) == 20
    assert set(ids) == made
    other.close()


def test_the_store_knows_how_full_it_is(documents: DocumentStore) -> None:
    for owner in ("one", "one", "other"):
        documents.add(given(owner), CONTENT)
    documents.claim(TRANSLATING, "a", 60)
    occupancy = documents.occupancy("one")
    assert (occupancy.num_waiting, occupancy.num_waiting_of_owner) == (3, 2)
    assert occupancy.num_bytes == 3 * len(CONTENT)
    assert documents.counts() == {
        "uploading": 0,
        "reading": 0,
        "queued": 2,
        "translating": 1,
        "done": 0,
        "failed": 0,
    }


def test_what_has_expired_is_deleted(documents: DocumentStore, store: Store) -> None:
    kept, done, unwanted = (documents.add(given(), CONTENT) for _ in range(3))
    assert documents.delete_expired() == []
    for each in (kept, done):
        claimed = documents.claim(TRANSLATING, each.id, 60)
        assert claimed is not None
        documents.finish(claimed.id, each.id, [], 60 if each is kept else -1)
    for each in (kept, unwanted):
        documents.keep_unfinished(each.id, -1)  # what is done keeps its time
    assert {each.id for each in documents.delete_expired()} == {done.id, unwanted.id}
    assert found(documents, kept).state == "done"
    assert chunks(store) == 0


def test_a_document_that_waits_or_has_failed_expires_neither_as_an_upload_nor_as_unfinished(
    documents: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UPLOAD_SECONDS", -1)
    failed = documents.add(given(), CONTENT)
    assert documents.claim(TRANSLATING, "a", 60) is not None
    documents.fail(failed.id, "a", "damaged", 60)
    waiting = documents.add(given(), CONTENT)
    documents.keep_unfinished(failed.id, -1)
    assert documents.delete_expired() == []
    assert (found(documents, failed).state, found(documents, waiting).state) == ("failed", "queued")


def test_a_renewed_lease_keeps_others_away(documents: DocumentStore) -> None:
    made = documents.add(given(), CONTENT)
    assert documents.claim(TRANSLATING, "a", -1.0) is not None
    assert documents.renew(made.id, "a", 60, 1, 10)
    assert documents.claim(TRANSLATING, "b", 60) is None
    assert documents.renew(made.id, "a", -1.0, 1, 10)
    assert documents.claim(TRANSLATING, "b", 60) is not None


def test_an_upload_that_was_broken_off_is_deleted(
    documents: DocumentStore, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UPLOAD_SECONDS", -1)
    run, number = store._database.run, 0

    def failing(work: Any) -> Any:
        nonlocal number
        number += 1
        if number > 3:
            raise StateError
        return run(work)

    with monkeypatch.context() as patch:
        patch.setattr(store._database, "run", failing)
        with pytest.raises(StateError):
            documents.add(given(), CONTENT)
    assert documents.claim(TRANSLATING, "a", 60) is None  # half of it is there
    held = documents.occupancy("one")
    assert (held.num_waiting, held.num_waiting_of_owner, held.num_bytes) == (1, 1, len(CONTENT))
    assert chunks(store) == 2
    [deleted] = documents.delete_expired()
    assert deleted.state == "uploading"
    assert chunks(store) == 0


def test_nothing_of_a_deleted_document_stays_in_the_file(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "serve.db"))
    secret = b"a secret document " * 1000
    made = store.documents.add(given(), secret)
    store.documents.delete("transduce", "one", made.id)
    assert b"secret" not in _all_bytes(tmp_path)
    made = store.documents.add(given(), secret)
    assert b"secret" in _all_bytes(tmp_path)
    store.documents.claim(TRANSLATING, "a", 60)
    store.documents.finish(made.id, "a", [], 60)
    assert b"secret" not in _all_bytes(tmp_path)
    store.close()


def test_a_deleted_document_is_erased_once_no_other_process_reads_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_module, "_BUSY_SECONDS", 0.01)
    store = open_store(str(tmp_path / "serve.db"))
    for is_read in (True, False):
        made = store.documents.add(given(), b"a secret document")
        with contextlib.closing(sqlite3.connect(tmp_path / "serve.db")) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM documents" if is_read else "SELECT 1").fetchone()
            store.documents.delete("transduce", "one", made.id)
        assert (b"secret" in _all_bytes(tmp_path)) == is_read
    store.close()


def _all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())
