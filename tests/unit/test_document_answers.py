"""What the protocols tell of a stored document, what they read of its form, and how its result is called."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from transduce.serve.state.documents import StoredDocument
from transduce.serve.web import deepl_documents, own_documents
from transduce.serve.web.document_requests import require_format, result_name
from transduce.serve.web.refusals import Refusal

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
    with pytest.raises(Refusal, match=r"a\.xyz: its ending stands for no format .*\.docx"):
        require_format("a.xyz", "", b"\x01\x02")
