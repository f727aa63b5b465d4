"""What the protocols tell of a stored document, what they read of its form, and how its result is called."""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from transduce.serve.config import ServeConfig
from transduce.serve.documents.reader import DocumentReader
from transduce.serve.documents.survey import DocumentFile, Survey
from transduce.serve.operations.access import Access
from transduce.serve.operations.keys import Key
from transduce.serve.requests import StoppingError, UnavailableError, UnknownPairError
from transduce.serve.state.documents import NewDocument, StoredDocument
from transduce.serve.web import deepl_documents, own_documents
from transduce.serve.web.backend import Backend
from transduce.serve.web.detection import Guess
from transduce.serve.web.disconnection import ClientLeftError
from transduce.serve.web.document_requests import DocumentRequests, require_format, result_name
from transduce.serve.web.libretranslate_files import LibreTranslateFiles
from transduce.serve.web.refusals import Refusal
from transduce.serve.web.uploads import Upload

_DOCUMENT = StoredDocument(
    protocol="transduce",
    owner="one",
    name="a.letter.docx",
    source="en",
    target="de",
    options={},
    num_segments=7,
    num_characters=60,
    id="x1",
    num_bytes=5,
    state="translating",
    segments_done=3,
    characters_done=20,
    warnings=("no picture",),
    message="",
    attempts=1,
    created=datetime(2026, 1, 2, 3, 4, 5, 678_900, UTC),
)


@pytest.mark.parametrize(
    ("changes", "state", "progress", "error"),
    [
        ({}, "translating", 0.3333, None),
        ({"state": "uploading", "characters_done": 0}, "queued", 0.0, None),
        ({"state": "queued", "num_characters": 0, "characters_done": 0}, "queued", 0.0, None),
        ({"state": "done", "num_characters": 0, "characters_done": 0}, "done", 1.0, None),
        ({"characters_done": 61}, "translating", 1.0, None),
        ({"state": "failed", "message": "damaged"}, "failed", 0.3333, "damaged"),
    ],
)
def test_a_document_in_our_own_protocol(
    changes: dict[str, Any], state: str, progress: float, error: str | None
) -> None:
    document = replace(_DOCUMENT, **changes)
    assert own_documents._described(document) == {
        "id": "x1",
        "state": state,
        "name": "a.letter.docx",
        "result_name": "a.letter.de.docx",
        "source": "en",
        "target": "de",
        "characters": document.num_characters,
        "segments": 7,
        "segments_done": 3,
        "progress": progress,
        "warnings": ["no picture"],
        "error": error,
        "created": "2026-01-02T03:04:05.678Z",
    }
    assert result_name(replace(document, name="README", target="pt-BR")) == "README.pt-BR"


@pytest.mark.parametrize(
    ("done", "expected"), [(0, {}), (20, {"seconds_remaining": 200}), (60, {"seconds_remaining": 1})]
)
def test_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch, done: int, expected: dict[str, int]) -> None:
    """A third took 99.6 seconds, so two thirds take 199.2, which is told as 200."""
    monkeypatch.setattr(time, "time", lambda: _DOCUMENT.created.timestamp() + 99.6)
    assert deepl_documents._time_left(replace(_DOCUMENT, characters_done=done)) == expected


