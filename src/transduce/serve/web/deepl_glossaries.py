"""Glossaries in the protocol of DeepL, version 2: kept in the service's store, for the key that made them.

Version 2 knows glossaries of one pair of languages. Those of several dictionaries have `deepl_multilingual`.
"""

import asyncio
import csv
import io
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from transduce.serve.operations.keys import Key
from transduce.serve.state.store import Store, StoredDictionary, StoredGlossary
from transduce.serve.web.backend import AUTO, Backend
from transduce.serve.web.deepl_fields import choice_field, client_key
from transduce.serve.web.languages import base_language
from transduce.serve.web.refusals import Refusal, bad_request
from transduce.serve.web.request_body import Fields
from transduce.translation.constraints.glossary import Glossary

_MAX_READY = 32  # glossaries that are kept in memory, ready to use
_MAX_TERMS = 10_000  # of a glossary; that many take most of a second to make ready
_MAX_NAME = 1024  # characters
Result = TypeVar("Result")
_SEPARATORS = {"tsv": "\t", "csv": ","}


class DeeplGlossaries:
    """The routes below /v2/glossaries."""

    def __init__(self, backend: Backend, store: Store) -> None:
        self.backend = backend
        self.store = store
        self._ready = lru_cache(_MAX_READY)(lambda entries: Glossary(dict(entries)))

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
        found = await asyncio.to_thread(self.store.glossaries, client_key(self.backend, request).name)
        return JSONResponse({"glossaries": [_described(each) for each in found if len(each.dictionaries) == 1]})

    async def one(self, request: Request) -> Response:
        """GET /v2/glossaries/{id}: its description. DELETE: deletes it."""
        if request.method == "DELETE":
            return await self.delete(request)
        return JSONResponse(_described(await self._requested(request)))

    async def delete(self, request: Request) -> Response:
        """Deletes the glossary in the path."""
        key, glossary_id = client_key(self.backend, request), request.path_params["glossary_id"]
        if not await asyncio.to_thread(self.store.delete_glossary, key.name, glossary_id):
            raise not_found()
        return Response(status_code=204)

    async def entries(self, request: Request) -> Response:
        """GET /v2/glossaries/{id}/entries: its terms, as tab-separated values."""
        [found] = (await self._requested(request)).dictionaries
        return PlainTextResponse(as_tsv(found), media_type="text/tab-separated-values")

    async def language_pairs(self, request: Request) -> Response:
        """GET /v2/glossary-language-pairs: all pairs that are served."""
        client_key(self.backend, request)
        pairs = {(base_language(each.source), base_language(each.target)) for each in self.backend.service.pairs()}
        listed = [{"source_lang": source, "target_lang": target} for source, target in sorted(pairs)]
        return JSONResponse({"supported_languages": listed})

    async def for_translation(self, key: Key, glossary_id: str, source: str, target: str) -> Glossary | None:
        """Returns the key's glossary of this id, ready to use, or None without one; see `stored_for`."""
        found = await self.stored_for(key, glossary_id, source, target)
        return await asyncio.to_thread(self._ready, found.entries) if found else None

    async def stored_for(self, key: Key, glossary_id: str, source: str, target: str) -> StoredDictionary | None:
        """Returns the terms for two languages in the key's glossary of this id, or None without an id.

        Raises:
            Refusal: there is no such glossary, or it is for other languages.
            StateError: the store fails.
        """
        if not glossary_id:
            return None
        if source == AUTO:
            raise bad_request("Use of a glossary requires the source_lang parameter to be specified.")
        languages = base_language(source), base_language(target)
        found = await asyncio.to_thread(self.store.dictionary, key.name, glossary_id, *languages)
        if found is None:
            await self.found(key, glossary_id)
            raise bad_request(f"No dictionary found for language pair {'-'.join(languages)} in this glossary.")
        return found

    async def _create(self, request: Request) -> Response:
        key = client_key(self.backend, request)
        fields = await self.backend.read_fields(request)
        name, dictionary = given_name(fields), self.dictionary_of(fields)
        made = await self.charged(
            request, key, [dictionary], lambda: self.store.add_glossary(key.name, name, [dictionary])
        )
        return JSONResponse(_described(made), status_code=201)

    def dictionary_of(self, fields: Fields) -> StoredDictionary:
        """Returns the dictionary that a request holds; raises Refusal where it is wrong."""
        source, target = (given_text(fields, key) for key in ("source_lang", "target_lang"))
        code = self.backend.target_language(target)
        if code is None or self.backend.source_language(source, code) in (None, code):
            raise bad_request("Unsupported glossary language pair.")
        separator = _SEPARATORS[choice_field(fields, "entries_format", _SEPARATORS) or "tsv"]
        pair = base_language(source), base_language(target)
        terms = _terms(given_text(fields, "entries"), separator, pair, self.backend.config.limits.term_characters)
        return StoredDictionary(*pair, tuple(terms.items()))

    async def charged(
        self, request: Request, key: Key, dictionaries: Sequence[StoredDictionary], work: Callable[[], Result]
    ) -> Result:
        """Returns what `work` does in the store; the key is charged with the terms of the dictionaries."""
        characters = sum(len(term) for each in dictionaries for entry in each.entries for term in entry)
        async with self.backend.access.charged(request.scope, key, characters):
            return await asyncio.to_thread(work)

    async def found(self, key: Key, glossary_id: str) -> StoredGlossary:
        """Returns a glossary of the key; raises Refusal where there is none."""
        found = await asyncio.to_thread(self.store.glossary, key.name, glossary_id)
        if found is None:
            raise not_found()
        return found

    async def _requested(self, request: Request) -> StoredGlossary:
        found = await self.found(client_key(self.backend, request), request.path_params["glossary_id"])
        if len(found.dictionaries) != 1:
            raise not_found(f"This glossary has {len(found.dictionaries)} dictionaries: use /v3/glossaries.")
        return found


