"""The formats of documents: their names, extensions and readers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import ConfigError, DataError, suggestion
from transduce.translation.documents.apple_strings import read_strings
from transduce.translation.documents.archive import Archive
from transduce.translation.documents.csv_tables import read_csv
from transduce.translation.documents.epub import book_members
from transduce.translation.documents.gettext_catalogues import languages_of_catalogue, read_po
from transduce.translation.documents.html_pages import languages_of_page, read_html
from transduce.translation.documents.json_catalogues import read_arb, read_json
from transduce.translation.documents.languages import Languages, other_languages
from transduce.translation.documents.markdown import read_markdown
from transduce.translation.documents.office_open import slide_members, word_members
from transduce.translation.documents.open_document import open_document_members
from transduce.translation.documents.parts import Content, ReadMember
from transduce.translation.documents.plain_text import read_plain_text
from transduce.translation.documents.recognition import format_by_content, head_of
from transduce.translation.documents.refused_files import refuse_other_kinds
from transduce.translation.documents.segments import Piece
from transduce.translation.documents.subtitles import read_srt, read_vtt
from transduce.translation.documents.text_encoding import decode
from transduce.translation.documents.tmx import read_tmx
from transduce.translation.documents.workbooks import workbook_members
from transduce.translation.documents.xliff import read_xliff
from transduce.translation.documents.yaml_catalogues import read_yaml

MAX_FILE_BYTES = 64 << 20  # of a document that is one text


@dataclass(frozen=True, slots=True)
class Format:
    """A format of documents: either one text, or an archive of several."""

    title: str
    extensions: tuple[str, ...]
    read_text: Callable[..., Content] | None = None  # from the document, its name, its languages, and chosen columns
    members: Callable[[Archive, Languages], Mapping[str, ReadMember]] | None = None  # readers of members with text
    has_columns: bool = False  # whether `read_text` takes the columns that are translated


def _text_format(
    title: str,
    extensions: str,
    read: Callable[..., Iterator[Piece]],
    declared_by: str = "",
    languages_of: Callable[[str, Languages], Languages] | None = None,
) -> Format:
    """Returns a format whose documents are text.

    Args:
        title: of the format.
        extensions: of its files.
        read: turns a text into pieces; it takes the languages too where documents name their own.
        declared_by: how a document declares its encoding, and that it names its languages.
        languages_of: returns the languages that a document declares for itself.
    """

    def read_text(data: bytes, name: str, languages: Languages) -> Content:
        decoded = decode(data, name, declared_by)
        named = (languages,) if declared_by else ()
        remark = other_languages(languages_of(decoded.text, languages), languages) if languages_of else ""
        return Content(decoded.encode, read(decoded.text, *named), remark)

    return Format(title, tuple(extensions.split()), read_text)


FORMATS: Mapping[str, Format] = {
    "arb": Format("ARB", (".arb",), read_arb),
    "csv": Format("CSV", (".csv", ".tsv"), read_csv, has_columns=True),
    "docx": Format("DOCX", (".docx", ".docm", ".dotx"), members=word_members),
    "epub": Format("EPUB", (".epub",), members=book_members),
    "html": _text_format("HTML", ".html .htm .xhtml", read_html, "html", languages_of_page),
    "json": _text_format("JSON", ".json", read_json),
    "markdown": _text_format("Markdown", ".md .markdown .mdx", read_markdown),
    "odt": Format("ODT", (".odt", ".ott", ".odp"), members=open_document_members),
    "po": _text_format("PO", ".po .pot", read_po, "po", languages_of_catalogue),
    "pptx": Format("PPTX", (".pptx", ".pptm", ".ppsx"), members=slide_members),
    "srt": _text_format("SRT", ".srt", read_srt),
    "strings": _text_format("Apple strings", ".strings", read_strings),
    "text": _text_format("plain text", ".txt .text", read_plain_text),
    "tmx": Format("TMX", (".tmx",), read_tmx),
    "vtt": _text_format("WebVTT", ".vtt", read_vtt),
    "xliff": Format("XLIFF", (".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), read_xliff),
    "xlsx": Format("XLSX", (".xlsx", ".xlsm", ".xltx"), members=workbook_members),
    "yaml": _text_format("YAML", ".yaml .yml", read_yaml),
}


def format_of(path: str | Path) -> str:
    """Returns the name of the format that a file's extension means; "" if it is none of `FORMATS`."""
    extension = Path(path).suffix.lower()
    return next((name for name, each in FORMATS.items() if extension in each.extensions), "")


def recognised_format(path: str | Path | None, content: str | Path | bytes | None) -> str:
    """Returns the name of the format of a document, by its extension or else its content; "" if neither shows one.

    Raises:
        ConfigError: the content is of another format than the extension says.
    """
    by_name = format_of(path) if path is not None else ""
    by_content = format_by_content(content) if content is not None else ""
    is_text = bool(by_name) and FORMATS[by_name].members is None  # a reader of archives refuses any other itself
    if is_text and by_content not in ("", by_name, "html"):  # Markdown and plain text may begin with a tag
        raise ConfigError(
            f"{path}: its extension stands for {FORMATS[by_name].title}, but its content is "
            f"{FORMATS[by_content].title}. Change its extension, or name the format."
        ).with_advice(f"With --format {by_content}, or --format {by_name}.")
    return by_name or by_content


def require_format(name: str, path: str | Path | None, content: str | Path | bytes | None = None) -> Format:
    """Returns the format of this name, or else that of the document.

    Args:
        name: of a format; "" if none is named.
        path: of the document, for its extension; None if it has no name.
        content: the document, or the file that holds it; None if only its name counts.

    Raises:
        ConfigError: there is no such format, or see `recognised_format`; or none is recognised.
        DataError: it is a file of a kind that no format reads, such as PDF.
    """
    known = ", ".join(FORMATS)
    if name and name not in FORMATS:
        raise ConfigError(f"'{name}' is no format of documents: choose from {known}.{suggestion(name, FORMATS)}")
    if content is not None:
        refuse_other_kinds(head_of(content, 8), str(path) if path is not None else "the document")
    found = name or recognised_format(path, content)
    if not found:
        where = f"{path}: its extension stands for" if path is not None else "a document without a name has"
        error = ConfigError(f"{where} no known format, nor does its content show one. Name one (--format): {known}.")
        raise error.with_advice(f"To translate a file line by line: --source {path}." if path is not None else "")
    return FORMATS[found]


def require_size(size: int, name: str) -> None:
    """Refuses a text that would not fit into memory.

    Raises:
        DataError: it is too large.
    """
    if size > MAX_FILE_BYTES:
        limit = MAX_FILE_BYTES >> 20
        raise DataError(f"{name}: is larger than {limit} MB. Split it.").with_advice(
            "Or translate its lines: transduce translate MODEL --source."
        )
