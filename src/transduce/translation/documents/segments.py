"""Segments: the texts of a document that are translated, between pieces that are copied.

A reader turns a document into pieces: strings that are copied as they are, and segments. A segment holds text and tags.
What a tag is in the document, the pipeline need not know. It reads `<x1>` and `</x1>` for an element, `<x2/>` for
anything else that is between words, and it puts them around the words of the translation that are aligned. A line
break or tab, on both sides of which texts are translated separately, is `<br x3/>`.

    <p>The <b>dog</b> runs.<br></p>
    →  "<p>", Segment("The <x1>dog</x1> runs."), "<br></p>"

A segment keeps how the document had it. If the model leaves all its words as they are, so does the document.
"""

import html
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Literal, Union

from transduce.errors import DataError
from transduce.translation.pipeline.tags import partners

MAX_TAGS = 2000  # of one segment
MAX_NESTED_TAGS = 100
MAX_PIECES = 400_000  # of one segment: tags, and the text between them
# No-break spaces become entities, as models often lose the characters.
_NO_BREAK = re.compile("[\u00a0\u2007\u202f]")
# Hints for breaking a word of the source; they mean nothing for other words.
_SOFT_HYPHEN = "\u00ad"
_MARK = re.compile(r"<(?P<start>/|br )?x(?P<number>\d+)(?P<point>/?)>")
_SPACE = re.compile(r"\s+")
# Characters that no document may hold: a byte-level model can write any.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


class SegmentError(DataError):
    """A text of a document cannot be translated; the message does not name the document."""


Kind = Literal["open", "close", "point", "break"]


@dataclass(frozen=True, slots=True)
class Tag:
    """The beginning or end of an element, a point between words, or a break between texts."""

    kind: Kind
    number: int  # of the element or point in its segment


Item = str | Tag
Tags = Mapping[Tag, tuple["Piece", ...]]  # how each tag is written
Encode = Callable[[str], str]  # returns how the document writes a text
# Returns how a translation is written in the document, given the tags of its segment, the numbers of the elements that
# are around the whole segment and no part of it, and the translation.
Render = Callable[[Tags, Sequence[int], Sequence[Item]], Iterable["Piece"]]


@dataclass(slots=True, eq=False)
class Segment:
    """A text that is translated, with its tags."""

    source: str  # what the pipeline reads: HTML with tags such as <x1>
    original: tuple["Piece", ...]  # how the document has it
    render: Callable[[Sequence[Item]], Iterable["Piece"]]  # returns how a translation is written in the document
    is_filled: bool = False  # whether it is written even if it equals its source: the target next to a source
    translation: str | None = None  # None until it is translated

    def written(self) -> Iterator[str]:
        """Yields what the document gets in its place."""
        words = "" if self.translation is None else _words(self.translation)
        if self.translation is None or not words or (not self.is_filled and words == _words(self.source)):
            yield from written(self.original)
        else:
            yield from written(self.render(items_of(self.translation)))


class AlignedByHand(str):
    """A table whose columns are aligned by spaces: it is copied, since a translation would need other widths."""

    __slots__ = ()


Piece = Union[str, Segment]  # noqa: UP007  # each names the other


def segments_of(pieces: Iterable[Piece]) -> Iterator[Segment]:
    """Yields the segments of `pieces`, and those within them, such as the text of a footnote."""
    for piece in pieces:
        if isinstance(piece, Segment):
            yield piece
            yield from segments_of(piece.original)


def written(pieces: Iterable[Piece]) -> Iterator[str]:
    """Yields what the document gets for `pieces`."""
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        else:
            yield from piece.written()


def markup_of(items: Iterable[Item]) -> str:
    """Returns items as the pipeline reads them."""
    return "".join(_escaped(item) if isinstance(item, str) else _mark(item) for item in items)


def items_of(markup: str) -> list[Item]:
    """Returns the items of what the pipeline wrote."""
    items: list[Item] = []
    start = 0
    for match in _MARK.finditer(markup):
        _append_text(items, markup[start : match.start()])
        kind: Kind = "point" if match["point"] else "open"
        if match["start"]:
            kind = "close" if match["start"] == "/" else "break"
        items.append(Tag(kind, int(match["number"])))
        start = match.end()
    _append_text(items, markup[start:])
    return items


