"""Plain lines with a prefix or required terms: items of the source are put after the prefix, if it lacks them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.markup import MarkedText, read_markup
from transduce.translation.pipeline.survival import lost_items, mark_counts
from transduce.translation.result import Translation

if TYPE_CHECKING:
    from transduce.translation.pipeline.word_alignment import WordAligner


def plain_prefix(prefix: str, source: MarkedText) -> str:
    """Returns a prefix without the source's items; where one ends it, a space does, so that no word goes on."""
    prefix = _completed(prefix, source)
    parts = read_markup(prefix, "placeholders")
    plain = " ".join(part.plain for part in parts if isinstance(part, MarkedText))
    last = parts[-1] if parts else ""
    ends_word = isinstance(last, str) or prefix[-1:].isspace() or any(m.index == len(last.plain) for m in last.marks)
    return f"{plain} " if plain and ends_word else plain


def with_missing_items(aligner: "WordAligner", source: MarkedText, found: Translation, prefix: str) -> Translation:
    """Returns the translation of a plain text with all items of its source.

    Args:
        aligner: tells where the items belong.
        source: the line.
        found: its translation, found with its `plain_prefix`.
        prefix: how the result must begin, to the letter.
    """
    from transduce.translation.pipeline.placement import place_marks  # imported here, as NumPy is slow to import

    begun, text = plain_prefix(prefix, source).rstrip(), found.text
    if not text.startswith(begun):
        return naming_lost_items(found, source.source)
    whole_prefix = _completed(prefix, source)
    have = mark_counts(whole_prefix, "placeholders")
    marks = []
    for mark in source.marks:
        have[mark.text] -= 1
        if have[mark.text] < 0:
            marks.append(mark)
    num_fixed = sum(start < len(begun) for start, _ in atoms(text))
    with aligner.table(source.plain, text, (((0, len(source.plain)), (0, len(text))),)) as table:
        placed = place_marks(source.plain, text, marks, table, None, num_fixed)
    rest = placed.text[len(begun) :]
    if whole_prefix[-1:].isspace() or not begun:
        rest = rest.lstrip()
    if whole_prefix != begun and not whole_prefix[-1:].isspace() and rest[:1].isalnum() and begun != prefix:
        rest = f" {rest}"
    written = whole_prefix + rest
    links = aligner.links(source.source, written) if found.alignment else ()
    spans = (((0, len(source.source)), (0, len(written))),)
    return naming_lost_items(replace(found, text=written, sentences=spans, alignment=links), source.source)


def naming_lost_items(found: Translation, source: str) -> Translation:
    """Returns the translation of a plain text with a warning for each item that is not in it."""
    lost = [f"{item!r} is not in the translation." for item in lost_items(found.text, source)]
    return replace(found, warnings=tuple(dict.fromkeys((*found.warnings, *lost)))) if lost else found


def _completed(prefix: str, source: MarkedText) -> str:
    """Returns the prefix with the item of the source whole whose beginning ends it, if there is one."""
    for item in dict.fromkeys(mark.text for mark in source.marks):
        for length in range(len(item) - 1, 0, -1):
            begins = len(prefix) - length
            if prefix.endswith(item[:length]) and (begins == 0 or not prefix[begins - 1].isalnum()):
                return prefix + item[length:]
    return prefix
