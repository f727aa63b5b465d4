"""The stage "restore": tags and placeholders are put back into the translations.

Whatever a model writes, a result has the marks of its source, each as often, nested as they were. A translation that
fails this check is tried without what it has of placeholders, then without suspicious characters. After that the source
is left in its place, with a warning.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from transduce.translation.constraints.required_terms import outcome, warnings_of
from transduce.translation.pipeline.invented_numbers import invented_numbers
from transduce.translation.pipeline.joining import Joined, choices_of_parts, merged
from transduce.translation.pipeline.markup import (
    MarkedText,
    escaped,
    is_nested,
    mark_counts,
    placeholder_counts,
    placeholder_spans,
    without_placeholders,
)
from transduce.translation.pipeline.protecting import Segment, SegmentInput
from transduce.translation.pipeline.text_options import Markup
from transduce.translation.result import Translation
from transduce.translation.text_model import TextModel, languages_of

LEFT_AS_IT_WAS = "the markup would not survive: left as it was, in the source language."
_SUSPICIOUS = re.compile(r"https?://|ftp://|www\.|[{}%@<>&]")
_EMPTY = Translation("", 0.0, 0.0, (), finished=True, source_truncated=False)


def restore(model: TextModel, inputs: Sequence[SegmentInput], joined: Iterable[list[Joined]], markup: Markup) -> None:
    """Gives each segment its translations, with the markup put back.

    An attempt with placeholders in the text counts only if the model copied each of them as often as in the source.
    """
    for given, found in zip(inputs, joined, strict=True):
        segment, marked = given.segment, given.marked
        if markup == "none":
            segment.translations = [each.translation for each in found]
        elif given.keeps_placeholders:
            expected = placeholder_counts(segment.marked.source, markup)
            for each in found:
                best = each.translation
                if placeholder_counts(best.text, markup) == expected:
                    text = _with_marks(model, marked, each, best.text, markup)
                    if text is not None:
                        checked = _with_number_warnings(model, segment.marked, best, markup)
                        segment.translations.append(replace(checked, text=text))
        else:
            segment.translations = [_restored(model, marked, each, markup) for each in found]


def assemble(line: Sequence[str | Segment], n_best: int, markup: Markup, drawn: bool) -> list[Translation]:
    """Returns the translations of a whole line, of which some parts are kept and others are translated."""
    translated = [part.translations for part in line if isinstance(part, Segment)]
    if markup == "none":
        return translated[0]
    source = "".join(part if isinstance(part, str) else part.marked.source for part in line)
    if not translated:
        return [replace(_EMPTY, text=source if source.strip() else "")]
    whole = []
    for choice in choices_of_parts(translated, n_best, drawn):
        rest = iter(choice)
        result = merged(choice, "".join(part if isinstance(part, str) else next(rest).text for part in line))
        if mark_counts(result.text, markup) != mark_counts(source, markup):
            result = _untranslated(result, source)
        whole.append(result)
    return whole


def _restored(model: TextModel, marked: MarkedText, joined: Joined, markup: Markup) -> Translation:
    """Returns the translation with the marks of the source, or the source if that fails."""
    best = joined.translation
    text = best.text
    for cleaned in (without_placeholders(text, markup), _SUSPICIOUS.sub("", text)):
        written = _with_marks(model, marked, joined, cleaned, markup)
        if written is not None:
            checked = _with_number_warnings(model, marked, replace(best, text=cleaned), markup)
            return _with_terms_of(cleaned, replace(checked, text=written))
    return _untranslated(best, marked.source)


def _with_number_warnings(model: TextModel, marked: MarkedText, found: Translation, markup: Markup) -> Translation:
    """Returns a translation with a warning for each number that the model may have made up for a placeholder."""
    if not any(mark.kind == "placeholder" for mark in marked.marks):
        return found
    numbers = invented_numbers(marked.plain, without_placeholders(found.text, markup), languages_of(model))
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


def _untranslated(found: Translation, source: str) -> Translation:
    """Returns the source in place of a translation, with a warning; none of its required terms came out."""
    warnings = tuple(dict.fromkeys((*found.warnings, LEFT_AS_IT_WAS)))
    return replace(
        found, text=source, warnings=warnings, required=tuple((term, False) for term, _ in found.required), forced=()
    )


def _with_marks(model: TextModel, marked: MarkedText, joined: Joined, text: str, markup: Markup) -> str | None:
    """Returns `text`, encoded, with the marks of the source, or None if they do not survive that."""
    from transduce.translation.pipeline.placement import place_marks  # imported here, as NumPy is slow to import
    from transduce.translation.pipeline.word_alignment import aligned

    pairs = joined.pairs
    if text != joined.translation.text:  # the spans have moved
        pairs = (((0, len(marked.plain)), (0, len(text))),)
    kept = placeholder_spans(text, markup)

    def escape(start: int, end: int) -> str:
        raw = any(low <= start and end <= high for low, high in kept)
        return text[start:end] if raw else escaped(text[start:end], markup)

    weights = aligned(model, marked.plain, text, pairs) if marked.marks else None
    written = place_marks(marked.plain, text, marked.marks, weights, escape)
    written = marked.before + written + marked.after
    survived = mark_counts(written, markup) == mark_counts(marked.source, markup)
    nested = not is_nested(marked.source, markup) or is_nested(written, markup)
    return written if survived and nested else None
