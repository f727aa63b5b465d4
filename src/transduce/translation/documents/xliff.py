"""XLIFF 1.2 and 2: targets are filled, and say that a machine has translated them.

A target with text stays as it is, unless its state is "new" or "needs-translation", or that of its segment is "initial"
(version 2). `translate="no"` is honoured.
Where a source is cut into segments (`<seg-source>`), as in the files of Trados, so is its target.
"""

import re
from collections.abc import Iterator, Mapping

from transduce.translation.documents.inline_xml import InlineNames, InlineReader
from transduce.translation.documents.languages import Languages, first_of_others
from transduce.translation.documents.parts import Content
from transduce.translation.documents.segments import Piece
from transduce.translation.documents.xml_tree import Node, XmlDocument, attributes_of, escape_text

_PREFIXES = {
    f"urn:oasis:names:tc:xliff:document:{version}": "" for version in ("1.0", "1.1", "1.2", "2.0", "2.1", "2.2")
}
_NAMES = InlineNames(elements=frozenset(("g", "mrk", "pc")), pairs={"bpt": "ept", "bx": "ex", "sc": "ec", "sm": "em"})
_OPEN_STATES = ("new", "needs-translation", "initial")
_STATE = re.compile(r"\s(?:state|state-qualifier)\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_ROOT = re.compile(r"<(?:[\w.-]+:)?xliff\b(?:[^\"'<>]++|\"[^\"<]*\"|'[^'<]*')*+(?=>)")
_FILE = re.compile(_ROOT.pattern.replace("xliff", "file"))
_LANGUAGES = (("srcLang", "source-language"), ("trgLang", "target-language"))
_Nodes = Mapping[str, Node]


def read_xliff(data: bytes, name: str, languages: Languages) -> Content:
    """Reads an XLIFF file."""
    document = XmlDocument(data, name, _PREFIXES, declares_prefixes=True)
    document.require_root("xliff", "XLIFF")
    reader = _UnitReader(document, _NAMES)
    remark = first_of_others(_declared(document.text), languages)
    pieces = document.pieces({"trans-unit", "segment"}, reader.read_unit, reader.is_kept)
    return Content(document.decoded.encode, _with_language(pieces, languages.target), remark)


def _declared(text: str) -> Iterator[Languages]:
    """Yields the languages that an XLIFF document declares: version 2 at its root, 1.2 at each file."""
    for tag in (attributes_of(found[0]) for pattern in (_ROOT, _FILE) for found in pattern.finditer(text)):
        yield Languages(*(next((tag[name] for name in names if name in tag), "") for names in _LANGUAGES))


class _UnitReader(InlineReader):
    def is_kept(self, node: Node) -> bool:
        """Returns whether an element around texts is not to be translated."""
        return self.document.attributes(node).get("translate") == "no"

    def read_unit(self, unit: Node) -> Iterator[Piece]:
        """Yields the pieces of a unit."""
        document = self.document
        children: _Nodes = {child.name: child for child in reversed(unit.children)}
        source, target, cut = (children.get(name) for name in ("source", "target", "seg-source"))
        holder = unit if unit.name == "segment" else target
        is_open = holder is not None and document.attributes(holder).get("state") in _OPEN_STATES
        is_done = target is not None and document.inner(target).strip() != "" and not is_open
        segments, given = self._segments(cut), self._segments(target)
        if source is None or self.is_kept(unit) or (is_done and not (segments and given)):
            yield document.source(unit)
        elif segments:
            yield from self._read_segments(unit, children, segments, given, is_open=is_open)
        else:
            yield from self.filled(source, *self._around(unit, children), document.source(unit))

    def _segments(self, parent: Node | None) -> dict[str, Node]:
        """Returns the segments within an element by their numbers."""
        found: dict[str, Node] = {}
        for child in parent.children if parent is not None else ():
            attributes = self.document.attributes(child) if child.name == "mrk" else {}
            if attributes.get("mtype") == "seg":
                found[attributes.get("mid", "")] = child
            else:
                found |= self._segments(child)
        return found

    def _read_segments(
        self, unit: Node, children: _Nodes, sources: _Nodes, given: _Nodes, *, is_open: bool
    ) -> Iterator[Piece]:
        """Yields a unit, with those segments of its target filled that have no text, or all if its state `is_open`.

        Args:
            unit: the unit.
            children: its elements by their names.
            sources: the segments of its source by their numbers.
            given: those of its target.
            is_open: whether the target is to be translated again.
        """
        document = self.document
        outline = children["target" if given else "seg-source"]
        slots = {
            number: each
            for number, each in (given or sources).items()
            if number in sources and (not given or is_open or not document.inner(each).strip())
        }
        if not slots:
            yield document.source(unit)
            return
        if len(slots) == len(given or sources):
            before, after = self._around(unit, children)
        else:
            before, after = document.text[unit.start : outline.inner_start], document.text[outline.inner_end : unit.end]
        yield before
        position = outline.inner_start
        for number, slot in sorted(slots.items(), key=lambda item: item[1].start):
            yield document.text[position : slot.start]
            yield from self._filled_slot(slot, sources[number], is_kept=bool(given))
            position = slot.end
        yield document.text[position : outline.inner_end] + after

    def _filled_slot(self, slot: Node, source: Node, *, is_kept: bool) -> Iterator[Piece]:
        """Yields a segment of a target with the translation of its source; without one, what it has if `is_kept`."""
        tag = self.document.start_tag(slot).removesuffix(">").removesuffix("/").rstrip()
        name = self.document.written_name(slot)
        original = self.document.source(slot) if is_kept else f"{tag}/>"
        return self.filled(source, f"{tag}>", f"</{name}>", original)

    def _around(self, unit: Node, children: _Nodes) -> tuple[str, str]:
        """Returns the unit before and after the content of its new target."""
        document, text = self.document, self.document.text
        source, target = children["source"], children.get("target")
        if target is None:
            name = document.written_name(source).removesuffix("source") + "target"
            start = end = children.get("seg-source", source).end
            attributes, indent = "", document.indent(unit, source)
        else:
            name, start, end, indent = document.written_name(target), target.start, target.end, ""
            kept = document.start_tag(target)[1 + len(name) :].removesuffix(">").removesuffix("/").rstrip()
            attributes = _STATE.sub("", kept)
        head = text[unit.start : unit.inner_start]
        if unit.name == "segment":
            head = _STATE.sub("", head).removesuffix(">") + ' state="translated">'
        else:
            attributes += ' state="needs-review-translation" state-qualifier="leveraged-mt"'
        before = f"{head}{text[unit.inner_start : start]}{indent}<{name}{attributes}>"
        return before, f"</{name}>{text[end : unit.end]}"


def _with_language(pieces: Iterator[Piece], language: str) -> Iterator[Piece]:
    """Yields pieces whose first has the language of the targets, which XLIFF 2 requires."""
    first = str(next(pieces))  # the text before the first unit
    root = _ROOT.search(first)
    if root is not None and language:
        attributes = attributes_of(root[0])
        if attributes.get("version", "").startswith("2") and "trgLang" not in attributes:
            first = f'{first[: root.end()]} trgLang="{escape_text(language)}"{first[root.end() :]}'
    yield first
    yield from pieces
