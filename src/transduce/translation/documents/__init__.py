"""Documents: their text is translated, everything else stays as it is.

    translator = Translator.load("models/m30k")
    translate_document(translator, "letter.docx", "brief.docx")

A reader for each format turns a document into pieces (`segments`): strings that are copied, and segments, which go
through the pipeline with their tags. The format is known by the file's extension (`FORMATS`), or else
by its content.
"""

from transduce.translation.documents.csv_tables import columns_of
from transduce.translation.documents.formats import FORMATS, Format, format_of, recognised_format, require_format
from transduce.translation.documents.job import DocumentJob, DocumentSummary, translate_document
from transduce.translation.documents.languages import Languages
from transduce.translation.documents.parts import TranslateTexts

__all__ = [
    "FORMATS",
    "DocumentJob",
    "DocumentSummary",
    "Format",
    "Languages",
    "TranslateTexts",
    "columns_of",
    "format_of",
    "recognised_format",
    "require_format",
    "translate_document",
]
