"""What the protocols have in common: served languages, the language of a text, limits, and the translating itself."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any

from starlette.requests import Request

from transduce.errors import suggestion
from transduce.serve.config import ServeConfig
from transduce.serve.cut_text import StreamedPart
from transduce.serve.operations.access import Access
from transduce.serve.operations.keys import Key
from transduce.serve.operations.request_record import record_of
from transduce.serve.requests import TranslatedText, TranslationRequest, UnknownPairError, Waiting, unchanged_text
from transduce.serve.service import Service
from transduce.serve.web.detection import LONGEST, Detector, Guess
from transduce.serve.web.disconnection import while_connected
from transduce.serve.web.languages import served_language
from transduce.serve.web.refusals import bad_request
from transduce.serve.web.request_body import Fields, read_fields
from transduce.translation.result import Alternative, Attention

AUTO = "auto"
BY_TEXT = ("prefixes", "forbidden", "required")  # fields of a request that have an entry for each text


class Backend:
    """The service, as the protocols use it."""

    def __init__(self, service: Service, config: ServeConfig, access: Access, detector: Detector) -> None:
        self.service = service
        self.config = config
        self.access = access
        self.detector = detector
        self._indexed: Sequence[tuple[str, str]] = ()  # the pairs that `_sources` was made of; a reload brings others
        self._sources: dict[str | None, dict[str, None]] = {}  # of each target, and of any

    def authorise(self, request: Request, protocol: str, secret: str | None) -> Key:
        """Returns the key of the client that sent a request; `protocol` is noted for the access log.

        Raises:
            AccessError: the client has no valid key.
        """
        record_of(request.scope).protocol = protocol
        return self.access.authorise(request.scope, secret)

    async def read_fields(self, request: Request) -> Fields:
        """Returns the fields of a request, whose body has a configured limit; see `request_body.read_fields`."""
        return await read_fields(request, self.config.limits.body_bytes)

    def serves(self, source: str, target: str) -> bool:
        """Returns whether a model translates between two languages."""
        return source in self._by_target().get(target, ())

    def targets_by_language(self) -> dict[str, list[str]]:
        """Returns for each served language those that it can be translated into."""
        targets: dict[str, list[str]] = {}
        for source, target in self.service.language_pairs:
            targets.setdefault(source, []).append(target)
            targets.setdefault(target, [])
        return {code: sorted(found) for code, found in sorted(targets.items())}

    def sources(self, target: str | None = None) -> list[str]:
        """Returns the languages that can be translated, or can be into `target`; the first is the default."""
        return [*self._by_target().get(target, ())]

    def targets(self) -> list[str]:
        """Returns the languages that can be translated into, sorted."""
        return sorted(code for code in self._by_target() if code is not None)

    def _by_target(self) -> dict[str | None, dict[str, None]]:
        """Returns the sources of each target, and under None those of any."""
        pairs = self.service.language_pairs
        if pairs is not self._indexed:
            found: dict[str | None, dict[str, None]] = {None: {}}
            for source, target in pairs:
                found.setdefault(target, {})[source] = found[None][source] = None
            self._sources, self._indexed = found, pairs
        return self._sources

    def languages(self) -> list[str]:
        """Returns all served languages; those that can be translated come first."""
        return list(dict.fromkeys([*self.sources(), *self.targets()]))

    def target_language(self, code: str) -> str | None:
        """Returns the served target that a client means by a code, or None."""
        return served_language(code, self.targets())

    def source_language(self, code: str, target: str) -> str | None:
        """Returns the served source that a client means by a code, or None: one of those that reach `target`, if any.

        A target language is its own source too: text that is in it already comes back unchanged.
        """
        return served_language(code, [*self.sources(target), target]) or served_language(code, self.sources())

    async def sources_of(self, texts: Sequence[str], source: str, target: str, *, html: bool = False) -> list[Guess]:
        """Returns the language of each text: `source`, with confidence 100, or for "auto" what is detected.

        Raises:
            Refusal: the source language is not served.
            UnavailableError: languages cannot be detected.
        """
        if source != AUTO:
            code = self.source_language(source, target)
            if code is None:
                near = suggestion(source[:100], [*self.sources(), AUTO])
                raise bad_request(f"The language '{source[:100]}' is not supported.{near}", "unknown_language")
            return [Guess(code, 100.0)] * len(texts)
        return await self.detected(texts, target, html=html)

    async def detected(self, texts: Sequence[str], target: str, *, html: bool = False) -> list[Guess]:
        """Returns what each text is most probably in, of the languages that can be translated into `target`, and that.

        Raises:
            UnavailableError: languages cannot be detected.
        """
        found = await self.detector.guesses(texts, [*self.sources(target), target], html=html)
        return [guesses[0] for guesses in found]

    async def source_of(self, text: str, source: str, target: str) -> str:
        """Returns the language of a text; see `sources_of`.

        Raises:
            UnknownPairError: no model translates between the languages.
        """
        [guess] = await self.sources_of([text], source, target)
        if guess.language != target and not self.serves(guess.language, target):
            raise UnknownPairError(guess.language, target)
        return guess.language

    async def detect(self, request: Request, key: Key, texts: Sequence[str]) -> list[list[Guess]]:
        """Returns for each text the languages that it may be in, the most probable first.

        Raises:
            LimitError: the key has no characters left.
            UnavailableError: languages cannot be detected.
        """
        async with self.access.charged(request.scope, key, sum(min(len(text), LONGEST) for text in texts)):
            return await self.detector.guesses(texts, self.languages())

    async def translate(
        self,
        request: Request,
        key: Key,
        texts: Sequence[str],
        sources: Sequence[str],
        target: str,
        unchanged: Collection[int] = (),
        further_characters: int = 0,
        **fields: Any,
    ) -> list[TranslatedText]:
        """Translates each text from its own language, for as long as the client stays.

        Args:
            request: what the client sent; its body has been read.
            key: the client's, which is charged with the characters.
            texts: any strings.
            sources: the language of each.
            target: the language to translate into. Texts that are in it come back unchanged.
            unchanged: indices of further texts that come back unchanged.
            further_characters: those of prefixes and terms, with which the key is charged too.
            fields: further fields of `TranslationRequest`; those in BY_TEXT have an entry for each text, or are None.

        Raises:
            LimitError: the key has no characters left.
            ServiceError: a pair of languages is not served, or the service cannot answer now.
            ConfigError: an option is out of range, or the engine does not support it.
            DataError: constraints contradict each other.
            ClientLeftError: the client left.
        """
        groups: dict[str, list[int]] = {}
        results: dict[int, TranslatedText] = {}
        for index, (text, source) in enumerate(zip(texts, sources, strict=True)):
            if source == target or index in unchanged:
                results[index] = TranslatedText([unchanged_text(text)], source, target)
            else:
                groups.setdefault(source, []).append(index)
        for source in groups:
            if not self.serves(source, target):
                raise UnknownPairError(source, target)
        waiting = record_of(request.scope).waiting = Waiting()
        fields = {"priority": key.request_priority, "waiting": waiting} | fields
        requests = [
            TranslationRequest(
                texts=[texts[index] for index in indices], source=source, target=target, **_of(fields, indices)
            )
            for source, indices in groups.items()
        ]
        async with self.access.charged(request.scope, key, sum(map(len, texts)) + further_characters):
            found = await while_connected(request, self._all(requests))
            for indices, translated in zip(groups.values(), found, strict=True):
                results.update(zip(indices, translated, strict=True))
        return [results[index] for index in range(len(texts))]

    async def stream(
        self, request: Request, key: Key, given: TranslationRequest, further_characters: int = 0
    ) -> AsyncGenerator[StreamedPart, None]:
        """Yields the translation of a single text sentence by sentence; for the errors see `translate`."""
        [text] = given.texts
        if given.source == given.target:
            unchanged = TranslatedText([unchanged_text(text)], given.source, given.target)
            async with self.access.charged(request.scope, key, len(text) + further_characters):
                yield StreamedPart((0, len(text)), text, unchanged)
            return
        record_of(request.scope).waiting = given.waiting
        parts = self.service.stream(given)
        async with contextlib.aclosing(parts):
            async with self.access.charged(request.scope, key, len(text) + further_characters):
                first = await anext(parts, None)  # an error before it costs nothing; whoever leaves later has read some
            if first is None:
                return
            yield first
            async for part in parts:
                yield part

    async def alternatives(self, request: Request, key: Key, given: TranslationRequest, n: int) -> list[Alternative]:
        """Returns at most `n` words that may follow the prefix of the only text; for the errors see `translate`."""
        record_of(request.scope).waiting = given.waiting
        async with self.access.charged(request.scope, key, sum(map(len, [*given.texts, *(given.prefixes or ())]))):
            return await while_connected(request, self.service.alternatives(given, n))

    async def attention(
        self, request: Request, key: Key, given: TranslationRequest, translation: str | None
    ) -> Attention:
        """Returns the attention of the only text and its translation; for the errors see `translate`."""
        record_of(request.scope).waiting = given.waiting
        async with self.access.charged(request.scope, key, sum(map(len, [*given.texts, translation or ""]))):
            return await while_connected(request, self.service.attention(given, translation))

    async def _all(self, requests: Sequence[TranslationRequest]) -> list[list[TranslatedText]]:
        """Translates concurrently; if one request fails, the others are cancelled."""
        if len(requests) == 1:  # as usual, and without the cost of a task
            return [await self.service.translate(requests[0])]
        tasks = [asyncio.create_task(self.service.translate(each)) for each in requests]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _of(fields: Mapping[str, Any], indices: Sequence[int]) -> dict[str, Any]:
    """Returns the fields of a request for some of the texts."""
    return {
        name: [value[index] for index in indices] if name in BY_TEXT and value is not None else value
        for name, value in fields.items()
    }
