"""The stage "protect": markup is set aside, and what is left of a line is translated in segments.

An item that is no prose (a placeholder, a URL, an emoji) is first left in the text: a model whose corpus had some knows
best where they belong. If it does not copy each of them, the text is translated again with those that it copied, if
there are any, and then without all (`attempts`). Tags of HTML never reach the model.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from transduce.translation.pipeline.checkpoints import Checkpoint, checked
from transduce.translation.pipeline.markup import MarkedText, may_be_kept, read_markup, scan
from transduce.translation.pipeline.sentences import Span, sentence_spans
from transduce.translation.pipeline.text_options import Markup, TextOptions
from transduce.translation.result import Translation
from transduce.translation.windows import Window

_MAX_CHARACTERS = 4000  # of plain text between two cuts: word alignment takes memory quadratic in its length
_SPACE = re.compile(r"\s+")


@dataclass(slots=True)
class Segment:
    """A stretch of a line that is translated by itself, without its markup."""

    line: int  # index of the line
    marked: MarkedText
    prefix: str | None = None  # of a plain line with items that is searched whole: it has a prefix or required terms
    translations: list[Translation] = field(default_factory=list)  # with the markup; empty until there are some
    copied: frozenset[str] = frozenset()  # items that the model copied where it lost others


Line = Sequence[str | Segment]  # the segments of a line, and the tags between them


@dataclass(frozen=True, slots=True)
class SegmentInput:
    """A segment as the model is to read it."""

    segment: Segment
    marked: MarkedText  # whose plain text it reads
    kept: frozenset[str] = frozenset()  # items that are left in the text


def protect(window: Window, text_options: TextOptions, checkpoint: Checkpoint) -> list[Line]:
    """Returns for each line its segments, and the tags between them as strings.

    Text with marks is cut into sentences where it has more than 4000 characters, and plain text where all text is, too:
    "" or white space is between two of them.
    """
    lines: list[Line] = []
    for index, line in enumerate(checked(window.lines, checkpoint)):
        constraints = window.constraints_of(index)
        if text_options.markup == "none":
            lines.append([Segment(index, _as_it_is(line))])
        elif constraints.bind_whole_line:
            lines.append([_bound_segment(index, line, constraints.prefix)])
        else:
            parts = _parts(line, text_options)
            lines.append([part if isinstance(part, str) else Segment(index, part) for part in parts])
    return lines


def _as_it_is(line: str) -> MarkedText:
    return MarkedText(line, "", line, (), "")


def _bound_segment(index: int, line: str, prefix: str) -> Segment:
    match read_markup(line, "placeholders"):
        case [MarkedText(marks=[_, *_]) as marked]:
            return Segment(index, marked, prefix)
    return Segment(index, _as_it_is(line))


def _parts(line: str, text_options: TextOptions) -> Iterator[str | MarkedText]:
    is_html, by_sentence = text_options.markup == "html", text_options.split == "always"
    read = read_markup(line, text_options.markup)
    match read:
        case [MarkedText(marks=())] if text_options.markup == "placeholders":
            read = [_as_it_is(line)]
    for part in read:
        if isinstance(part, str) or not part.marks:
            yield part
        elif len(part.plain if is_html else part.source) > _MAX_CHARACTERS or (not is_html and by_sentence):
            yield from _sentences(part.source, text_options.language, text_options.markup)
        else:
            yield part


def _sentences(text: str, language: str, markup: Markup) -> Iterator[str | MarkedText]:
    """Yields the sentences of a text without block tags, and what is between them."""
    end = 0
    for index, (start, stop) in enumerate(spans_around_items(text, language, markup)):
        if index or start:
            yield text[end:start]
        yield from read_markup(text[start:stop], markup)
        end = stop
    if end < len(text):
        yield text[end:]


def spans_around_items(text: str, language: str, markup: Markup = "placeholders") -> list[Span]:
    """Returns the sentences of a text without block tags, each of at most 4000 characters.

    None ends within an item or a tag, nor between two tags of an element, unless that is longer. Longer sentences are
    cut at white space.
    """
    spans: list[Span] = []
    items, elements = _uncut(text, markup)
    for start, end in sentence_spans(text, language):
        is_short = bool(spans) and end - spans[-1][0] <= _MAX_CHARACTERS
        if spans and (_holds(items, start) or (is_short and _holds(elements, start))):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return [part for span in spans for part in _bounded(text, span, items, elements)]


def _bounded(text: str, span: Span, items: Sequence[Span], elements: Sequence[Span]) -> Iterator[Span]:
    """Yields the parts of a span: as few as do, each of at most 4000 characters, unless an item has more."""
    start, end = span
    while end - start > _MAX_CHARACTERS:
        spaces = [match.start() for match in _SPACE.finditer(text, start + 1, start + _MAX_CHARACTERS)]
        outside = [each for each in spaces if not _holds(items, each)]
        best = [each for each in outside if not _holds(elements, each)] or outside
        cut = best[-1] if best else _edge(items, start, start + _MAX_CHARACTERS)
        yield start, cut
        start = end - len(text[cut:end].lstrip())
    if start < end:
        yield start, end


def _edge(items: Sequence[Span], start: int, index: int) -> int:
    """Returns the index, or where the item around it begins, or ends if it begins at `start`."""
    if not _holds(items, index):
        return index
    begin, end = items[bisect_left(items, (index,)) - 1]
    return begin if begin > start else end


def _holds(spans: Sequence[Span], index: int) -> bool:
    """Returns whether the index is within one of these spans, and not at its beginning or end."""
    before = bisect_left(spans, (index,)) - 1
    return before >= 0 and index < spans[before][1]


def _uncut(text: str, markup: Markup) -> tuple[list[Span], list[Span]]:
    """Returns the spans of a text that are not cut: items and tags; the same, and elements with their content."""
    items: list[Span] = []
    elements: list[Span] = []
    depth = 0
    for found in scan(text, markup):
        items.append((found.start, found.end))
        if depth:
            elements[-1] = (elements[-1][0], found.end)
        else:
            elements.append((found.start, found.end))
        depth = max(0, depth + (found.kind == "open") - (found.kind == "close"))
    return items, elements


def attempts(lines: Sequence[Line], markup: Markup, checkpoint: Checkpoint) -> Iterator[list[SegmentInput]]:
    """Yields the segments to translate: with all items first, with some of them, then all that have no translations.

    All this is done first with the words in the texts that tags cut, where there are some, and then without.
    """
    segments = [part for parts in lines for part in parts if isinstance(part, Segment)]
    for reads_words in (True, False):
        waiting = [each for each in checked(segments, checkpoint) if not each.translations]
        if reads_words:
            waiting = [each for each in waiting if each.marked.has_cut_words]
        with_items = [(each, items) for each in waiting if (items := _items(each, markup))]
        if with_all := _inputs(with_items, markup, reads_words):
            yield with_all
            lost = [(each, items) for each, items in with_items if not each.translations and each.prefix is None]
            some = [(each, each.copied) for each, items in lost if each.copied and each.copied < items]
            if with_some := _inputs(some, markup, reads_words):
                yield with_some
        if rest := _inputs([(each, frozenset()) for each in waiting if not each.translations], markup, reads_words):
            yield rest


def _items(segment: Segment, markup: Markup) -> frozenset[str]:
    return frozenset(mark.text for mark in segment.marked.marks if may_be_kept(mark, markup))


def _inputs(
    segments: Iterable[tuple[Segment, frozenset[str]]], markup: Markup, reads_words: bool
) -> list[SegmentInput]:
    """Returns the segments as the model is to read them, with these items, and where `reads_words` with cut words."""
    inputs = []
    for segment, kept in segments:
        if not kept and not reads_words:
            inputs.append(SegmentInput(segment, segment.marked))
            continue
        match read_markup(segment.marked.source, markup, kept, reads_words=reads_words):
            case [MarkedText() as marked] if marked.words or not reads_words:
                inputs.append(SegmentInput(segment, marked, kept))
    return inputs
