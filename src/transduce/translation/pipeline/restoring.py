"""Translates text with markup: sets the marks aside, translates what is left, puts them back, and checks.

A placeholder, URL or address is offered to the model first: where the model writes each of them once, as a model does
whose corpus had some, it knows best where they belong. Otherwise the text is translated without them, and they are put
where the words around them went. Tags never reach the model.

Whatever a model writes, a result has the marks of its source, each as often, and nested as they were: what fails the
check is tried with a tamer text, and then left as it was in the source, with a warning.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from transduce.translation.constraints.terms import outcome, warnings_of
from transduce.translation.pipeline import markup as marks
from transduce.translation.pipeline.alignment import aligned
from transduce.translation.pipeline.handling import Markup
from transduce.translation.pipeline.joining import Joined, choices_of_parts, merged
from transduce.translation.pipeline.numbers import invented_numbers
from transduce.translation.pipeline.placement import place_marks

if TYPE_CHECKING:
    from transduce.translation.result import Translation
    from transduce.translation.translator import Translator

JoinedSearch = Callable[[Sequence[str], int], list[list[Joined]]]

LEFT_AS_IT_WAS = "the markup would not survive: left as it was, in the source language."
_SUSPICIOUS = re.compile(r"https?://|ftp://|www\.|[{}%@<>&]")


@dataclass(slots=True)
class _Job:
    """A piece with its translations, once there are some."""

    piece: marks.Piece
    found: "list[Translation]"


def with_markup(
    search: JoinedSearch,
    translator: "Translator",
    lines: Sequence[str],
    n_best: int,
    markup: Markup,
    drawn: bool = False,
) -> "list[list[Translation]]":
    """Returns the translations of each line, with its markup; see the module.

    Args:
        search: translates plain texts.
        translator: whose attention says where marks go.
        lines: text with markup.
        n_best: translations of each.
        markup: what is markup.
        drawn: whether translations are random draws, which stay in their order.
    """
    cut = [marks.pieces(line, markup) for line in lines]
    jobs = [_Job(piece, []) for line in cut for piece in line if isinstance(piece, marks.Piece)]
    _copy_units(search, translator, jobs, n_best, markup)
    waiting = [job for job in jobs if not job.found]
    translations = search([job.piece.plain for job in waiting], n_best)
    for job, found in zip(waiting, translations, strict=True):
        job.found = [_restored(translator, job.piece, joined, markup) for joined in found]
    [[empty]] = search([""], 1)
    done = iter(jobs)
    return [
        _line(
            line,
            [next(done).found if isinstance(piece, marks.Piece) else piece for piece in parts],
            empty.translation,
            n_best,
            markup,
            drawn,
        )
        for line, parts in zip(lines, cut, strict=True)
    ]


def _copy_units(
    search: JoinedSearch, translator: "Translator", jobs: Sequence[_Job], n_best: int, markup: Markup
) -> None:
    """Gives those jobs translations whose placeholders the model copies, each as often as it stands in the source."""
    asked = []
    for job in jobs:
        if any(mark.kind == "unit" for mark in job.piece.marks):
            again = marks.pieces(job.piece.source, markup, units_as_text=True)
            if len(again) == 1 and isinstance(again[0], marks.Piece):
                asked.append((job, again[0]))
    for (job, piece), found in zip(asked, search([piece.plain for _, piece in asked], n_best), strict=True):
        expected = marks.units(job.piece.source, markup)
        copied = [joined for joined in found if marks.units(joined.translation.text, markup) == expected]
        written = (_attempt(translator, piece, joined, joined.translation.text, markup) for joined in copied)
        texts = [(joined, text) for joined, text in zip(copied, written, strict=True) if text is not None]
        job.found = [
            replace(_with_numbers_of(translator, job.piece, joined.translation, markup), text=text)
            for joined, text in texts
        ]


def _restored(translator: "Translator", piece: marks.Piece, joined: Joined, markup: Markup) -> "Translation":
    """Returns the translation with the piece's marks, or, where that cannot be, the source."""
    best = joined.translation
    text = best.text
    for tamed in (marks.without_units(text, markup), _SUSPICIOUS.sub("", text)):
        written = _attempt(translator, piece, joined, tamed, markup)
        if written is not None:
            checked = _with_numbers_of(translator, piece, replace(best, text=tamed), markup)
            return _with_terms_of(tamed, replace(checked, text=written))
    return _left(best, piece.source)


def _with_numbers_of(
    translator: "Translator", piece: marks.Piece, found: "Translation", markup: Markup
) -> "Translation":
    """Returns a translation with a warning where its plain text has a number beside a placeholder that had none."""
    if not any(mark.kind == "unit" for mark in piece.marks):
        return found
    data = translator.bundle.config.data if translator.bundle is not None else None
    languages = (data.source_language, data.target_language) if data is not None else ("", "")
    numbers = invented_numbers(piece.plain, marks.without_units(found.text, markup), languages)
    said = (
        f"{number!r} is not in the source, and stands beside a placeholder: made up, perhaps." for number in numbers
    )
    return replace(found, warnings=(*found.warnings, *said))


def _with_terms_of(text: str, found: "Translation") -> "Translation":
    """Returns a translation with what is true of its required terms now that its plain text is `text`."""
    choices = [term for term, _ in found.required]
    lost = [warning for warning in warnings_of(text, choices) if warning not in found.warnings]
    result = outcome(text, choices)
    forced = tuple(term for term in found.forced if (term, True) in result)
    return replace(found, required=result, forced=forced, warnings=(*found.warnings, *lost))


def _left(found: "Translation", source: str) -> "Translation":
    """Returns the source in place of a translation, with a warning; what was required of that did not come out."""
    warnings = tuple(dict.fromkeys((*found.warnings, LEFT_AS_IT_WAS)))
    return replace(
        found, text=source, warnings=warnings, required=tuple((term, False) for term, _ in found.required), forced=()
    )


def _attempt(translator: "Translator", piece: marks.Piece, joined: Joined, text: str, markup: Markup) -> str | None:
    """Returns `text`, encoded, with the piece's marks, or None where they do not survive that."""
    pairs = joined.pairs
    if text != joined.translation.text:  # the stretches have moved
        pairs = (((0, len(piece.plain)), (0, len(text))),)
    kept = marks.unit_spans(text, markup)

    def encode(start: int, end: int) -> str:
        raw = any(low <= start and end <= high for low, high in kept)
        return text[start:end] if raw else marks.encoded(text[start:end], markup)

    weights = aligned(translator, piece.plain, text, pairs) if piece.marks else None
    written = place_marks(piece.plain, text, piece.marks, weights, encode)
    written = piece.before + written + piece.after
    survived = marks.mark_counts(written, markup) == marks.mark_counts(piece.source, markup)
    nested = not marks.is_nested(piece.source, markup) or marks.is_nested(written, markup)
    return written if survived and nested else None


def _line(
    line: str,
    parts: "Sequence[str | list[Translation]]",
    empty: "Translation",
    n_best: int,
    markup: Markup,
    drawn: bool,
) -> "list[Translation]":
    """Returns the translations of a line of which parts are kept and parts are translated."""
    translated = [part for part in parts if not isinstance(part, str)]
    if not translated:
        return [replace(empty, text=line if line.strip() else "")]
    whole = []
    for choice in choices_of_parts(translated, n_best, drawn):
        rest = iter(choice)
        result = merged(choice, "".join(part if isinstance(part, str) else next(rest).text for part in parts))
        if marks.mark_counts(result.text, markup) != marks.mark_counts(line, markup):
            result = _left(result, line)
        whole.append(result)
    return whole
