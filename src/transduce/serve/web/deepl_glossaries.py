"""Glossaries in the protocol of DeepL, version 2: kept in the service's store, for the key that made them."""

import asyncio
import csv
import io
from collections import OrderedDict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from transduce.serve.operations.keys import Key
from transduce.serve.state.store import Store, StoredGlossary
from transduce.serve.web.backend import AUTO, Backend
from transduce.serve.web.deepl_fields import choice_field, client_key
from transduce.serve.web.languages import base_language
from transduce.serve.web.refusals import Refusal, bad_request
from transduce.serve.web.request_body import Fields, read_fields
from transduce.translation.constraints.glossary import Glossary

_MAX_READY = 32  # glossaries that are kept in memory, ready to use
_MAX_TERMS = 10_000  # of a glossary; that many take most of a second to make ready
_MAX_NAME = 1024  # characters
_SEPARATORS = {"tsv": "\t", "csv": ","}


class DeeplGlossaries:
    """The routes below /v2/glossaries."""

    def __init__(self, backend: Backend, store: Store) -> None:
        self.backend = backend
        self._store = store
        self._ready: OrderedDict[str, Glossary] = OrderedDict()

    def routes(self) -> list[Route]:
        """Returns the routes."""
        return [
            Route("/v2/glossaries", self.all_of_key, methods=["GET", "POST"]),
            Route("/v2/glossaries/{glossary_id}", self.one, methods=["GET", "DELETE"]),
            Route("/v2/glossaries/{glossary_id}/entries", self.entries, methods=["GET"]),
            Route("/v2/glossary-language-pairs", self.language_pairs, methods=["GET"]),
        ]

    async def all_of_key(self, request: Request) -> Response:
        """GET /v2/glossaries: all of the key. POST: makes one."""
        if request.method == "POST":
            return await self._create(request)
        found = await asyncio.to_thread(self._store.glossaries, client_key(self.backend, request).name)
        return JSONResponse({"glossaries": [_described(each) for each in found]})

    async def one(self, request: Request) -> Response:
        """GET /v2/glossaries/{id}: its description. DELETE: deletes it."""
        if request.method == "DELETE":
            key, glossary_id = client_key(self.backend, request), request.path_params["glossary_id"]
            if not await asyncio.to_thread(self._store.delete_glossary, key.name, glossary_id):
                raise _not_found()
            self._ready.pop(glossary_id, None)
            return Response(status_code=204)
        return JSONResponse(_described(await self._requested(request)))

    async def entries(self, request: Request) -> Response:
        """GET /v2/glossaries/{id}/entries: its terms, as tab-separated values."""
        found = await self._requested(request)
        lines = "\n".join(f"{source}\t{target}" for source, target in found.entries)
        return PlainTextResponse(lines, media_type="text/tab-separated-values")

    async def language_pairs(self, request: Request) -> Response:
        """GET /v2/glossary-language-pairs: all pairs that are served."""
        client_key(self.backend, request)
        pairs = {(base_language(each.source), base_language(each.target)) for each in self.backend.service.pairs()}
        listed = [{"source_lang": source, "target_lang": target} for source, target in sorted(pairs)]
        return JSONResponse({"supported_languages": listed})

    async def for_translation(self, key: Key, glossary_id: str, source: str, target: str) -> Glossary | None:
        """Returns the key's glossary of this id, ready to use, or None without one; see `stored_for`."""
        found = await self.stored_for(key, glossary_id, source, target)
        if found is None:
            return None
        if glossary_id not in self._ready:
            self._ready[glossary_id] = await asyncio.to_thread(Glossary, dict(found.entries))
        self._ready.move_to_end(glossary_id)
        if len(self._ready) > _MAX_READY:
            self._ready.popitem(last=False)
        return self._ready[glossary_id]

    async def stored_for(self, key: Key, glossary_id: str, source: str, target: str) -> StoredGlossary | None:
        """Returns the key's glossary of this id, or None without one.

        Raises:
            Refusal: there is none, or it is for other languages.
            StateError: the store fails.
        """
        if not glossary_id:
            return None
        if source == AUTO:
            raise bad_request("Use of a glossary requires the source_lang parameter to be specified.")
        found = await self._found(key, glossary_id)
        if (base_language(found.source), base_language(found.target)) != (base_language(source), base_language(target)):
            raise bad_request("The glossary's languages are not those of the request.")
        return found

    async def _create(self, request: Request) -> Response:
        key = client_key(self.backend, request)
        fields = await read_fields(request, self.backend.config.limits.body_bytes)
        name, source, target = (_given(fields, key) for key in ("name", "source_lang", "target_lang"))
        if len(name) > _MAX_NAME:
            raise bad_request(f"Value for 'name' has more than {_MAX_NAME} characters.")
        code = self.backend.target_language(target)
        if code is None or self.backend.source_language(source, code) in (None, code):
            raise bad_request("Unsupported glossary language pair.")
        separator = _SEPARATORS[choice_field(fields, "entries_format", _SEPARATORS) or "tsv"]
        entries = list(_terms(_given(fields, "entries"), separator, self.backend.config.limits.term_characters).items())
        async with self.backend.access.charged(
            request.scope, key, sum(len(term) for entry in entries for term in entry)
        ):
            made = await asyncio.to_thread(
                self._store.add_glossary, key.name, name, base_language(source), base_language(target), entries
            )
        return JSONResponse(_described(made), status_code=201)

    async def _requested(self, request: Request) -> StoredGlossary:
        return await self._found(client_key(self.backend, request), request.path_params["glossary_id"])

    async def _found(self, key: Key, glossary_id: str) -> StoredGlossary:
        found = await asyncio.to_thread(self._store.glossary, key.name, glossary_id)
        if found is None:
            raise _not_found()
        return found


