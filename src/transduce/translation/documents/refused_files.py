"""Files that no format reads, and what to do with them."""

from pathlib import PurePath

from transduce.errors import DataError

_OFFICE_BEFORE_2007 = b"\xd0\xcf\x11\xe0"
_TODAYS = {".doc": "docx", ".dot": "docx", ".xls": "xlsx", ".xlt": "xlsx", ".ppt": "pptx", ".pps": "pptx"}
_IMAGE = ("is an image. Its text has to be recognised first, by a program for OCR.", "One is tesseract.")
_OTHER_FILES = (  # how they begin, what to do with them, and what the command line can do
    (b"%PDF-", "is a PDF file. Convert it to .docx first, with Word or LibreOffice.", "Or to text, with pdftotext."),
    (b"{\\rtf", "is an RTF file. Save it as .docx first.", ""),
    *((magic, *_IMAGE) for magic in (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*")),
)


def refuse_other_kinds(head: bytes, name: str) -> None:
    """Refuses files that are of no format, however they are named.

    Args:
        head: how the file begins, at least eight bytes if there are as many.
        name: of the file, for the error.

    Raises:
        DataError: it is one.
    """
    if head.startswith(_OFFICE_BEFORE_2007):
        raise _old_office(name)
    for magic, what, advice in _OTHER_FILES:
        if head.startswith(magic):
            raise DataError(f"{name}: {what}").with_advice(advice)


def _old_office(name: str) -> DataError:
    """Returns the error of a document of Office from before 2007, as encrypted ones of today look too."""
    todays = _TODAYS.get(PurePath(name).suffix.lower())
    if todays is None:
        return DataError(
            f"{name}: is protected by a password, or from a version before 2007. Save it without, in today's format."
        )
    advice = f"LibreOffice does that too: soffice --convert-to {todays}."
    return DataError(f"{name}: is from a version before 2007. Save it as .{todays} first.").with_advice(advice)


def other_format(message: str) -> DataError:
    """Returns the error of a document that is not of its format; `message` says so."""
    error = DataError(f"{message} If it has another format, give it the extension of that format.")
    return error.with_advice("Or name the format: --format.")
