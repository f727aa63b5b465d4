"""The fields of a request, in any of the encodings that clients use.

Clients send JSON, urlencoded and multipart forms, and the query string of a POST; some send a form with a GET. All of
these give the same dictionary. A name that a form repeats has a list; so has a name that ends in "[]", which is
dropped. Fields of the body come before those of the query string.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from transduce.serve.config import LimitsConfig
from transduce.serve.web.refusals import Refusal, bad_request

Fields = dict[str, Any]

_MAX_FIELDS = 10_000  # names in a form
_BODY_SECONDS = 60.0  # for a client to send its body
_ENCODINGS = "application/json, application/x-www-form-urlencoded or multipart/form-data"


async def read_fields(request: Request, max_bytes: int) -> Fields:
    """Returns the fields of a request.

    Raises:
        Refusal: the body is too large (413), comes too slowly (408), has an unknown type (415), or is malformed (400).
    """
    kind, options = parse_options_header(request.headers.get("content-type"))
    body = await read_body(request, max_bytes)
    query = form_fields(_pairs(request.scope["query_string"], "query string"))
    return query | parse_body(body, kind.decode("latin-1"), options.get(b"boundary", b""))


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Returns the body of a request; for the errors see `read_fields`."""
    too_large = Refusal(413, "too_large", f"The request is larger than {max_bytes:,} bytes. Send fewer texts at once.")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > max_bytes):
        raise too_large
    if "content-encoding" in request.headers and request.headers["content-encoding"].lower() != "identity":
        raise Refusal(415, "unsupported", "The body is compressed: send it without Content-Encoding.")
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise too_large
    except TimeoutError:
        raise Refusal(408, "timeout", f"The body did not arrive within {_BODY_SECONDS:g} seconds.") from None
    return bytes(body)


def parse_body(body: bytes, kind: str, boundary: bytes = b"") -> Fields:
    """Returns the fields of a body of the given content type; without a type it is read as a form, or as JSON.

    Raises:
        Refusal: the type is unknown (415), or the body is malformed (400).
    """
    if not body.strip():
        return {}
    kind = kind.strip().lower() or ("application/json" if body.lstrip()[:1] == b"{" else "")
    if kind == "application/json" or kind.endswith("+json"):
        return _json_fields(body)
    if kind in ("", "application/x-www-form-urlencoded"):
        return form_fields(_pairs(body, "form"))
    if kind == "multipart/form-data":
        return form_fields(_parts(body, boundary))
    raise Refusal(415, "unsupported", f"The content type '{kind[:100]}' is not supported. Use {_ENCODINGS}.")


def _json_fields(body: bytes) -> Fields:
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=refuse_constant)
    except UnicodeDecodeError as error:
        raise bad_request(f"The JSON is not UTF-8: byte {error.start} is wrong.") from None
    except json.JSONDecodeError as error:
        raise bad_request(f"The body is not JSON: {error.msg}, line {error.lineno} column {error.colno}.") from None
    except ValueError:  # Python reads no integer of more than 4300 digits
        raise bad_request("The JSON holds a number that is too long.") from None
    except RecursionError:
        raise bad_request("The JSON is nested too deeply.") from None
    if not isinstance(value, dict):
        raise bad_request("The JSON must be an object of the request's fields.")
    for name, field in value.items():
        require_unicode(name, name)
        require_unicode(field, name)
    return value


def refuse_constant(name: str) -> NoReturn:
    """Raises Refusal for NaN and Infinity, which Python reads and JSON does not have."""
    raise bad_request(f"The body is not JSON: there is no {name}.")


def require_unicode(value: Any, name: str) -> None:
    """Raises Refusal for half a surrogate pair, which JSON can spell and UTF-8 cannot."""
    pending = [value]
    while pending:
        match pending.pop():
            case str(text):
                try:
                    text.encode()
                except UnicodeEncodeError as error:
                    shown = name.encode(errors="replace").decode()[:100]
                    raise bad_request(f"{shown}: \\u{ord(text[error.start]):04x} is half of a character.") from None
            case list(items):
                pending.extend(items)
            case dict(items):
                pending.extend([*items.keys(), *items.values()])


