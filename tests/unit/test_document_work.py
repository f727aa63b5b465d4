"""Documents between their store and the service: charges, refunds, leases, saved results and requests for the state."""

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fake_service import FakeService
from transduce.errors import DataError
from transduce.serve.config import DocumentsConfig, ServeConfig
from transduce.serve.documents import runner as runner_module
from transduce.serve.documents import service as service_module
from transduce.serve.documents import survey as survey_module
from transduce.serve.documents.reader import DocumentReader
from transduce.serve.documents.runner import DocumentRunner
from transduce.serve.documents.service import Documents
from transduce.serve.documents.survey import DocumentFile, Survey, SurveyProcesses, survey
from transduce.serve.documents.translation import CancelledDocumentError, DocumentTranslation
from transduce.serve.operations.access import Access, DayLimitError, LimitError, MinuteLimitError
from transduce.serve.operations.keys import Key, KeyRing, add_key
from transduce.serve.operations.limits import Budgets, Usage
from transduce.serve.operations.metrics import Metrics
from transduce.serve.requests import (
    ModelUnavailableError,
    OverloadedError,
    Priority,
    StoppingError,
    TranslationRequest,
    UnavailableError,
    UnknownPairError,
)
from transduce.serve.state.database import StateError
from transduce.serve.state.documents import READING, TRANSLATING, NewDocument, StoredDocument
from transduce.serve.state.store import Store, open_store
from transduce.translation.pipeline import TextOptions

DAY = "2026-01-02"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC).timestamp()
TEXT = b"A dog.\n"
_TOO_MANY = "characters to translate. Repeated paragraphs near each other count once. Split it."


@pytest.fixture
def store() -> Store:
    return open_store("memory")


@pytest.fixture
def ends() -> list[str]:
    """How documents ended, for the metrics."""
    return []


def given(owner: str = "one", **fields: Any) -> NewDocument:
    values: dict[str, Any] = {"protocol": "transduce", "name": "a.txt", "source": "en", "target": "de"}
    values |= {"num_segments": 7, "num_characters": 70, "options": {"format": "text"}}
    return NewDocument(owner=owner, **values | fields)


def usage_of(store: Store) -> Usage:
    return Usage(store, lambda: None, lambda: DAY)


async def source_of(text: str, source: str, target: str) -> str:
    return source


def documents_of(store: Store, usage: Usage, ends: list[str], keys: KeyRing | None = None, **limits: Any) -> Documents:
    """Returns documents of which every one has 7 segments and 70 characters."""
    config = ServeConfig(documents=DocumentsConfig(**limits))
    made = Documents(FakeService(), config, store.documents, Access(keys, Budgets(usage)), source_of, ends.append)
    made._reader._processes.survey = survey_of_seven  # type: ignore[method-assign]
    return made


async def survey_of_seven(*_: object) -> Survey:
    return Survey(7, 70, "A dog.")


def key(name: str) -> Key:
    return Key(name, "0" * 64 if name else "")


# --- what clients may do --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "expected"), [("queued", 70), ("translating", 30), ("done", 0), ("failed", 0)])
def test_for_a_deleted_document_what_is_not_translated_is_given_back_on_the_day_when_it_came(
    store: Store, ends: list[str], state: str, expected: int
) -> None:
    """Those of a document that failed were given back when it failed."""
    made = store.documents.add(given(), TEXT)
    came = datetime(2026, 1, 2, 23, 59, tzinfo=UTC).timestamp()
    store._database.run(lambda run: run("UPDATE documents SET created = ?", came))
    if state != "queued":
        store.documents.claim(TRANSLATING, "a", 600)
        store.documents.renew(made.id, "a", 600, 4, 40)
    if state == "done":
        store.documents.finish(made.id, "a", [], 60)
    if state == "failed":
        store.documents.fail(made.id, "a", "damaged", 60)
    usage = usage_of(store)
    documents = documents_of(store, usage, ends)
    assert not asyncio.run(documents.delete("transduce", key("other"), made.id))
    assert asyncio.run(documents.delete("transduce", key("one"), made.id))
    assert usage.of_today("one") == -expected
    assert ends == (["cancelled"] if expected else [])
    assert not asyncio.run(documents.delete("transduce", key("one"), made.id))


@pytest.mark.parametrize(
    ("first", "owner", "limits", "error"),
    [
        ("one", "one", {"waiting_per_key": 1}, LimitError),
        ("one", "one", {"waiting_per_key": 2}, None),
        ("one", "two", {"waiting_per_key": 1}, None),
        ("", "", {"waiting_per_key": 1}, None),  # clients without a key are not one client
        ("one", "two", {"waiting": 1}, OverloadedError),
        ("one", "two", {"waiting": 2}, None),
        ("one", "two", {"stored_bytes": 2 * len(TEXT) - 1}, OverloadedError),
        ("one", "two", {"stored_bytes": 2 * len(TEXT)}, None),
    ],
)
def test_a_document_is_accepted_and_charged_within_the_limits(
    store: Store, ends: list[str], first: str, owner: str, limits: dict[str, int], error: Any
) -> None:
    store.documents.add(given(first), TEXT)
    usage = usage_of(store)
    documents = documents_of(store, usage, ends, **limits)
    accepting = documents.accept({}, key(owner), given(owner), TEXT)
    if error is None:
        made = asyncio.run(accepting)
        assert store.documents.content(made.id, "source") == TEXT
        assert (made.owner, usage.of_today(owner)) == (owner, 70)
    else:
        with pytest.raises(error) as raised:
            asyncio.run(accepting)
        assert raised.value.retry_after_seconds == 30
        assert usage.of_today(owner) == 0
    assert documents._runner._came.is_set() == (error is None), "it is begun at once"
    assert store.documents.counts()["queued"] == (2 if error is None else 1)


