"""Translates files of any length: plain lines, JSON lines or TSV, in windows of lines; stopped jobs can be resumed.

translator = Translator.load("models/m30k")
translate_file(translator, Path("big.en.gz"), Path("big.de.gz"), resume=True)
translate_file(translator, Path("reviews.jsonl"), Path("reviews.de.jsonl"), layout=JsonLines(field="text"))
"""

from transduce.translation.streams.file_job import Summary, translate_file
from transduce.translation.streams.layouts import Columns, JsonLines, Layout, PlainLines
from transduce.translation.streams.output import ResumableOutput, StreamOutput

__all__ = [
    "Columns",
    "JsonLines",
    "Layout",
    "PlainLines",
    "ResumableOutput",
    "StreamOutput",
    "Summary",
    "translate_file",
]
