"""Tags within a line of subtitles or a message: `<i>A dog</i> runs.`"""

import re
from collections.abc import Callable, Collection, Sequence

from transduce.translation.documents.segments import Item, SegmentBuilder, Tag

INLINE_TAG = re.compile(r"</?[A-Za-z][^<>]*(?<!--)>|</?\d+\s*/?>|<\d[\d:.]*>|\{\\[^{}]*\}")
_NAME = re.compile(r"</?([A-Za-z][\w-]*|\d+(?=\s*/?>))")


def add_tagged_text(builder: SegmentBuilder, text: str, decode: Callable[[str], str]) -> None:
    """Adds text with tags to a segment.

    Args:
        builder: of the segment.
        text: as the document has it.
        decode: returns the characters of text between tags.
    """
    position = 0
    for match in INLINE_TAG.finditer(text):
        builder.text(decode(text[position : match.start()]), text[position : match.start()])
        position = match.end()
        name = _NAME.match(match[0])
        if name is None or match[0].endswith("/>"):
            builder.point(match[0])
        else:
            builder.tag(name[1], match[0], is_end=match[0].startswith("</"))
    builder.text(decode(text[position:]), text[position:])


def without_empty(items: Sequence[Item], numbers: Collection[int]) -> list[Item]:
    """Returns a text without those of these elements that hold nothing but white space."""
    found: list[Item] = []
    for item in items:
        start = len(found)
        while start and isinstance(last := found[start - 1], str) and not last.strip():
            start -= 1
        is_end = isinstance(item, Tag) and item.kind == "close" and item.number in numbers
        if isinstance(item, Tag) and is_end and start and found[start - 1] == Tag("open", item.number):
            del found[start - 1]
        else:
            found.append(item)
    return found
