"""XLSX, workbooks: texts of cells, text boxes, charts and comments; numbers, dates, formulas and names stay.

A text that something else in the workbook names stays too: formulas would no longer find it (`IF(A1="Yes",…)`), nor
would lists of choices and filters, and a program calls a workbook damaged whose tables have other headings than cells.
"""

import fnmatch
import html
import re
from collections.abc import Iterator, Mapping
from functools import partial

from transduce.translation.documents.archive import Archive
from transduce.translation.documents.csv_tables import is_code
from transduce.translation.documents.languages import Languages
from transduce.translation.documents.office_open import content_types, read_drawing
from transduce.translation.documents.parts import Content, ReadMember
from transduce.translation.documents.runs import ParagraphReader, RunNames
from transduce.translation.documents.segments import Piece, has_words, text_pieces
from transduce.translation.documents.xml_tree import Node, XmlDocument, escape_text

_PREFIXES = dict.fromkeys(
    (
        "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
        "http://purl.oclc.org/ooxml/spreadsheetml/main",
        "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments",
    ),
    "",
)
# Characters that XML does not keep, such as a return before a line feed; and "_" where it would begin such a code.
_CODE = re.compile(r"_x(?P<code>(?!D[89A-F])[0-9A-F]{4})_", re.IGNORECASE)
_CODED = re.compile(r"\r|_(?=x[0-9A-Fa-f]{4}_)")


def _decoded(text: str) -> str:
    return _CODE.sub(lambda match: chr(int(match["code"], 16)), text)


def _escaped(text: str) -> str:
    return _CODED.sub(lambda match: f"_x{ord(match[0]):04X}_", escape_text(text))


_CELL = RunNames(
    paragraph="si",
    run="r",
    run_properties="rPr",
    paragraph_properties="",
    text="t",
    containers=frozenset(),
    text_attributes=' xml:space="preserve"',
    escape=_escaped,
)
_MAIN = re.compile(r"(?:spreadsheetml\.\w+|ms-excel\.\w+\.macroEnabled)\.main\+xml$")
_TEXT = re.compile(r"spreadsheetml\.(?:sharedStrings|comments)\+xml$|ms-excel\.threadedcomments\+xml$")
_SHEET = re.compile(r"spreadsheetml\.(?:worksheet|table|pivotCacheDefinition)\+xml$")
_INLINE = re.compile(rb"[\"']inlineStr[\"']")
_FORMULA = re.compile(r"<(?:\w+:)?(?:f|formula\d?|definedName)\b[^<>]*(?<!/)>([^<]*)")
# Functions that compare cells with a text in which "*" and "?" are any characters, unless "~" is before them.
_COMPARING = re.compile(r"(?:(?:COUNT|SUM|AVERAGE|MAX|MIN)IFS?|MATCH|LOOKUP)\(")
_SPECIAL = re.compile(r"~([*?~])|\[")
_WILDCARD = re.compile(r"(?<!~)[*?]")
_LITERAL = re.compile(r'"((?:[^"]|"")*+)"')
_NAMED = re.compile(
    r"<(?:\w+:)?(?:tableColumn|cacheField)\b[^<>]*?\sname=\"([^\"]*)\""
    r"|<(?:\w+:)?(?:filter|customFilter)\b[^<>]*?\sval=\"([^\"]*)\""
)


def workbook_members(archive: Archive, languages: Languages) -> Mapping[str, ReadMember]:
    """Returns readers of the members of an XLSX file that have text."""
    named: set[str] = set()
    patterns: set[str] = set()
    cells: list[str] = []
    readers: dict[str, ReadMember] = {}
    for name, content in content_types(archive, _MAIN).items():
        member = archive.member(name)
        if _TEXT.search(content):
            cells.append(name)
        elif (_SHEET.search(content) or _MAIN.search(content)) and member is not None:
            data = archive.read(member)
            text = XmlDocument(data, archive.name_of(member)).text
            named |= _names(text)
            patterns |= _patterns(text)
            if _INLINE.search(data):
                cells.append(name)
        elif (read := read_drawing(content, languages)) is not None:
            readers[name] = read
    compared = re.compile("|".join(patterns) or r"(?!)")
    return readers | dict.fromkeys(cells, partial(_read, frozenset(named), compared))


def _names(text: str) -> set[str]:
    """Returns the texts that formulas, tables, filters and lists of choices name."""
    literals = [each for formula in _formulas(text) for each in _literals(formula)]
    choices = [choice.strip() for each in literals for choice in each.split(",")]
    criteria = [each.lstrip("<>=") for each in literals]  # COUNTIF(A:A,"<>Done")
    headings = [_decoded(html.unescape(one or other)) for one, other in _NAMED.findall(text)]
    return {each.lower() for each in (*literals, *choices, *criteria, *headings)}  # Excel ignores case


def _patterns(text: str) -> set[str]:
    """Returns patterns of the texts that formulas and filters compare cells with by wildcards: COUNTIF(A:A,"Do*")."""
    formulas = (formula for formula in _formulas(text) if _COMPARING.search(formula))
    criteria = {each.lstrip("<>=") for formula in formulas for each in _literals(formula)}
    criteria |= {html.unescape(each) for _, each in _NAMED.findall(text)}
    globs = (each.lower() for each in criteria if _WILDCARD.search(each) and has_words(each))
    return {fnmatch.translate(_SPECIAL.sub(lambda match: f"[{match[1] or '['}]", each)) for each in globs}


def _formulas(text: str) -> Iterator[str]:
    return (html.unescape(each) for each in _FORMULA.findall(text) if "&quot;" in each or '"' in each)


def _literals(formula: str) -> Iterator[str]:
    return (each.replace('""', '"') for each in _LITERAL.findall(formula))


class _Cells(XmlDocument):
    """A document whose texts have codes of characters."""

    def characters(self, node: Node) -> str:
        return _decoded(super().characters(node))


def _read(named: frozenset[str], compared: re.Pattern[str], data: bytes, name: str) -> Content:
    document = _Cells(data, name, _PREFIXES)
    runs = ParagraphReader(document, _CELL)

    def read(cell: Node) -> Iterator[Piece]:
        words = _words(document, cell)
        texts = [each for each in (cell, *cell.children) if any(child.name == "#text" for child in each.children)]
        is_named = words.lower() in named or compared.match(words.lower()) is not None
        if is_named or is_code(words) or not has_words(words):
            yield document.source(cell)
        elif any(child.name == "r" for child in cell.children):
            yield from runs.read(cell)
        elif not texts:  # they are within an element that the format does not have
            yield document.source(cell)
        else:  # a single text, of which a Japanese one may have the pronunciation after it
            text = texts[0]
            inner = document.inner(text)
            yield document.text[cell.start : text.inner_start]
            yield from text_pieces("".join(map(document.characters, text.children)), inner, _escaped)
            yield document.text[text.inner_end : cell.end]

    return Content(document.decoded.encode, document.pieces({"si", "is", "text"}, read))


def _words(document: XmlDocument, node: Node) -> str:
    if node.name == "#text":
        return document.characters(node)
    if node.name == "rPh":  # the pronunciation
        return ""
    return "".join(_words(document, child) for child in node.children)
