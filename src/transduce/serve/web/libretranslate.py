"""The protocol of LibreTranslate, version 1, as its clients speak it.

Errors are `{"error": text}`. Requests come as JSON, as forms, or in the query string. Files are in
`libretranslate_files`.
"""

import re
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from transduce.serve.operations.access import AccessError, KeyRequiredError, LimitError
from transduce.serve.operations.keys import Key
from transduce.serve.requests import TranslatedText
from transduce.serve.web.backend import AUTO, Backend
from transduce.serve.web.detection import Guess
from transduce.serve.web.languages import language_name
from transduce.serve.web.refusals import Refusal, bad_request
from transduce.serve.web.request_body import Fields, read_body, texts_within
from transduce.translation.documents import FORMATS

# Errors for `texts_within`.
_TEXTS = (
    "Invalid request: q must be a text, or a list of texts",
    "Invalid request: request ({}) exceeds batch limit ({})",
    "Invalid request: request ({}) exceeds text limit ({})",
)
_TIMEOUT_MILLISECONDS = 500  # how long web pages wait after a key stroke
# Pictographs with what changes them: skin colours, joiners, variation selectors, flags, keycaps.
_EMOJI = re.compile(
    r"(?:[#*0-9]\ufe0f?\u20e3|[\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
    r"|[\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f])+"
)


def error_response(refusal: Refusal) -> Response:
    """Returns an error as this protocol words it."""
    return JSONResponse({"error": str(refusal)}, refusal.status, refusal.headers)


def access_refusal(error: AccessError) -> Refusal:
    """Returns the refusal of a client that may not do what it asks for."""
    match error:
        case LimitError(retry_after_seconds=seconds):
            return Refusal(429, "limit", f"Slowdown: {error}", seconds)
        case KeyRequiredError():
            return bad_request("Please contact the server operator to get an API key")
    return Refusal(403, "forbidden", "Invalid API key")


def is_emoji_only(text: str) -> bool:
    """Returns whether a text is made of emoji and white space."""
    words = text.split()
    return bool(words) and all(_EMOJI.fullmatch(word) for word in words)