def keeps_tags(source: Sequence[Item], translation: Sequence[Item]) -> bool:
    """Returns whether a translation has the tags of its source, each as often, and nested if they were."""
    tags, given = ([item for item in items if isinstance(item, Tag)] for items in (translation, source))
    return Counter(tags) == Counter(given) and (_is_nested(tags) or not _is_nested(given))


def _is_nested(tags: Sequence[Tag]) -> bool:
    """Returns whether each beginning and end of an element has its partner, which it has only where they nest."""
    num_ends = sum(tag.kind in ("open", "close") for tag in tags)
    return len(partners((tag.kind, _mark(tag)) for tag in tags)) == num_ends


def has_words(text: str) -> bool:
    """Returns whether there is a letter in `text`: numbers and signs alone are not translated."""
    return any(character.isalpha() for character in text)


def _append_text(items: list[Item], markup: str) -> None:
    if text := _FORBIDDEN.sub("", html.unescape(markup)):
        items.append(text)


def plain_text(markup: str) -> str:
    """Returns the text that the pipeline reads, or wrote, without tags."""
    return html.unescape(_MARK.sub("", markup))


def _words(markup: str) -> str:
    """Returns the text without tags, white space and what no document may hold."""
    return _SPACE.sub("", _FORBIDDEN.sub("", plain_text(markup)))


def _escaped(text: str) -> str:
    escaped = html.escape(text.replace(_SOFT_HYPHEN, ""), quote=False)
    return _NO_BREAK.sub(lambda match: f"&#{ord(match[0])};", escaped)


def _mark(tag: Tag) -> str:
    return {"open": "<x{}>", "close": "</x{}>", "point": "<x{}/>", "break": "<br x{}/>"}[tag.kind].format(tag.number)


@dataclass(frozen=True, slots=True)
class Entry:
    """Text or a tag of a segment that is being collected, with how the document writes it."""

    item: Item
    original: tuple[Piece, ...]
    alone: tuple[Piece, ...] | None = None  # a point without its neighbours, if `original` has something of them
    joined: bool = False  # whether `original` is one piece with that of the next entry


