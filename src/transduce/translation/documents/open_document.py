"""OpenDocument: ODT of LibreOffice, with headers, notes and comments."""

import re
from collections.abc import Mapping

from transduce.errors import DataError
from transduce.translation.documents.archive import Archive
from transduce.translation.documents.inline_xml import InlineNames, InlineReader
from transduce.translation.documents.languages import Languages
from transduce.translation.documents.parts import Content, ReadMember
from transduce.translation.documents.refused_files import other_format
from transduce.translation.documents.xml_tree import Node, XmlDocument, attributes_of

_SPACE = "urn:oasis:names:tc:opendocument:xmlns:"
_PREFIXES = {f"{_SPACE}{name}:1.0": name for name in ("text", "office")}
_NAMES = InlineNames(
    elements=frozenset(("text:span", "text:a", "text:meta")),
    breaks=frozenset(("text:line-break", "text:tab")),
    blocks=frozenset(("text:p", "text:h")),
    collapses=True,
)
# Styles of LibreOffice and pandoc, and automatic ones that have such a parent.
_CODE = frozenset(
    ("Preformatted_20_Text", "Preformatted_Text", "Source_20_Text", "Source_Text", "Teletype", "User_20_Entry")
)
_STYLE = re.compile(r"<style:style\b(?:[^\"'<>]++|\"[^\"<]*\"|'[^'<]*')*+>")


def open_document_members(archive: Archive, _: Languages) -> Mapping[str, ReadMember]:
    """Returns readers of the members of an ODT file that have text."""
    if not archive.require_text("mimetype").startswith(b"application/vnd.oasis.opendocument."):
        raise other_format(f"{archive.name}: is not {archive.title}.")
    manifest = archive.member("META-INF/manifest.xml")
    if manifest is not None and b"encryption-data" in archive.read(manifest):
        raise DataError(f"{archive.name}: is encrypted. Save it without a password.")
    return {name: _read for name in ("content.xml", "styles.xml") if archive.member(name) is not None}


def _read(data: bytes, name: str) -> Content:
    document = XmlDocument(data, name, _PREFIXES)
    styles = [attributes_of(match[0]) for match in _STYLE.finditer(document.text)]
    code = _CODE | {each.get("style:name", "") for each in styles if each.get("style:parent-style-name") in _CODE}

    def is_code(node: Node) -> bool:
        return document.attributes(node).get("text:style-name") in code

    reader = InlineReader(document, _NAMES, is_code)
    # What was deleted is skipped.
    pieces = document.pieces(_NAMES.blocks, reader.read, lambda node: node.name == "text:tracked-changes")
    return Content(document.decoded.encode, pieces)