class LibreTranslate:
    """The routes of the protocol."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def routes(self) -> list[Route]:
        """Returns the routes."""
        return [
            Route("/translate", self.translate, methods=["POST"]),
            Route("/detect", self.detect, methods=["POST"]),
            Route("/languages", self.languages, methods=["GET", "POST"]),
            Route("/suggest", self.suggest, methods=["POST"]),
            Route("/frontend/settings", self.settings, methods=["GET"]),
        ]

    async def translate(self, request: Request) -> Response:
        """POST /translate: texts into another language."""
        fields = await self.backend.read_fields(request)
        key = client_key(self.backend, request, fields)
        given = _required(fields, "q")
        source, target = required_text(fields, "source"), required_text(fields, "target")
        texts = texts_within(given, self.backend.config.limits, *_TEXTS)
        kind = "text" if fields.get("format") in (None, "") else fields["format"]
        if kind not in ("text", "html"):
            raise bad_request(f"{str(kind)[:100]} format is not supported")
        alternatives = self._alternatives(fields)
        code = served_target(self.backend, source, target)
        guesses = await self.backend.sources_of(texts, source, code, html=kind == "html")
        found = await self.backend.translate(
            request,
            key,
            texts,
            [guess.language for guess in guesses],
            code,
            unchanged=[index for index, text in enumerate(texts) if is_emoji_only(text)],
            n_best=1 + alternatives,
            text_options=replace(self.backend.config.text, markup="html") if kind == "html" else None,
        )
        return JSONResponse(_answer(found, guesses, alternatives, is_list=isinstance(given, list)))

    async def detect(self, request: Request) -> Response:
        """POST /detect: the languages that a text may be in, the most probable first; of a list, those of each."""
        fields = await self.backend.read_fields(request)
        key = client_key(self.backend, request, fields)
        given = _required(fields, "q")
        texts = texts_within(given, self.backend.config.limits, *_TEXTS)
        found = await self.backend.detect(request, key, texts)
        likely = [[_guess(each) for each in guesses[:1] + _likely(guesses[1:])] for guesses in found]
        return JSONResponse(likely if isinstance(given, list) else likely[0])

    async def languages(self, request: Request) -> Response:
        """GET or POST /languages: each language with its targets; a text may be in the target language already."""
        await read_body(request, self.backend.config.limits.body_bytes)  # some clients send one; nothing in it matters
        served = set(self.backend.targets())
        return JSONResponse(
            [
                {"code": code, "name": language_name(code), "targets": sorted({*targets, code} & served)}
                for code, targets in self.backend.targets_by_language().items()
            ]
        )

    async def suggest(self, request: Request) -> Response:
        """POST /suggest: refused."""
        raise Refusal(403, "off", "Suggestions are off on this server.")

    async def settings(self, request: Request) -> Response:
        """GET /frontend/settings: what a web page has to know."""
        pairs = self.backend.service.pairs()
        source, target = (pairs[0].source, pairs[0].target) if pairs else ("", "")
        return JSONResponse(
            {
                "charLimit": self.backend.config.limits.text_characters,
                "frontendTimeout": _TIMEOUT_MILLISECONDS,
                "apiKeys": self.backend.access.keys is not None,
                "keyRequired": self.backend.access.required,
                "suggestions": False,
                "filesTranslation": True,
                "supportedFilesFormat": [ending for each in FORMATS.values() for ending in each.extensions],
                "language": {
                    "source": {"code": source, "name": language_name(source)},
                    "target": {"code": target, "name": language_name(target)},
                },
            }
        )

    def _alternatives(self, fields: Fields) -> int:
        limit = self.backend.config.limits.alternatives
        given = fields.get("alternatives", 0)
        if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 10:
            given = int(given)
        if given in ("", None):
            given = 0
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= limit:
            raise bad_request(f"Invalid request: alternatives must be a number from 0 to {limit}")
        return given


def client_key(backend: Backend, request: Request, fields: Fields) -> Key:
    """Returns the key in the field `api_key`; see `Backend.authorise`."""
    secret = fields.get("api_key")
    return backend.authorise(request, "libretranslate", secret if isinstance(secret, str) else None)


def _required(fields: Fields, name: str) -> Any:
    value = fields.get(name)
    if value in (None, "", []):
        raise bad_request(f"Invalid request: missing {name} parameter")
    return value


def required_text(fields: Fields, name: str) -> str:
    value = _required(fields, name)
    if not isinstance(value, str):
        raise bad_request(f"Invalid request: {name} must be a language code")
    return value


def served_target(backend: Backend, source: str, target: str) -> str:
    """Returns the served target that a client means; raises Refusal where it, or the source, is not served."""
    code = backend.target_language(target)
    if code is None:
        raise bad_request(f"{target[:100]} is not supported")
    if source != AUTO and backend.source_language(source, code) is None:
        raise bad_request(f"{source[:100]} is not supported")
    return code


def _likely(guesses: list[Guess]) -> list[Guess]:
    return [guess for guess in guesses if guess.confidence >= 1.0]


def _guess(guess: Guess) -> dict[str, Any]:
    return {"confidence": round(guess.confidence), "language": guess.language}


def _answer(found: list[TranslatedText], guesses: list[Guess], alternatives: int, *, is_list: bool) -> dict[str, Any]:
    """Returns the answer; the detected language is there for a named source too, as some clients always read it."""
    answer: dict[str, Any] = {
        "translatedText": [each.best[0].text for each in found],
        "detectedLanguage": [_guess(guess) for guess in guesses],
    }
    if alternatives:
        others = [list(dict.fromkeys(best.text for best in each.best)) for each in found]
        answer["alternatives"] = [texts[1 : 1 + alternatives] for texts in others]
    return answer if is_list else {name: values[0] for name, values in answer.items()}
