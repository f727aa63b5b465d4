"""Windows of lines, and who translates them: one translator here, or several workers anywhere.

A window is what travels. Its rows depend on it and the request alone, so whoever translates it, whenever, the file that
the rows are put together to is the same.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from transduce.config import DecodeConfig
from transduce.engines.automatic import AutomaticEngine
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.search import Constraints
from transduce.translation.pipeline import Handling
from transduce.translation.pipeline.markup import Piece, pieces
from transduce.translation.pipeline.sentences import SENTENCES_METRIC, num_sentences
from transduce.translation.result import Translation
from transduce.translation.streams.layouts import Layout
from transduce.translation.translator import Translator

Ticket = TypeVar("Ticket")


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for every line of a job."""

    source: str  # the input's name, for messages
    layout: Layout
    options: DecodeConfig
    n_best: int
    handling: Handling
    glossary: Glossary | None = None
    inline_terms: bool = False  # whether texts mark terms: see `inline_terms`


@dataclass(frozen=True, slots=True)
class Window:
    """Lines that follow each other, as they were read."""

    first: int  # number of the first, from 1
    lines: Sequence[str]
    constraints: Sequence[Constraints] | None  # an entry for each line


@dataclass(frozen=True, slots=True)
class Rows:
    """What is to be written for the lines of a window, in order, and what is to be said about them."""

    rows: Sequence[str]
    warnings: Sequence[str]
    num_terms: int = 0  # that were required
    num_honoured: int = 0  # of these, those that came out where the model saw a place for them
    num_forced: int = 0  # and those that came out elsewhere
    of_many_sentences: Sequence[int] = ()  # numbers of the lines with more sentences than the model was trained on


@dataclass(frozen=True)
class Facts:
    """What rows depend on, beside window and request."""

    checksums: Mapping[str, str]  # of the files of models and shortlist, by names for people
    engine: str
    calibration: str | None  # where confidence is asked for


def facts_of(translator: Translator, request: Request) -> Facts:
    """Returns what rows depend on; raises BundleError where a calibration is needed and damaged."""
    calibration = None
    if request.handling.confidence:
        from transduce.translation.pipeline.calibration import load_calibration

        calibration = repr(load_calibration(translator.bundle))
    engine = translator.engine.name
    if request.handling.markup != "none" and isinstance(translator.engine, AutomaticEngine):
        engine += ", torch for markup"  # its weights place tags otherwise than ctranslate2 does without any
    return Facts(checksums=translator.checksums, engine=engine, calibration=calibration)


class Workers(Protocol):
    """Who translates windows."""

    def facts(self, request: Request) -> Facts:
        """Returns what rows depend on: the same for each worker."""
        ...

    @property
    def options(self) -> DecodeConfig:
        """How the model searches where nobody says."""
        ...

    def translate(self, windows: Iterable[Window], request: Request) -> Iterator[tuple[Window, Rows]]:
        """Yields each window with its rows, in order; reads windows ahead only as far as there are workers for them.

        Raises:
            DataError: a line is wrong; the rows of all windows before were yielded.
        """
        ...