def not_found(message: str = "Glossary not found.") -> Refusal:
    """Returns the refusal of a request for what the key does not have."""
    return Refusal(404, "not_found", message)


def as_tsv(dictionary: StoredDictionary) -> str:
    """Returns a line for each term: source, tab, target."""
    return "\n".join(f"{source}\t{target}" for source, target in dictionary.entries)


def given_name(fields: Fields) -> str:
    """Returns the name for a glossary; raises Refusal where it is wrong."""
    name = given_text(fields, "name")
    if len(name) > _MAX_NAME:
        raise bad_request(f"Value for 'name' has more than {_MAX_NAME} characters.")
    return name


def given_text(fields: Fields, name: str) -> str:
    """Returns the text of a field; raises Refusal where there is none."""
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise bad_request(f"Parameter '{name}' not specified.")
    if "\0" in value:
        raise bad_request(f"Value for '{name}' holds a NUL character.")
    return value


def _terms(text: str, separator: str, pair: tuple[str, str], max_characters: int) -> dict[str, str]:
    """Returns the target term of each source term.

    Raises:
        Refusal: a row does not have two terms, or names other languages than the pair; a term is empty, too long or
            holds a control character; or a source term is there twice.
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
            if any(fields[2:]) and (languages := tuple(map(base_language, fields[2:]))) != pair:
                line = f"line {reader.line_num} is of {'-'.join(languages)}, not {'-'.join(pair)}"
                raise bad_request(f"Invalid glossary entries: {line}.")
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
            require_few(terms)
    except csv.Error as error:
        raise bad_request(f"Invalid glossary entries: line {reader.line_num}: {error}.") from None
    if not terms:
        raise bad_request("Invalid glossary entries: there are none.")
    return terms


def require_few(terms: Collection[object]) -> None:
    """Raises Refusal where a dictionary would have too many terms."""
    if len(terms) > _MAX_TERMS:
        raise bad_request(f"Invalid glossary entries: more than {_MAX_TERMS:,}.")


def _described(glossary: StoredGlossary) -> dict[str, Any]:
    [dictionary] = glossary.dictionaries
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "ready": True,
        "source_lang": dictionary.source,
        "target_lang": dictionary.target,
        "creation_time": glossary.created.isoformat(timespec="microseconds"),
        "entry_count": len(dictionary.entries),
    }
