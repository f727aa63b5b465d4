"""The language of a text, among those that are served.

The most probable language comes first, however improbable it is: a short text may be in several, and the confidence
says so. Of languages that are equally probable, the first of the served ones comes first. A language that is not
written in the text's script has confidence 0, and so has each if the text has no letters.
"""

import asyncio
import functools
import logging
import math
import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from transduce.serve.requests import UnavailableError
from transduce.serve.web.languages import base_language
from transduce.serve.web.scripts import is_written_in, script_of

_LOG = logging.getLogger(__name__)
LONGEST = 2000  # characters that are read: more does not change the result
_NUM_THREADS = 2
_TAG = re.compile(r"<[^<>]*>")
_LETTER = re.compile(r"[^\W\d_]")
_LABELS = {"nb": "no", "fil": "tl"}  # what the identifier calls them


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Guess:
    """A language that a text may be in."""

    language: str
    confidence: float  # 0 to 100


class Detector:
    """Guesses languages with py3langid, which takes a second to load: in the background, once the service is ready."""

    def __init__(self) -> None:
        self._identifier: Any = None
        self._loading: asyncio.Task[None] | None = None
        # Threads of its own: those of asyncio may all wait for the database.
        self._threads = ThreadPoolExecutor(_NUM_THREADS, "detection")

    def start(self) -> "asyncio.Task[None]":
        """Starts loading, unless it has started; requests wait until it is done."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._on_thread(self._load))
        return self._loading

    async def stop(self) -> None:
        """Waits until loading has ended: a thread cannot be stopped."""
        if self._loading is not None:
            await asyncio.wait([self._loading])
        self._threads.shutdown()

    async def _on_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def _load(self) -> None:
        try:
            self._identifier = _identifier()
        except Exception:  # any failure of the package: translation still works without it
            _LOG.exception("Language detection cannot be loaded: requests must name their source language.")

    async def guesses(self, texts: Sequence[str], among: Sequence[str], *, html: bool = False) -> list[list[Guess]]:
        """Returns for each text the languages of `among`, the most probable first.

        Args:
            texts: any strings.
            among: language codes; a text that does not show its language is in the first.
            html: whether tags are left out.

        Raises:
            UnavailableError: the identifier could not be loaded.
        """
        if self._identifier is None:
            await asyncio.shield(self.start())
        if self._identifier is None:
            raise UnavailableError("Language detection is not available: name the source language.", 60)
        return await self._on_thread(lambda: [self._guess(text, among, html) for text in texts])

    def _guess(self, text: str, among: Sequence[str], html: bool) -> list[Guess]:
        text = (_TAG.sub(" ", text[: 4 * LONGEST]) if html else text)[:LONGEST]
        if not _LETTER.search(text):
            return [Guess(code, 0.0) for code in among]
        script = script_of(text)
        scores = {label: score for label, score in self._identifier.rank(text) if is_written_in(label, script)}
        probabilities = _probabilities(scores, among, max(1, len(text.encode(errors="replace"))))
        guesses = [Guess(code, 100.0 * probability) for code, probability in probabilities.items()]
        return sorted(guesses, key=lambda guess: -guess.confidence)  # stable: those of one confidence keep their order


@functools.cache
def _identifier() -> Any:
    """Returns the identifier of all languages, which knows nothing of who uses it."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def _probabilities(scores: dict[str, float], among: Collection[str], num_bytes: int) -> dict[str, float]:
    """Returns the probability of each language if the text is in one of them; 0 for those that have no score.

    The temperature √bytes is the identifier's own. Codes with one label share its score: the first has it.
    """
    labels: dict[str, str] = {}
    for code in among:
        base = base_language(code)
        label = _LABELS.get(base, base)
        if label in scores and label not in labels:
            labels[label] = code
    greatest = max((scores[label] for label in labels), default=0.0)
    weights = {code: math.exp((scores[label] - greatest) / math.sqrt(num_bytes)) for label, code in labels.items()}
    total = sum(weights.values())
    return {code: weights[code] / total if code in weights else 0.0 for code in among}
