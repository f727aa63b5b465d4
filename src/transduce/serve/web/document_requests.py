"""What the protocols have in common where they take and give documents."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from transduce.errors import ConfigError, DataError, suggestion
from transduce.serve.documents.service import Documents
from transduce.serve.operations.keys import Key
from transduce.serve.state.documents import NewDocument, StoredDocument
from transduce.serve.web.backend import AUTO, Backend
from transduce.serve.web.refusals import bad_request
from transduce.serve.web.uploads import Upload, uploaded
from transduce.translation.documents import FORMATS, recognised_format
from transduce.translation.documents.refused_files import refuse_other_kinds

_HEAD_BYTES = 1 << 16


class DocumentRequests:
    """Documents, as the protocols use them."""

    def __init__(self, backend: Backend, documents: Documents) -> None:
        self.backend, self.documents = backend, documents

    @contextlib.asynccontextmanager
    async def uploaded(self, request: Request) -> AsyncIterator[Upload]:
        """Yields the form of a request, whose file has a configured limit; see `uploads.uploaded`.

        Raises:
            OverloadedError: too many documents are being received or read.
        """
        with self.documents:
            async with uploaded(request, self.backend.config.limits.document_bytes) as upload:
                yield upload

    async def accept(
        self,
        request: Request,
        key: Key,
        protocol: str,
        upload: Upload,
        languages: tuple[str, str],
        options: Mapping[str, Any],
    ) -> StoredDocument:
        """Accepts a document.

        Args:
            request: with which it came.
            key: the client's, which is charged with the characters.
            protocol: by which the document can be fetched.
            upload: the document.
            languages: the source, or AUTO, and the served target.
            options: how it is translated; `format` names its format where its ending does not.

        Raises:
            Refusal: its format is not known, or the source language is not served.
            DataError, UnknownPairError, LimitError, UnavailableError: see `Documents.accept`.
        """
        source, target = languages
        content = upload.content()
        document_format = require_format(upload.name, options.get("format", ""), content)
        if source != AUTO:
            source = await self.backend.source_of("", source, target)
        given = NewDocument(
            protocol=protocol,
            owner=key.name,
            name=upload.name,
            source=source,
            target=target,
            options={**options, "format": document_format},
        )
        return await self.documents.accept(request.scope, key, given, content)

    async def file_response(
        self, document: StoredDocument, when_sent: Callable[[], Awaitable[object]] | None = None
    ) -> Response:
        """Returns the result of a document that is done, as a file.

        Args:
            document: the document.
            when_sent: is called once the client was sent the whole result; not if it leaves before.

        Raises:
            StateError: the store fails.
        """
        chunks = self.documents.result(document)
        first = await anext(chunks, b"")

        async def content() -> AsyncIterator[bytes]:
            yield first
            async for chunk in chunks:
                yield chunk
            if when_sent is not None:
                await when_sent()

        name = result_name(document)
        plain = "".join(c if c.isascii() and (c.isalnum() or c in " -_.()") else "_" for c in name)
        headers = {
            "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
            "Content-Length": str(document.num_bytes),
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        return StreamingResponse(content(), headers=headers, media_type="application/octet-stream")


def require_format(name: str, given: str, content: bytes) -> str:
    """Returns the name of a format: the one that is given, or else that of the file's ending or content.

    Raises:
        Refusal: there is none, or the content is of another format than the ending says.
        DataError: it is empty, or a file of a kind that no format reads, such as PDF.
    """
    if given and given not in FORMATS:
        raise bad_request(f"The format '{given[:100]}' is not known.{suggestion(given[:100], FORMATS)}", "wrong_value")
    if not content:
        raise DataError(f"{name}: is empty.")
    refuse_other_kinds(content[:_HEAD_BYTES], name)
    try:
        # Of an archive that is larger, the directory is read by the process that surveys it, whose memory is limited.
        found = given or recognised_format(Path(name), content[:_HEAD_BYTES])
    except ConfigError as error:
        raise bad_request(str(error), "wrong_value") from None
    if not found:
        endings = " ".join(ending for each in FORMATS.values() for ending in each.extensions)
        raise bad_request(f"{name}: its file extension is that of no known format. Known are {endings}.")
    return found


def result_name(document: StoredDocument) -> str:
    """Returns the name of the result: "letter.de.docx" of "letter.docx"."""
    path = Path(document.name)
    return f"{path.stem}.{document.target}{path.suffix}"