def _not_found() -> Refusal:
    return Refusal(404, "not_found", "Glossary not found.")


def _given(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise bad_request(f"Parameter '{name}' not specified.")
    if "\0" in value:
        raise bad_request(f"Value for '{name}' holds a NUL character.")
    return value


def _terms(text: str, separator: str, max_characters: int) -> dict[str, str]:
    """Returns the target term of each source term.

    Raises:
        Refusal: a row does not have two terms, a term is empty, too long or holds a control character, or a source term
            is there twice.
    """
    terms: dict[str, str] = {}
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE,
    )
    try:
        for row in reader:
            if not any(field.strip() for field in row):
                continue
            fields = [field.strip() for field in row]
            if len(fields) not in ((2, 4) if separator == "," else (2,)):  # a CSV may name the languages as well
                raise bad_request(f"Invalid glossary entries: line {reader.line_num} does not have two terms.")
            source, target = fields[:2]
            if not source or not target or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in source + target):
                raise bad_request(f"Invalid glossary entries: a term in line {reader.line_num} is empty or not text.")
            if (longest := max(len(source), len(target))) > max_characters:
                raise bad_request(
                    f"Invalid glossary entries: a term in line {reader.line_num} has {longest:,} characters, and at "
                    f"most {max_characters:,} are allowed."
                )
            if source in terms:
                raise bad_request(f"Invalid glossary entries: {source!r} in line {reader.line_num} is there already.")
            terms[source] = target
            if len(terms) > _MAX_TERMS:
                raise bad_request(f"Invalid glossary entries: more than {_MAX_TERMS:,}.")
    except csv.Error as error:
        raise bad_request(f"Invalid glossary entries: line {reader.line_num}: {error}.") from None
    if not terms:
        raise bad_request("Invalid glossary entries: there are none.")
    return terms


def _described(glossary: StoredGlossary) -> dict[str, Any]:
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "ready": True,
        "source_lang": glossary.source,
        "target_lang": glossary.target,
        "creation_time": glossary.created.isoformat(timespec="microseconds"),
        "entry_count": len(glossary.entries),
    }
