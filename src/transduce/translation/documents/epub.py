"""EPUB, e-books: pages and the table of contents are translated."""

import posixpath
import re
from collections.abc import Mapping
from functools import partial
from urllib.parse import unquote

from transduce.errors import DataError
from transduce.translation.documents.archive import Archive
from transduce.translation.documents.html_pages import read_html
from transduce.translation.documents.inline_xml import InlineNames, InlineReader
from transduce.translation.documents.languages import Languages, first_of_others, followed, other_languages
from transduce.translation.documents.parts import Content, ReadMember
from transduce.translation.documents.refused_files import other_format
from transduce.translation.documents.text_encoding import decode
from transduce.translation.documents.xml_tree import XmlDocument, attributes_of

_ENCRYPTION = "META-INF/encryption.xml"
_ROOT_FILE = re.compile(r"<(?:[\w.-]+:)?rootfile\b[^>]*>")
_ITEM = re.compile(r"<(?:[\w.-]+:)?item\b[^>]*>")
_REFERENCE = re.compile(r"<(?:[\w.-]+:)?CipherReference\b[^>]*>")
_LANGUAGE = re.compile(r"(<dc:language\b[^<>]*>\s*)(?P<code>[\w-]+)")
_PREFIXES = {"http://www.daisy.org/z3986/2005/ncx/": ""}


def book_members(archive: Archive, languages: Languages) -> Mapping[str, ReadMember]:
    """Returns readers of the members of an EPUB file that have text."""
    [root] = _attributes(archive, "META-INF/container.xml", _ROOT_FILE)[:1] or [{}]
    package = root.get("full-path", "")
    if not package:
        raise other_format(f"{archive.name}: is not {archive.title}.")
    known: dict[str, ReadMember] = {
        "application/xhtml+xml": partial(_read_page, languages),
        "application/x-dtbncx+xml": _read_contents,
    }
    readers: dict[str, ReadMember] = {package: partial(_read_package, languages)}
    for item in _attributes(archive, package, _ITEM):
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href", ""))))
        if (reader := known.get(item.get("media-type", ""))) is not None:
            readers[name] = reader
    if archive.member(_ENCRYPTION) is not None:
        encrypted = {unquote(each.get("URI", "")) for each in _attributes(archive, _ENCRYPTION, _REFERENCE)}
        if encrypted & readers.keys():
            raise DataError(
                f"{archive.name}: is protected against copying, and cannot be read. Get it without protection."
            )
    return readers


def _attributes(archive: Archive, name: str, tags: re.Pattern[str]) -> list[dict[str, str]]:
    """Returns the attributes of the tags in a member that the pattern finds."""
    text = XmlDocument(archive.require_text(name), f"{archive.name}, {name}").text
    return [attributes_of(match[0]) for match in tags.finditer(text)]


def _read_package(languages: Languages, data: bytes, name: str) -> Content:
    """Reads the metadata, of which the language follows the translation."""
    document = XmlDocument(data, name)
    declared = [Languages(match["code"]) for match in _LANGUAGE.finditer(document.text)]
    is_ours = any(not other_languages(each, languages) for each in declared)
    remark = "" if is_ours else first_of_others(declared, languages)
    text = _LANGUAGE.sub(lambda match: match[1] + followed(match["code"], languages), document.text)
    return Content(document.decoded.encode, [text], remark)


def _read_page(languages: Languages, data: bytes, name: str) -> Content:
    # Many books are not well-formed XML. A reader of HTML needs no more than tags.
    decoded = decode(data, name, "xml")
    return Content(decoded.encode, read_html(decoded.text, languages))


def _read_contents(data: bytes, name: str) -> Content:
    """Reads the table of contents of EPUB 2; that of EPUB 3 is a page."""
    document = XmlDocument(data, name, _PREFIXES)
    reader = InlineReader(document, InlineNames(frozenset(), collapses=True))
    return Content(document.decoded.encode, document.pieces({"text"}, reader.read))
