"""Our own protocol: all that a translation knows about itself, and streaming.

Errors are `{"error": {"code", "message"}}`. Bodies are JSON. An unknown field is an error, so that no option is
misspelled without notice.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from transduce.serve.cut_text import StreamedPart
from transduce.serve.models import ServedPair
from transduce.serve.operations.access import AccessError, LimitError
from transduce.serve.operations.keys import Key
from transduce.serve.requests import TranslatedText, TranslationRequest, UnavailableError
from transduce.serve.web.backend import AUTO, Backend
from transduce.serve.web.detection import Guess
from transduce.serve.web.event_stream import Event, event_stream
from transduce.serve.web.languages import grouped, language_name
from transduce.serve.web.own_fields import (
    AlternativesFields,
    AttentionFields,
    OneText,
    known_fields,
    read_one_text,
    read_own_fields,
    read_texts,
    served_target,
)
from transduce.serve.web.refusals import Refusal, bad_request, refusal_of
from transduce.translation.documents import FORMATS
from transduce.translation.result import SpanPair, Translation


def error_response(refusal: Refusal) -> Response:
    """Returns an error as this protocol words it."""
    return JSONResponse(_described_error(refusal), refusal.status, refusal.headers)


def access_refusal(error: AccessError) -> Refusal:
    """Returns the refusal of a client that may not do what it asks for."""
    if isinstance(error, LimitError):
        return Refusal(429, "limit", str(error), error.retry_after_seconds)
    return Refusal(401, "unauthorized", f"{error} Send it as 'Authorization: Bearer KEY'.")


class Own:
    """The routes below /api."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def routes(self) -> list[Route]:
        """Returns the routes."""
        return [
            Route("/api/translate", self.translate, methods=["POST"]),
            Route("/api/alternatives", self.alternatives, methods=["POST"]),
            Route("/api/attention", self.attention, methods=["POST"]),
            Route("/api/detect", self.detect, methods=["POST"]),
            Route("/api/languages", self.languages, methods=["GET"]),
        ]

    async def translate(self, request: Request) -> Response:
        """POST /api/translate: a text or a list of texts."""
        key = client_key(self.backend, request)
        fields = await self.backend.read_fields(request)
        given = read_own_fields(fields, self.backend.config)
        plain, options = given.plain, given.text_options
        target = served_target(self.backend, plain.target)
        guesses = await self.backend.sources_of(given.texts, plain.source, target, html=options.markup == "html")
        detected: Sequence[Guess | None] = guesses if plain.source == AUTO else [None] * len(guesses)
        if plain.source != AUTO and plain.check_source:
            with contextlib.suppress(UnavailableError):  # it is a hint: the text is translated without it
                detected = await self.backend.detected(given.texts, target, html=options.markup == "html")
        further = given.further | {"priority": max(given.further["priority"], key.request_priority)}
        if plain.stream or "text/event-stream" in request.headers.get("accept", ""):
            if len(given.texts) != 1:
                raise bad_request("Only a single text can be streamed.", "wrong_value")
            source = guesses[0].language
            one = TranslationRequest(texts=given.texts, source=source, target=target, text_options=options, **further)
            parts = self.backend.stream(request, key, one, given.further_characters)
            events = self._events(parts, one, detected[0])
            return await event_stream(request, events, _error_event)
        found = await self.backend.translate(
            request,
            key,
            given.texts,
            [guess.language for guess in guesses],
            target,
            further_characters=given.further_characters,
            text_options=options,
            **further,
        )
        return JSONResponse({"translations": list(map(_described, found, detected))})

    async def _events(
        self, parts: AsyncGenerator[StreamedPart, None], given: TranslationRequest, detected: Guess | None
    ) -> AsyncGenerator[Event, None]:
        """Yields an event for each sentence of a text, and a last one for the text."""
        text, via = "", ""
        async with contextlib.aclosing(parts):
            async for part in parts:
                text, via = text + part.text, part.translated.via
                described = _described(part.translated, detected)
                yield "sentence", {"span": list(part.span), "added": part.text, "translation": described}
        whole = {"text": text, "source": given.source, "target": given.target, "via": via or None}
        yield "done", whole | {"detected": _detected(detected)}

    async def alternatives(self, request: Request) -> Response:
        """POST /api/alternatives: the words that may follow in a translation that has begun."""
        key, given, plain = await self._about_one_text(request, AlternativesFields, counted=("text", "prefix"))
        one = replace(plain, prefixes=[given.prefix])
        found = await self.backend.alternatives(request, key, one, given.n)
        described = [
            {"word": each.word, "probability": _rounded(each.probability), "text": each.translation.text}
            for each in found
        ]
        return JSONResponse({"source": one.source, "target": one.target, "alternatives": described})

    async def attention(self, request: Request) -> Response:
        """POST /api/attention: what every head attends to, as the data of the explorer."""
        key, given, one = await self._about_one_text(request, AttentionFields, counted=("text", "translation"))
        found = await self.backend.attention(request, key, one, given.translation)
        from transduce.inspection.explorer import explorer_data  # imported here, as NumPy is slow to import

        return JSONResponse(await asyncio.to_thread(explorer_data, found, f"{one.source}→{one.target}"))

    async def _about_one_text(
        self, request: Request, kind: type[OneText], counted: Collection[str]
    ) -> tuple[Key, OneText, TranslationRequest]:
        """Returns the client's key, the fields of a request about one text, and what it asks of the service."""
        key, config = client_key(self.backend, request), self.backend.config
        given = read_one_text(await self.backend.read_fields(request), kind, config, counted)
        target = served_target(self.backend, given.target)
        [guess] = await self.backend.sources_of([given.text], given.source, target)
        one = TranslationRequest(
            texts=[given.text],
            source=guess.language,
            target=target,
            text_options=config.text if given.domain is None else replace(config.text, domain=given.domain),
            priority=key.request_priority,
        )
        return key, given, one

    async def detect(self, request: Request) -> Response:
        """POST /api/detect: for each text its possible languages, the most probable first."""
        key = client_key(self.backend, request)
        fields = await self.backend.read_fields(request)
        texts, _ = read_texts(known_fields(fields, ("text",)), self.backend.config)
        found = await self.backend.detect(request, key, texts)
        return JSONResponse({"detections": [[_detected(guess) for guess in guesses] for guesses in found]})

    async def languages(self, request: Request) -> Response:
        """GET /api/languages: all pairs, the names of their languages, and the formats of documents.

        A model that translates between any two of many languages is one entry of `groups`, and not of `pairs`.
        """
        single, groups = grouped(self.backend.service.pairs())
        pairs = [{"source": each.source, "target": each.target, **_described_model(each)} for each in single]
        of_many = [{"languages": languages, **_described_model(each)} for languages, each in groups]
        languages = [{"code": code, "name": language_name(code)} for code in self.backend.targets_by_language()]
        formats = [each.title for each in FORMATS.values()]
        limit = self.backend.config.limits.text_characters
        described = {"languages": languages, "pairs": pairs, "groups": of_many, "document_formats": formats}
        return JSONResponse(described | {"text_characters": limit})