class OneTranslator:
    """A translator as the only worker: reads a window when the one before was written."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.options = translator.options

    def facts(self, request: Request) -> Facts:
        """Returns what rows depend on."""
        return facts_of(self.translator, request)

    def translate(self, windows: Iterable[Window], request: Request) -> Iterator[tuple[Window, Rows]]:
        """Yields each window with its rows."""
        for window in windows:
            yield window, translate_window(self.translator, window, request)


def translate_window(translator: Translator, window: Window, request: Request) -> Rows:
    """Returns the rows of one window; raises DataError, which names file and line, where a line is wrong."""
    places = [f"{request.source}, line {window.first + i}" for i in range(len(window.lines))]
    texts = [request.layout.text(line, place) for line, place in zip(window.lines, places, strict=True)]
    constraints = window.constraints
    if request.inline_terms:
        texts, constraints = _with_inline_terms(texts, constraints, places)
    found = list(
        translator.stream(
            texts,
            options=request.options,
            n_best=request.n_best,
            window=len(texts),
            handling=request.handling,
            constraints=constraints,
            glossary=request.glossary,
            first_line=window.first,
            origin=f"{request.source}, ",
        )
    )
    numbered = enumerate(zip(window.lines, found, strict=True), start=window.first)
    limit = translator.engine.max_source_tokens
    most = 0 if request.handling.split == "always" else _usual_sentences(translator)
    came = [came for best, *_ in found for _, came in best.required]
    num_forced = sum(len(best.forced) for best, *_ in found)
    return Rows(
        rows=[row for number, (line, best) in numbered for row in request.layout.rows(line, number, best)],
        warnings=[
            f"{place}: {doubt}"
            for place, (best, *_) in zip(places, found, strict=True)
            for doubt in _doubts(best, limit)
        ],
        num_terms=len(came),
        num_honoured=sum(came) - num_forced,
        num_forced=num_forced,
        of_many_sentences=[
            window.first + i
            for i, (text, (best, *_)) in enumerate(zip(texts, found, strict=True))
            if most and best.num_parts == 1 and _num_sentences(text, translator, request.handling) > most
        ],
    )


def _usual_sentences(translator: Translator) -> int:
    """Returns how many sentences nearly all lines had that the model was trained on at most; 0: nobody knows."""
    found = {} if translator.bundle is None else translator.bundle.metrics
    known = found.get(SENTENCES_METRIC)
    return known if isinstance(known, int) else 0


def _num_sentences(text: str, translator: Translator, handling: Handling) -> int:
    """Returns how many sentences go into one search: those of the piece between block tags that has most."""
    language = handling.language
    if not language and translator.bundle is not None:
        language = translator.bundle.config.data.source_language
    parts = [piece.plain for piece in pieces(text, handling.markup) if isinstance(piece, Piece)]
    return max((num_sentences(part, language) for part in parts), default=0)


def _with_inline_terms(
    texts: Sequence[str], constraints: Sequence[Constraints] | None, places: Sequence[str]
) -> tuple[list[str], Sequence[Constraints] | None]:
    """Returns the texts without their marks, and the constraints with what these ask for; None: nothing is asked."""
    from transduce.translation.constraints.inline_terms import read_inline_terms

    read = [read_inline_terms(text, place) for text, place in zip(texts, places, strict=True)]
    if any(terms for _, terms in read):
        given = constraints or [Constraints()] * len(texts)
        constraints = [
            replace(each, required=(*each.required, *terms)) if terms else each
            for each, (_, terms) in zip(given, read, strict=True)
        ]
    return [text for text, _ in read], constraints


def _doubts(best: Translation, limit: int) -> Iterator[str]:
    if best.source_truncated:
        yield f"longer than the {limit} tokens that the model reads; only its beginning is translated."
    yield from best.warnings


class Pool(Protocol[Ticket]):
    """Does windows somewhere else: takes one, gives a ticket, and hands over the rows for it."""

    def submit(self, window: Window) -> Ticket:
        """Begins with a window, and returns at once."""
        ...

    def result(self, ticket: Ticket) -> Rows:
        """Waits for the rows of the window with this ticket, or raises what went wrong with it."""
        ...


def in_order(windows: Iterable[Window], pool: Pool[Ticket], ahead: int) -> Iterator[tuple[Window, Rows]]:
    """Yields each window with its rows, in order, while up to `ahead` windows are under way.

    Where reading the windows fails, the rows of all that were read come first: what is done before a bad line is done.
    """
    waiting: deque[tuple[Window, Ticket]] = deque()
    reader = iter(windows)
    failure: Exception | None = None
    while True:
        while failure is None and len(waiting) < ahead:
            try:
                window = next(reader)
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            waiting.append((window, pool.submit(window)))
        if not waiting:
            break
        window, ticket = waiting.popleft()
        yield window, pool.result(ticket)
    if failure is not None:
        raise failure
