"""The stage "restore": tags and placeholders are put back into the translations.

Whatever a model writes, a result has the marks of its source, each as often, nested as they were. A translation that
fails this check is tried without what it has of placeholders, then without suspicious characters. After that the source
is left in its place, with a warning.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from transduce.translation.constraints.required_terms import outcome, warnings_of
from transduce.translation.directions import languages_of
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.invented_numbers import invented_numbers
from transduce.translation.pipeline.joining import choices_of_parts, gap_between, merged
from transduce.translation.pipeline.markup import MarkedText, escaped
from transduce.translation.pipeline.missing_items import naming_lost_items, with_missing_items
from transduce.translation.pipeline.protecting import Line, Segment, SegmentInput
from transduce.translation.pipeline.sentences import Span
from transduce.translation.pipeline.spacing import spaced_as
from transduce.translation.pipeline.survival import copied, has_marks_of, item_spans, without_items
from transduce.translation.pipeline.text_options import Markup
from transduce.translation.pipeline.whole_words import rewritten
from transduce.translation.pipeline.written_atoms import whole_spans, written_of
from transduce.translation.result import SpanPair, Translation
from transduce.translation.text_model import TextModel

if TYPE_CHECKING:
    from transduce.translation.pipeline.word_alignment import WordAligner

LEFT_AS_IT_WAS = "the markup would not survive: left as it was, in the source language."
_SUSPICIOUS = re.compile(r"https?://|ftp://|www\.|[{}%@<>&]")


def restore(
    model: TextModel,
    aligner: "WordAligner | None",
    inputs: Sequence[SegmentInput],
    joined: Iterable[list[Translation]],
    markup: Markup,
) -> None:
    """Gives each segment its translations, with the markup put back.

    An attempt with items in the text counts only if the model copied each of them as often as in the source.

    Args:
        model: for its languages.
        aligner: tells where the marks belong; None where there is no markup.
        inputs: the segments.
        joined: the translations of each.
        markup: what the lines have.
    """
    translated = zip(inputs, joined, strict=True)
    if aligner is None or markup == "none":
        for given, found in translated:
            given.segment.translations = found
        return
    for given, found in aligner.prepared(translated, _pairs):
        segment, marked = given.segment, given.marked
        if given.kept:
            found_items = [copied(best.text, segment.marked.source, given.kept, markup) for best in found]
            segment.copied = found_items[0]
            for best, items in zip(found, found_items, strict=True):
                if items != given.kept or not best.text.startswith(segment.prefix or ""):
                    continue
                text = spaced_as(marked.source, best.text, given.kept, markup)
                if segment.prefix is not None:
                    segment.translations.append(best)
                elif (marks := _with_marks(aligner, marked, best, text, markup, given.kept)) is not None:
                    segment.translations.append(
                        _with_number_warnings(model, segment.marked, marked.plain, marks, text, markup)
                    )
        elif segment.prefix is not None:
            segment.translations = [with_missing_items(aligner, marked, best, segment.prefix) for best in found]
        elif not marked.runs:  # the line as it is
            segment.translations = found
        elif marked.words or (markup == "placeholders" and not marked.marks):  # without marks, no translation is lost
            attempted = (_with_marks(aligner, marked, best, best.text, markup) for best in found)
            segment.translations = [
                _with_number_warnings(model, segment.marked, marked.plain, each, best.text, markup)
                for best, each in zip(found, attempted, strict=True)
                if each is not None
            ]
        else:
            segment.translations = [_restored(model, aligner, marked, best, markup) for best in found]


def _pairs(translated: tuple[SegmentInput, list[Translation]]) -> list[tuple[str, str]]:
    """Returns the parts of a segment that have marks, each with its translations."""
    given, found = translated
    plain = given.marked.plain
    return [
        (plain[slice(*of_source)], best.text[slice(*of_target)])
        for best in found
        for of_source, of_target in best.sentences
        if given.marked.has_marks(of_source)
    ]


def assemble(line: Line, n_best: int, markup: Markup, drawn: bool) -> list[Translation]:
    """Returns the translations of a whole line, of which some parts are kept and others are translated."""
    translated = [part.translations for part in line if isinstance(part, Segment)]
    if markup == "none" or any(isinstance(part, Segment) and part.prefix is not None for part in line):
        return translated[0]
    source = "".join(part if isinstance(part, str) else part.marked.source for part in line)
    if not translated:
        text = source if source.strip() else ""
        return [Translation(text, 0.0, 0.0, (), finished=True, source_truncated=False)]
    whole = []
    for choice in choices_of_parts(translated, n_best, drawn):
        written, starts = _written(line, [each.text for each in choice])
        result = merged(choice, written, starts)
        if markup == "placeholders":
            result = naming_lost_items(result, source)
        elif not has_marks_of(written, source, markup):
            result = _untranslated(result, source)
        whole.append(result)
    return whole


def _written(line: Line, texts: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Returns a line with the translations of its segments, and where each begins in the source and in the result."""
    rest, written, read, starts = iter(texts), "", 0, []
    for index, part in enumerate(line):
        if isinstance(part, str):
            written, read = written + part, read + len(part)
            continue
        text, before = next(rest), line[max(0, index - 2) : index]
        match before:
            case [Segment() as sentence, str() as gap] if not gap.strip(" "):
                written = written.removesuffix(gap)
                written += gap_between(gap, written, text, sentence.marked.source)
        starts.append((read, len(written)))
        written, read = written + text, read + len(part.marked.source)
    return written, starts


