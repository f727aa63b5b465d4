"""A service without a model for tests of the page: it translates word for word, and knows a second word for each."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace

from fake_service import FakeService
from transduce.serve.cut_text import CutText, StreamedPart
from transduce.serve.requests import TranslatedText, TranslationRequest
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Alternative, Translation

# A word, its translation, and the one that follows where the translation began in another way.
WORDS = {
    "a": ("ein", "einen"),
    "dog": ("Hund", "Köter"),
    "cat": ("Katze", "Mieze"),
    "man": ("Mann", "Kerl"),
    "sees": ("sieht", "erblickt"),
    "runs": ("rennt", "läuft"),
    "sleeps": ("schläft", "ruht"),
}
DOUBTED = "schläft"  # the only word with a low probability, unless a test says otherwise
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class _Word:
    """A word of a translation and the word that it comes from, with their spans."""

    source: tuple[int, int]
    target: tuple[int, int]


class PageService(FakeService):
    """Answers at once, after some seconds, or never, as a test says from its own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0  # that an answer takes
        self.characters = 0  # of all texts and prefixes that were answered
        self.warnings: tuple[str, ...] = ()  # of every translation
        self.probabilities = {DOUBTED: 0.2}  # of words that the model is not sure of
        self.links = True  # whether words are linked
        self.end = 0.0  # the probability that a translation ends after any word
        self.calibrated = False  # whether confidences are
        self.forces = False  # whether the terms that come out were forced
        self.appends = False  # whether they come after the end of the sentence

    def reset(self) -> None:
        """Makes it as new."""
        vars(self).update(vars(PageService()))

    async def translate(self, request: TranslationRequest) -> list[TranslatedText]:
        await asyncio.sleep(self.seconds)
        await super().translate(replace(request, texts=[]))
        prefixes = request.prefixes or [""] * len(request.texts)
        self.characters += sum(map(len, [*request.texts, *prefixes]))
        return [
            TranslatedText([self._translation(text, prefix, request)], request.source, request.target)
            for text, prefix in zip(request.texts, prefixes, strict=True)
        ]

    async def stream(self, request: TranslationRequest) -> AsyncGenerator[StreamedPart, None]:
        cut = CutText(request, request.text_options or TextOptions(), request.source)
        for group in cut.groups([1]):
            [translated] = await self.translate(group)
            yield cut.join(translated)

    async def alternatives(self, request: TranslationRequest, n: int) -> list[Alternative]:
        await super().translate(replace(request, texts=[]))
        [text], [prefix] = request.texts, request.prefixes or [""]
        at = len(_WORD.findall(prefix))
        source = _WORD.findall(text)[at]
        found = [
            Alternative(word, share, self._translation(text, prefix + word, request))
            for word, share in zip(WORDS.get(source.lower(), (source,)), (0.75, 0.2), strict=False)
        ]
        if self.end:
            found.append(Alternative("", self.end, self._translation(text, f"{prefix.rstrip()}.", request)))
        return found[:n]

    def _translation(self, text: str, prefix: str, request: TranslationRequest) -> Translation:
        options = request.text_options or TextOptions()
        terms = {term.lower(): choices for term, choices in _choices(request)}
        written, links = _written(text, prefix, {} if self.appends else terms)
        if self.appends:
            written = " ".join([written, *(choices[0] for term, choices in terms.items() if term in text.lower())])
        required = tuple(
            (tuple(choices), any(each in written for each in choices))
            for term, choices in terms.items()
            if term in text.lower()
        )
        words = tuple((word, self.probabilities.get(word.strip("."), 0.97)) for word in written.split())
        return Translation(
            written,
            score=-0.5,
            log_probability=-1.0,
            tokens=("▁a",),
            finished=True,
            source_truncated=False,
            confidence=0.72 if options.confidence else None,
            calibrated=self.calibrated,
            words=words if options.confidence else (),
            sentences=(((0, len(text)), (0, len(written))),) if written else (),
            alignment=tuple((each.source, each.target) for each in links) if options.alignment and self.links else (),
            warnings=self.warnings,
            required=required,
            forced=tuple(choices for choices, _ in required) if self.forces else (),
        )


def _choices(request: TranslationRequest) -> list[tuple[str, Sequence[str]]]:
    glossary = request.glossary if isinstance(request.glossary, dict) else {}  # that of a document is read already
    return [(term, [given] if isinstance(given, str) else list(given)) for term, given in glossary.items()]


def _written(text: str, prefix: str, terms: dict[str, Sequence[str]]) -> tuple[str, list[_Word]]:
    """Returns the translation that begins with `prefix`, and its words with those that they come from."""
    begun = _WORD.findall(prefix)
    inside = bool(prefix) and bool(_WORD.match(prefix[-1]))
    written, links, last, differs = "", [], 0, False
    for index, match in enumerate(_WORD.finditer(text)):
        word = match[0].lower()
        usual, other = WORDS.get(word, (match[0], match[0]))
        chosen = terms[word][0] if word in terms else other if differs else usual
        if index < len(begun):
            unfinished = index == len(begun) - 1 and inside
            known = [each for each in (chosen, usual, other) if each.startswith(begun[index])]
            chosen = known[0] if unfinished and known else begun[index]
            differs = differs or chosen.lower() != usual.lower()
        if index == 0 and not begun:
            chosen = chosen[0].upper() + chosen[1:]
        written += text[last : match.start()]
        links.append(_Word(match.span(), (len(written), len(written) + len(chosen))))
        written += chosen
        last = match.end()
    written += text[last:].rstrip("\n")
    return (written if written.startswith(prefix) else prefix), links
