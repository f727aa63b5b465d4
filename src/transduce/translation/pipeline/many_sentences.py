"""Lines with more sentences than the lines that the model was trained on: it may leave out some of them."""

from collections.abc import Iterable, Sequence

from transduce.translation.directions import languages_of
from transduce.translation.pipeline.markup import MarkedText, read_markup
from transduce.translation.pipeline.sentences import SENTENCES_METRIC, sentence_spans
from transduce.translation.pipeline.text_options import Markup, TextOptions
from transduce.translation.result import Translation
from transduce.translation.text_model import TextModel

MANY_SENTENCES = "has more sentences than the lines that the model was trained on: what follows may be lost."


def lines_of_many_sentences(
    model: TextModel, texts: Iterable[str], found: Sequence[Sequence[Translation]], text_options: TextOptions
) -> list[int]:
    """Returns the indices of lines that were searched whole and have more sentences than nearly all training lines.

    There are none if the model folder does not tell that number.
    """
    known = model.bundle.metrics.get(SENTENCES_METRIC) if model.bundle is not None else None
    if not known or not isinstance(known, int) or text_options.split == "always":
        return []
    language = text_options.language or languages_of(model)[0]
    return [
        index
        for index, (text, (best, *_)) in enumerate(zip(texts, found, strict=True))
        if best.num_parts == 1 and _num_sentences(text, text_options.markup, language) > known
    ]


def many_sentences_warning(indices: Sequence[int]) -> str:
    """Returns the warning about lines of these indices for callers in Python."""
    others = f" (and {len(indices) - 1:,} more)" if len(indices) > 1 else ""
    return (
        f"line {indices[0] + 1:,}{others}: {MANY_SENTENCES} TextOptions(split='always') translates each by itself, as "
        "--split-sentences always does on the command line."
    )


def _num_sentences(text: str, markup: Markup, language: str) -> int:
    """Returns how many sentences go into one search: the most of any text between block tags."""
    parts = [part.plain for part in read_markup(text, markup) if isinstance(part, MarkedText)]
    return max((len(sentence_spans(part, language)) for part in parts), default=0)
