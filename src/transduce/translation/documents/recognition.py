"""What a document is by its content, not by its name."""

import io
import re
from pathlib import Path
from zipfile import ZipFile

from transduce.translation.documents.archive import DAMAGE
from transduce.translation.documents.text_encoding import byte_order_mark

_HEAD_BYTES = 1 << 16
_MIMETYPE = re.compile(rb"PK\x03\x04.{26}mimetypeapplication/(?P<kind>epub\+zip|vnd\.oasis\.opendocument\.)", re.DOTALL)
_OF_MIMETYPE = {b"epub+zip": "epub", b"vnd.oasis.opendocument.": "odt"}
_MAIN_MEMBERS = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "xlsx"}
_ROOT = re.compile(
    r"\s*+(?>(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE(?:[^\"'>]++|\"[^\"]*\"|'[^']*')*+>)\s*+)*+<(?:[\w.-]+:)?(?P<name>[\w.-]+)",
    re.DOTALL | re.IGNORECASE,
)
_OF_ROOTS = {"xliff": "xliff", "tmx": "tmx", "html": "html"}
_TEXTS = {
    "vtt": re.compile(r"WEBVTT(?=[ \t\r\n]|\Z)"),
    "srt": re.compile(r"\s*\d+[ \t]*\r?\n\d+:\d\d:\d\d[,.]\d+ +--> +\d+:\d\d:\d\d[,.]\d+"),
    "po": re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*msgid[ \t]+\"\"[ \t\r]*\nmsgstr[ \t]+\""),
}


def format_by_content(document: str | Path | bytes) -> str:
    """Returns the name of the format that a document's beginning shows; "" where it shows none.

    Markdown and plain text have no beginning of their own.
    """
    head = head_of(document, _HEAD_BYTES)
    if head.startswith(b"PK"):
        match = _MIMETYPE.match(head)
        return _OF_MIMETYPE[match["kind"]] if match is not None else _office_format(document)
    text = _decoded(head)
    if (root := _ROOT.match(text)) is not None:
        return _OF_ROOTS.get(root["name"].lower(), "")
    return next((name for name, pattern in _TEXTS.items() if pattern.match(text)), "")


def head_of(document: str | Path | bytes, num_bytes: int) -> bytes:
    """Returns the beginning of a document."""
    if isinstance(document, bytes):
        return document[:num_bytes]
    with Path(document).open("rb") as file:
        return file.read(num_bytes)


def _office_format(document: str | Path | bytes) -> str:
    """Returns the format of an archive of Office by its members."""
    try:
        with ZipFile(io.BytesIO(document) if isinstance(document, bytes) else document) as archive:
            return next((_MAIN_MEMBERS[name] for name in archive.namelist() if name in _MAIN_MEMBERS), "")
    except DAMAGE:
        return ""


def _decoded(head: bytes) -> str:
    """Returns the beginning of a text: signs of formats are ASCII in every encoding."""
    bom, encoding = byte_order_mark(head)
    return head[len(bom) :].decode(encoding if encoding.startswith("utf-16") else "latin-1", "replace")
