"""Messages of programs, as catalogues have them: tags, placeholders and choices by number or gender.

    {count, plural, one {A dog} other {# dogs}}

Each text of a choice (ICU MessageFormat) is translated by itself. `%s`, `{name}` and the like are left to the pipeline.
"""

import re
from collections.abc import Iterator, Sequence

from transduce.translation.documents.inline_tags import add_tagged_text
from transduce.translation.documents.segments import (
    Encode,
    Item,
    Piece,
    SegmentBuilder,
    Tag,
    Tags,
    has_words,
    written_with,
)

_BRANCH = r"\s*(?:=\d+|[\w-]+)\s*\{"
_CHOICE = re.compile(
    rf"\{{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,(?:\s*offset:\s*\d+(?=\s))?{_BRANCH}", re.ASCII
)
_BRANCH_END = re.compile(rf"\}}(?:{_BRANCH}|\s*\}})", re.ASCII)
_BRACE = re.compile(r"[{}]")
# References of i18next and Vue to other messages, and placeholders of Ruby.
_REFERENCE = r"\$t\([^()]{1,200}\)|@(?:\.\w+)?:(?:\([\w.-]+\)|\w+(?:\.\w+)*)|%\{[\w.]+\}"
_KEPT = re.compile(rf"({_REFERENCE})")
_KEPT_IN_CHOICE = re.compile(rf"({_REFERENCE}|#)")  # the number
_TAG = "\0"  # no document has it
_UNPAIRED = re.compile("[\ud800-\udfff]")


class HalfCharacter(str):
    """A text with half of a character, such as an escape of a lone surrogate: it is copied, since no text has one."""

    __slots__ = ()


def add_message(builder: SegmentBuilder, text: str) -> None:
    """Adds a message to a segment; texts between which there is a tab, or a choice begins or ends, are separate."""
    parts = _parts(text)
    for i, part in enumerate(parts):
        if i % 2:
            builder.point(part, is_break=True)
            continue
        for j, column in enumerate(re.split(r"(\t+)", part)):
            if j % 2:
                builder.point(column, is_break=True)
                continue
            for k, each in enumerate((_KEPT_IN_CHOICE if len(parts) > 1 else _KEPT).split(column)):
                if k % 2:
                    builder.point(each)
                else:
                    add_tagged_text(builder, each, str)


def separate_choices(builder: SegmentBuilder, encode: Encode) -> None:
    """Makes the texts of choices in a segment separate, where tags may be between them, as in Angular's messages."""
    entries = builder.entries
    parts = _parts("".join(entry.item if isinstance(entry.item, str) else _TAG for entry in entries))
    if len(parts) == 1:
        return
    builder.entries = []
    tags = (entry for entry in entries if isinstance(entry.item, Tag))
    for i, part in enumerate(parts):
        if i % 2:
            builder.point(encode(part), is_break=True)
            continue
        for each in re.split(f"([#{_TAG}])", part):
            if each == _TAG:
                builder.entries.append(next(tags))
            elif each == "#":
                builder.point(each)
            else:
                builder.text(each, encode(each))


def message_pieces(text: str, original: str, encode: Encode) -> Iterator[Piece]:
    """Yields the pieces of a message, in place of `original`; `encode` returns how a translation is written."""
    builder = SegmentBuilder()
    if _UNPAIRED.search(text):
        return iter([HalfCharacter(original) if has_words(text) else original])
    add_message(builder, text)

    def render(tags: Tags, _: Sequence[int], items: Sequence[Item]) -> Iterator[Piece]:
        yield encode(written_with(str, tags, items))

    return builder.filled(render, original, always=False)


def _parts(text: str) -> list[str]:
    """Returns the texts of a message, and between them what begins, separates and ends choices."""
    parts: list[str] = []
    start = position = num_choices = num_open = 0  # braces of placeholders
    while brace := _BRACE.search(text, position):
        pattern = _CHOICE if brace[0] == "{" else _BRANCH_END if num_choices else None
        found = pattern.match(text, brace.start()) if pattern is not None and not num_open else None
        if found is None:
            num_open = max(0, num_open + (1 if brace[0] == "{" else -1))
            position = brace.end()
            continue
        parts += [text[start : brace.start()], found[0]]
        start = position = found.end()
        num_choices += 1 if pattern is _CHOICE else -found[0].endswith("}")
    return [text] if num_choices or num_open else [*parts, text[start:]]
