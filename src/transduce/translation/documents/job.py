"""Translates a document: from a file to a file, or from bytes to an open file."""

import contextlib
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO
from zipfile import ZipInfo

from transduce.config import DecodeConfig
from transduce.errors import ConfigError, DataError
from transduce.files import atomic_path, require_free
from transduce.translation.constraints.glossary import GlossaryLike
from transduce.translation.documents.archive import Archive
from transduce.translation.documents.formats import require_format, require_size
from transduce.translation.documents.languages import Languages, require_code
from transduce.translation.documents.parts import Part, Progress, ReadMember, TranslateTexts, translate_parts
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.text_options import Split
from transduce.translation.result import Translation
from transduce.translation.translator import Translator

NO_TEXT = "has no text that is to be translated: copied as it is."


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """What was translated."""

    num_segments: int  # paragraphs, headings, cells, captions, …
    num_warnings: int


@dataclass(frozen=True, kw_only=True)
class DocumentJob:
    """How `translate_document` translates a document.

    Attributes:
        options: of the search; None takes the model's own.
        text_options: `markup` is always HTML, and paragraphs are always split into sentences unless `split` is "never".
            None: with the stages `guard`, `capitals` and `signs`, as the service translates documents.
        glossary: source terms and their required translations.
        document_format: a name in `FORMATS`; "" goes by the extension of the file.
        name: of a document that is given as bytes, for its format and for errors.
        languages: of source and target; None: the model's.
        columns: of a CSV file, those that are translated: names in its first line, or numbers from 1. "*" translates
            the first line too. Empty: all; the first line is copied where it seems to have the names of the columns.
        overwrite: whether to replace a file at the output.
        on_progress: called after each window of segments with the bytes that are done and their total. What it raises
            ends the job, and no file is left: this is how a job is cancelled.
        warn: called with each warning.
    """

    options: DecodeConfig | None = None
    text_options: TextOptions | None = None
    glossary: GlossaryLike = None
    document_format: str = ""
    name: str = ""
    languages: Languages | None = None
    columns: Sequence[str] = ()
    overwrite: bool = False
    on_progress: Callable[[int, int], None] | None = None
    warn: Callable[[str], None] | None = None


def translate_document(
    translator: Translator | TranslateTexts,
    source: str | Path | bytes,
    output: str | Path | IO[bytes],
    job: DocumentJob | None = None,
) -> DocumentSummary:
    """Translates a document, and writes it whole or not at all.

    Args:
        translator: the model, or a function from texts with HTML tags to translations that keep the tags, as strings or
            `Translation` objects.
        source: a file, or its content as bytes.
        output: a file, or an open file, which is written to at the end.
        job: how; None takes all defaults.

    Raises:
        ConfigError: the format is unknown or not that of the content, or an option is wrong.
        DataError: the document is damaged, encrypted, too large or not in its format, or `output` exists; or the
            function returned another number of translations than it got texts.
    """
    job = job or DocumentJob()
    source = Path(source) if isinstance(source, str) else source
    output = Path(output) if isinstance(output, str) else output
    if not isinstance(source, Path | bytes) or not (isinstance(output, Path) or hasattr(output, "write")):
        raise TypeError("Give the source as a path or as bytes, and the output as a path or as an open file.")
    if isinstance(job.columns, str):
        raise TypeError("Give a list of columns: for a single one, [name].")
    path = source if isinstance(source, Path) else Path(job.name) if job.name else None
    is_there = isinstance(source, bytes) or source.is_file()
    found = require_format(job.document_format, path, source if is_there else None)
    name = str(path) if path is not None else "the document"
    if job.columns and not found.has_columns:
        raise ConfigError(f"{name}: is {found.title}: columns are chosen in CSV files only.")
    columns = (job.columns,) if job.columns else ()
    if isinstance(output, Path):
        require_free(output, overwrite=job.overwrite)
    if isinstance(translator, Translator):
        texts = job.text_options or TextOptions(guard=True, capitals=True, signs=True)
        direction = translator.directions.choose(texts.language, texts.target, texts.domain)
        languages = job.languages or Languages(direction.source, direction.target)
        translate = _translate_with(translator, job, texts)
    else:
        languages = job.languages or Languages()
        translate = translator
    require_code(languages.target, "languages.target")
    num_warnings = 0

    def warn(message: str) -> None:
        nonlocal num_warnings
        num_warnings += 1
        if job.warn:
            job.warn(f"{name}: {message}")

    progress = Progress(0, job.on_progress, warn)
    with _opened(source) as (file, size), _created(output) as target:
        if found.read_text is not None:
            require_size(size, name)
            progress.total = size
            part = Part(name, size, found.read_text(file.read(), name, languages, *columns))
            target.writelines(translate_parts([part], translate, progress))
        elif found.members is not None:
            archive = Archive(file, name, found.title)
            readers = found.members(archive, languages)
            members = [member for member in archive.members if member.filename in readers]
            progress.total = sum(member.file_size for member in members)
            parts = (_part(archive, member, readers[member.filename]) for member in members)
            archive.write(readers.keys(), translate_parts(parts, translate, progress), target)
    if not progress.num_segments:
        warn(NO_TEXT)
    return DocumentSummary(progress.num_segments, num_warnings)


def _part(archive: Archive, member: ZipInfo, read: ReadMember) -> Part:
    name = archive.name_of(member)
    return Part(name, member.file_size, read(archive.read(member), name))


def _translate_with(translator: Translator, job: DocumentJob, text_options: TextOptions) -> TranslateTexts:
    """Returns a function that translates texts with HTML tags."""
    split: Split = "never" if text_options.split == "never" else "always"
    text_options = replace(text_options, markup="html", split=split)

    def translate(texts: Sequence[str]) -> list[Translation]:
        lines = translator.stream(
            texts, options=job.options, text_options=text_options, glossary=job.glossary, window=max(len(texts), 1)
        )
        return [best for best, *_ in lines]

    return translate


@contextlib.contextmanager
def _opened(source: Path | bytes) -> Iterator[tuple[IO[bytes], int]]:
    """Yields the document as an open file, and its size."""
    if isinstance(source, bytes):
        yield io.BytesIO(source), len(source)
        return
    if not source.is_file():
        what = "is a folder; name a file" if source.is_dir() else "there is no such file"
        raise DataError(f"{source}: {what}.")
    with source.open("rb") as file:
        yield file, source.stat().st_size


@contextlib.contextmanager
def _created(output: Path | IO[bytes]) -> Iterator[IO[bytes]]:
    """Yields an empty file, whose content becomes that of `output` if all goes well."""
    if isinstance(output, Path):
        with atomic_path(output) as temporary, temporary.open("w+b") as file:
            yield file
        return
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        shutil.copyfileobj(file, output)
