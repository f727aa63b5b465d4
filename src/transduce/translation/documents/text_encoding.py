"""Bytes to text and back: a document is written in the encoding that it was read in."""

import codecs
import re
from dataclasses import dataclass

from transduce.errors import DataError
from transduce.translation.documents.refused_files import other_format

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = {
    "xml": re.compile(rb"<\?xml[^>]*?\bencoding\s*=\s*[\"']([\w.:-]+)"),
    "html": re.compile(rb"(?:<meta[^>]*?\bcharset|<\?xml[^>]*?\bencoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE),
    "po": re.compile(rb"\bcharset=(?!CHARSET)([\w.:-]+)"),
}
_HEAD_BYTES = {"xml": 1024, "html": 1024, "po": 1 << 16}  # where an encoding must be declared
# What browsers read where a page declares the first, by the names that Python has for them.
_OF_BROWSERS = {
    "ascii": "cp1252",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
_LONG_REFERENCE = re.compile("&#[0-9]{1000}")  # Python refuses to read a number of 4300 digits
# Encodings of Python's own, and those of host names: no document has them, and some take quadratic time.
_REFUSED = frozenset(("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"))


@dataclass(frozen=True, slots=True)
class DecodedText:
    """The text of a document, and how it is encoded."""

    text: str
    name: str  # of the document, for errors
    encoding: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"  # what is done with characters that the encoding lacks

    def encode(self, text: str) -> bytes:
        """Returns `text` in the document's encoding.

        Raises:
            DataError: the encoding lacks a character of the translation.
        """
        try:
            return self.bom + text.encode(self.encoding, self.errors)
        except UnicodeEncodeError as error:
            missing = error.object[error.start]
            raise DataError(
                f"{self.name}: its encoding, {self.encoding}, has no {missing!r}. Convert it to UTF-8."
            ) from None


def decode(data: bytes, name: str, declared_by: str = "") -> DecodedText:
    """Returns the text of a document, which is UTF-8 unless a byte order mark or the document says something else.

    Args:
        data: the document.
        name: of the document, for errors.
        declared_by: "xml", "html" or "po", where documents may declare their encoding; "" where not.

    Raises:
        DataError: it is not text, or not in the encoding that it should have.
    """
    errors = "xmlcharrefreplace" if declared_by in ("xml", "html") else "strict"
    bom, encoding = byte_order_mark(data)
    declared = _DECLARED[declared_by].search(data[: _HEAD_BYTES[declared_by]]) if declared_by and not encoding else None
    encoding = declared[1].decode("ascii") if declared is not None else encoding or "utf-8"
    body = data[len(bom) :]
    try:
        found = codecs.lookup(encoding).name
        if found in _REFUSED:
            raise LookupError
        if declared is not None and found.startswith("utf-16"):  # in which nobody could have read the declaration
            encoding = found = "utf-8"
        if declared_by == "html" and found in _OF_BROWSERS and _is_text(body, _OF_BROWSERS[found]):
            encoding = _OF_BROWSERS[found]
        text = body.decode(encoding)
        if found != "utf-8" and text.encode(encoding) != body:
            raise DataError(f"{name}: cannot be written in its encoding, {encoding}, as it was. Convert it to UTF-8.")
    except (UnicodeError, LookupError):
        raise DataError(f"{name}: is not {encoding} text. Convert it to UTF-8.") from None
    if "\x00" in text:
        raise other_format(f"{name}: is not text: it has null characters.")
    if _LONG_REFERENCE.search(text):
        raise DataError(f"{name}: has a reference to a character (&#…;) with more than 1,000 digits. Remove it.")
    return DecodedText(text, name, encoding, bom, errors)


def byte_order_mark(data: bytes) -> tuple[bytes, str]:
    """Returns the byte order mark with which a text begins, and its encoding; b"" and "" if it has none."""
    return next(((bom, encoding) for bom, encoding in _BOMS if data.startswith(bom)), (b"", ""))


def _is_text(data: bytes, encoding: str) -> bool:
    """Returns whether bytes can be read and written in this encoding."""
    try:
        return data.decode(encoding).encode(encoding) == data
    except UnicodeError:
        return False
