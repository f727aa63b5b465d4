"""Plain text: each line is a text, unless its lines are wrapped; then a paragraph is."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from transduce.translation.documents.segments import Piece, text_pieces

_LINE = re.compile(r"(?P<text>[^\n]*?)(?P<end>\r?\n|\Z)")
_MARKER = re.compile(r"\s*(?:(?:[-*•–—]|\d{1,3}[.)])[ \t]+)?")
_MIN_WIDTH, _MAX_WIDTH = 50, 120  # characters of the longest line of a wrapped paragraph


def read_plain_text(text: str) -> Iterator[Piece]:
    """Yields the pieces of a plain text."""
    paragraph: list[tuple[str, str]] = []
    for line, end in lines_of(text):
        if line.strip():
            paragraph.append((line, end))
            continue
        yield from _paragraph(paragraph)
        paragraph = []
        yield line + end
    yield from _paragraph(paragraph)


def lines_of(text: str) -> Iterator[tuple[str, str]]:
    r"""Yields the lines of a text with their ends: "\n", "\r\n" or "" for the last."""
    position = 0
    while position < len(text):
        match = _LINE.match(text, position)
        assert match is not None  # the pattern matches any text
        yield match["text"], match["end"]
        position = match.end()


def rewrapped(text: str, width: int, first_indent: str = "", indent: str = "") -> list[str]:
    """Returns the lines of a text of at most `width` characters, if no word is longer."""
    return textwrap.wrap(
        text,
        max(width, 1),
        initial_indent=first_indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _paragraph(lines: Sequence[tuple[str, str]]) -> Iterator[Piece]:
    """Yields the pieces of lines without an empty one between them."""
    for wrapped in _wrapped_groups(lines):
        marker = _MARKER.match(wrapped[0][0])
        assert marker is not None  # the pattern matches any text
        yield marker[0]
        first = wrapped[0][0][marker.end() :]
        texts = [first, *(line for line, _ in wrapped[1:])]
        ends = [end for _, end in wrapped]
        original = "".join(text + end for text, end in zip(texts, [*ends[:-1], ""], strict=True))
        width = max(len(line) for line, _ in wrapped)
        indent = re.match(r"\s*", texts[1])[0] if len(texts) > 1 else ""  # type: ignore[index]  # it matches any text
        start, end = " " * marker.end(), ends[0]

        def encode(
            text: str,
            width: int = width,
            start: str = start,
            indent: str = indent,
            end: str = end,
            one: int = len(texts),
        ) -> str:
            lines = [text] if one == 1 else rewrapped(text, width, start, indent)
            return end.join(lines)[0 if one == 1 else len(start) :]

        yield from text_pieces(" ".join(text.strip() for text in texts) if len(texts) > 1 else first, original, encode)
        yield ends[-1]


def _wrapped_groups(lines: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    """Yields groups of lines that are one paragraph.

    Lines are wrapped where the first word of each would not have fitted on the line before.
    """
    group: list[tuple[str, str]] = []
    width = max((len(line) for line, _ in lines), default=0)
    for line in lines:
        if group and not (_MIN_WIDTH <= width <= _MAX_WIDTH and _continues(group[-1][0], line[0], width)):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _continues(line: str, following: str, width: int) -> bool:
    marker = _MARKER.match(following)
    is_item = marker is not None and bool(marker[0].strip())
    return not is_item and len(line.rstrip()) + 1 + len(following.split(maxsplit=1)[0]) > width
