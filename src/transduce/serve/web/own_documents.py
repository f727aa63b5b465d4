"""Documents in our own protocol: separate requests send, look up, fetch and delete them."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from transduce.serve.state.documents import DONE, FAILED, UPLOADING, StoredDocument
from transduce.serve.web.backend import AUTO
from transduce.serve.web.document_requests import DocumentRequests, result_name
from transduce.serve.web.own import client_key
from transduce.serve.web.own_fields import SEARCH_FIELDS, glossary_field, known_fields, search_options, served_target
from transduce.serve.web.refusals import Refusal, bad_request
from transduce.serve.web.request_body import Fields, refuse_constant, require_unicode

_PROTOCOL = "transduce"
_TEXTS = ("source", "target", "format", "columns")
_FIELDS = (*_TEXTS, "glossary", *sorted(SEARCH_FIELDS))


class OwnDocuments:
    """The routes below /api/documents."""

    def __init__(self, requests: DocumentRequests) -> None:
        self._requests, self._backend, self._documents = requests, requests.backend, requests.documents

    def routes(self) -> list[Route]:
        """Returns the routes."""
        return [
            Route("/api/documents", self.accept, methods=["POST"]),
            Route("/api/documents/{document_id}", self.one, methods=["GET", "DELETE"]),
            Route("/api/documents/{document_id}/result", self.result, methods=["GET"]),
        ]

    async def accept(self, request: Request) -> Response:
        """POST /api/documents: a document that is to be translated."""
        key = client_key(self._backend, request)
        async with self._requests.uploaded(request) as upload:
            given = _values(upload.fields)
            target = served_target(self._backend, given["target"])
            options = {
                "format": given.get("format", ""),
                "columns": given.get("columns", ""),
                "glossary": glossary_field(given, self._backend.config),
                "search": search_options(given, self._backend.config),
            }
            languages = (given.get("source", AUTO), target)
            made = await self._requests.accept(request, key, _PROTOCOL, upload, languages, options)
        return JSONResponse(_described(made), 202, {"Location": f"/api/documents/{made.id}"})

    async def one(self, request: Request) -> Response:
        """GET /api/documents/{id}: how far it is. DELETE: ends its translation, and deletes it."""
        if request.method == "DELETE":
            key = client_key(self._backend, request)
            if not await self._documents.delete(_PROTOCOL, key, request.path_params["document_id"]):
                raise _not_found()
            return Response(status_code=204)
        return JSONResponse(_described(await self._found(request)))

    async def result(self, request: Request) -> Response:
        """GET /api/documents/{id}/result: the translated document."""
        document = await self._found(request)
        if document.state == FAILED:
            raise Refusal(409, "failed", document.message)
        if document.state != DONE:
            raise Refusal(409, "not_ready", "The document is not translated yet.", 1)
        return await self._requests.file_response(document)

    async def _found(self, request: Request) -> StoredDocument:
        key = client_key(self._backend, request)
        found = await self._documents.find(_PROTOCOL, key, request.path_params["document_id"])
        if found is None:
            raise _not_found()
        return found


def _not_found() -> Refusal:
    return Refusal(404, "not_found", "There is no such document. Those that are done are kept for a while only.")


def _values(fields: Fields) -> Fields:
    """Returns the fields with their values, which come as JSON where they are no plain texts."""
    given: Fields = {}
    for name, text in known_fields(fields, _FIELDS).items():
        if not isinstance(text, str):
            raise bad_request(f"{name}: is there twice.", "wrong_value")
        if name in _TEXTS:
            if text:
                given[name] = text
            continue
        try:
            given[name] = json.loads(text, parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            raise bad_request(f"{name} = '{text[:100]}': must be JSON.", "wrong_value") from None
        require_unicode(given[name], name)
    if "target" not in given:
        raise bad_request("The field 'target' is missing: the code of the language to translate into.")
    return given


def _described(document: StoredDocument) -> dict[str, Any]:
    share = min(document.characters_done / max(1, document.num_characters), 1.0)
    return {
        "id": document.id,
        "state": "queued" if document.state == UPLOADING else document.state,
        "name": document.name,
        "result_name": result_name(document),
        "source": document.source,
        "target": document.target,
        "characters": document.num_characters,
        "segments": document.num_segments,
        "segments_done": document.segments_done,
        "progress": 1.0 if document.state == DONE else round(share, 4),
        "warnings": list(document.warnings),
        "error": document.message or None,
        "created": document.created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
