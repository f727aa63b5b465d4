"""Translates files of any length: plain lines, JSON lines or TSV, in windows of lines; stopped jobs can be resumed.

translator = Translator.load("models/m30k")
translate_file(translator, "big.en.gz", "big.de.gz", FileJob(resume=True))
translate_file(translator, "reviews.jsonl", "reviews.de.jsonl", FileJob(layout=JsonLines(field="text")))
"""

from transduce.translation.streams.file_job import FileJob, Summary, translate_file
from transduce.translation.streams.layouts import Columns, JsonLines, Layout, PlainLines
from transduce.translation.streams.output import ResumableOutput, StreamOutput

__all__ = [
    "Columns",
    "FileJob",
    "JsonLines",
    "Layout",
    "PlainLines",
    "ResumableOutput",
    "StreamOutput",
    "Summary",
    "translate_file",
]
