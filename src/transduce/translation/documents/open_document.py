"""OpenDocument: ODT of LibreOffice, with headers, notes and comments."""

from collections.abc import Iterator, Mapping

from transduce.errors import DataError
from transduce.translation.documents.archive import Archive
from transduce.translation.documents.inline_xml import InlineNames, InlineReader
from transduce.translation.documents.parts import Content, ReadMember
from transduce.translation.documents.segments import Piece, encoded_with
from transduce.translation.documents.xml_tree import Node, XmlDocument, escape_text, pieces_of

_SPACE = "urn:oasis:names:tc:opendocument:xmlns:"
_PREFIXES = {f"{_SPACE}{name}:1.0": name for name in ("text", "office")}
_NAMES = InlineNames(
    elements=frozenset(("text:span", "text:a", "text:meta")),
    breaks=frozenset(("text:line-break", "text:tab")),
    blocks=frozenset(("text:p", "text:h")),
    collapses=True,
)
_SKIPPED = "text:tracked-changes"  # what was deleted
_TYPE = b"application/vnd.oasis.opendocument."
_ENCRYPTED = b"encryption-data"
_MEMBERS = ("content.xml", "styles.xml")


def open_document_members(archive: Archive) -> Mapping[str, ReadMember]:
    """Returns readers of the members of an ODT file that have text."""
    if not archive.require_text("mimetype").startswith(_TYPE):
        raise DataError(f"{archive.name}: is not {archive.title}. If it has another format, name it (--format).")
    manifest = archive.member("META-INF/manifest.xml")
    if manifest is not None and _ENCRYPTED in archive.read(manifest):
        raise DataError(f"{archive.name}: is encrypted. Save it without a password.")
    return {name: _read for name in _MEMBERS if archive.member(name) is not None}


def _read(data: bytes, name: str) -> Content:
    document = XmlDocument(data, name, _PREFIXES)
    reader = _Reader(document)
    blocks = document.blocks(_NAMES.blocks, lambda node: node.name == _SKIPPED)
    return Content(document.decoded.encode, pieces_of(blocks, reader.read))


class _Reader:
    def __init__(self, document: XmlDocument) -> None:
        self._document = document
        self._inline = InlineReader(document, _NAMES, self.read)

    def read(self, paragraph: Node) -> Iterator[Piece]:
        yield self._document.start_tag(paragraph)
        yield from self._inline.builder(paragraph.children).pieces(encoded_with(escape_text))
        yield self._document.end_tag(paragraph)
