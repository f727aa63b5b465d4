"""Markup: tags, comments, invisible entities, and items that are no prose, such as placeholders and URLs.

A line is read once, from left to right. Block tags and `<br>`, which separate sentences, are kept as strings. The text
between them is plain text with marks at indices of it.

    <p>The <b>dog</b> of {name} &amp; me.</p>
    →  "<p>", marked text, "</p>"
       plain   "The dog of & me."
       marks   <b> at 4, </b> at 7, {name} at 11
"""

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Literal, NamedTuple

from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.found import Found, Kind
from transduce.translation.pipeline.items import HINT, LITERALS, PLACEHOLDERS, readable
from transduce.translation.pipeline.sentences import Span
from transduce.translation.pipeline.tags import Tags, group_in_plain_text, is_cut, kind_of_tag, paired_names
from transduce.translation.pipeline.text_options import Markup
from transduce.translation.pipeline.whole_words import CutText, Words, cut_text, words_of

Notation = Markup | Literal["items"]  # "items": text within HTML, where tags and entities mean nothing

_BEHIND_WORDS = tuple(".,;:!?…)")  # signs without a space before them
_MAX_WORD = 100  # characters of a word next to an item
_MAX_BRACED = 4000  # characters within braces: with more they are no placeholder

_ENTITY = r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});"
_ITEMS = f"{PLACEHOLDERS}|{LITERALS}"
_ANGLE = r"(?P<angle><(?=[!?/A-Za-z]))"
_EXPRESSIONS: dict[Notation, tuple[str, re.RegexFlag]] = {
    "html": (f"{_ANGLE}|(?P<entity>{_ENTITY})|{_ITEMS}", re.IGNORECASE),
    "placeholders": (f"{_ANGLE}|{_ITEMS}|(?P<written>{_ENTITY})", re.NOFLAG),
    "items": (_ITEMS, re.NOFLAG),
}
_HINT = re.compile(f"[<&]|{HINT.pattern}")  # every match of the patterns has one; most lines have none


@dataclass(frozen=True, slots=True)
class Mark:
    """A tag, placeholder or the like, at an index of a plain text."""

    kind: Kind
    text: str  # as in the source
    index: int  # of the character of the plain text that follows it
    spaced: tuple[bool, bool]  # whether white space, or an end of the text, was before it and after it
    next_to: tuple[str, str] = ("", "")  # of an item: the words or signs that touch it


_index_of = attrgetter("index")


class _Run(NamedTuple):
    """Characters of a plain text, up to the next run, and where they come from."""

    first: int  # the index of the first of them in the plain text
    start: int  # in the source
    end: int
    whole: bool  # whether all of them are what the source has there: an entity


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Text between block tags, with its marks set aside."""

    source: str  # as in the line
    before: str  # white space at the beginning
    plain: str  # what is to be translated
    marks: tuple[Mark, ...]
    after: str  # white space at the end
    runs: tuple[_Run, ...] = ()  # of `plain`
    has_cut_words: bool = False  # whether tags cut words
    words: Words = ()  # those in `plain`, without tags
    first: tuple[str, str] = ("", "")  # what is written around the first letter

    def has_marks(self, span: tuple[int, int]) -> bool:
        """Returns whether a mark is in a span of `plain`, or at one of its ends."""
        start, end = span
        first = bisect_left(self.marks, start, key=_index_of)
        return first < bisect_right(self.marks, end, key=_index_of)

    def source_span(self, start: int, end: int) -> tuple[int, int]:
        """Returns where these characters of `plain`, at least one, are in `source`."""
        first, last = (self.runs[bisect_right(self.runs, i, key=lambda run: run.first) - 1] for i in (start, end - 1))
        return (
            first.start if first.whole else first.start + start - first.first,
            last.end if last.whole else last.start + end - last.first,
        )


def read_markup(
    line: str, markup: Markup, kept: Collection[str] = (), *, reads_words: bool = False
) -> list[str | MarkedText]:
    """Returns the block tags of a line, as strings, and the texts between them; their sources together are the line.

    Args:
        line: any text.
        markup: what to look for.
        kept: items that stay in the plain text; in text that is not HTML also tags.
        reads_words: whether words that tags of HTML cut stay in it, without these tags; else each is a mark.
    """
    result: list[str | MarkedText] = []
    start = 0
    inside: list[Found] = []
    for found in (*scan(line, markup), Found("block", len(line), len(line), "")):
        if found.kind != "block":
            inside.append(found)
            continue
        if found.start > start:
            cut = CutText(inside)
            if markup == "html":
                cut = cut_text(line, (start, found.start), inside, reads_words=reads_words)
            read = [each for each in cut.found if not (each.text in kept and may_be_kept(each, markup))]
            text = _marked_text(line, (start, found.start), read, cut)
            result.append(text if text.plain else text.source)
        if found.text:
            result.append(found.text)
        start, inside = found.end, []
    return result


def may_be_kept(mark: "Mark | Found", markup: Markup) -> bool:
    """Returns whether a model may read this: in HTML items only, in plain text all but block tags."""
    return mark.kind in ("placeholder", "literal") or (markup == "placeholders" and mark.kind != "block")


def escaped(text: str, markup: Markup) -> str:
    """Returns `text` as it is written in this markup: `&`, `<` and `>` as entities in HTML."""
    return html.escape(text, quote=False) if markup == "html" else text


def scan(line: str, markup: Notation) -> Iterator[Found]:
    """Yields the markup, in order and without overlaps."""
    if markup == "none" or not _HINT.search(line):
        return
    position = first = len(line) - len(line.lstrip())
    tags = Tags(line)
    braces: dict[int, int] | None = None
    paired: frozenset[str] | None = None
    pattern, text_read = _pattern(markup), readable(line)
    while match := pattern.search(text_read, position):
        group, end = match.lastgroup or "", match.end()
        if group == "angle":
            group, end = tags.at(match.start()) or ("", -1)
            if markup == "placeholders" and group:
                paired = paired_names(line) if paired is None else paired
                group = group_in_plain_text(group, line[match.start() : end], paired, match.start() == first)
                end = end if group else -1
        elif group == "brace":
            braces = _closing_braces(line) if braces is None else braces
            end = braces.get(match.end() - 1, -1)
        elif markup == "html" and "<" in match[0]:
            paired = paired_names(line) if paired is None else paired
            end = -1 if is_cut(match[0], paired) else end
        if end == -1:  # a brace that nothing closes, a sign "less than", or code that tags cut: text
            position = match.start() + 1
            continue
        text = line[match.start() : end]
        kind = _kind(group, text)
        yield Found(kind, match.start(), end, html.unescape(text) if kind == "text" else text)
        position = end


@cache
def _pattern(markup: Notation) -> re.Pattern[str]:
    """Returns what finds markup; compiling takes long, and most processes need one of the three."""
    return re.compile(*_EXPRESSIONS[markup])


def _closing_braces(line: str) -> dict[int, int]:
    """Returns for each opening brace that is closed soon enough where the braces end."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"[{}]", line):
        if match[0] == "{":
            opened.append(match.start())
        elif opened and match.end() - (start := opened.pop()) <= _MAX_BRACED:
            ends[start] = match.end()
    return ends


