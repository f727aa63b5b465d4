"""The fields of a request: what is sent is what is read, in each encoding; what is malformed is refused."""

import contextlib
import json
import string
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.serve.web.refusals import Refusal
from transduce.serve.web.request_body import parse_body

_BOUNDARY = b"----xyz"
_NAMES = st.text(string.ascii_letters, min_size=1, max_size=8)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_KINDS = ("", "application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


def multipart(fields: dict[str, str]) -> bytes:
    """Returns a multipart form."""
    lines = [
        b"--"
        + _BOUNDARY
        + b'\r\nContent-Disposition: form-data; name="'
        + name.encode()
        + b'"\r\n\r\n'
        + value.encode()
        for name, value in fields.items()
    ]
    return b"\r\n".join([*lines, b"--" + _BOUNDARY + b"--\r\n"])


@given(st.dictionaries(_NAMES, _TEXTS, min_size=1))
def test_each_encoding_gives_the_same_fields(fields: dict[str, str]) -> None:
    assert parse_body(json.dumps(fields).encode(), "application/json") == fields
    assert (
        parse_body(json.dumps(fields, ensure_ascii=False).encode(), ["application/json", " charset=utf-8"][0]) == fields
    )
    assert parse_body(urlencode(fields).encode(), "application/x-www-form-urlencoded") == fields
    assert parse_body(multipart(fields), "multipart/form-data", _BOUNDARY) == fields


@given(st.binary(), st.sampled_from(_KINDS), st.sampled_from([b"", _BOUNDARY, b"\xff" * 300]))
def test_any_bytes_give_fields_or_are_refused(body: bytes, kind: str, boundary: bytes) -> None:
    try:
        answer = {"fields": parse_body(body, kind, boundary), "status": 200}
    except Refusal as refusal:
        answer = {"error": str(refusal), "status": refusal.status}
    assert answer["status"] in (200, 400, 415)
    json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()


@given(st.dictionaries(_NAMES, _TEXTS, min_size=1), st.data())
def test_a_multipart_form_that_is_cut_off_or_damaged_is_refused_or_read(
    fields: dict[str, str], data: st.DataObject
) -> None:
    body = multipart(fields)
    end = data.draw(st.integers(1, len(body) - 4))
    with pytest.raises(Refusal):
        parse_body(body[:end], "multipart/form-data", _BOUNDARY)
    start = data.draw(st.integers(0, len(body) - 1))
    damaged = body[:start] + bytes([data.draw(st.integers(0, 255))]) + body[start + 1 :]
    with contextlib.suppress(Refusal):
        parse_body(damaged, "multipart/form-data", _BOUNDARY)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS, st.lists))
def test_any_value_of_json_is_read(value: Any) -> None:
    body = json.dumps({"q": value}).encode()
    if "NaN" in body.decode() or "Infinity" in body.decode():
        return
    assert parse_body(body, "application/json") == {"q": value}


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"[1]", "application/json", "must be an object of the request's fields.$"),
        (b'{"q": ', "application/json", "not JSON: Expecting value, line 1 column 7"),
        (b'{"q": "\xff"}', "application/json", "not UTF-8: byte 7"),
        (b'{"q": NaN}', "application/json", "there is no NaN"),
        (b'{"q": ' + b"9" * 5000 + b"}", "application/json", "a number that is too long"),
        (b'{"q": ' + b"[" * 200_000 + b"}", "application/json", "nested too deeply"),
        (b'{"q": "\\ud800"}', "application/json", "half of a character"),
        (b'{"\\ud800": 1}', "application/json", "half of a character"),
        (b'{"q": [{"a": "\\udfff"}]}', "application/json", "half of a character"),
        (b"q=%ff", "application/x-www-form-urlencoded", "form is not UTF-8"),
        (b"q=\xff", "application/x-www-form-urlencoded", "form is not UTF-8"),
        (b"a=1&" * 10_001, "application/x-www-form-urlencoded", "more than 10,000 fields"),
        (b"x", "multipart/form-data", "no boundary"),
        (b"Hello", "text/plain", "content type 'text/plain' is not supported"),
    ],
)
def test_malformed_bodies_are_told_what_is_wrong(body: bytes, kind: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        parse_body(body, kind)


def test_repeated_names_and_names_of_lists_give_lists() -> None:
    form = "application/x-www-form-urlencoded"
    assert parse_body(b"text=a&text=b&to=de", form) == {"text": ["a", "b"], "to": "de"}
    assert parse_body(b"text[]=a&to=de", form) == {"text": ["a"], "to": "de"}
    assert parse_body(b"q=&x", form) == {"q": "", "x": ""}


def test_files_of_a_form_are_left_out() -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\nContent-Type: text/plain\r\n\r\nHi\r\n'
        b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\nHello\r\n--b--\r\n'
    )
    assert parse_body(body, "multipart/form-data", b"b") == {"q": "Hello"}


def test_an_empty_body_has_no_fields() -> None:
    for kind in _KINDS:
        assert parse_body(b" \r\n", kind) == {}
