"""XLIFF 1.2 and 2: targets are filled, and say that a machine has translated them.

A target with text stays as it is, unless its state is "new" or "needs-translation". `translate="no"` is honoured.
Where a source is cut into segments (`<seg-source>`), as in the files of Trados, so is its target.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from transduce.translation.documents.inline_xml import InlineNames, InlineReader
from transduce.translation.documents.languages import Languages
from transduce.translation.documents.parts import Content
from transduce.translation.documents.segments import Item, Piece, Render, Tag, encoded_with
from transduce.translation.documents.xml_tree import Node, XmlDocument, attributes_of, escape_text, pieces_of

_PREFIXES = {
    f"urn:oasis:names:tc:xliff:document:{version}": "" for version in ("1.0", "1.1", "1.2", "2.0", "2.1", "2.2")
}
_NAMES = InlineNames(elements=frozenset(("g", "mrk", "pc")), pairs={"bpt": "ept", "bx": "ex", "sc": "ec", "sm": "em"})
_OPEN_STATES = ("new", "needs-translation")
_STATE = re.compile(r"\s(?:state|state-qualifier)\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_ROOT = re.compile(r"<(?:[\w.-]+:)?xliff\b(?:[^\"'>]++|\"[^\"]*\"|'[^']*')*+(?=>)")
_TAG = re.compile(r"<(?P<prefix>[\w.-]+:)?(?P<name>[\w.-]+)(?P<attributes>.*)\Z", re.DOTALL)


def read_xliff(data: bytes, name: str, languages: Languages) -> Content:
    """Reads an XLIFF file."""
    document = XmlDocument(data, name, _PREFIXES, declares_prefixes=True)
    document.require_root("xliff", "XLIFF")
    reader = _Reader(document)
    blocks = document.blocks({"trans-unit", "segment"}, reader.is_kept)
    return Content(document.decoded.encode, _with_language(pieces_of(blocks, reader.read), languages.target))


class _Reader:
    def __init__(self, document: XmlDocument) -> None:
        self._document = document
        self._inline = InlineReader(document, _NAMES)

    def is_kept(self, node: Node) -> bool:
        """Returns whether an element around texts is not to be translated."""
        return self._document.attributes(node).get("translate") == "no"

    def read(self, unit: Node) -> Iterator[Piece]:
        document = self._document
        children: Mapping[str, Node] = {child.name: child for child in reversed(unit.children)}
        source, target = children.get("source"), children.get("target")
        state = document.attributes(target).get("state", "") if target is not None else ""
        is_done = target is not None and document.inner(target).strip() and state not in _OPEN_STATES
        cut = children.get("seg-source")
        segments = self._segments(cut) if cut is not None else {}
        if source is None or self.is_kept(unit):
            yield document.source(unit)
            return
        if segments:
            yield from self._read_segments(unit, children, segments)
            return
        if is_done:
            yield document.source(unit)
            return
        builder = self._inline.builder(source.children)

        def rendering(tags: dict[Tag, tuple[Piece, ...]], around: list[int]) -> Render:
            inner = encoded_with(escape_text)(tags, around)

            def render(items: Sequence[Item]) -> Iterator[Piece]:
                before, after = self._around(unit, children)
                yield before
                yield from inner(items)
                yield after

            return render

        yield from builder.filled(rendering, document.source(unit))

    def _segments(self, parent: Node) -> dict[str, Node]:
        """Returns the segments within an element by their numbers."""
        found: dict[str, Node] = {}
        for child in parent.children:
            attributes = self._document.attributes(child) if child.name == "mrk" else {}
            if attributes.get("mtype") == "seg":
                found[attributes.get("mid", "")] = child
            else:
                found |= self._segments(child)
        return found

    def _read_segments(self, unit: Node, children: Mapping[str, Node], sources: Mapping[str, Node]) -> Iterator[Piece]:
        """Yields a unit, with those segments of its target filled that have no text."""
        document, target = self._document, children.get("target")
        given = self._segments(target) if target is not None else {}
        state = document.attributes(target).get("state", "") if target is not None else ""
        has_text = target is not None and document.inner(target).strip() and state not in _OPEN_STATES
        outline = target if target is not None and given else children["seg-source"]
        slots = {
            number: each
            for number, each in (given or sources).items()
            if number in sources and (not given or state in _OPEN_STATES or not document.inner(each).strip())
        }
        if not slots or (has_text and not given):
            yield document.source(unit)
            return
        is_new = len(slots) == len(given or sources)
        before, after = self._around(unit, children) if is_new else self._within(unit, outline)
        yield before
        position = outline.inner_start
        for number, slot in sorted(slots.items(), key=lambda item: item[1].start):
            yield document.text[position : slot.start]
            yield from self._filled(slot, sources[number], is_kept=bool(given))
            position = slot.end
        yield document.text[position : outline.inner_end] + after

    def _within(self, unit: Node, target: Node) -> tuple[str, str]:
        """Returns the unit before and after the content of its target."""
        text = self._document.text
        return text[unit.start : target.inner_start], text[target.inner_end : unit.end]

    def _filled(self, slot: Node, source: Node, *, is_kept: bool) -> Iterator[Piece]:
        """Yields a segment of a target with the translation of its source; without one, what it has if `is_kept`."""
        tag = self._document.start_tag(slot).removesuffix(">").removesuffix("/").rstrip()
        name = tag[1:].split(maxsplit=1)[0]
        original = self._document.source(slot) if is_kept else f"{tag}/>"

        def rendering(tags: dict[Tag, tuple[Piece, ...]], around: list[int]) -> Render:
            inner = encoded_with(escape_text)(tags, around)
            return lambda items: [f"{tag}>", *inner(items), f"</{name}>"]

        yield from self._inline.builder(source.children).filled(rendering, original)

    def _around(self, unit: Node, children: Mapping[str, Node]) -> tuple[str, str]:
        """Returns the unit before and after the content of its new target."""
        document, text = self._document, self._document.text
        source, target = children["source"], children.get("target")
        tag = _TAG.match(document.start_tag(target if target is not None else source))
        assert tag is not None  # a start tag has a name
        name = f"{tag['prefix'] or ''}target"
        kept = tag["attributes"].removesuffix(">").removesuffix("/").rstrip()
        attributes = _STATE.sub("", kept) if target is not None else ""
        head = text[unit.start : unit.inner_start]
        if unit.name == "segment":
            head = _STATE.sub("", head).removesuffix(">") + ' state="translated">'
        else:
            attributes += ' state="needs-review-translation" state-qualifier="leveraged-mt"'
        behind = children.get("seg-source", source)
        indent = ""
        if target is None:
            start = end = behind.end
            indent = _white_space_before(document, unit, source)
        else:
            start, end = target.start, target.end
        before = f"{head}{text[unit.inner_start : start]}{indent}<{name}{attributes}>"
        return before, f"</{name}>{text[end : unit.end]}"


def _white_space_before(document: XmlDocument, parent: Node, child: Node) -> str:
    """Returns the white space between an element and what precedes it: its indent."""
    before = document.text[parent.inner_start : child.start]
    return before[len(before.rstrip()) :]


def _with_language(pieces: Iterator[Piece], language: str) -> Iterator[Piece]:
    """Yields pieces whose first has the language of the targets, which XLIFF 2 requires."""
    first = next(pieces, "")
    root = _ROOT.search(first) if isinstance(first, str) else None
    if isinstance(first, str) and root is not None and language:
        attributes = attributes_of(root[0])
        if attributes.get("version", "").startswith("2") and "trgLang" not in attributes:
            first = f'{first[: root.end()]} trgLang="{escape_text(language)}"{first[root.end() :]}'
    yield first
    yield from pieces