def _kind(group: str, text: str) -> Kind:
    if group == "tag":
        return kind_of_tag(text)
    if group == "entity":
        character = html.unescape(text)
        if character == text:  # of no character that HTML knows
            return "placeholder"
        unseen = any(unicodedata.category(c)[0] in "ZC" for c in character)
        return "space" if unseen else "text"
    if group in ("comment", "raw"):
        return "point"
    return "literal" if group in ("literal", "variable", "written") else "placeholder"


def next_to(line: str, item: Found) -> tuple[str, str]:
    """Returns the words or signs that touch an item: "" where white space or an end of the line does."""
    before, after = line[max(0, item.start - _MAX_WORD) : item.start], line[item.end : item.end + _MAX_WORD]
    first, last = atoms(before)[-1:], atoms(after)[:1]
    return (
        before[slice(*first[0])] if first and first[0][1] == len(before) else "",
        after[slice(*last[0])] if last and last[0][0] == 0 else "",
    )


def _marked_text(line: str, span: Span, found: Sequence[Found], cut: CutText) -> MarkedText:
    start, end = span
    source = line[start:end]
    before = source[: len(source) - len(source.lstrip())]
    after = source[len(source.rstrip()) :] if before != source else ""
    position, stop = start + len(before), end - len(after)
    plain = _PlainText(start)
    written: dict[Span, str] = {}  # words that tags cut, by where they are in the plain text
    for item in found:
        plain.add(line[position : item.start], position, item.start, whole=False)
        position = item.end
        if item.kind in ("text", "word"):
            plain.add(item.text, item.start, item.end)
            if item.kind == "word":
                written[plain.length - len(item.text), plain.length] = line[item.start : item.end]
            continue
        glued = (line[item.start - 1 : item.start] if item.start > start else "", line[item.end : item.end + 1])
        spaced = (not glued[0] or glued[0].isspace(), item.end >= stop or glued[1].isspace())
        is_item = item.kind in ("placeholder", "literal")
        if (is_item or item.kind == "space") and plain.length and not any(spaced) and item.end < stop:
            plain.add(" ", item.start, item.start)  # 10&nbsp;km must not become 10km
        touching = next_to(line, item) if is_item and not all(spaced) else ("", "")
        plain.marks.append(Mark(item.kind, item.text, plain.length, spaced, touching))
    plain.add(line[position:stop], position, stop, whole=False)
    plain.strip_end()
    clipped = tuple(replace(mark, index=min(mark.index, plain.length)) for mark in plain.marks)
    text = "".join(plain.pieces)
    words = words_of(text, written)
    return MarkedText(source, before, text, clipped, after, tuple(plain.runs), cut.has_words, words, cut.first)


class _PlainText:
    """A plain text that grows, with its marks. It is kept in pieces: to copy it for each of them would be quadratic."""

    def __init__(self, start: int) -> None:
        """Takes where in the line the text begins."""
        self._start = start
        self.pieces: list[str] = []  # none is empty
        self.length = 0
        self.marks: list[Mark] = []
        self.runs: list[_Run] = []

    def add(self, text: str, first: int, last: int, *, whole: bool = True) -> None:
        """Appends text from `line[first:last]`, without the extra white space that marks leave before it."""
        if self.marks and (not self.pieces or self.pieces[-1][-1].isspace()):
            first += 0 if whole else len(text) - len(text.lstrip())
            text = text.lstrip()
            if text[:1] in _BEHIND_WORDS:
                self.strip_end()
                self._move_marks()
        self.runs.append(_Run(self.length, first - self._start, last - self._start, whole))
        if text:
            self.pieces.append(text)
            self.length += len(text)

    def strip_end(self) -> None:
        """Removes the white space at the end."""
        while self.pieces:
            piece = self.pieces.pop()
            kept = piece.rstrip()
            self.length -= len(piece) - len(kept)
            if kept:
                self.pieces.append(kept)
                return

    def _move_marks(self) -> None:
        """Moves what was after the end to the end."""
        for i in reversed(range(len(self.marks))):
            if self.marks[i].index <= self.length:
                break
            self.marks[i] = replace(self.marks[i], index=self.length)
        while self.runs and self.runs[-1].first >= self.length:
            self.runs.pop()
