"""Documents between their store and the service: what is charged, given back, renewed, saved and asked for."""

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from fake_service import FakeService
from transduce.errors import DataError
from transduce.serve.config import DocumentsConfig, ServeConfig
from transduce.serve.documents import runner as runner_module
from transduce.serve.documents import service as service_module
from transduce.serve.documents import survey as survey_module
from transduce.serve.documents.runner import DocumentRunner
from transduce.serve.documents.service import Documents
from transduce.serve.documents.survey import DocumentFile, Survey, SurveyProcesses, survey
from transduce.serve.documents.translation import DocumentTranslation, GivenUpError
from transduce.serve.operations.access import Access, LimitError
from transduce.serve.operations.keys import Key
from transduce.serve.operations.limits import Budgets, Usage
from transduce.serve.requests import (
    ModelUnavailableError,
    OverloadedError,
    Priority,
    StoppingError,
    TranslationRequest,
)
from transduce.serve.state.database import StateError
from transduce.serve.state.documents import NewDocument, StoredDocument
from transduce.serve.state.store import Store, open_store
from transduce.translation.pipeline import TextOptions

DAY = "2026-01-02"
TEXT = b"A dog.\n"


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


def documents_of(store: Store, usage: Usage, ends: list[str], **limits: Any) -> Documents:
    config = ServeConfig(documents=DocumentsConfig(**limits))
    return Documents(FakeService(), config, store.documents, Access(None, Budgets(usage)), ends.append)


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
        store.documents.claim("a", 600)
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
    store.documents.claim("a", 60)
    store.documents.fail(made.id, "a", "damaged", 60)
    found = asyncio.run(documents.finished(made))
    assert found is not None
    assert found.state == "failed"
    store.documents.delete("transduce", "one", made.id)
    assert asyncio.run(documents.finished(made)) is None


# --- the replica that translates ------------------------------------------------------------------------------


def runner_of(store: Any, ends: list[str], given_back: list[int], **limits: Any) -> DocumentRunner:
    config = ServeConfig(documents=DocumentsConfig(**limits))
    documents = store.documents if isinstance(store, Store) else store
    return DocumentRunner(FakeService(), config, documents, lambda _, left: given_back.append(left), ends.append)


@pytest.mark.parametrize(("attempts", "state"), [(3, "done"), (4, "failed")])
def test_a_document_is_begun_three_times(store: Store, ends: list[str], attempts: int, state: str) -> None:
    made = store.documents.add(given(), TEXT)
    for number in range(attempts):
        claimed = store.documents.claim(f"replica {number}", -1.0)
    assert claimed is not None
    given_back: list[int] = []

    async def test() -> None:
        await runner_of(store, ends, given_back)._translate(claimed, f"replica {attempts - 1}")

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
    claimed = store.documents.claim("a", 60)
    assert claimed is not None
    given_back: list[int] = []
    runner = runner_of(store, ends, given_back)
    service: Any = runner._service
    service.error, runner._stopping = StoppingError("the end"), True
    asyncio.run(runner._translate(claimed, "a"))
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
    claimed = store.documents.claim("a", 60)
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
    with pytest.raises(GivenUpError):
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
    translation: Any = SimpleNamespace(
        document=SimpleNamespace(id="x1"), segments_done=4, characters_done=40, give_up=lambda: given_up.append(1)
    )
    asyncio.run(runner._renew(translation, "claim"))
    assert calls == [("x1", "claim", 20.0, 4, 40)] * 4
    assert given_up == [1]


def test_a_failure_is_told_given_back_and_kept_as_long_as_a_result(store: Store, ends: list[str]) -> None:
    made = store.documents.add(given(), TEXT)
    claimed = store.documents.claim("a", 60)
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
    translation.give_up()
    with pytest.raises(GivenUpError):
        translation._require_wanted()
    with pytest.raises(GivenUpError):
        translation._translated(["A dog."])
    assert service.requests == []


# --- in a process of its own ----------------------------------------------------------------------------------


class Process:
    """A process that reads documents: it answers, or ends with a code, or never does."""

    given: bytes
    options: dict[str, Any]

    def __init__(self, answer: dict[str, Any] | int | None) -> None:
        self.answer, self.killed = answer, False
        self.returncode = 0

    def __call__(self, command: list[str], **options: Any) -> "Process":
        assert command == [sys.executable, "-m", "transduce.serve.documents.survey"]
        self.options = options
        return self

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        """Has ended."""

    def communicate(self, given: bytes, seconds: float) -> tuple[bytes, None]:
        self.given = given
        assert seconds == 300.0
        if self.answer is None:
            self.returncode = -9
            raise subprocess.TimeoutExpired("python", seconds)
        self.returncode = self.answer if isinstance(self.answer, int) else 0
        return json.dumps(self.answer).encode(), None

    def kill(self) -> None:
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
        (1, RuntimeError, "cannot be run"),
    ],
)
def test_what_a_process_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answer: Any, error: Any, message: str
) -> None:
    process = Process(answer)
    monkeypatch.setattr("transduce.serve.documents.survey.subprocess.Popen", process)
    surveys, file = SurveyProcesses(), DocumentFile(b"A\n\x00dog", "a.txt", "text")
    if error is None:
        assert surveys.survey(file, "de", 99) == Survey(2, 15, "a")
    else:
        with pytest.raises(error, match=message):
            surveys.survey(file, "de", 99)
    head, _, content = process.given.partition(b"\n")
    limits = {"seconds": 30.0, "bytes": 512 << 20, "max_characters": 99}
    assert json.loads(head) == {"name": "a.txt", "format": "text", "columns": "", "target": "de", **limits}
    assert content == b"A\n\x00dog"
    assert process.options["stderr"] is subprocess.DEVNULL, "it may have text of the document"
    assert (process.killed, surveys._running) == (True, set())
    assert ("KeyError" in caplog.text) == (message.startswith("^a\\.txt: cannot be read"))


def test_the_end_of_the_service_ends_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    process, surveys = Process({"error": "x"}), SurveyProcesses()
    monkeypatch.setattr("transduce.serve.documents.survey.subprocess.Popen", process)
    other = Process(None)
    surveys._running.add(other)  # type: ignore[arg-type]
    surveys.stop()
    assert other.killed
    with pytest.raises(StoppingError):
        surveys.survey(lines(3), "de", 99)


@pytest.mark.parametrize(
    ("max_characters", "raised", "expected"),
    [
        (6, None, {"num_segments": 1, "num_characters": 6, "sample": "A dog.\n"}),
        (5, None, {"error": "a.txt: has more than 5 characters to translate. Split it."}),
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
    monkeypatch.setattr(survey_module.resource, "setrlimit", lambda *arguments: limits.append(arguments))
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
    with pytest.raises(
        DataError, match=rf"a\.txt: has more than {sum(sizes) - 1:,} characters to translate\. Split it"
    ):
        survey(lines(*sizes), "de", sum(sizes) - 1)