def _pairs(body: bytes, what: str) -> list[tuple[str, str]]:
    """Returns the names and values of a urlencoded text."""
    try:
        text = body.decode()
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except UnicodeDecodeError:
        raise bad_request(f"The {what} is not UTF-8.") from None
    except ValueError:
        raise bad_request(f"The {what} has more than {_MAX_FIELDS:,} fields.") from None


def _parts(body: bytes, boundary: bytes) -> list[tuple[str, str]]:
    """Returns the names and values of a multipart form; its files are left out."""
    if not boundary:
        raise bad_request("The multipart form has no boundary in its Content-Type.")
    reader = FormParts(boundary)
    reader.write(body)
    return reader.finished()


class FormParts:
    """Collects the parts of a multipart form, which comes in pieces. The parser calls the methods `on_…`."""

    def __init__(self, boundary: bytes) -> None:
        """Takes what separates the parts."""
        self._pairs: list[tuple[str, str]] = []
        self._is_complete = False
        self.on_part_begin()
        callbacks = {name: getattr(self, name) for name in dir(self) if name.startswith("on_")}
        with _well_formed():
            self._parser = MultipartParser(boundary, callbacks)  # type: ignore[arg-type]

    def write(self, body: bytes) -> None:
        """Reads a piece of the form; raises Refusal where it is malformed."""
        with _well_formed():
            self._parser.write(body)

    def finished(self) -> list[tuple[str, str]]:
        """Returns the names and values of the whole form; raises Refusal where its end is missing."""
        with _well_formed():
            self._parser.finalize()
        if not self._is_complete:
            raise bad_request("The multipart form is cut off: its last boundary is missing.")
        return self._pairs

    def on_part_begin(self) -> None:
        self._name, self._value, self._content = b"", b"", bytearray()
        self._options: dict[bytes, bytes] = {}  # of the header Content-Disposition

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def on_header_end(self) -> None:
        if self._name.lower() == b"content-disposition":
            _, self._options = parse_options_header(self._value)
        self._name, self._value = b"", b""

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._content += data[start:end]

    def on_end(self) -> None:
        self._is_complete = True

    def on_part_end(self) -> None:
        if b"filename" in self._options:
            return
        if b"name" not in self._options:
            raise bad_request("A part of the multipart form has no name.")
        if len(self._pairs) >= _MAX_FIELDS:
            raise bad_request(f"The multipart form has more than {_MAX_FIELDS:,} fields.")
        try:
            self._pairs.append((self._options[b"name"].decode(), self._content.decode()))
        except UnicodeDecodeError:
            raise bad_request("The multipart form is not UTF-8.") from None


@contextlib.contextmanager
def _well_formed() -> Iterator[None]:
    try:
        yield
    except FormParserError as error:
        raise bad_request(f"The multipart form is malformed: {error}") from None


def texts_within(given: Any, limits: LimitsConfig, wrong_type: str, too_many: str, too_long: str) -> list[str]:
    """Returns the texts of a request, which has a list of them or one, within the limits.

    Raises:
        Refusal: with one of the messages. The last two have places for the number, and for the limit.
    """
    texts = given if isinstance(given, list) else [given]
    if not all(isinstance(text, str) for text in texts):
        raise bad_request(wrong_type, "wrong_value")
    for number, limit, message in (
        (len(texts), limits.list_length, too_many),
        (sum(map(len, texts)), limits.text_characters, too_long),
    ):
        if number > limit:
            raise bad_request(message.format(number, limit), "too_long")
    return texts


def form_fields(pairs: Iterable[tuple[str, str]]) -> Fields:
    """Returns a value for each name: a text, or a list for a name that is repeated or ends in "[]"."""
    listed: dict[str, list[str]] = {}
    lists = set()
    for given, value in pairs:
        name = given.removesuffix("[]")
        listed.setdefault(name, []).append(value)
        if name != given or len(listed[name]) > 1:
            lists.add(name)
    return {name: values if name in lists else values[0] for name, values in listed.items()}
