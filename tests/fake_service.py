"""A service without a model: its translations are functions of their sources, so that answers can be foretold."""

import asyncio
import re
import weakref
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from starlette.applications import Starlette

from transduce.errors import ConfigError
from transduce.serve.config import ServeConfig
from transduce.serve.cut_text import StreamedPart
from transduce.serve.documents.service import Documents
from transduce.serve.documents.survey import Survey, SurveyProcesses, survey
from transduce.serve.models import ServedPair
from transduce.serve.operations.access import Access
from transduce.serve.operations.keys import KeyRing
from transduce.serve.operations.limits import Budgets, Usage
from transduce.serve.requests import TranslatedText, TranslationRequest
from transduce.serve.state.store import open_store
from transduce.serve.web.app import build_app
from transduce.serve.web.backend import Backend
from transduce.serve.web.detection import Detector
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Alternative, Attention, Translation

PAIRS = (("en", "de"), ("de", "en"), ("en", "pt-BR"), ("he", "en"))


_MARKUP = re.compile(r"(<[^<>]*translate=.?no\b[^<>]*>.*?</[^<>]*>|<[^<>]*>)", re.DOTALL)


def fake_translation(text: str, target: str) -> str:
    """Returns the text in capitals, but for markup, after the target language: "[de] A DOG."."""
    parts = _MARKUP.split(text)
    return f"[{target}] " + "".join(part if index % 2 else part.upper() for index, part in enumerate(parts))


class FakeService:
    """Answers at once, unless it is told to wait or to fail."""

    def __init__(self) -> None:
        self.ready = True
        self.stopping = False
        self.hung: list[str] = []  # models that compute for too long
        self.requests: list[TranslationRequest] = []  # all that came
        self.cancelled = 0  # how many were cancelled
        self.gate: asyncio.Event | None = None  # what answers wait for
        self.error: Exception | None = None  # what is raised instead of an answer
        self.seconds_per_character = 0.0
        self.error_after = 0  # how many answers come before it
        self.attended: Attention | None = None  # the result for every pair; None: the engine does not return attention

    def hung_models(self) -> list[str]:
        return self.hung

    @property
    def language_pairs(self) -> list[tuple[str, str]]:
        return list(PAIRS)

    def pairs(self) -> list[ServedPair]:
        attends = self.attended is not None
        return [ServedPair(source, target, "fake", "", attends) for source, target in PAIRS]

    async def translate(self, request: TranslationRequest) -> list[TranslatedText]:
        self.requests.append(request)
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None and len(self.requests) > self.error_after:
            raise self.error
        return [TranslatedText(_n_best(text, request), request.source, request.target) for text in request.texts]

    def expected_seconds(self, source: str, target: str, texts: Sequence[str]) -> float:
        return self.seconds_per_character * sum(map(len, texts))

    async def alternatives(self, request: TranslationRequest, n: int) -> list[Alternative]:
        [translated] = await self.translate(request)
        [prefix] = request.prefixes or [""]
        return [Alternative(f"word{index}", 0.5, replace(translated.best[0], text=prefix)) for index in range(n)]

    async def attention(self, request: TranslationRequest, translation: str | None) -> Attention:
        await self.translate(request)
        if self.attended is None:
            raise ConfigError("The fake engine does not return attention weights.")
        return self.attended

    async def stream(self, request: TranslationRequest) -> AsyncGenerator[StreamedPart, None]:
        [text] = request.texts
        for match in re.finditer(r"[^.]*\.?\s*", text):
            if match[0]:
                [translated] = await self.translate(replace(request, texts=[match[0]]))
                yield StreamedPart(match.span(), translated.best[0].text, translated)


def _n_best(text: str, request: TranslationRequest) -> list[Translation]:
    options = request.text_options or TextOptions()
    written = fake_translation(text, request.target) if text.strip() else ""
    return [
        Translation(
            written + "!" * index,
            score=-0.5 - index,
            log_probability=-1.0 - index,
            tokens=("▁a",),
            finished=True,
            source_truncated=False,
            confidence=0.5,
            words=tuple((word, 0.9) for word in written.split()),
            sentences=(((0, len(text)), (0, len(written))),) if written else (),
            alignment=(((0, 1), (0, 1)),) if written and options.alignment else (),
        )
        for index in range(request.n_best)
    ]


def fake_app(
    service: FakeService | None = None, config: ServeConfig | None = None, keys: KeyRing | None = None
) -> Starlette:
    """Returns the application over a service without a model; its store, in memory, is closed once nothing uses it."""
    store = open_store("memory")
    access = Access(keys, Budgets(Usage(store, lambda: None)))
    used, configured = service or FakeService(), config or ServeConfig()
    backend = Backend(used, configured, access, Detector())
    app = build_app(backend, store, Documents(used, configured, store.documents, access, backend.source_of))
    weakref.finalize(app, store.close)
    return app


def read_documents_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets documents be read in this process, which takes less time."""

    async def read(_: SurveyProcesses, *arguments: Any) -> Survey:
        return survey(*arguments)

    monkeypatch.setattr(SurveyProcesses, "survey", read)