def _restored(
    model: TextModel, aligner: "WordAligner", marked: MarkedText, best: Translation, markup: Markup
) -> Translation:
    """Returns the translation with the marks of the source; if that fails, the source, or plain text without them."""
    items = frozenset(mark.text for mark in marked.marks)
    cleaned_texts = (
        without_items(best.text, markup, source=marked.plain),
        without_items(best.text, markup, items, marked.plain),
        _SUSPICIOUS.sub("", best.text),
    )
    for cleaned in dict.fromkeys(cleaned_texts):
        if (written := _with_marks(aligner, marked, best, cleaned, markup)) is not None:
            return _with_terms_of(cleaned, _with_number_warnings(model, marked, marked.plain, written, cleaned, markup))
    return _untranslated(best, marked.source) if markup == "html" else best


def _with_number_warnings(
    model: TextModel, marked: MarkedText, read: str, found: Translation, text: str, markup: Markup
) -> Translation:
    """Returns a translation, `text` without its marks, with a warning for each number that may be made up.

    A model may write a number for a placeholder. What it has `read` may have numbers that are marks of `marked`.
    """
    if not any(mark.kind == "placeholder" for mark in marked.marks):
        return found
    items = frozenset(mark.text for mark in marked.marks)
    source, target = (without_items(each, markup, items) for each in (read, text))
    numbers = invented_numbers(source, target, languages_of(model))
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
        found,
        text=source,
        warnings=warnings,
        required=tuple((term, False) for term, _ in found.required),
        forced=(),
        sentences=(),
        alignment=(),
    )


def _with_marks(
    aligner: "WordAligner",
    marked: MarkedText,
    best: Translation,
    text: str,
    markup: Markup,
    kept: frozenset[str] = frozenset(),
) -> Translation | None:
    """Returns a translation as `text`, encoded, with the marks of the source, or None if they do not survive that.

    Items in `kept` are in the text as the source has them, and are not encoded.
    """
    from transduce.translation.pipeline.placement import place_marks  # imported here, as NumPy is slow to import

    plain = marked.plain
    if text != best.text:  # the spans have moved
        sentences = (((0, len(plain)), (0, len(text))),) if best.sentences else ()
        best = replace(best, sentences=sentences, alignment=aligner.links(plain, text) if best.alignment else ())
    words, plain_spans = rewritten(text, marked.words), atoms(text)
    if words is None:
        return None
    written_atoms = None
    if words or marked.first[0] or escaped(text, markup) != text:
        written_atoms = written_of(text, plain_spans, words, marked.first, markup, item_spans(text, markup, kept))
    with aligner.table(plain, text, best.sentences, marked.has_marks) if marked.marks else nullcontext() as table:
        placed = place_marks(plain, text, marked.marks, table, written_atoms)
    written = marked.before + placed.text + marked.after
    spans = whole_spans(placed.atoms, plain_spans, words)
    if spans is None or not has_marks_of(written, marked.source, markup):
        return None
    spans = [(start + len(marked.before), end + len(marked.before)) for start, end in spans]
    return replace(
        best,
        text=written,
        sentences=tuple(_moved(best.sentences, marked, plain_spans, spans)),
        alignment=tuple(_moved(best.alignment, marked, plain_spans, spans)),
    )


def _moved(
    pairs: Sequence[SpanPair], marked: MarkedText, plain_atoms: Sequence[Span], written_atoms: Sequence[Span]
) -> Iterator[SpanPair]:
    """Yields pairs of spans of plain texts as those of the texts with their marks; pairs without words are left out.

    Args:
        pairs: of the plain source and its translation.
        marked: the source.
        plain_atoms: those of the translation.
        written_atoms: where they are in the text with the marks.
    """
    for (source_start, source_end), (target_start, target_end) in pairs:
        first = bisect_left(plain_atoms, target_start, key=lambda span: span[0])
        last = bisect_right(plain_atoms, target_end, key=lambda span: span[1])
        if source_start < source_end and first < last:
            target = (written_atoms[first][0], written_atoms[last - 1][1])
            yield marked.source_span(source_start, source_end), target
