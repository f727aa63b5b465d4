"""Forms that come in pieces of any size: fields and a file, their limits, and the name of the file."""

import asyncio
import io
from typing import Any

import pytest
from starlette.requests import Request

from transduce.serve.requests import UnavailableError
from transduce.serve.web import request_body, uploads
from transduce.serve.web.refusals import Refusal
from transduce.serve.web.request_body import FormParts, form_fields
from transduce.serve.web.uploads import Upload, named, uploaded

BOUNDARY = b"----xyz"


def part(name: str, content: bytes, file_name: str | None = None) -> bytes:
    file = "" if file_name is None else f'; filename="{file_name}"'
    head = f'Content-Type: text/plain\r\nContent-Disposition: form-data; name="{name}"{file}\r\nX-Other: 1\r\n\r\n'
    return b"--" + BOUNDARY + b"\r\n" + head.encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--" + BOUNDARY + b"--\r\n"


def read(body: bytes, size: int, max_bytes: int = 100) -> tuple[dict[str, Any], str, bytes]:
    """Returns the fields, the name and the content of a form that comes in pieces of so many bytes."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]

    async def receive() -> Any:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def test() -> tuple[dict[str, Any], str, bytes]:
        kind = b'multipart/form-data; boundary="' + BOUNDARY + b'"'
        request = Request({"type": "http", "headers": [(b"content-type", kind)]}, receive)
        async with uploaded(request, max_bytes) as upload:
            return upload.fields, upload.name, upload.content()

    return asyncio.run(test())


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_fields_may_stand_before_and_behind_the_file(size: int) -> None:
    body = form(part("a", b"1"), part("b[]", b"2"), part("file", b"--a\r\n\x00dog", "a.txt"), part("a", "ü".encode()))
    assert read(body, size) == ({"a": ["1", "ü"], "b": ["2"]}, "a.txt", b"--a\r\n\x00dog")
    fields = FormParts(BOUNDARY)
    for start in range(0, len(body), size):
        fields.write(body[start : start + size])
    assert form_fields(fields.finished()) == {"a": ["1", "ü"], "b": ["2"]}


@pytest.mark.parametrize("size", [3, 1000])
def test_all_of_the_file_and_all_fields_together_are_bounded(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(uploads, "_MAX_FIELD_BYTES", 20)
    fields = [part("a", b"x" * 10), part("b", b"y" * 10)]
    found, _, content = read(form(*fields, part("file", b"z" * 50, "a.txt")), size, 50)
    assert (found, content) == ({"a": "x" * 10, "b": "y" * 10}, b"z" * 50)
    with pytest.raises(Refusal, match=r"a\.txt: is larger than 50 bytes\. Split the document") as raised:
        read(form(part("file", b"z" * 51, "a.txt")), size, 50)
    assert raised.value.status == 413
    with pytest.raises(Refusal, match="The fields except the file are larger than 20 bytes") as raised:
        read(form(*fields, part("c", b"x"), part("file", b"z", "a.txt")), size, 50)
    assert raised.value.status == 413


def test_a_file_part_without_a_name_is_a_field() -> None:
    with pytest.raises(Refusal, match="no part 'file' with a file and its name"):
        read(form(part("file", b"dog")), 1000)
    with pytest.raises(Refusal, match="has two files"):
        read(form(part("file", b"dog", "a.txt"), part("file", b"cat", "b.txt")), 1000)
    assert read(form(part("other", b"cat", "b.txt"), part("file", b"dog", "a.txt")), 1000) == ({}, "a.txt", b"dog")


@pytest.mark.parametrize("size", [1, 1000])
def test_a_form_has_at_most_so_many_fields(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(request_body, "_MAX_FIELDS", 2)
    file = part("file", b"dog", "a.txt")
    assert read(form(part("a", b"1"), file, part("b", b"2")), size)[0] == {"a": "1", "b": "2"}
    with pytest.raises(Refusal, match="more than 2 fields"):
        read(form(part("a", b"1"), part("b", b"2"), part("c", b"3"), file), size)
    with pytest.raises(Refusal, match="has no name"):
        read(form(part("a", b"1").replace(b' name="a"', b""), file), size)
    with pytest.raises(Refusal, match="not UTF-8"):
        read(form(part("a", b"\xff"), file), size)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/a.txt", "a.txt"),
        ("C:\\docs\\a.txt", "a.txt"),
        (" a\u202eb\x00\x9f\u2028.txt ", "ab.txt"),
        ("a" * 196 + ".txt", "a" * 196 + ".txt"),
        ("a" * 197 + ".txt", "a" * 196 + ".txt"),
        ("a" * 201, "a" * 200),
        ("a." + "b" * 198, "a." + "b" * 198),
        ("aa." + "b" * 198, "a." + "b" * 198),
        ("a." + "b" * 199, "a." + "b" * 198),
        (".txt", ".txt"),
        ("\ud800.txt", "?.txt"),
    ],
)
def test_the_name_of_a_file_is_one_that_can_be_shown(given: str, expected: str) -> None:
    assert named(Upload({}, "old", io.BytesIO()), given).name == expected


@pytest.mark.parametrize("given", ["", " ", "..", "a/", "docs\\..", "\u202e"])
def test_a_file_without_a_name_is_refused(given: str) -> None:
    with pytest.raises(Refusal, match="has no name"):
        named(Upload({}, "old", io.BytesIO()), given)


def test_a_form_that_comes_too_slowly_or_finds_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_UPLOAD_SECONDS", 0.01)

    async def receive() -> Any:
        return await asyncio.Event().wait()

    async def test() -> None:
        kind = b"multipart/form-data; boundary=x"
        async with uploaded(Request({"type": "http", "headers": [(b"content-type", kind)]}, receive), 10):
            pytest.fail("nothing has come")

    with pytest.raises(Refusal, match=r"did not arrive within 0\.01 seconds") as raised:
        asyncio.run(test())
    assert raised.value.status == 408

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(uploads._FileParts, "on_part_data", full)
    with pytest.raises(UnavailableError, match="no room") as unavailable:
        read(form(part("file", b"dog", "a.txt")), 1000)
    assert unavailable.value.retry_after_seconds == 60
