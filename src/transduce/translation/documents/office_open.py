"""Office Open XML: DOCX of Word, with headers, notes and comments, and PPTX of PowerPoint, with speakers' notes.

Both may have charts and diagrams.
"""

import re
from collections.abc import Mapping
from functools import partial
from urllib.parse import unquote

from transduce.errors import DataError
from transduce.translation.documents.archive import Archive
from transduce.translation.documents.languages import Languages
from transduce.translation.documents.parts import Content, ReadMember
from transduce.translation.documents.runs import ParagraphReader, RunNames
from transduce.translation.documents.xml_tree import XmlDocument, attributes_of

_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a",
    "http://purl.oclc.org/ooxml/drawingml/main": "a",
}
# Styles of Word, pandoc and LibreOffice.
_CODE = re.compile(
    r"<\w+:[pr]Style\b[^>]*[\"'](?:HTML(?:Code|Keyboard|Preformatted|Sample|Typewriter)|SourceCode|VerbatimChar|PreformattedText"
    r"|SourceText|Teletype|UserEntry)[\"']"
)
_WORD = RunNames(
    paragraph="w:p",
    run="w:r",
    run_properties="w:rPr",
    paragraph_properties="w:pPr",
    text="w:t",
    containers=frozenset(
        ("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:customXml", "w:sdt", "w:sdtContent", "w:bdo", "w:dir")
    ),
    container_properties=frozenset(("w:sdtPr", "w:sdtEndPr", "w:customXmlPr", "w:smartTagPr")),
    breaks=frozenset(("w:br", "w:cr", "w:ptab", "w:tab")),
    dropped=frozenset(("w:proofErr", "w:lastRenderedPageBreak", "w:softHyphen")),
    characters={"w:noBreakHyphen": "-"},
    field="w:fldChar",
    text_attributes=' xml:space="preserve"',
    code=_CODE,
    irrelevant=re.compile(r"<\w+:(?:lang|noProof)\b[^>]*>|<\w+:rPr\s*/?>|</\w+:rPr>"),
)
_SLIDE = RunNames(
    paragraph="a:p",
    run="a:r",
    run_properties="a:rPr",
    paragraph_properties="a:pPr",
    text="a:t",
    containers=frozenset(),
    breaks=frozenset(("a:br",)),
    irrelevant=re.compile(
        r"<\w+:rPr\b|\s(?:lang|altLang|dirty|err|noProof|smtClean)=(?:\"[^\"]*\"|'[^']*')|(?<!\s)\s*+/?>|</\w+:rPr>"
    ),
)
# Ends of content types: of the document itself, and of all members that have text.
_WORD_MAIN = re.compile(r"(?:wordprocessingml\.\w+|ms-word\.\w+\.macroEnabled)\.main\+xml$")
_SLIDES_MAIN = re.compile(r"(?:presentationml\.\w+|ms-powerpoint\.\w+\.macroEnabled)\.main\+xml$")
_WORD_TEXT = re.compile(_WORD_MAIN.pattern + r"|wordprocessingml\.(?:header|footer|footnotes|endnotes|comments)\+xml$")
# Charts, and diagrams with the pictures of them that programs show.
_DRAWINGS = re.compile(r"drawingml\.(?:chart|diagramData|diagramDrawing)\+xml$")
_SLIDES_TEXT = re.compile(r"presentationml\.(?:slide|notesSlide)\+xml$|ms-powerpoint\.comments\+xml$")
_OVERRIDE = re.compile(r"<(?:\w+:)?Override\b[^>]*>")
_DIRECTORY = "[Content_Types].xml"


def word_members(archive: Archive, languages: Languages) -> Mapping[str, ReadMember]:
    """Returns readers of the members of a DOCX file that have text."""
    return _members(archive, _WORD_MAIN, _WORD_TEXT, _WORD)


def slide_members(archive: Archive, languages: Languages) -> Mapping[str, ReadMember]:
    """Returns readers of the members of a PPTX file that have text."""
    return _members(archive, _SLIDES_MAIN, _SLIDES_TEXT, _SLIDE)


def _members(
    archive: Archive, main: re.Pattern[str], with_text: re.Pattern[str], names: RunNames
) -> Mapping[str, ReadMember]:
    directory = XmlDocument(archive.require_text(_DIRECTORY), f"{archive.name}, {_DIRECTORY}").text
    overrides = [attributes_of(match[0]) for match in _OVERRIDE.finditer(directory)]
    found = {member.filename.lower(): member.filename for member in archive.members}
    parts = {unquote(each.get("PartName", "").lstrip("/")).lower(): each.get("ContentType", "") for each in overrides}
    types = {found.get(name, name): content for name, content in parts.items()}  # names of parts ignore case
    if not any(main.search(content) for content in types.values()):
        raise DataError(f"{archive.name}: is not {archive.title}. If it has another format, name it (--format).")
    readers: dict[str, ReadMember] = {}
    for name, content in types.items():
        if with_text.search(content):
            readers[name] = partial(_read, names)
        elif _DRAWINGS.search(content):
            readers[name] = partial(_read, _SLIDE)
    return readers


def _read(names: RunNames, data: bytes, name: str) -> Content:
    document = XmlDocument(data, name, _PREFIXES)
    reader = ParagraphReader(document, names)
    return Content(document.decoded.encode, document.pieces({names.paragraph}, reader.read))
