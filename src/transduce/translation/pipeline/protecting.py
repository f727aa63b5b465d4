"""The stage "protect": markup is set aside, and what is left of a line is translated in segments.

A placeholder, URL or address is first left in the text: a model whose corpus had some knows best where they belong. If
it does not copy each of them once, the text is translated again without them (`attempts`). Tags never reach the model.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from transduce.translation.pipeline.checkpoints import Checkpoint, checked
from transduce.translation.pipeline.markup import MarkedText, read_markup
from transduce.translation.pipeline.text_options import Markup
from transduce.translation.result import Translation


@dataclass(slots=True)
class Segment:
    """A stretch of a line that is translated by itself, without its markup."""

    line: int  # index of the line
    marked: MarkedText
    translations: list[Translation] = field(default_factory=list)  # with the markup; empty until there are some


@dataclass(frozen=True, slots=True)
class SegmentInput:
    """A segment as the model is to read it."""

    segment: Segment
    marked: MarkedText
    keeps_placeholders: bool  # whether placeholders, URLs and addresses are left in the text

    @property
    def text(self) -> str:
        """What the model reads."""
        return self.marked.plain


def protect(lines: Iterable[str], markup: Markup) -> list[list[str | Segment]]:
    """Returns for each line its segments, and the tags between them as strings."""
    if markup == "none":
        return [[Segment(index, MarkedText(line, "", line, (), ""))] for index, line in enumerate(lines)]
    return [
        [part if isinstance(part, str) else Segment(index, part) for part in read_markup(line, markup)]
        for index, line in enumerate(lines)
    ]


def attempts(
    lines: Sequence[Sequence[str | Segment]], markup: Markup, checkpoint: Checkpoint
) -> Iterator[list[SegmentInput]]:
    """Yields the segments to translate: those with placeholders first, then all that have no translations yet."""
    segments = [part for parts in lines for part in parts if isinstance(part, Segment)]
    with_placeholders = []
    for segment in checked(segments, checkpoint):
        if any(mark.kind == "placeholder" for mark in segment.marked.marks):
            read = read_markup(segment.marked.source, markup, keep_placeholders=True)
            if len(read) == 1 and isinstance(read[0], MarkedText):
                with_placeholders.append(SegmentInput(segment, read[0], keeps_placeholders=True))
    if with_placeholders:
        yield with_placeholders
    rest = [SegmentInput(each, each.marked, keeps_placeholders=False) for each in segments if not each.translations]
    if rest:
        yield rest
