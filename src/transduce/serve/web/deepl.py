"""The protocol of DeepL, version 2, as its official client speaks it: text, languages, usage, glossaries.

Errors are `{"message": text}`. What can only be a hint (`context`, `model_type`, `preserve_formatting`, a formality
that begins with `prefer_`) is ignored; `model_type_used` repeats the hint. What would have to change the translation
and cannot is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from transduce.serve.operations.access import AccessError, DayLimitError, LimitError
from transduce.serve.web.backend import AUTO, Backend
from transduce.serve.web.deepl_fields import (
    choice_field,
    client_key,
    refuse_unsupported,
    tag_names,
    target_field,
    text_field,
)
from transduce.serve.web.deepl_glossaries import DeeplGlossaries
from transduce.serve.web.languages import base_language, canonical, language_name
from transduce.serve.web.refusals import Refusal, bad_request
from transduce.serve.web.request_body import texts_within

# Errors for `texts_within`.
_TEXTS = (
    "Parameter 'text' must be a list of texts.",
    "Too many texts: {}, at most {}.",
    "Text too long: {} characters, at most {}.",
)
_SPLITS = {"0": "auto", "1": "always", "nonewlines": "always"}  # "auto" still cuts what no model could read at once
_MODEL_TYPES = {  # as a request names them: as the answer does
    "quality_optimized": "quality_optimized",
    "prefer_quality_optimized": "quality_optimized",
    "latency_optimized": "latency_optimized",
}
_CLIENT_SECONDS = 10.0  # after which clients of this protocol ask again: an answer that comes later is of no use
_TABS = re.compile(r"(?<!\t)\t++(?=translate=)")
_UNLIMITED = 10**12  # characters: what DeepL itself says where there is no limit
# Clients choose among these targets for a model whose target has no region.
_TARGET_VARIANTS = {
    "en": (("EN-GB", "English (British)"), ("EN-US", "English (American)")),
    "pt": (("PT-BR", "Portuguese (Brazilian)"), ("PT-PT", "Portuguese (European)")),
}


def error_response(refusal: Refusal) -> Response:
    """Returns an error as this protocol words it."""
    return JSONResponse({"message": str(refusal)}, refusal.status, refusal.headers)


def access_refusal(error: AccessError) -> Refusal:
    """Returns the refusal of a client that may not do what it asks for."""
    match error:
        case DayLimitError(retry_after_seconds=seconds):
            return Refusal(456, "quota", f"Quota exceeded. {error}", seconds)
        case LimitError(retry_after_seconds=seconds):
            return Refusal(429, "limit", f"Too many requests. {error}", seconds)
    return Refusal(403, "forbidden", "Authorization failed: send a valid key as 'Authorization: DeepL-Auth-Key KEY'.")


class Deepl:
    """The routes of the protocol."""

    def __init__(self, backend: Backend, glossaries: DeeplGlossaries) -> None:
        self.backend = backend
        self.glossaries = glossaries

    def routes(self) -> list[Route]:
        """Returns the routes."""
        return [
            Route("/v2/translate", self.translate, methods=["POST"]),
            Route("/v2/languages", self.languages, methods=["GET", "POST"]),
            Route("/v2/usage", self.usage, methods=["GET", "POST"]),
            *self.glossaries.routes(),
        ]

    async def translate(self, request: Request) -> Response:
        """POST /v2/translate: texts into another language."""
        key = client_key(self.backend, request)
        fields = await self.backend.read_fields(request)
        if fields.get("text") in (None, []):
            raise bad_request("Parameter 'text' not specified.")
        texts = texts_within(fields["text"], self.backend.config.limits, *_TEXTS)
        refuse_unsupported(fields)
        target = target_field(self.backend, fields)
        source = text_field(fields, "source_lang") or AUTO
        markup = choice_field(fields, "tag_handling", ("xml", "html"))
        split = choice_field(fields, "split_sentences", _SPLITS)
        model_type = choice_field(fields, "model_type", _MODEL_TYPES)
        if source != AUTO and self.backend.source_language(source, target) is None:
            raise bad_request("Value for 'source_lang' not supported.")
        glossary = await self.glossaries.for_translation(key, text_field(fields, "glossary_id"), source, target)
        guesses = await self.backend.sources_of(texts, source, target, html=markup is not None)
        self._require_short_work(texts, [guess.language for guess in guesses], target)
        kept = _KeptElements(tag_names(fields.get("ignore_tags")) if markup else [], texts)
        changes: dict[str, Any] = {"markup": "html"} if markup else {}
        if split is not None:
            changes["split"] = _SPLITS[split]
        read = [kept.marked(_one_line(text) if split == "nonewlines" else text) for text in texts]
        found = await self.backend.translate(
            request,
            key,
            read,
            [guess.language for guess in guesses],
            target,
            further_characters=sum(map(len, texts)) - sum(map(len, read)),  # the marks cost nothing
            glossary=glossary,
            timeout_seconds=min(_CLIENT_SECONDS, self.backend.config.batching.deadline_seconds),
            text_options=replace(self.backend.config.text, **changes) if changes else None,
        )
        return JSONResponse(
            {
                "translations": [
                    {
                        "detected_source_language": base_language(each.source).upper(),
                        "text": kept.unmarked(each.best[0].text),
                        "billed_characters": len(text),
                        **({"model_type_used": _MODEL_TYPES[model_type]} if model_type else {}),
                    }
                    for text, each in zip(texts, found, strict=True)
                ]
            }
        )

    async def languages(self, request: Request) -> Response:
        """GET /v2/languages: those that can be translated, or with type=target those to translate into."""
        client_key(self.backend, request)
        fields = await self.backend.read_fields(request)
        if choice_field(fields, "type", ("source", "target")) != "target":
            names = {base_language(code): language_name(base_language(code)) for code in self.backend.sources()}
            return JSONResponse([{"language": code.upper(), "name": name} for code, name in sorted(names.items())])
        listed = [each for code in self.backend.targets() for each in _target_variants(code)]
        return JSONResponse(
            [{"language": code, "name": name, "supports_formality": False} for code, name in dict(listed).items()]
        )

    async def usage(self, request: Request) -> Response:
        """GET /v2/usage: the characters that the key has used today, and may use in a day."""
        key = client_key(self.backend, request)
        used = await self.backend.access.budgets.usage.total_of_today(key.name)
        return JSONResponse({"character_count": used, "character_limit": key.characters_per_day or _UNLIMITED})

    def _require_short_work(self, texts: Sequence[str], sources: Sequence[str], target: str) -> None:
        """Raises Refusal where clients would time out before the answer, and then send the request five times more."""
        expected = 0.0
        for source in set(sources) - {target}:
            own = [text for text, language in zip(texts, sources, strict=True) if language == source]
            expected += self.backend.service.expected_seconds(source, target, own)
        if expected > _CLIENT_SECONDS:
            raise bad_request(
                f"Text too long: it would take about {expected:.0f} s here, and clients wait {_CLIENT_SECONDS:.0f} s. "
                "Send it in parts."
            )


class _KeptElements:
    """Marks elements of some names as not to be translated, and takes the marks out again.

    `<x id="7">Fix</x>` becomes `<x translate="no" id="7">Fix</x>`, with white space in the mark that no text has.
    """

    def __init__(self, names: Sequence[str], texts: Sequence[str]) -> None:
        used = max((len(tabs) for text in texts for tabs in _TABS.findall(text)), default=0)
        self._mark = "\t" * (used + 1) + 'translate="no"'
        listed = "|".join(map(re.escape, names))
        self._opening = re.compile(rf"<(?:{listed})(?=>|\s[^<>]*(?<!/)>)", re.IGNORECASE) if names else None

    def marked(self, text: str) -> str:
        return self._opening.sub(lambda match: match[0] + self._mark, text) if self._opening else text

    def unmarked(self, text: str) -> str:
        return text.replace(self._mark, "")


def _one_line(text: str) -> str:
    """Returns a text with spaces in place of its line breaks."""
    return " ".join(line.strip() for line in text.split("\n"))


def _target_variants(code: str) -> Sequence[tuple[str, str]]:
    return _TARGET_VARIANTS.get(code, ((canonical(code).upper(), language_name(code)),))
