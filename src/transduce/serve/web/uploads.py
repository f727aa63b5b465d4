"""Forms with a file: the file goes to the disk while it comes, so that large ones do not fill the memory."""

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from python_multipart.multipart import parse_options_header
from starlette.requests import Request

from transduce.serve.requests import UnavailableError
from transduce.serve.web.refusals import Refusal, bad_request
from transduce.serve.web.request_body import Fields, FormParts, form_fields

_FILE = "file"  # the name of the part
_MAX_FIELD_BYTES = 2_000_000  # of all fields except the file
_MAX_NAME = 200  # characters
_IN_MEMORY_BYTES = 1 << 20
_UPLOAD_SECONDS = 300.0  # for a client to send the form
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Upload:
    """A form with a file."""

    fields: Fields
    name: str  # of the file, without folders
    file: IO[bytes]

    def content(self) -> bytes:
        """Returns the file."""
        self.file.seek(0)
        return self.file.read()


def named(upload: Upload, name: str) -> Upload:
    """Returns the form with another name of its file."""
    return replace(upload, name=_file_name(name.encode(errors="replace")))


@contextlib.asynccontextmanager
async def uploaded(request: Request, max_bytes: int) -> AsyncIterator[Upload]:
    """Yields the form of a request; its file is gone afterwards.

    Args:
        request: whose body has not been read.
        max_bytes: of the file.

    Raises:
        Refusal: the body is no form with a file (400, 415), too large (413), or comes too slowly (408).
        UnavailableError: there is no room for it.
    """
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise Refusal(415, "unsupported", "Send the document as the part 'file' of a form: multipart/form-data.")
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as file:
        parts = _FileParts(options[b"boundary"], file, max_bytes)
        try:
            async with asyncio.timeout(_UPLOAD_SECONDS):
                async for chunk in request.stream():
                    parts.write(chunk)
        except TimeoutError:
            raise Refusal(408, "timeout", f"The file did not arrive within {_UPLOAD_SECONDS:g} seconds.") from None
        except OSError:
            raise UnavailableError("The service has no room for the file now. Try again later.", 60) from None
        fields = form_fields(parts.finished())
        if parts.file_name is None:
            raise bad_request("The form has no part 'file' with a file and its name.")
        yield Upload(fields, parts.file_name, file)


class _FileParts(FormParts):
    """Collects the parts of a form; one of them is a file."""

    def __init__(self, boundary: bytes, file: IO[bytes], max_bytes: int) -> None:
        super().__init__(boundary)
        self.file_name: str | None = None
        self._file, self._max_bytes = file, max_bytes
        self._file_bytes = self._field_bytes = 0

    def on_part_begin(self) -> None:
        super().on_part_begin()
        self._is_file = False

    def on_header_end(self) -> None:
        super().on_header_end()
        options = self._options
        if not self._is_file and options.get(b"name") == _FILE.encode() and b"filename" in options:
            if self.file_name is not None:
                raise bad_request("The form has two files: send one document at a time.")
            self._is_file = True
            self.file_name = _file_name(options[b"filename"])

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._file_bytes += end - start
            if self._file_bytes > self._max_bytes:
                limit = f"{self._max_bytes:,} bytes"
                raise Refusal(413, "too_large", f"{self.file_name}: is larger than {limit}. Split the document.")
            self._file.write(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > _MAX_FIELD_BYTES:
            raise Refusal(413, "too_large", f"The fields except the file are larger than {_MAX_FIELD_BYTES:,} bytes.")
        super().on_part_data(data, start, end)


def _file_name(given: bytes) -> str:
    """Returns the name of a file as it can be shown: without folders and without what cannot be printed."""
    name = _UNPRINTABLE.sub("", re.split(r"[/\\]", given.decode(errors="replace"))[-1]).strip()
    if not name.strip("."):
        raise bad_request("The file of the form has no name: its ending determines the format.")
    if len(name) <= _MAX_NAME:
        return name
    ending = Path(name).suffix
    kept = ending if len(ending) < _MAX_NAME else ""  # a longer one belongs to no format
    return name[: _MAX_NAME - len(kept)] + kept
