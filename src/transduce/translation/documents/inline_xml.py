"""Text with elements in it, as in XLIFF, TMX and OpenDocument: elements with text are kept around their words."""

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from transduce.translation.documents.messages import separate_choices
from transduce.translation.documents.segments import Piece, SegmentBuilder, encoded_with
from transduce.translation.documents.split_elements import rejoined
from transduce.translation.documents.xml_tree import Node, XmlDocument, escape_text

_SPACE = re.compile(r"[ \t\r\n]+")
# A line break, as XLIFF and TMX name it, or as the page that it is from has it: <ph>&lt;br/&gt;</ph>. Or memoQ's tab.
_LINE_BREAK = re.compile(
    r"\s(?:c?type|subType|id)\s*=\s*[\"'](?:lb|xlf:lb|LINE_BREAK|x-(?:html-)?br)[\"']|[\"'>]\s*<br\b"
    r"|<mq:ch\s+val=[\"'](?:[\t\r\n]|&#x?0*(?:9|1[03]|[ad]);)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class InlineNames:
    """What the elements within a text are; any other is a point between words."""

    elements: frozenset[str]  # hold text
    pairs: Mapping[str, str] = field(default_factory=dict)  # elements without text, which begin and end something
    breaks: frozenset[str] = frozenset()  # between texts that are translated separately
    blocks: frozenset[str] = frozenset()  # texts of their own, somewhere in a point
    collapses: bool = False  # whether white space is one space


@dataclass(frozen=True)
class InlineReader:
    """Reads elements whose content is one segment."""

    document: XmlDocument
    names: InlineNames
    is_code: Callable[[Node], bool] = lambda _: False  # whether an element is copied

    def read(self, element: Node) -> Iterator[Piece]:
        """Yields the pieces of an element."""
        if self.is_code(element):
            yield self.document.source(element)
            return
        yield self.document.start_tag(element)
        yield from self._builder(element).pieces(encoded_with(escape_text))
        yield self.document.end_tag(element)

    def filled(self, source: Node, before: str, after: str, original: str) -> Iterator[Piece]:
        """Yields the translation of an element's content between `before` and `after`, in place of `original`."""
        builder = self._builder(source)
        separate_choices(builder, escape_text)
        return builder.filled(encoded_with(escape_text, before, after), original)

    def _builder(self, element: Node) -> SegmentBuilder:
        """Returns a segment with the content of an element."""
        builder = SegmentBuilder()
        self._add(element.children, builder)
        builder.entries = rejoined(builder.entries)
        return builder

    def _add(self, nodes: Sequence[Node], builder: SegmentBuilder) -> None:
        document, names = self.document, self.names
        ends = {end: start for start, end in names.pairs.items()}
        for node in nodes:
            source = document.source(node)
            if node.name == "#text":
                text = document.characters(node)
                builder.text(_SPACE.sub(" ", text) if names.collapses else text, source)
            elif node.name in names.pairs or node.name in ends:
                attributes = document.attributes(node)
                pair = next((attributes[name] for name in ("startRef", "rid", "i", "id") if name in attributes), "")
                builder.tag((ends.get(node.name, node.name), pair), source, is_end=node.name in ends)
            elif node.name in names.elements and node.children and not self._is_kept(node):
                number = builder.open(document.start_tag(node))
                self._add(node.children, builder)
                builder.close(number, document.end_tag(node))
            else:
                is_break = node.name in names.breaks or _LINE_BREAK.search(html.unescape(source)) is not None
                builder.point(*document.pieces_within(node, names.blocks, self.read), is_break=is_break)

    def _is_kept(self, node: Node) -> bool:
        attributes = self.document.attributes(node)
        is_kept = attributes.get("translate") == "no" or attributes.get("mtype") == "protected"
        return is_kept or self.is_code(node)
