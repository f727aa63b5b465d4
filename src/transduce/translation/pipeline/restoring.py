"""The stage "restore": tags and placeholders are put back into the translations.

Whatever a model writes, a result has the marks of its source, each as often, nested as they were. A translation that
fails this check is tried without what it has of placeholders, then without suspicious characters. After that the source
is left in its place, with a warning.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from transduce.translation.constraints.required_terms import outcome, warnings_of
from transduce.translation.pipeline import markup as marks
from transduce.translation.pipeline.invented_numbers import invented_numbers
from transduce.translation.pipeline.joining import Joined, choices_of_parts, merged
from transduce.translation.pipeline.protecting import Attempt, Segment
from transduce.translation.pipeline.text_options import Markup
from transduce.translation.result import Translation
from transduce.translation.text_model import TextModel, languages_of

LEFT_AS_IT_WAS = "the markup would not survive: left as it was, in the source language."
_SUSPICIOUS = re.compile(r"https?://|ftp://|www\.|[{}%@<>&]")
_EMPTY = Translation("", 0.0, 0.0, (), finished=True, source_truncated=False)


def restore(model: TextModel, attempts: Sequence[Attempt], joined: Iterable[list[Joined]], markup: Markup) -> None:
    """Gives each segment its translations, with the markup put back.

    An attempt with placeholders in the text counts only if the model copied each of them as often as in the source.
    """
    for attempt, found in zip(attempts, joined, strict=True):
        segment, piece = attempt.segment, attempt.piece
        if markup == "none":
            segment.translations = [each.translation for each in found]
        elif attempt.keeps_units:
            expected = marks.units(segment.piece.source, markup)
            for each in found:
                best = each.translation
                if marks.units(best.text, markup) == expected:
                    text = _with_marks(model, piece, each, best.text, markup)
                    if text is not None:
                        checked = _with_number_warnings(model, segment.piece, best, markup)
                        segment.translations.append(replace(checked, text=text))
        else:
            segment.translations = [_restored(model, piece, each, markup) for each in found]


def assemble(line: Sequence[str | Segment], n_best: int, markup: Markup, drawn: bool) -> list[Translation]:
    """Returns the translations of a whole line, of which some parts are kept and others are translated."""
    translated = [part.translations for part in line if isinstance(part, Segment)]
    if markup == "none":
        return translated[0]
    source = "".join(part if isinstance(part, str) else part.piece.source for part in line)
    if not translated:
        return [replace(_EMPTY, text=source if source.strip() else "")]
    whole = []
    for choice in choices_of_parts(translated, n_best, drawn):
        rest = iter(choice)
        result = merged(choice, "".join(part if isinstance(part, str) else next(rest).text for part in line))
        if marks.mark_counts(result.text, markup) != marks.mark_counts(source, markup):
            result = _left(result, source)
        whole.append(result)
    return whole


def _restored(model: TextModel, piece: marks.Piece, joined: Joined, markup: Markup) -> Translation:
    """Returns the translation with the piece's marks, or the source if that fails."""
    best = joined.translation
    text = best.text
    for cleaned in (marks.without_units(text, markup), _SUSPICIOUS.sub("", text)):
        written = _with_marks(model, piece, joined, cleaned, markup)
        if written is not None:
            checked = _with_number_warnings(model, piece, replace(best, text=cleaned), markup)
            return _with_terms_of(cleaned, replace(checked, text=written))
    return _left(best, piece.source)


def _with_number_warnings(model: TextModel, piece: marks.Piece, found: Translation, markup: Markup) -> Translation:
    """Returns a translation with a warning for each number that the model may have made up for a placeholder."""
    if not any(mark.kind == "unit" for mark in piece.marks):
        return found
    numbers = invented_numbers(piece.plain, marks.without_units(found.text, markup), languages_of(model))
    warnings = (
        f"{number!r} is not in the source, and stands beside a placeholder: made up, perhaps." for number in numbers
    )
    return replace(found, warnings=(*found.warnings, *warnings))


def _with_terms_of(text: str, found: Translation) -> Translation:
    """Returns a translation with the required terms that hold for `text`, its plain text by now."""
    choices = [term for term, _ in found.required]
    lost = [warning for warning in warnings_of(text, choices) if warning not in found.warnings]
    result = outcome(text, choices)
    forced = tuple(term for term in found.forced if (term, True) in result)
    return replace(found, required=result, forced=forced, warnings=(*found.warnings, *lost))


def _left(found: Translation, source: str) -> Translation:
    """Returns the source in place of a translation, with a warning; none of its required terms came out."""
    warnings = tuple(dict.fromkeys((*found.warnings, LEFT_AS_IT_WAS)))
    return replace(
        found, text=source, warnings=warnings, required=tuple((term, False) for term, _ in found.required), forced=()
    )


def _with_marks(model: TextModel, piece: marks.Piece, joined: Joined, text: str, markup: Markup) -> str | None:
    """Returns `text`, encoded, with the piece's marks, or None if they do not survive that."""
    from transduce.translation.pipeline.placement import place_marks  # imported here, as NumPy is slow to import
    from transduce.translation.pipeline.word_alignment import aligned

    pairs = joined.pairs
    if text != joined.translation.text:  # the spans have moved
        pairs = (((0, len(piece.plain)), (0, len(text))),)
    kept = marks.unit_spans(text, markup)

    def encode(start: int, end: int) -> str:
        raw = any(low <= start and end <= high for low, high in kept)
        return text[start:end] if raw else marks.encoded(text[start:end], markup)

    weights = aligned(model, piece.plain, text, pairs) if piece.marks else None
    written = place_marks(piece.plain, text, piece.marks, weights, encode)
    written = piece.before + written + piece.after
    survived = marks.mark_counts(written, markup) == marks.mark_counts(piece.source, markup)
    nested = not marks.is_nested(piece.source, markup) or marks.is_nested(written, markup)
    return written if survived and nested else None
