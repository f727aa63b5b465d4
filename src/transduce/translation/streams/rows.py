"""The rows of a window, and the warnings and counts that go with them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transduce.translation.pipeline import Request, TextOptions
from transduce.translation.pipeline.markup import MarkedText, read_markup
from transduce.translation.pipeline.sentences import SENTENCES_METRIC, num_sentences
from transduce.translation.result import Translation
from transduce.translation.streams.layouts import Layout
from transduce.translation.text_model import TextModel, languages_of
from transduce.translation.windows import Window


@dataclass(frozen=True, slots=True)
class FileRequest:
    """How the lines of a file are to be translated."""

    translation: Request
    layout: Layout
    inline_terms: bool = False  # whether texts mark required terms: see `inline_terms`


@dataclass(frozen=True, slots=True)
class Rows:
    """What is written for the lines of a window, in order, and what is reported about them."""

    rows: Sequence[str]
    warnings: Sequence[str]
    num_terms: int = 0  # required terms
    num_honoured: int = 0  # of these, those that came out where the model expected them
    num_forced: int = 0  # and those that came out elsewhere
    of_many_sentences: Sequence[int] = ()  # numbers of the lines with more sentences than the training lines had


def rows_of(
    model: TextModel,
    window: Window,
    texts: Sequence[str],
    found: Sequence[Sequence[Translation]],
    request: FileRequest,
) -> Rows:
    """Returns the rows of a window from the texts of its lines and their translations."""
    limit, most = model.engine.max_source_tokens, _usual_sentences(model)
    text_options = request.translation.text
    came = [came for best, *_ in found for _, came in best.required]
    num_forced = sum(len(best.forced) for best, *_ in found)
    numbered = enumerate(zip(window.lines, found, strict=True), start=window.first)
    return Rows(
        rows=[row for number, (line, each) in numbered for row in request.layout.rows(line, number, each)],
        warnings=[
            f"{window.name(index)}: {warning}"
            for index, (best, *_) in enumerate(found)
            for warning in _warnings(best, limit)
        ],
        num_terms=len(came),
        num_honoured=sum(came) - num_forced,
        num_forced=num_forced,
        of_many_sentences=[
            window.first + index
            for index, (text, (best, *_)) in enumerate(zip(texts, found, strict=True))
            if most and text_options.split != "always" and best.num_parts == 1
            if _num_sentences(text, model, text_options) > most
        ],
    )


def _warnings(best: Translation, limit: int) -> Iterator[str]:
    if best.source_truncated:
        yield f"longer than the {limit} tokens that the model reads; only its beginning is translated."
    yield from best.warnings


def _usual_sentences(model: TextModel) -> int:
    """Returns how many sentences nearly all training lines had at most; 0 if that is not known."""
    known = None if model.bundle is None else model.bundle.metrics.get(SENTENCES_METRIC)
    return known if isinstance(known, int) else 0


def _num_sentences(text: str, model: TextModel, options: TextOptions) -> int:
    """Returns how many sentences go into one search: the most of any text between block tags."""
    language = options.language or languages_of(model)[0]
    parts = [part.plain for part in read_markup(text, options.markup) if isinstance(part, MarkedText)]
    return max((num_sentences(part, language) for part in parts), default=0)
