"""Office Open XML: DOCX of Word, with headers, notes and comments, and PPTX of PowerPoint, with speakers' notes.

Both may have charts and diagrams.
"""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import unquote

from transduce.text.languages import without_region
from transduce.translation.documents.archive import Archive
from transduce.translation.documents.languages import Languages, followed
from transduce.translation.documents.parts import Content, ReadMember
from transduce.translation.documents.refused_files import other_format
from transduce.translation.documents.runs import ParagraphReader, RunNames
from transduce.translation.documents.segments import Piece, text_pieces
from transduce.translation.documents.xml_tree import Node, XmlDocument, attributes_of, escape_text

_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a",
    "http://purl.oclc.org/ooxml/drawingml/main": "a",
    "http://schemas.openxmlformats.org/drawingml/2006/chart": "c",
    "http://purl.oclc.org/ooxml/drawingml/chart": "c",
}
# Styles of Word, pandoc and LibreOffice.
_CODE = re.compile(
    r"<\w+:[pr]Style\b[^<>]*[\"'](?:HTML(?:Code|Keyboard|Preformatted|Sample|Typewriter)|SourceCode|VerbatimChar|PreformattedText"
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
_DRAWINGS = re.compile(r"(?:drawingml\.(?:chart|diagramData|diagramDrawing)|officedocument\.drawing)\+xml$")
_WORD_LANGUAGES = re.compile(r"wordprocessingml\.(?:styles|settings)\+xml$")  # have no text
_SLIDES_TEXT = re.compile(r"presentationml\.(?:slide|notesSlide)\+xml$|ms-powerpoint\.comments\+xml$")
_OVERRIDE = re.compile(r"<(?:\w+:)?Override\b[^>]*>")
# Languages of texts, each with one for Latin letters, one for those of East Asia and one for those from right to left.
_LANGUAGES = re.compile(r"<(?P<name>(?P<prefix>\w+):(?:lang|themeFontLang|rPr|defRPr|endParaRPr))(?=\s)[^<>]*>")
_OF_SCRIPTS = dict.fromkeys(("ja", "ko", "zh"), "eastAsia") | dict.fromkeys(("ar", "fa", "he", "ur"), "bidi")
_PICTURE = re.compile(r"<\w+:(?:docPr|cNvPr)\b[^<>]*>")
_DESCRIPTION = re.compile(r"\s(?:descr|title)=\"(?![^\s\"./\\]*+[./\\][^\s\"]++\")(?P<text>[^\"]+)\"")
_LABELS = ("c:cat", "c:tx")  # of charts
_NUMBERS = ("c:numRef", "c:numLit")
_DIRECTORY = "[Content_Types].xml"


def word_members(archive: Archive, languages: Languages) -> Mapping[str, ReadMember]:
    """Returns readers of the members of a DOCX file that have text."""
    return _members(archive, _WORD_MAIN, _WORD_TEXT, _WORD, languages)


def slide_members(archive: Archive, languages: Languages) -> Mapping[str, ReadMember]:
    """Returns readers of the members of a PPTX file that have text."""
    return _members(archive, _SLIDES_MAIN, _SLIDES_TEXT, _SLIDE, languages)


def _members(
    archive: Archive, main: re.Pattern[str], with_text: re.Pattern[str], names: RunNames, languages: Languages
) -> Mapping[str, ReadMember]:
    readers: dict[str, ReadMember] = {}
    for name, content in content_types(archive, main).items():
        if with_text.search(content):
            readers[name] = partial(_read, names, languages)
        elif _WORD_LANGUAGES.search(content):
            readers[name] = partial(_read, replace(names, paragraph=""), languages)
        elif (read := read_drawing(content, languages)) is not None:
            readers[name] = read
    return readers


def read_drawing(content: str, languages: Languages) -> ReadMember | None:
    """Returns the reader of a chart or diagram; None if this is not the type of one."""
    return partial(_read, _SLIDE, languages) if _DRAWINGS.search(content) else None


def content_types(archive: Archive, main: re.Pattern[str]) -> dict[str, str]:
    """Returns the types of the members of an archive.

    Raises:
        DataError: none is of the type `main`.
    """
    directory = XmlDocument(archive.require_text(_DIRECTORY), f"{archive.name}, {_DIRECTORY}").text
    overrides = [attributes_of(match[0]) for match in _OVERRIDE.finditer(directory)]
    found = {member.filename.lower(): member.filename for member in archive.members}
    parts = {unquote(each.get("PartName", "").lstrip("/")).lower(): each.get("ContentType", "") for each in overrides}
    types = {found.get(name, name): content for name, content in parts.items()}  # names of parts ignore case
    if not any(main.search(content) for content in types.values()):
        raise other_format(f"{archive.name}: is not {archive.title}.")
    return types


def _read(names: RunNames, languages: Languages, data: bytes, name: str) -> Content:
    document = XmlDocument(data, name, _PREFIXES)
    document.text = _LANGUAGES.sub(partial(_with_language, languages), document.text)
    document.read_copied = _with_descriptions
    reader = ParagraphReader(document, names)

    def read(node: Node) -> Iterator[Piece]:
        if node.name == names.paragraph:
            yield from reader.read(node)
        elif node.name == "c:v":
            inner = document.inner(node)
            yield document.start_tag(node)
            yield from text_pieces(html.unescape(inner), inner, escape_text)
            yield document.end_tag(node)
        elif node.name in _NUMBERS:
            yield document.source(node)
        else:
            yield from document.pieces_within(node, {names.paragraph, "c:v", *_NUMBERS}, read)

    return Content(document.decoded.encode, document.pieces({names.paragraph, *_LABELS}, read))


def _with_descriptions(text: str) -> Iterator[Piece]:
    """Yields the pieces of what is between paragraphs: descriptions of pictures, but for mere names of files."""
    position = 0
    for tag in _PICTURE.finditer(text):
        for match in _DESCRIPTION.finditer(text, *tag.span()):
            yield text[position : match.start("text")]
            yield from text_pieces(html.unescape(match["text"]), match["text"], _escaped_attribute)
            position = match.end("text")
    yield text[position:]


def _escaped_attribute(text: str) -> str:
    return html.escape(text).replace("\n", "&#10;")


def _with_language(languages: Languages, tag: re.Match[str]) -> str:
    """Returns a tag that names the languages of a text, with that of the translation if it has that of the source."""
    attributes = attributes_of(tag[0])
    names = ["lang", "lang"]  # of PowerPoint
    if tag["name"].lower().endswith("lang"):
        codes = (languages.source, languages.target)
        names = [f"{tag['prefix']}:{_OF_SCRIPTS.get(without_region(code), 'val')}" for code in codes]
    code = attributes.get(names[0], "")
    found = followed(code, languages)
    if found == code:
        return tag[0]
    if names[1] not in attributes:
        return tag[0].replace(tag["name"], f'{tag["name"]} {names[1]}="{found}"', 1)
    return re.sub(rf"(\s{names[1]}\s*=\s*[\"'])[^\"']*", rf"\g<1>{found}", tag[0])