class SegmentBuilder:
    """Collects the text and the tags of one segment, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._num_tags = 0
        self._open: defaultdict[Hashable, list[int]] = defaultdict(list)  # the numbers of open elements, by name

    def text(self, text: str, original: str, *, joined: bool = False) -> None:
        """Adds text, and how the document writes it; `joined` is whether that is one piece with what follows."""
        self._add(Entry(text, (original,), None, joined))

    def _add(self, entry: Entry) -> None:
        if len(self.entries) >= MAX_PIECES:
            raise SegmentError(f"a paragraph has more than {MAX_PIECES:,} tags and texts. Split it, or remove some.")
        self.entries.append(entry)

    def open(self, *original: Piece) -> int:
        """Adds the beginning of an element, and returns its number."""
        self._num_tags += 1
        self._add(Entry(Tag("open", self._num_tags), original))
        return self._num_tags

    def close(self, number: int, *original: Piece, alone: str | None = None) -> None:
        """Adds the end of an element; `alone` is how translations write it, if that differs."""
        self._add(Entry(Tag("close", number), original, None if alone is None else (alone,)))

    def tag(self, name: Hashable, *original: Piece, is_end: bool) -> None:
        """Adds the beginning or the end of the element of this name; an end without a beginning is a point."""
        if not is_end:
            self._open[name].append(self.open(*original))
        elif self._open[name]:
            self.close(self._open[name].pop(), *original)
        else:
            self.point(*original)

    def leave_open(self) -> None:
        """Makes the ends that follow no ends of elements that are open now."""
        self._open.clear()

    def point(
        self, *original: Piece, alone: Sequence[Piece] | None = None, joined: bool = False, is_break: bool = False
    ) -> int:
        """Adds what is between words and is kept as it is, and returns its number.

        Args:
            original: how the document has it.
            alone: how it is written between other words, if that differs.
            joined: whether `original` is one piece with that of what follows.
            is_break: whether the texts before it and after it are translated separately.
        """
        self._num_tags += 1
        tag = Tag("break" if is_break else "point", self._num_tags)
        self._add(Entry(tag, original, None if alone is None else tuple(alone), joined))
        return self._num_tags

    def pieces(self, render: Render) -> Iterator[Piece]:
        """Yields what was collected, and starts again: the segment, and what is copied before it and after it."""
        entries, self.entries, self._num_tags = self.entries, [], 0
        self.leave_open()
        start, end, around = _trimmed([entry.item for entry in entries])
        while 0 < start < end and entries[start - 1].joined:
            start -= 1
        while start < end < len(entries) and entries[end - 1].joined:
            end += 1
        inner = entries[start:end]
        if not has_words("".join(entry.item for entry in inner if isinstance(entry.item, str))):
            yield from _originals(entries)
            return
        source = markup_of(entry.item for entry in inner)
        rendering = partial(render, _tags_of(inner), around)
        yield from _originals(entries[:start])
        yield Segment(source, tuple(_originals(inner)), rendering)
        yield from _originals(entries[end:])

    def filled(self, render: Render, original: str, *, always: bool = True) -> Iterator[Piece]:
        """Yields a segment that is written as a whole in place of `original`, `always` or if its words have changed."""
        items = [entry.item for entry in self.entries]
        source = markup_of(items)
        rendering = partial(render, _tags_of(self.entries), [])
        text = "".join(item for item in items if isinstance(item, str))
        translation = None if has_words(text) else source
        is_copied = not text.strip() or (translation is not None and not always)
        yield original if is_copied else Segment(source, (original,), rendering, always, translation)


def encoded_with(encode: Encode, before: str = "", after: str = "") -> Render:
    """Returns how to write translations, between `before` and `after`: tags as they are, and text by `encode`."""

    def render(tags: Tags, _: Sequence[int], items: Sequence[Item]) -> Iterator[Piece]:
        yield before
        for item in items:
            if isinstance(item, str):
                yield encode(item)
            else:
                yield from tags[item]
        yield after

    return render


def written_with(encode: Encode, tags: Tags, items: Sequence[Item]) -> str:
    """Returns what `encoded_with` gives, as one text."""
    return "".join(written(encoded_with(encode)(tags, (), items)))


def text_pieces(text: str, original: str, encode: Encode) -> Iterator[Piece]:
    """Yields the pieces of text without tags."""
    builder = SegmentBuilder()
    builder.text(text, original)
    return builder.pieces(encoded_with(encode))


def _tags_of(entries: Iterable[Entry]) -> Tags:
    """Returns how each tag is written between other words; raises SegmentError if there are too many."""
    tags = {
        entry.item: entry.original if entry.alone is None else entry.alone
        for entry in entries
        if isinstance(entry.item, Tag)
    }
    if len(tags) > MAX_TAGS:
        raise SegmentError(f"a paragraph has more than {MAX_TAGS:,} tags. Split it, or remove some.")
    depths = accumulate({"open": 1, "close": -1}.get(tag.kind, 0) for tag in tags)
    if max(depths, default=0) > MAX_NESTED_TAGS:
        raise SegmentError(f"tags are nested more than {MAX_NESTED_TAGS} deep in a paragraph. Remove some.")
    return tags


def _originals(entries: Iterable[Entry]) -> Iterator[Piece]:
    for entry in entries:
        yield from entry.original


def _trimmed(items: Sequence[Item]) -> tuple[int, int, list[int]]:
    """Returns where a text begins and ends without the tags and white space around it.

    Also returns the numbers of the elements that hold all of the text, the outermost first.
    """
    closing = {item.number: i for i, item in enumerate(items) if isinstance(item, Tag) and item.kind == "close"}
    opening = {item.number: i for i, item in enumerate(items) if isinstance(item, Tag) and item.kind == "open"}
    start, end = 0, len(items)
    around: list[int] = []
    num_words = [0, *accumulate(isinstance(item, str) and not item.isspace() and item != "" for item in items)]

    def is_blank(first: int, last: int) -> bool:
        return num_words[first] == num_words[last + 1]

    def is_loose(item: Item) -> bool:
        if isinstance(item, str):
            return not item.strip()
        partners = {"open": closing, "close": opening}.get(item.kind, {})
        partner = partners.get(item.number, -1)
        return not start <= partner < end

    while start < end:
        first, last = items[start], items[end - 1]
        if is_loose(first):
            start += 1
        elif is_loose(last):
            end -= 1
        elif isinstance(first, Tag) and isinstance(last, Tag) and first.number == last.number:
            start, end = start + 1, end - 1
            around.append(first.number)
        elif isinstance(first, Tag) and is_blank(start, partner := closing[first.number]):
            start = partner + 1
        elif isinstance(last, Tag) and is_blank(partner := opening[last.number], end - 1):
            end = partner
        else:
            break
    return start, end, around
