"""XML as text with positions: what is not translated is copied to the letter.

Python's `expat` checks that a document is well formed. Then a single pattern finds its tags, and small trees are
made of those elements only whose text is translated.
"""

import html
import re
import xml.parsers.expat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from transduce.errors import DataError
from transduce.translation.documents.refused_files import other_format
from transduce.translation.documents.segments import Piece, SegmentError
from transduce.translation.documents.text_encoding import DecodedText, decode

MAX_DEPTH = 200
_MAX_PREFIXES = 1000
MAX_NODES = 200_000  # of one text: elements, and stretches of text between them
_TOKEN = re.compile(
    r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(?P<cdata>.*?)\]\]>"
    r"|<!DOCTYPE(?:[^\"'>]++|\"[^\"]*\"|'[^']*')*+>"
    r"|<(?P<slash>/?)(?P<name>[^\s/>!?]++)(?P<attributes>(?:[^\"'>]++|\"[^\"]*\"|'[^']*')*+)>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"(?<=\s)(?P<name>[^\s=\"'/>]++)\s*+=\s*+(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)')")


@dataclass(slots=True, eq=False)
class Node:
    """An element, or a stretch of text, with its position."""

    name: str  # with the usual prefix of its namespace; "#text", or "#other" for comments and instructions
    start: int  # of the start tag
    inner_start: int  # of the content, for text without the marks of CDATA
    inner_end: int = 0
    end: int = 0
    children: list["Node"] = field(default_factory=list)
    is_raw: bool = False  # text in CDATA, where entities mean nothing


Read = Callable[[Node], Iterable[Piece]]  # returns the pieces of an element


class XmlDocument:
    """A well-formed XML document."""

    def __init__(
        self, data: bytes, name: str, prefixes: Mapping[str, str] | None = None, *, declares_prefixes: bool = False
    ) -> None:
        """Reads and checks a document.

        Args:
            data: the document.
            name: of the document, for errors.
            prefixes: the prefix that names of each namespace are to have, also where the document has another.
            declares_prefixes: whether a document must declare each prefix that it uses: those of some formats do not.

        Raises:
            DataError: it is not well-formed XML, declares entities, or is nested too deeply.
        """
        require_well_formed(data, name, declares_prefixes=declares_prefixes)
        self.decoded: DecodedText = decode(data, name, "xml")
        self.text = self.decoded.text
        self.name = name
        self._prefixes = prefixes or {}
        self.read_copied: Callable[[str], Iterable[Piece]] = lambda text: [text]  # between blocks

    def require_root(self, name: str, title: str) -> None:
        """Refuses a document whose root is another element.

        Args:
            name: of the element, with its usual prefix.
            title: of the format, for errors.

        Raises:
            DataError: it is.
        """
        root = next(node for node, _ in self._events() if not node.name.startswith("#"))
        if root.name != name:
            raise other_format(f"{self.name}: is not {title}: its first element is {self.start_tag(root)[:60]}.")

    def pieces(
        self, names: Collection[str], read: Read, is_skipped: Callable[[Node], bool] = lambda _: False
    ) -> Iterator[Piece]:
        """Yields the pieces of the outermost elements with one of these names, and the text between them.

        Args:
            names: of elements.
            read: returns the pieces of such an element.
            is_skipped: returns whether an element is copied with all that it holds.

        Raises:
            SegmentError: one of the elements holds more than `MAX_NODES` others.
        """
        position = 0
        path: list[Node] = []  # from the block to the current element
        outside: list[bool] = []  # of each element around: whether it is skipped
        num_skipped = num_nodes = 0
        for node, is_end in self._events():
            if path:
                num_nodes += 1
                if num_nodes > MAX_NODES:
                    raise SegmentError(f"a paragraph has more than {MAX_NODES:,} elements. Split it, or remove some.")
                if is_end:
                    closed = path.pop()
                    closed.inner_end, closed.end = node.start, node.end
                    if not path:
                        yield from read(closed)
                        position = closed.end
                else:
                    path[-1].children.append(node)
                    if not node.end:
                        path.append(node)
            elif is_end:
                num_skipped -= outside.pop()
            elif not node.end:
                if node.name in names and not num_skipped:
                    yield from self.read_copied(self.text[position : node.start])
                    path.append(node)
                    num_nodes = 0
                else:
                    outside.append(not node.name.startswith("#") and is_skipped(node))
                    num_skipped += outside[-1]
        yield from self.read_copied(self.text[position:])

    def source(self, node: Node) -> str:
        """Returns an element or text as it is in the document."""
        return self.text[node.start : node.end]

    def start_tag(self, node: Node) -> str:
        """Returns the start tag of an element."""
        return self.text[node.start : node.inner_start]

    def end_tag(self, node: Node) -> str:
        """Returns the end tag of an element; "" if it has none."""
        return self.text[node.inner_end : node.end]

    def inner(self, node: Node) -> str:
        """Returns the content of an element as it is in the document."""
        return self.text[node.inner_start : node.inner_end]

    def characters(self, node: Node) -> str:
        """Returns the characters of a stretch of text; "" for a comment or instruction."""
        text = self.inner(node) if node.name == "#text" else ""
        return text if node.is_raw else html.unescape(text)

    def attributes(self, node: Node) -> dict[str, str]:
        """Returns the attributes of an element by their names in the document."""
        return attributes_of(self.start_tag(node))

    def written_name(self, node: Node) -> str:
        """Returns the name of an element as the document has it."""
        return re.split(r"[\s/>]", self.text[node.start + 1 : node.inner_start], maxsplit=1)[0]

    def pieces_within(self, node: Node, names: Collection[str], read: Read) -> Iterator[Piece]:
        """Yields an element that is kept, in which blocks are read by `read`: the text of a footnote, for example."""
        position = node.start
        for block in _outermost(node, names):
            yield from self.read_copied(self.text[position : block.start])
            yield from read(block)
            position = block.end
        yield from self.read_copied(self.text[position : node.end])

    def indent(self, parent: Node, child: Node) -> str:
        """Returns the white space between an element in another one and what precedes it."""
        before = self.text[parent.inner_start : child.start]
        return before[len(before.rstrip()) :]

    def _events(self) -> Iterator[tuple[Node, bool]]:
        """Yields nodes, and whether each is an end tag; `end` is 0 where an element begins that has content."""
        position = 0
        scopes: list[dict[str, str]] = [{}]  # of each open element: what prefixes are called here
        for match in _TOKEN.finditer(self.text):
            start, end = match.span()
            if start > position:
                yield Node("#text", position, position, start, start), False
            position = end
            name = match["name"]
            if name is None:
                if match["cdata"] is not None:
                    yield Node("#text", start, *match.span("cdata"), end, is_raw=True), False
                else:
                    yield Node("#other", start, end, end, end), False
            elif match["slash"]:
                scopes.pop()
                yield Node(name, start, start, start, end), True
            else:
                scope = self._scope(scopes[-1], match["attributes"])
                node = Node(_usual_name(name, scope), start, end)
                if match["attributes"].endswith("/"):
                    node.inner_end = node.end = end
                else:
                    scopes.append(scope)
                yield node, False

    def _scope(self, scope: dict[str, str], attributes: str) -> dict[str, str]:
        """Returns the prefixes within an element."""
        if "xmlns" not in attributes:
            return scope
        declared = {}
        for name, address in attributes_of(attributes).items():
            space, _, prefix = name.partition(":")
            if space == "xmlns":
                declared[prefix] = self._prefixes.get(address, prefix)
        found = {**scope, **declared}
        if len(found) > _MAX_PREFIXES:  # each element that declares some copies all
            raise DataError(
                f"{self.name}: declares more than {_MAX_PREFIXES:,} prefixes; no usual program writes that."
            )
        return found


def attributes_of(tag: str) -> dict[str, str]:
    """Returns the attributes of a start tag."""
    return {
        match["name"]: html.unescape(match["double"] if match["double"] is not None else match["single"])
        for match in _ATTRIBUTE.finditer(tag)
    }


def escape_text(text: str) -> str:
    """Returns `text` as XML writes it between tags."""
    return html.escape(text, quote=False)


def require_well_formed(data: bytes, name: str, *, declares_prefixes: bool = False) -> None:
    """Checks a document with `expat`; nothing outside it is read.

    Raises:
        DataError: it is not well-formed XML, declares entities, or is nested too deeply.
    """
    parser = xml.parsers.expat.ParserCreate(namespace_separator=" " if declares_prefixes else None)
    depth = 0

    def start_element(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise DataError(f"{name}: elements are nested more than {MAX_DEPTH} deep; no usual program writes that.")

    def end_element(_: str) -> None:
        nonlocal depth
        depth -= 1

    def start_doctype(_: str, __: str | None, ___: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            raise DataError(
                f"{name}: declares entities or elements of its own (<!DOCTYPE … [ … ]>). Remove the declarations."
            )

    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    parser.StartDoctypeDeclHandler = start_doctype
    try:
        parser.Parse(data, True)  # in parts, expat 2.5 takes quadratic time for a long tag
    except xml.parsers.expat.ExpatError as error:
        raise DataError(
            f"{name}: is damaged, or not XML: {error}. Save it again with the program it is from."
        ) from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{name}: its encoding is not supported ({error}). Convert it to UTF-8.") from None


def _usual_name(name: str, scope: Mapping[str, str]) -> str:
    prefix, colon, local = name.rpartition(":")
    if not scope:
        return name
    usual = scope.get(prefix, prefix) if colon or "" in scope else ""
    return f"{usual}:{local}" if usual else local


def _outermost(node: Node, names: Collection[str]) -> Iterator[Node]:
    for child in node.children:
        if child.name in names:
            yield child
        else:
            yield from _outermost(child, names)
