"""XLIFF 1.2 and 2: targets are filled, and say that a machine has translated them.

A target with text stays as it is, unless its state is "new" or "needs-translation". `translate="no"` is honoured.
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
    document = XmlDocument(data, name, _PREFIXES)
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
        if source is None or is_done or self.is_kept(unit):
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
