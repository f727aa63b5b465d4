"""Glossaries in the protocol of DeepL, version 3: each has a dictionary for each of several pairs of languages.

They are those of version 2 too: either version has the glossaries that the other one made.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from transduce.serve.state.store import StoredDictionary, StoredGlossary
from transduce.serve.web.deepl_fields import client_key
from transduce.serve.web.deepl_glossaries import (
    DeeplGlossaries,
    as_tsv,
    given_name,
    given_text,
    not_found,
    require_few,
)
from transduce.serve.web.languages import base_language
from transduce.serve.web.refusals import Refusal, bad_request
from transduce.serve.web.request_body import Fields

_FORM_FIELD = re.compile(r"dictionaries\[(\d{1,4})\][.\[](\w+)\]?")  # dictionaries[0].entries, dictionaries[0][entries]


class MultilingualGlossaries:
    """The routes below /v3/glossaries."""

    def __init__(self, glossaries: DeeplGlossaries) -> None:
        self._glossaries, self._backend, self._store = glossaries, glossaries.backend, glossaries.store

    def routes(self) -> list[Route]:
        """Returns the routes."""
        one = "/v3/glossaries/{glossary_id}"
        return [
            Route("/v3/glossaries", self.all_of_key, methods=["GET", "POST"]),
            Route(one, self.one, methods=["GET", "PATCH", "DELETE"]),
            Route(f"{one}/entries", self.entries, methods=["GET"]),
            Route(f"{one}/dictionaries", self.dictionary, methods=["PUT", "DELETE"]),
        ]

    async def all_of_key(self, request: Request) -> Response:
        """GET /v3/glossaries: all of the key. POST: makes one."""
        key = client_key(self._backend, request)
        if request.method == "GET":
            found = await asyncio.to_thread(self._store.glossaries, key.name)
            return JSONResponse({"glossaries": [_described(each) for each in found]})
        fields = await self._fields(request)
        name, dictionaries = given_name(fields), self._dictionaries(fields)
        add = partial(self._store.add_glossary, key.name, name, dictionaries)
        return JSONResponse(_described(await self._glossaries.charged(request, key, dictionaries, add)), 201)

    async def one(self, request: Request) -> Response:
        """GET /v3/glossaries/{id}: its description. PATCH: another name, further terms. DELETE: deletes it."""
        if request.method == "DELETE":
            return await self._glossaries.delete(request)
        if request.method == "GET":
            key = client_key(self._backend, request)
            return JSONResponse(_described(await self._glossaries.found(key, request.path_params["glossary_id"])))
        fields = await self._fields(request)
        name = given_name(fields) if fields.get("name") is not None else None
        dictionaries = self._dictionaries(fields)

        def change(glossary: StoredGlossary) -> StoredGlossary:
            merged = [_merged(glossary.dictionary(each.source, each.target), each) for each in dictionaries]
            return _with(replace(glossary, name=name or glossary.name), merged)

        return JSONResponse(_described(await self._change(request, dictionaries, change)))

    async def entries(self, request: Request) -> Response:
        """GET /v3/glossaries/{id}/entries: the terms for two languages."""
        key, glossary_id = client_key(self._backend, request), request.path_params["glossary_id"]
        source, target = _pair(await self._fields(request))
        found = await asyncio.to_thread(self._store.dictionary, key.name, glossary_id, source, target)
        if found is None:
            await self._glossaries.found(key, glossary_id)
            raise _no_dictionary()
        answer = {"source_lang": source, "target_lang": target, "entries": as_tsv(found), "entries_format": "tsv"}
        return JSONResponse({"dictionaries": [answer]})

    async def dictionary(self, request: Request) -> Response:
        """PUT /v3/glossaries/{id}/dictionaries: replaces or adds one. DELETE: deletes that for two languages."""
        fields = await self._fields(request)
        if request.method == "PUT":
            given = self._glossaries.dictionary_of(fields)
            await self._change(request, [given], lambda glossary: _with(glossary, [given]))
            return JSONResponse(_described_dictionary(given))
        pair = _pair(fields)

        def without(glossary: StoredGlossary) -> StoredGlossary:
            left = tuple(each for each in glossary.dictionaries if (each.source, each.target) != pair)
            if len(left) == len(glossary.dictionaries):
                raise _no_dictionary()
            return replace(glossary, dictionaries=left)

        await self._change(request, [], without)
        return Response(status_code=204)

    async def _fields(self, request: Request) -> Fields:
        client_key(self._backend, request)  # before the body is read
        return await self._backend.read_fields(request)

    def _dictionaries(self, fields: Fields) -> list[StoredDictionary]:
        """Returns the dictionaries that a request holds, which a form spells as dictionaries[0].source_lang."""
        given = fields.get("dictionaries") or []
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise bad_request("Value for 'dictionaries' must be a list of dictionaries.")
        of_form: dict[int, Fields] = {}
        for name, value in fields.items():
            if match := _FORM_FIELD.fullmatch(name):
                of_form.setdefault(int(match[1]), {})[match[2]] = value
        made = [self._glossaries.dictionary_of(each) for each in [*given, *dict(sorted(of_form.items())).values()]]
        if len({(each.source, each.target) for each in made}) < len(made):
            raise bad_request("Value for 'dictionaries' has two dictionaries for the same languages.")
        return made

    async def _change(
        self, request: Request, terms: Sequence[StoredDictionary], change: Callable[[StoredGlossary], StoredGlossary]
    ) -> StoredGlossary:
        """Changes the glossary in the path; the key is charged with the new terms."""
        key, glossary_id = client_key(self._backend, request), request.path_params["glossary_id"]

        def changed() -> StoredGlossary:
            found = self._store.change_glossary(key.name, glossary_id, change)
            if found is None:
                raise not_found()
            return found

        return await self._glossaries.charged(request, key, terms, changed)


def _pair(fields: Fields) -> tuple[str, str]:
    source, target = (base_language(given_text(fields, name)) for name in ("source_lang", "target_lang"))
    return source, target


def _no_dictionary() -> Refusal:
    return not_found("The glossary has no dictionary for these languages.")


def _merged(known: StoredDictionary | None, given: StoredDictionary) -> StoredDictionary:
    """Returns the known dictionary with the terms of the given one added or replaced."""
    terms = dict(known.entries if known else ()) | dict(given.entries)
    require_few(terms)
    return replace(given, entries=tuple(terms.items()))


def _with(glossary: StoredGlossary, dictionaries: Iterable[StoredDictionary]) -> StoredGlossary:
    """Returns the glossary with these dictionaries in place of those for the same languages."""
    found = {(each.source, each.target): each for each in (*glossary.dictionaries, *dictionaries)}
    return replace(glossary, dictionaries=tuple(found.values()))


def _described(glossary: StoredGlossary) -> dict[str, Any]:
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "dictionaries": [_described_dictionary(each) for each in glossary.dictionaries],
        "creation_time": glossary.created.isoformat(timespec="microseconds"),
    }


def _described_dictionary(dictionary: StoredDictionary) -> dict[str, Any]:
    source, target = dictionary.source, dictionary.target
    return {"source_lang": source, "target_lang": target, "entry_count": len(dictionary.entries)}
