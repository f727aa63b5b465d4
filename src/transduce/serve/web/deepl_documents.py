"""Documents in the protocol of DeepL, version 2. A result can be fetched once; then the document is deleted."""

import hmac
import math
import secrets
import time
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from transduce.serve.documents.translation import REFUSE_SAME_LANGUAGE
from transduce.serve.operations.keys import Key
from transduce.serve.state.documents import DONE, FAILED, TRANSLATING, StoredDocument
from transduce.serve.web.backend import AUTO
from transduce.serve.web.deepl_fields import client_key, refuse_unsupported, target_field, text_field
from transduce.serve.web.deepl_glossaries import DeeplGlossaries
from transduce.serve.web.document_requests import DocumentRequests
from transduce.serve.web.refusals import Refusal, bad_request
from transduce.serve.web.request_body import Fields
from transduce.serve.web.uploads import Upload, named

_PROTOCOL = "deepl"
_KEY = "document_key"


class DeeplDocuments:
    """The routes below /v2/document."""

    def __init__(self, requests: DocumentRequests, glossaries: DeeplGlossaries) -> None:
        self._requests, self._glossaries = requests, glossaries
        self._backend, self._documents = requests.backend, requests.documents

    def routes(self) -> list[Route]:
        """Returns the routes."""
        return [
            Route("/v2/document", self.accept, methods=["POST"]),
            Route("/v2/document/{document_id}", self.status, methods=["POST"]),
            Route("/v2/document/{document_id}/result", self.result, methods=["POST"]),
        ]

    async def accept(self, request: Request) -> Response:
        """POST /v2/document: a document that is to be translated."""
        key = client_key(self._backend, request)
        async with self._requests.uploaded(request) as upload:
            fields = upload.fields
            target = target_field(self._backend, fields)
            source = text_field(fields, "source_lang") or AUTO
            if source != AUTO and self._backend.source_language(source, target) is None:
                raise bad_request("Value for 'source_lang' not supported.")
            if name := text_field(fields, "filename"):
                upload = named(upload, name)
            _refuse_other_format(upload)
            refuse_unsupported(fields)
            glossary_id = text_field(fields, "glossary_id")
            glossary = await self._glossaries.stored_for(key, glossary_id, source, target)
            options = {
                "glossary": dict(glossary.entries) if glossary else None,
                REFUSE_SAME_LANGUAGE: True,
                _KEY: secrets.token_hex(32).upper(),
            }
            made = await self._requests.accept(request, key, _PROTOCOL, upload, (source, target), options)
        return JSONResponse({"document_id": made.id, "document_key": made.options[_KEY]})

    async def status(self, request: Request) -> Response:
        """POST /v2/document/{id}: how far it is."""
        _, document = await self._found(request)
        answer: dict[str, str | int] = {"document_id": document.id, "status": "queued"}
        if document.state == TRANSLATING:
            answer |= {"status": "translating", **_time_left(document)}
        elif document.state == DONE:
            answer |= {"status": "done", "billed_characters": document.num_characters}
        elif document.state == FAILED:
            answer |= {"status": "error", "message": document.message, "error_message": document.message}
        return JSONResponse(answer)

    async def result(self, request: Request) -> Response:
        """POST /v2/document/{id}/result: the translated document."""
        key, document = await self._found(request)
        if document.state == FAILED:
            raise bad_request(document.message)
        if document.state != DONE:
            raise Refusal(503, "not_ready", "The document is not translated yet.", 1)
        delete = partial(self._documents.delete, _PROTOCOL, key, document.id)
        return await self._requests.file_response(document, delete)

    async def _found(self, request: Request) -> tuple[Key, StoredDocument]:
        key = client_key(self._backend, request)
        fields = await self._backend.read_fields(request)
        found = await self._documents.find(_PROTOCOL, key, request.path_params["document_id"])
        if found is None or not hmac.compare_digest(found.options[_KEY].encode(), _given_key(fields)):
            raise Refusal(404, "not_found", "Document not found.")
        return key, found


def _given_key(fields: Fields) -> bytes:
    given = text_field(fields, _KEY)
    if not given:
        raise bad_request(f"Parameter '{_KEY}' not specified.")
    return given.encode()


def _refuse_other_format(upload: Upload) -> None:
    """Raises Refusal where the result should be in another format than the document."""
    wanted = text_field(upload.fields, "output_format").lower()
    if wanted and f".{wanted}" != Path(upload.name).suffix.lower():
        raise bad_request("'output_format' is not supported: a document keeps its format.")


def _time_left(document: StoredDocument) -> dict[str, int]:
    """Returns about how long the rest of a document takes, by the time since it came; nothing at its beginning."""
    if not document.characters_done:
        return {}
    left = document.num_characters - document.characters_done
    seconds = (time.time() - document.created.timestamp()) * left / document.characters_done
    return {"seconds_remaining": max(1, math.ceil(seconds))}
