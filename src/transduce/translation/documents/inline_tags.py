"""Tags within a line of subtitles or a message: `<i>A dog</i> runs.`"""

import re
from collections.abc import Callable

from transduce.translation.documents.segments import SegmentBuilder

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