@pytest.mark.parametrize("is_slow", [False, True])
def test_documents_that_are_sent_at_the_same_time_keep_to_the_limits(
    store: Store, ends: list[str], monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    usage = usage_of(store)
    documents = documents_of(store, usage, ends, waiting_per_key=3)
    if is_slow:  # they are accepted before they are read
        monkeypatch.setattr(service_module, "_READING_SECONDS", 0)
        documents._reader._processes.survey = lambda *_: asyncio.sleep(60)  # type: ignore[method-assign, assignment]

    async def test() -> list[Any]:
        sent = [documents.accept({}, key("one"), given(), TEXT) for _ in range(8)]
        return await asyncio.gather(*sent, return_exceptions=True)

    refused = [each for each in asyncio.run(test()) if isinstance(each, LimitError)]
    assert len(refused) == 5
    assert sum(store.documents.counts().values()) == 3
    assert usage.of_today("one") == (0 if is_slow else 3 * 70)


@pytest.mark.parametrize(("error", "end", "charged"), [(None, "done", 70), (DataError("wrong"), "failed", 0)])
def test_how_a_document_ends_is_noted_and_decides_what_is_charged(
    store: Store, ends: list[str], error: Exception | None, end: str, charged: int
) -> None:
    usage = Usage(store, lambda: None)
    documents = documents_of(store, usage, ends)
    service: Any = documents._runner._service
    service.error = error

    async def test() -> None:
        documents.start()
        await documents.accept({}, key("one"), given(), TEXT)
        while not ends:
            await asyncio.sleep(0.01)
        await documents.stop()

    asyncio.run(asyncio.wait_for(test(), 60))
    assert (ends, usage.of_today("one")) == ([end], charged)


def test_documents_that_are_being_sent_are_counted(store: Store, ends: list[str]) -> None:
    documents = documents_of(store, usage_of(store), ends)
    for _ in range(16):
        documents.__enter__()
    with pytest.raises(OverloadedError) as raised:
        documents.__enter__()
    assert raised.value.retry_after_seconds == 30
    documents.__exit__()
    documents.__enter__()


def test_while_a_client_waits_for_its_document_it_does_not_expire(
    store: Store, ends: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would after a minute: that is put off every 15 seconds. Here each look takes 5."""
    made = store.documents.add(given(), TEXT)
    seconds, kept = 0, []
    states = ["queued"] * 4 + ["translating"] * 7 + ["done"]

    def find(protocol: str, owner: str | None, document_id: str) -> StoredDocument:
        nonlocal seconds
        assert (protocol, owner, document_id) == ("transduce", None, made.id)
        seconds += 5
        return replace(made, state=states[seconds // 5 - 1])

    def keep(document_id: str, longer: float) -> None:
        kept.append((document_id, seconds, longer))

    documents = documents_of(store, usage_of(store), ends)
    documents._store = SimpleNamespace(find=find, keep_unfinished=keep)  # type: ignore[assignment]
    monkeypatch.setattr(service_module, "time", SimpleNamespace(monotonic=lambda: seconds))
    monkeypatch.setattr(service_module, "_POLL_SECONDS", 0)
    found = asyncio.run(documents.finished(made))
    assert found is not None
    assert found.state == "done"
    assert kept == [(made.id, at, 60.0) for at in (5, 20, 35, 50)]


def test_whoever_waits_is_told_of_a_document_that_failed_or_was_deleted_and_of_the_end(
    store: Store, ends: list[str]
) -> None:
    made = store.documents.add(given(), TEXT)
    documents = documents_of(store, usage_of(store), ends)
    documents._stopping = True
    with pytest.raises(StoppingError) as raised:
        asyncio.run(documents.finished(made))
    assert raised.value.retry_after_seconds == 30
    store.documents.claim(TRANSLATING, "a", 60)
    store.documents.fail(made.id, "a", "damaged", 60)
    found = asyncio.run(documents.finished(made))
    assert found is not None
    assert found.state == "failed"
    store.documents.delete("transduce", "one", made.id)
    assert asyncio.run(documents.finished(made)) is None


# --- documents that take long to read -------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Lets requests not wait for documents that are read; the survey waits for the event."""
    monkeypatch.setattr(service_module, "_READING_SECONDS", 0.01)
    return asyncio.Event()


def slowly(documents: Documents, gate: asyncio.Event, error: Exception | None = None) -> None:
    async def survey(*_: object) -> Survey:
        await gate.wait()
        if error is not None:
            raise error
        return Survey(3, 50, "A dog.")

    documents._reader._processes.survey = survey  # type: ignore[method-assign]


def ring(tmp_path: Path, **limits: int) -> KeyRing:
    path = tmp_path / "keys.toml"
    add_key(path, "one")
    path.write_text(path.read_text() + "".join(f"{name} = {value}\n" for name, value in limits.items()))
    return KeyRing(path)


async def settled(store: Store, document_id: str) -> StoredDocument:
    """Returns a document once it has ended."""
    while True:
        found = store.documents.find("transduce", "one", document_id)
        assert found is not None
        if found.state in ("done", "failed"):
            return found
        await asyncio.sleep(0.01)


def test_a_document_that_takes_long_to_read_is_accepted_first(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path
) -> None:
    usage = Usage(store, lambda: None)
    documents = documents_of(store, usage, ends, ring(tmp_path))
    slowly(documents, slow)

    async def test() -> None:
        documents.start()
        made = await documents.accept({}, key("one"), given(num_segments=0, num_characters=0), TEXT)
        assert (made.state, made.num_segments, made.num_characters) == ("reading", 0, 0)
        assert usage.of_today("one") == 0
        while documents._runner._running == {}:
            await asyncio.sleep(0.01)
        slow.set()
        found = await settled(store, made.id)
        assert (found.state, found.num_segments, found.num_characters, found.attempts) == ("done", 3, 50, 1)
        assert store.documents.content(made.id, "result") == b"[de] A DOG.\n"
        await documents.stop()

    asyncio.run(asyncio.wait_for(test(), 60))
    assert (ends, usage.of_today("one")) == (["done"], 50)


@pytest.mark.parametrize(
    ("error", "limits", "name", "message"),
    [
        (DataError("a.txt: is damaged."), {}, "one", "a.txt: is damaged."),
        (UnknownPairError("he", "de"), {}, "one", str(UnknownPairError("he", "de"))),
        (None, {"characters_per_day": 30}, "one", "This key has used up its 30 characters of 20"),
        (None, {}, "gone", "The key that sent this is not valid any more."),
        (KeyError("a secret"), {}, "one", "a.txt: the service failed (KeyError)."),
    ],
)
def test_what_is_wrong_with_a_document_that_was_accepted_first_is_noted_with_it(
    store: Store,
    ends: list[str],
    slow: asyncio.Event,
    tmp_path: Path,
    error: Exception | None,
    limits: dict[str, int],
    name: str,
    message: str,
) -> None:
    usage = Usage(store, lambda: None)
    usage.change("one", 30)
    documents = documents_of(store, usage, ends, ring(tmp_path, **limits))
    slowly(documents, slow, error)

    async def test() -> StoredDocument | None:
        documents.start()
        made = await documents.accept({}, key(name), given(name, num_characters=0), TEXT)
        slow.set()
        while not ends:
            await asyncio.sleep(0.01)
        await documents.stop()
        return store.documents.find("transduce", None, made.id)

    found = asyncio.run(asyncio.wait_for(test(), 60))
    assert found is not None
    assert (found.state, ends, usage.of_today("one")) == ("failed", ["failed"], 30)
    assert found.message.startswith(message)
    assert "secret" not in found.message


def test_a_key_without_characters_of_this_minute_is_refused_before_its_document_is_read(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path
) -> None:
    access_key = replace(key("one"), characters_per_minute=60)
    documents = documents_of(store, usage_of(store), ends, ring(tmp_path))
    slowly(documents, slow)
    budget = documents._access.budgets.minute(access_key)
    assert budget is not None
    budget.change(90)
    with pytest.raises(MinuteLimitError):
        asyncio.run(documents.accept({}, access_key, given(), TEXT))
    assert sum(store.documents.counts().values()) == 0


def test_a_document_that_is_deleted_while_it_is_read_costs_nothing(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path
) -> None:
    usage = Usage(store, lambda: None)
    documents = documents_of(store, usage, ends, ring(tmp_path))
    slowly(documents, slow)

    async def test() -> None:
        documents.start()
        made = await documents.accept({}, key("one"), given(num_characters=0), TEXT)
        while documents._runner._running == {}:
            await asyncio.sleep(0.01)
        assert await documents.delete("transduce", key("one"), made.id)
        while documents._runner._running != {}:
            await asyncio.sleep(0.01)
        await documents.stop()

    asyncio.run(asyncio.wait_for(test(), 60))
    assert (ends, usage.of_today("one")) == (["cancelled"], 0)


def test_a_document_that_is_deleted_while_its_key_is_charged_is_given_back(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path
) -> None:
    usage = Usage(store, lambda: None)
    documents = documents_of(store, usage, ends, ring(tmp_path))
    made = store.documents.add(given(num_characters=0), TEXT, READING)
    claimed = store.documents.claim(READING, "a", 60)
    assert claimed is not None
    store.documents.delete("transduce", "one", made.id)
    asyncio.run(documents._runner._handle(claimed, "a"))
    assert (ends, usage.of_today("one")) == ([], 0)


def test_a_document_that_two_replicas_read_is_charged_once(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path
) -> None:
    """The first one's lease ended after it had read the document, and another claimed it."""
    usage = Usage(store, lambda: None, lambda: DAY)
    documents = documents_of(store, usage, ends, ring(tmp_path))
    made = store.documents.add(given(num_characters=0), TEXT, READING)
    store._database.run(lambda run: run("UPDATE documents SET created = ?", NOON))
    claims = [store.documents.claim(READING, name, -1.0) for name in "ab"]
    for claimed, name in zip(reversed(claims), "ba", strict=True):
        assert claimed is not None
        asyncio.run(documents._runner._handle(claimed, name))
    found = store.documents.find("transduce", "one", made.id)
    assert found is not None
    assert (found.state, usage.of_today("one"), store.usage("one", DAY, DAY)) == ("queued", 70, 70)


def test_a_service_that_is_killed_between_charge_and_queue_has_done_neither(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    usage, database = Usage(store, lambda: None, lambda: DAY), store._database
    documents = documents_of(store, usage, ends, ring(tmp_path))
    made = store.documents.add(given(num_characters=0), TEXT, READING)
    store._database.run(lambda run: run("UPDATE documents SET created = ?", NOON))
    claimed = store.documents.claim(READING, "a", 60)
    assert claimed is not None
    execute = database.execute

    def killed(connection: Any, statement: str, values: Sequence[object] = ()) -> Any:
        if "state = 'queued'" in statement:
            raise Killed
        return execute(connection, statement, values)

    monkeypatch.setattr(database, "execute", killed)
    with pytest.raises(Killed):
        asyncio.run(documents._runner._handle(claimed, "a"))
    found = store.documents.find("transduce", "one", made.id)
    assert found is not None
    assert (found.state, usage.of_today("one"), store.usage("one", DAY, DAY)) == ("reading", 0, 0)


def test_a_document_that_is_deleted_as_soon_as_it_was_read_is_given_back_once(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = Usage(store, lambda: None)
    documents = documents_of(store, usage, ends, ring(tmp_path))
    made = store.documents.add(given(num_characters=0), TEXT, READING)
    claimed = store.documents.claim(READING, "a", 60)
    assert claimed is not None
    until_stored, queue = documents._runner._until_stored, store.documents.queue

    async def then_deleted(work: Any, *arguments: Any) -> Any:
        outcome = await until_stored(work, *arguments)
        if work == queue:
            assert await documents.delete("transduce", key("one"), made.id)
        return outcome

    monkeypatch.setattr(documents._runner, "_until_stored", then_deleted)
    asyncio.run(documents._runner._handle(claimed, "a"))
    assert (ends, usage.of_today("one")) == (["cancelled"], 0)


def test_a_document_that_could_not_be_stored_is_given_back_once(
    store: Store, ends: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What of it is in the store is deleted later."""
    usage = Usage(store, lambda: None)
    documents = documents_of(store, usage, ends)
    query = store._database.query

    def failing(statement: str, *values: object) -> Any:
        if statement.startswith("INSERT INTO document_chunks"):
            raise StateError
        return query(statement, *values)

    monkeypatch.setattr(store._database, "query", failing)

    async def test() -> None:
        with pytest.raises(StateError):
            await documents.accept({}, key("one"), given(), TEXT)
        assert (store.documents.counts()["uploading"], usage.of_today("one")) == (1, 0)
        store._database.run(lambda run: run("UPDATE documents SET expires = 0"))
        keeping = asyncio.create_task(documents._runner._keep_up())
        while store.documents.counts()["uploading"]:
            await asyncio.sleep(0.01)
        await documents.stop()
        await keeping

    asyncio.run(asyncio.wait_for(test(), 60))
    assert usage.of_today("one") == 0


def test_what_is_short_for_a_moment_fails_no_document(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "_POLL_SECONDS", 0.01)
    usage, attempts = Usage(store, lambda: None), 0
    documents = documents_of(store, usage, ends, ring(tmp_path))

    async def survey(*_: object) -> Survey:
        nonlocal attempts
        attempts += 1
        if attempts <= 3:  # once for the request, and twice after
            await asyncio.sleep(0.05)
            raise UnavailableError("Try again later.", 30)
        return Survey(3, 50, "A dog.")

    documents._reader._processes.survey = survey  # type: ignore[method-assign]

    async def test() -> StoredDocument:
        documents.start()
        made = await documents.accept({}, key("one"), given(num_characters=0), TEXT)
        found = await settled(store, made.id)
        await documents.stop()
        return found

    found = asyncio.run(asyncio.wait_for(test(), 60))
    assert (found.state, attempts, ends, usage.of_today("one")) == ("done", 4, ["done"], 50)


def test_a_document_that_can_be_read_at_no_attempt_fails(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "_POLL_SECONDS", 0.01)
    documents = documents_of(store, Usage(store, lambda: None), ends, ring(tmp_path))
    slowly(documents, slow, UnavailableError("Documents cannot be read now.", 30))

    async def test() -> StoredDocument:
        documents.start()
        made = await documents.accept({}, key("one"), given(num_characters=0), TEXT)
        slow.set()
        found = await settled(store, made.id)
        await documents.stop()
        return found

    found = asyncio.run(asyncio.wait_for(test(), 60))
    assert (found.state, found.attempts, found.message) == ("failed", 3, "Documents cannot be read now.")


def test_a_key_is_not_charged_for_a_document_that_could_not_be_queued(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails, and then the service stops: the next start reads and charges again."""
    usage = Usage(store, lambda: None)
    documents = documents_of(store, usage, ends, ring(tmp_path))
    store.documents.add(given(num_characters=0), TEXT, READING)
    claimed = store.documents.claim(READING, "a", 60)
    assert claimed is not None
    monkeypatch.setattr(type(store.documents), "queue", lambda *_: (_ for _ in ()).throw(StateError()))
    documents._runner._stopping = True
    asyncio.run(documents._runner._handle(claimed, "a"))
    found = store.documents.find("transduce", "one", claimed.id)
    assert found is not None
    assert (found.state, found.attempts, usage.of_today("one")) == ("reading", 0, 0)


def test_a_stop_while_a_failure_cannot_be_stored_puts_the_document_back(
    store: Store, ends: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.documents.add(given(), TEXT)
    claimed = store.documents.claim(TRANSLATING, "a", 60)
    assert claimed is not None
    runner = runner_of(store, ends, [])
    service: Any = runner._service
    service.error, runner._stopping = DataError("wrong"), False
    monkeypatch.setattr(type(store.documents), "fail", lambda *_: (_ for _ in ()).throw(StateError()))

    async def test() -> None:
        handling = asyncio.create_task(runner._handle(claimed, "a"))
        await asyncio.sleep(0.3)
        runner._stopping = True
        await handling

    monkeypatch.setattr(runner_module, "_POLL_SECONDS", 0.01)
    asyncio.run(asyncio.wait_for(test(), 60))
    assert store.documents.counts()["queued"] == 1


def test_the_end_of_the_service_puts_a_document_back_that_is_read_and_the_next_reads_it(
    store: Store, ends: list[str], slow: asyncio.Event, tmp_path: Path
) -> None:
    usage, keys = Usage(store, lambda: None), ring(tmp_path)
    first, second = (documents_of(store, usage, ends, keys) for _ in range(2))
    slowly(first, slow)

    async def test() -> StoredDocument:
        first.start()
        made = await first.accept({}, key("one"), given(num_characters=0), TEXT)
        while first._runner._running == {}:
            await asyncio.sleep(0.01)
        await first.stop()
        waiting = store.documents.find("transduce", "one", made.id)
        assert waiting is not None
        assert (waiting.state, waiting.attempts) == ("reading", 0)
        second.start()
        found = await settled(store, made.id)
        await second.stop()
        return found

    found = asyncio.run(asyncio.wait_for(test(), 60))
    assert (found.state, found.num_characters, usage.of_today("one"), ends) == ("done", 70, 70, ["done"])


def test_what_is_charged_late_counts_on_the_day_when_the_document_came(store: Store, tmp_path: Path) -> None:
    usage = Usage(store, lambda: None, lambda: "2026-01-03")
    access = Access(ring(tmp_path, characters_per_day=100), Budgets(usage))
    metrics = Metrics()
    reader = DocumentReader(99, access, source_of, metrics.translated)
    document = replace(stored(), created=datetime(2026, 1, 2, 23, 59, tzinfo=UTC))

    def charge(characters: int) -> int:
        async def queue(day: str, limit: int) -> tuple[bool, int]:
            return store.take_usage(day, "one", characters, limit)

        asyncio.run(reader.charge(document, characters, queue))
        return store.usage("one", "2026-01-02", "2026-01-02")

    assert charge(70) == 70
    assert charge(70) == 140, "as long as anything is left"
    with pytest.raises(DayLimitError, match=r"characters of 2026-01-02 \(UTC\)"):
        charge(1)
    reader.refund(document, 70)
    assert charge(1) == 71, "what was refunded counts, also before it was saved"
    assert usage.of_today("one") == 0
    assert b'transduce_characters_total{protocol="transduce"} 141.0\n' in metrics.exposition()[0]


# --- the replica that translates ------------------------------------------------------------------------------


def runner_of(store: Any, ends: list[str], given_back: list[int], **limits: Any) -> DocumentRunner:
    config = ServeConfig(documents=DocumentsConfig(**limits))
    documents = store.documents if isinstance(store, Store) else store
    reader: Any = SimpleNamespace(refund=lambda _, left: given_back.append(left))
    return DocumentRunner(FakeService(), config, documents, reader, ends.append)


def test_a_document_of_other_languages_waits_for_another_replica(store: Store, ends: list[str]) -> None:
    """As where one that is newer has a further model: this one translates from English into German, not into French."""
    foreign = [store.documents.add(given(source=source, target="fr"), TEXT).id for source in ("en", "auto", "fr")]
    ours = [store.documents.add(given(source=source), TEXT).id for source in ("en", "auto", "de")]
    runner = documents_of(store, usage_of(store), ends)._runner
    claimed = [store.documents.claim(TRANSLATING, name, 60, runner._serves) for name in "abcd"]
    assert [each and each.id for each in claimed] == [*ours, None]
    for each in foreign:
        found = store.documents.find("transduce", "one", each)
        assert found is not None
        assert found.state == "queued"


@pytest.mark.parametrize(("attempts", "state"), [(3, "done"), (4, "failed")])
def test_a_document_is_begun_three_times(store: Store, ends: list[str], attempts: int, state: str) -> None:
    made = store.documents.add(given(), TEXT)
    for number in range(attempts):
        claimed = store.documents.claim(TRANSLATING, f"replica {number}", -1.0)
    assert claimed is not None
    given_back: list[int] = []

    async def test() -> None:
        await runner_of(store, ends, given_back)._handle(claimed, f"replica {attempts - 1}")

    asyncio.run(test())
    found = store.documents.find("transduce", "one", made.id)
    assert found is not None
    assert (found.state, ends, given_back) == (state, [state], [70] if state == "failed" else [])
    assert found.message == (
        "a.txt: the service ended 3 times while it was being translated." if state == "failed" else ""
    )
    assert store.documents.content(made.id, "result") == (b"" if state == "failed" else b"[de] A DOG.\n")


def test_a_document_that_the_end_of_the_service_interrupts_waits_for_its_next_start(
    store: Store, ends: list[str]
) -> None:
    made = store.documents.add(given(), TEXT)
    claimed = store.documents.claim(TRANSLATING, "a", 60)
    assert claimed is not None
    given_back: list[int] = []
    runner = runner_of(store, ends, given_back)
    service: Any = runner._service
    service.error, runner._stopping = StoppingError("the end"), True
    asyncio.run(runner._handle(claimed, "a"))
    found = store.documents.find("transduce", "one", made.id)
    assert found is not None
    assert (found.state, found.attempts, ends, given_back) == ("queued", 0, [], [])
    assert runner._running == {}


def test_so_many_documents_are_translated_at_a_time(store: Store, ends: list[str]) -> None:
    most = 0

    async def test() -> None:
        nonlocal most
        runner = runner_of(store, ends, [], running=3)
        service: Any = runner._service
        service.gate = asyncio.Event()
        for _ in range(5):
            store.documents.add(given(), TEXT)
        runner.start()
        while len(service.requests) < 3:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        most = len(service.requests)
        assert store.documents.counts()["translating"] == 3
        service.gate.set()
        while len(ends) < 5:
            runner.wake()
            await asyncio.sleep(0.01)
        await runner.stop()

    asyncio.run(asyncio.wait_for(test(), 60))
    assert (most, ends) == (3, ["done"] * 5)


def test_a_result_is_saved_in_pieces_with_its_warnings(
    store: Store, ends: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "CHUNK_BYTES", 4)
    monkeypatch.setattr("transduce.serve.state.documents.time", SimpleNamespace(time=lambda: 1000.0))
    made = store.documents.add(given(), TEXT)
    claimed = store.documents.claim(TRANSLATING, "a", 60)
    translation: Any = SimpleNamespace(document=claimed, warnings=["a picture has no text"])
    runner = runner_of(store, ends, [], keep_seconds=25.0)
    result = io.BytesIO(b"0123456789")
    result.seek(7)
    asyncio.run(runner._save(translation, "a", result))
    assert store.documents.content(made.id, "result") == b"0123456789"
    done = store.documents.find("transduce", "one", made.id)
    assert done is not None
    assert (done.state, done.warnings, done.num_bytes) == ("done", ("a picture has no text",), 10)
    assert store._database.run(lambda run: run("SELECT expires FROM documents")) == [(1025.0,)]
    assert ends == ["done"]
    with pytest.raises(CancelledDocumentError):
        asyncio.run(runner._save(translation, "another", result))
    assert ends == ["done"]


def test_the_lease_is_renewed_until_the_document_is_another_s(ends: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails for a while ends nothing."""
    monkeypatch.setattr(runner_module, "_RENEW_SECONDS", 0)
    outcomes, calls, given_up = [True, StateError(), True, False], [], []

    def renew(*arguments: object) -> bool:
        calls.append(arguments)
        outcome = outcomes[len(calls) - 1]
        if isinstance(outcome, StateError):
            raise outcome
        return outcome

    runner = runner_of(SimpleNamespace(renew=renew), ends, [])
    asyncio.run(runner._renew("x1", "claim", lambda: given_up.append(1), lambda: (4, 40)))
    assert calls == [("x1", "claim", 20.0, 4, 40)] * 4
    assert given_up == [1]


def test_a_document_that_is_translated_before_its_reading_has_ended_can_be_cancelled(store: Store) -> None:
    """Its state changes in the store first."""
    ended: list[str] = []
    runner = runner_of(store, [], [])
    document = store.documents.add(given(), TEXT)

    async def test() -> None:
        reading = runner._leased(document, "a", lambda: ended.append("reading"), lambda: (0, 0))
        await reading.__aenter__()
        async with runner._leased(document, "b", lambda: ended.append("translating"), lambda: (0, 0)):
            await reading.__aexit__(None, None, None)
            runner.cancel(document.id)

    asyncio.run(test())
    assert ended == ["translating"]
    assert runner._running == {}


def test_a_failure_is_told_given_back_and_kept_as_long_as_a_result(store: Store, ends: list[str]) -> None:
    made = store.documents.add(given(), TEXT)
    claimed = store.documents.claim(TRANSLATING, "a", 60)
    assert claimed is not None
    given_back: list[int] = []
    runner = runner_of(store, ends, given_back, keep_seconds=1000.0)
    asyncio.run(runner._fail(claimed, "another", "damaged"))
    assert (ends, given_back) == ([], []), "it is another's by now"
    asyncio.run(runner._fail(claimed, "a", "damaged"))
    assert (ends, given_back) == (["failed"], [70])
    [(left,)] = store._database.run(lambda run: run("SELECT expires FROM documents"))
    assert 900 < left - datetime.now(UTC).timestamp() <= 1000
    assert store.documents.counts()["failed"] == 1
    assert made.id == claimed.id


# --- what is asked of the service -----------------------------------------------------------------------------


class Failing:
    """A service that fails with the given errors, one after the other, before it answers."""

    ready = True

    def __init__(self, errors: Sequence[Exception]) -> None:
        self.errors = list(errors)
        self.service = FakeService()

    async def translate(self, request: TranslationRequest) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return await self.service.translate(request)


def stored(**fields: Any) -> StoredDocument:
    return replace(open_store("memory").documents.add(given(), TEXT), **fields)


def translation_of(service: Any, document: StoredDocument) -> DocumentTranslation:
    loop: Any = None
    return DocumentTranslation(service, loop, document, TextOptions(guard=True))


def test_texts_of_documents_are_bulk_and_may_wait_for_a_day() -> None:
    service = FakeService()
    translation = translation_of(service, stored(options={"format": "text", "search": {"beam_size": 2}}))
    assert asyncio.run(translation._request(["A dog."]))[0].text == "[de] A DOG."
    [request] = service.requests
    assert (request.texts, request.pair, request.n_best) == (["A dog."], ("en", "de"), 1)
    assert (request.options, request.priority, request.timeout_seconds) == ({"beam_size": 2}, Priority.BULK, 86_400.0)
    assert request.text_options == TextOptions(markup="html", split="always", guard=True)


@pytest.mark.parametrize(
    ("errors", "pauses", "error"),
    [
        ([OverloadedError("full", 30)], [5.0], None),
        ([OverloadedError("full", 2)] * 9, [2] * 9, None),
        ([ModelUnavailableError("failed", 3)] * 2, [3, 3], None),
        ([ModelUnavailableError("failed", 3)] * 3, [3, 3], ModelUnavailableError),
        (
            [ModelUnavailableError("failed", 3), OverloadedError("full"), ModelUnavailableError("failed")],
            [3, 1, 1],
            None,
        ),
        ([StoppingError("the end")], [], StoppingError),
        ([DataError("wrong")], [], DataError),
    ],
)
def test_texts_that_are_refused_are_sent_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, errors: list[Exception], pauses: list[float], error: Any
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("transduce.serve.documents.translation.asyncio.sleep", sleep)
    translation = translation_of(Failing(errors), stored())
    if error is None:
        assert [each.text for each in asyncio.run(translation._request(["A dog."]))] == ["[de] A DOG."]
    else:
        with pytest.raises(error):
            asyncio.run(translation._request(["A dog."]))
    assert slept == pauses


def test_progress_is_counted_in_characters_without_tags() -> None:
    translation = translation_of(None, stored(source="de"))  # in the target language already
    for texts in (["<x0>Ein</x0> Hund", "&amp;"], ["Zwei"]):
        assert [each.text for each in translation._translated(texts)] == texts
    assert (translation.segments_done, translation.characters_done) == (3, 8 + 1 + 4)


def test_of_many_warnings_a_hundred_are_kept() -> None:
    translation = translation_of(None, stored())
    for number in range(102):
        translation._warn(str(number))
    assert translation.warnings == [str(number) for number in range(100)]


def test_a_translation_that_was_given_up_asks_for_nothing_more() -> None:
    service = FakeService()
    translation = translation_of(service, stored())
    translation._require_wanted()
    translation.cancel()
    with pytest.raises(CancelledDocumentError):
        translation._require_wanted()
    with pytest.raises(CancelledDocumentError):
        translation._translated(["A dog."])
    assert service.requests == []


# --- in a process of its own ----------------------------------------------------------------------------------


class Process:
    """A process that reads documents: it answers, or ends with a code, or never does."""

    given: bytes
    options: dict[str, Any]

    def __init__(self, answer: dict[str, Any] | int | OSError | None) -> None:
        self.answer, self.killed = answer, False

    async def __call__(self, *command: str, **options: Any) -> "Process":
        if isinstance(self.answer, OSError):
            raise self.answer
        assert command == (sys.executable, "-P", "-m", "transduce.serve.documents.survey")
        self.options = options
        return self

    async def communicate(self, given: bytes) -> tuple[bytes, None]:
        self.given = given
        if self.answer is None:
            await asyncio.Event().wait()
        return json.dumps(self.answer).encode(), None

    async def wait(self) -> int:
        """Returns the status; it was killed where it had not ended."""
        return self.answer if isinstance(self.answer, int) else -9 if self.answer is None else 0

    def kill(self) -> None:
        if self.killed:
            raise ProcessLookupError
        self.killed = True


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"num_segments": 2, "num_characters": 15, "sample": "a"}, None, ""),
        ({"error": "a.txt: is damaged"}, DataError, r"^a\.txt: is damaged$"),
        (
            {"failure": "KeyError at x.py:1 f"},
            DataError,
            r"^a\.txt: cannot be read; it may be damaged\. The service's log",
        ),
        (None, DataError, r"^a\.txt: takes too much time to read\. Split it"),
        (-24, DataError, r"^a\.txt: takes too much time to read\. Split it"),
        (1, UnavailableError, "cannot be run"),
        (OSError(24, "Too many open files"), UnavailableError, "cannot be run"),
        (-11, DataError, r"^a\.txt: cannot be read; it may be damaged\. The service's log"),
        (-15, StoppingError, "stopping"),  # another program ended it: the document is read again
    ],
)
def test_what_a_process_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answer: Any, error: Any, message: str
) -> None:
    process = Process(answer)
    monkeypatch.setattr(survey_module.asyncio, "create_subprocess_exec", process)
    monkeypatch.setattr(survey_module, "_PATIENCE_SECONDS", 0.01 if answer is None else 60.0)
    surveys, file = SurveyProcesses(), DocumentFile(b"A\n\x00dog", "a.txt", "text")
    if error is None:
        assert asyncio.run(surveys.survey(file, "de", 99)) == Survey(2, 15, "a")
    else:
        with pytest.raises(error, match=message):
            asyncio.run(surveys.survey(file, "de", 99))
    assert surveys._free._value == 2, "another may be read"
    if isinstance(answer, OSError):
        return
    head, _, content = process.given.partition(b"\n")
    limits = {"seconds": 120.0, "bytes": 512 << 20, "max_characters": 99}
    assert json.loads(head) == {"name": "a.txt", "format": "text", "columns": "", "target": "de", **limits}
    assert content == b"A\n\x00dog"
    assert process.options["stderr"] == subprocess.DEVNULL, "it may have text of the document"
    assert (process.killed, surveys._running) == (True, set())
    assert ("KeyError" in caplog.text) == (isinstance(answer, dict) and "failure" in answer)
    assert process.options["start_new_session"], "an interrupt in the terminal is for the service"


def test_a_process_that_reads_imports_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    file = DocumentFile(TEXT, "a.txt", "text")
    assert asyncio.run(SurveyProcesses().survey(file, "de", 99)) == Survey(1, 6, "A dog.\n")


def test_the_end_of_the_service_ends_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    process, surveys = Process({"error": "x"}), SurveyProcesses()
    monkeypatch.setattr(survey_module.asyncio, "create_subprocess_exec", process)
    other = Process(None)
    surveys._running.add(other)  # type: ignore[arg-type]
    surveys.stop()
    surveys.stop()  # the process has ended by itself
    assert other.killed
    with pytest.raises(StoppingError):
        asyncio.run(surveys.survey(lines(3), "de", 99))


def test_a_survey_that_nobody_waits_for_any_more_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    process, surveys = Process(None), SurveyProcesses()
    monkeypatch.setattr(survey_module.asyncio, "create_subprocess_exec", process)

    async def test() -> None:
        async with asyncio.timeout(0.01):
            await surveys.survey(lines(3), "de", 99)

    with pytest.raises(TimeoutError):
        asyncio.run(test())
    assert (process.killed, surveys._running, surveys._free.locked()) == (True, set(), False)


def test_two_documents_are_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    surveys, begun = SurveyProcesses(), 0

    async def output(given: bytes) -> tuple[int, bytes]:
        nonlocal begun
        begun += 1
        return await asyncio.Event().wait() and (0, given)  # type: ignore[return-value]

    monkeypatch.setattr(surveys, "_output", output)

    async def test() -> None:
        reading = [asyncio.create_task(surveys.survey(lines(3), "de", 99)) for _ in range(5)]
        await asyncio.sleep(0.05)
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)

    asyncio.run(test())
    assert begun == 2


@pytest.mark.parametrize(
    ("max_characters", "raised", "expected"),
    [
        (6, None, {"num_segments": 1, "num_characters": 6, "sample": "A dog.\n"}),
        (5, None, {"error": f"a.txt: has more than 5 {_TOO_MANY}"}),
        (6, MemoryError(), {"error": "a.txt: takes too much memory to read. Split it."}),
        (6, KeyError("a secret"), {"failure": "KeyError"}),
    ],
)
def test_the_process_limits_itself_and_tells_no_text_of_what_fails(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    max_characters: int,
    raised: BaseException | None,
    expected: dict[str, Any],
) -> None:
    """From 100 seconds of the processor on it has 30 more; the system counts whole ones."""
    limits: list[Any] = []
    niceness: list[int] = []
    monkeypatch.setattr(survey_module.resource, "setrlimit", lambda *arguments: limits.append(arguments))
    monkeypatch.setattr(survey_module.os, "nice", niceness.append)
    monkeypatch.setattr(survey_module, "time", SimpleNamespace(process_time=lambda: 100.75))
    header = {"name": "a.txt", "format": "text", "columns": "", "target": "de", "max_characters": max_characters}
    given = json.dumps(header | {"seconds": 30.0, "bytes": 1 << 30}).encode() + b"\n" + TEXT
    monkeypatch.setattr(survey_module.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(given)))
    if raised is not None:
        monkeypatch.setattr(survey_module, "survey", lambda *_: (_ for _ in ()).throw(raised))
    assert survey_module.main() == 0
    answer = json.loads(capsys.readouterr().out)
    if "failure" in expected:
        assert answer["failure"].startswith("KeyError at ")
        assert "secret" not in answer["failure"]
    else:
        assert answer == expected
    resource = survey_module.resource
    assert limits == [(resource.RLIMIT_CPU, (131, 131)), (resource.RLIMIT_AS, (1 << 30, 1 << 30))]
    assert niceness == [5], "what clients wait for goes first"


# --- what a document holds ------------------------------------------------------------------------------------


def lines(*sizes: int) -> DocumentFile:
    """Returns a text with paragraphs of so many characters."""
    return DocumentFile(b"\n\n".join(b"a" * size for size in sizes), "a.txt", "text")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((6, 9), Survey(2, 15, "aaaaaa\naaaaaaaaa\n")),
        ((1998, 3, 4), Survey(3, 2005, "a" * 1998 + "\naaa\n")),  # no more, once there are 2000
        ((1999, 3), Survey(2, 2002, "a" * 1999 + "\n")),
        ((3000, 3), Survey(2, 3003, "a" * 2000 + "\n")),
    ],
)
def test_a_document_is_surveyed(sizes: Sequence[int], expected: Survey) -> None:
    assert survey(lines(*sizes), "de", sum(sizes)) == expected
    with pytest.raises(DataError, match=rf"a\.txt: has more than {sum(sizes) - 1:,} {_TOO_MANY}"):
        survey(lines(*sizes), "de", sum(sizes) - 1)
