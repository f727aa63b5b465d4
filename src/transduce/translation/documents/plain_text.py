"""Plain text: each line is a text, or several in columns. If its lines are wrapped, a paragraph is one."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise

from transduce.translation.documents.segments import Piece, SegmentBuilder, encoded_with, text_pieces
from transduce.translation.pipeline.sentences import NO_SPACES

# Some editors write two returns before a line feed, and old ones a return alone.
_LINE = re.compile(r"(?P<text>[^\r\n]*+)(?P<end>\r{0,2}\n|\r|\Z)")
_MARKER = re.compile(r"\s*(?:(?:[-*•–—]|\d{1,3}[.)])[ \t]+)?")
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]*\s*\Z")
_GAP = re.compile(r"(\t+|(?<! ) {3,})")
_MAX_LINES = 10_000  # of a paragraph: what is longer is read in parts
_MIN_WIDTH, _MAX_WIDTH = 50, 120  # characters of the longest line of a wrapped paragraph


def read_plain_text(text: str) -> Iterator[Piece]:
    """Yields the pieces of a plain text."""
    paragraph: list[tuple[str, str]] = []
    for line, end in lines_of(text):
        if line.strip():
            paragraph.append((line, end))
            if len(paragraph) < _MAX_LINES:
                continue
            line = end = ""
        yield from _paragraph(paragraph)
        paragraph = []
        yield line + end
    yield from _paragraph(paragraph)


def lines_of(text: str) -> Iterator[tuple[str, str]]:
    r"""Yields the lines of a text with their ends: "\n", "\r\n" or "\r", or "" for the last."""
    return ((match["text"], match["end"]) for match in _LINE.finditer(text) if match[0])


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
        if len(wrapped) == 1:
            yield from _columns(first)
            yield wrapped[0][1]
            continue
        texts = [first, *(line for line, _ in wrapped[1:])]
        ends = [end for _, end in wrapped]
        original = "".join(text + end for text, end in zip(texts, [*ends[:-1], ""], strict=True))
        width = max(len(line) for line, _ in wrapped)
        indent = texts[1][: len(texts[1]) - len(texts[1].lstrip())]
        start, end = " " * marker.end(), ends[0]

        def encode(text: str, width: int = width, start: str = start, indent: str = indent, end: str = end) -> str:
            return end.join(rewrapped(text, width, start, indent))[len(start) :]

        yield from text_pieces(_joined(texts), original, encode)
        yield ends[-1]


def _joined(lines: Sequence[str]) -> str:
    """Returns the text of wrapped lines: Chinese and the like have no space where a line ends."""
    text = lines[0].strip()
    for line in lines[1:]:
        following = line.strip()
        text += ("" if NO_SPACES.match(text[-1:]) and NO_SPACES.match(following) else " ") + following
    return text


def _columns(line: str) -> Iterator[Piece]:
    """Yields the pieces of a line: texts between which there is a tab, or much space, are translated separately."""
    builder = SegmentBuilder()
    for i, part in enumerate(_GAP.split(line)):
        if i % 2:
            builder.point(part, is_break=True)
        else:
            builder.text(part, part)
    return builder.pieces(encoded_with(str))


def _wrapped_groups(lines: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    """Yields groups of lines that are one paragraph.

    Lines are wrapped where the first word of each would not have fitted on the line before. Where all of these end a
    sentence, each line has a sentence of its own.
    """
    group: list[tuple[str, str]] = []
    width = max((len(line) for line, _ in lines), default=0)
    continues = [_continues(line, following, width) for (line, _), (following, _) in pairwise(lines)]
    ends = (_SENTENCE_END.search(line) for line, _ in lines)
    is_wrapped = any(each and not end for each, end in zip(continues, ends, strict=False))
    is_wrapped = is_wrapped and _MIN_WIDTH <= width <= _MAX_WIDTH
    for line, continues_group in zip(lines, [False, *continues], strict=False):
        if group and not (is_wrapped and continues_group):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _continues(line: str, following: str, width: int) -> bool:
    marker = _MARKER.match(following)
    is_item = marker is not None and bool(marker[0].strip())
    word = following.split(maxsplit=1)[0]
    unspaced = NO_SPACES.search(word)  # after which a line may end: in Chinese, the "word" is a whole line
    return not is_item and len(line.rstrip()) + 1 + (unspaced.end() if unspaced else len(word)) > width