def test_the_fields_of_a_form_are_texts_or_json() -> None:
    given = {"target": "de", "source": "", "format": "docx", "beam_size": "2", "glossary": '{"a": ["b"]}'}
    assert own_documents._values(given) == {
        "target": "de",
        "format": "docx",
        "beam_size": 2,
        "glossary": {"a": ["b"]},
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "en"}, "'target' is missing"),
        ({"target": ""}, "'target' is missing"),
        ({"target": ["de", "fr"]}, "target: is there twice"),
        ({"target": "de", "beam_size": "two"}, "beam_size = 'two': must be JSON"),
        ({"target": "de", "beam_size": "NaN"}, "there is no NaN"),
        ({"target": "de", "glossary": '{"a": "\\ud800"}'}, "half of a character"),
        ({"target": "de", "beam_sise": "2"}, "Did you mean 'beam_size'"),
        ({"target": "de", "n_best": "2"}, "Unknown field 'n_best'"),
    ],
)
def test_wrong_fields_of_a_form(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        own_documents._values(fields)


def test_the_given_format_wins_over_ending_and_content() -> None:
    assert require_format("a.md", "", b"text") == "markdown"
    assert require_format("a.md", "text", b"text") == "text"
    with pytest.raises(Refusal, match="The format 'markdwn' is not known"):
        require_format("a.md", "markdwn", b"text")
    with pytest.raises(Refusal, match=r"a\.xyz: its file extension is that of no known format\. Known are .*\.docx"):
        require_format("a.xyz", "", b"\x01\x02")


# --- what is accepted, and what is given out ------------------------------------------------------------------

_KEY = Key("one", "0" * 64)


def _request(*messages: dict[str, str], **params: str) -> Request:
    """Returns a request whose client sends these messages, and then waits."""
    left = list(messages)

    async def receive() -> Any:
        if left:
            return left.pop(0)
        return await asyncio.Event().wait()

    scope = {"type": "http", "scheme": "http", "server": ("testserver", 80), "path": "/", "headers": []}
    return Request(scope | {"query_string": b"", "path_params": params}, receive)


@pytest.mark.parametrize(
    ("source", "detected", "error"), [("auto", "en", None), ("en", "en", None), ("auto", "de", None), ("auto", "he", 1)]
)
def test_what_is_kept_of_a_document_that_is_accepted(source: str, detected: str, error: int | None) -> None:
    """Its language is that of the beginning of its text; one that is in the target language already is accepted."""
    calls: list[Any] = []

    async def survey(file: DocumentFile, target: str, max_characters: int) -> Survey:
        calls.append((file, target, max_characters))
        return Survey(7, 60, "A dog.")

    async def guesses(texts: list[str], among: list[str], *, html: bool) -> list[list[Guess]]:
        calls.append((texts, among, html))
        return [[Guess(detected, 90.0)]]

    async def accept(scope: Any, key: Key, given: NewDocument, content: bytes) -> NewDocument:
        calls.append((key, content))
        return await reader.read(given, content)

    service: Any = SimpleNamespace(language_pairs=[("en", "de"), ("he", "en"), ("pl", "de")])
    detector: Any = SimpleNamespace(guesses=guesses)
    backend = Backend(service, ServeConfig(), Access(None, SimpleNamespace()), detector)  # type: ignore[arg-type]
    reader = DocumentReader(99, backend.access, backend.source_of)
    reader._processes = SimpleNamespace(survey=survey)  # type: ignore[assignment]
    requests = DocumentRequests(backend, SimpleNamespace(accept=accept))  # type: ignore[arg-type]
    upload = Upload({}, "a.md", io.BytesIO(b"# A dog."))
    upload.file.seek(3)
    accepting = requests.accept(_request(), _KEY, "deepl", upload, (source, "de"), {"format": "", "search": {"a": 1}})
    if error is not None:
        with pytest.raises(UnknownPairError):
            asyncio.run(accepting)
        return
    assert asyncio.run(accepting) == NewDocument(
        protocol="deepl",
        owner="one",
        name="a.md",
        source=detected,
        target="de",
        options={"format": "markdown", "search": {"a": 1}},
        num_segments=7,
        num_characters=60,
    )
    assert calls == [
        (_KEY, b"# A dog."),
        (DocumentFile(b"# A dog.", "a.md", "markdown"), "de", 99),
        *([(["A dog."], ["en", "pl", "de"], False)] if source == "auto" else []),
    ]


@pytest.mark.parametrize("pieces", [[b"Ein ", b"Hu", b"nd"], [b"Hund"], []])
def test_a_result_is_given_out_whole_and_only_then_noted(pieces: list[bytes]) -> None:
    events: list[str] = []

    async def result(document: StoredDocument) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        events.append(f"read {document.id}")

    async def when_sent() -> None:
        events.append("sent")

    async def body(response: Any) -> bytes:
        return b"".join([piece async for piece in response.body_iterator])

    async def test() -> tuple[Any, bytes]:
        requests: Any = DocumentRequests(None, SimpleNamespace(result=result))  # type: ignore[arg-type]
        response = await requests.file_response(replace(_DOCUMENT, name='a "b" ü.docx', num_bytes=99), when_sent)
        assert "sent" not in events
        return response, await body(response)

    response, content = asyncio.run(test())
    assert content == b"".join(pieces)
    assert events == ["read x1", "sent"]
    assert dict(response.headers) == {
        "content-disposition": (
            "attachment; filename=\"a _b_ _.de.docx\"; filename*=UTF-8''a%20%22b%22%20%C3%BC.de.docx"
        ),
        "content-length": "99",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "content-type": "application/octet-stream",
    }


class _Documents:
    """Documents that end as they are told to, and that note what is deleted."""

    def __init__(self, end: Any) -> None:
        self.end, self.deleted, self.found = end, list[Any](), list[Any]()

    async def finished(self, document: StoredDocument) -> Any:
        if isinstance(self.end, Exception):
            raise self.end
        if self.end == "never":
            await asyncio.Event().wait()
        return self.end

    async def delete(self, *arguments: Any) -> None:
        self.deleted.append(arguments)

    async def find(self, *arguments: Any) -> Any:
        self.found.append(arguments)
        return self.end


def _files(documents: Any) -> LibreTranslateFiles:
    async def accepted(_: Request) -> tuple[Key, StoredDocument]:
        return _KEY, _DOCUMENT

    async def file_response(document: StoredDocument) -> str:
        return document.id

    backend = SimpleNamespace(config=ServeConfig())
    made = LibreTranslateFiles(SimpleNamespace(backend=backend, documents=documents, file_response=file_response))  # type: ignore[arg-type]
    made._accepted = accepted  # type: ignore[method-assign]
    return made


_FAILED = replace(_DOCUMENT, state="failed", message="damaged")


@pytest.mark.parametrize(
    ("end", "messages", "error", "is_deleted"),
    [
        (replace(_DOCUMENT, state="done"), [], None, False),
        (_FAILED, [], Refusal, True),
        (None, [], UnavailableError, False),
        (StoppingError("the end"), [], StoppingError, True),
        ("never", [{"type": "http.request"}, {"type": "http.disconnect"}], ClientLeftError, True),
    ],
)
def test_a_file_that_comes_to_nothing_is_deleted(end: Any, messages: list[Any], error: Any, is_deleted: bool) -> None:
    documents = _Documents(end)
    answering = _files(documents).translate(_request(*messages))
    if error is None:
        answer = json.loads(bytes(asyncio.run(answering).body))
        assert answer == {"translatedFileUrl": "http://testserver/download_file/x1/a.letter.de.docx"}
    else:
        with pytest.raises(error) as raised:
            asyncio.run(answering)
        if end is _FAILED:
            assert (raised.value.status, str(raised.value)) == (400, "damaged")
        if end is None:
            assert raised.value.retry_after_seconds == 30
    assert documents.deleted == ([("libretranslate", _KEY, "x1")] if is_deleted else [])


@pytest.mark.parametrize("state", ["uploading", "queued", "translating", "failed", "done", None])
def test_only_files_that_are_done_are_given_out(state: str | None) -> None:
    documents = _Documents(None if state is None else replace(_DOCUMENT, state=state))
    downloading = _files(documents).download(_request(document_id="x1"))
    if state == "done":
        assert asyncio.run(downloading) == "x1"  # type: ignore[comparison-overlap]
    else:
        with pytest.raises(Refusal, match="no such file") as raised:
            asyncio.run(downloading)
        assert raised.value.status == 404
    assert documents.found == [("libretranslate", None, "x1")], "whoever has the address may have it"