def _described_model(pair: ServedPair) -> dict[str, Any]:
    """Returns what a pair of languages is translated with."""
    return {
        "via": pair.via or None,
        "zero_shot": pair.zero_shot,
        "domains": list(pair.domains),
        "model": pair.model,
        "attention": pair.attention,
    }


def client_key(backend: Backend, request: Request) -> Key:
    """Returns the key in the header `Authorization: Bearer KEY`; see `Backend.authorise`."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return backend.authorise(request, "transduce", secret.strip() if scheme.lower() == "bearer" else None)


def _error_event(error: Exception) -> Event:
    """Returns the event for an error in the middle of a stream."""
    refusal = access_refusal(error) if isinstance(error, AccessError) else refusal_of(error)
    return "error", _described_error(refusal or Refusal(500, "internal_error", "The service failed."))


def _described_error(refusal: Refusal) -> dict[str, Any]:
    return {"error": {"code": refusal.code, "message": str(refusal)}}


def _described(text: TranslatedText, detected: Guess | None) -> dict[str, Any]:
    best = text.best[0]
    return {
        "source": text.source,
        "target": text.target,
        "via": text.via or None,
        "zero_shot": text.zero_shot,
        "detected": _detected(detected),
        **_translation(best),
        "n_best": [
            {"text": each.text, "score": _rounded(each.score), "confidence": _rounded(each.confidence)}
            for each in text.best
        ],
    }


def _translation(best: Translation) -> dict[str, Any]:
    return {
        "text": best.text,
        "score": _rounded(best.score),
        "log_probability": _rounded(best.log_probability),
        "confidence": _rounded(best.confidence),
        "calibrated": best.calibrated,
        "words": [{"text": text, "probability": _rounded(probability)} for text, probability in best.words],
        "sentences": [_pair(each) for each in best.sentences],
        "alignment": [_pair(each) for each in best.alignment],
        "finished": best.finished,
        "source_truncated": best.source_truncated,
        "warnings": list(best.warnings),
        "required": [
            {"terms": list(choice), "found": found, "forced": choice in best.forced} for choice, found in best.required
        ],
    }


def _rounded(value: float | None) -> float | None:
    """Returns a number without the digits that no model is sure of."""
    return None if value is None else round(value, 6)


def _pair(spans: SpanPair) -> dict[str, Any]:
    source, target = spans
    return {"source": list(source), "target": list(target)}


def _detected(guess: Guess | None) -> dict[str, Any] | None:
    return None if guess is None else {"language": guess.language, "confidence": round(guess.confidence, 1)}
