"""A package of Argos Translate as one of our models: an archive (`.argosmodel`), or the folder that it was unpacked to.

    metadata.json         languages, version, and the piece that outputs begin with (`target_prefix`)
    model/                a folder of CTranslate2
    sentencepiece.model   for both sides
    stanza/               finds sentences; not read: ours does

Argos joins pieces and turns each "▁" into a space, as ours does. Two things differ: it replaces an unknown piece by the
source piece with the greatest attention, and ours never writes one; and it shows a piece of one byte, such as <0x0A>,
as it is, where ours writes the byte.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.config import DataConfig, DecodeConfig
from transduce.config.terms import terms_among
from transduce.errors import BundleError, ExportError
from transduce.export.certificate import CARD
from transduce.export.ctranslate2_reading import MODEL, Usage, check_ctranslate2, read_ctranslate2
from transduce.export.foreign_files import ArchiveFiles, FolderFiles, ForeignFiles
from transduce.export.foreign_model import ForeignModel

METADATA, SUFFIX = "metadata.json", ".argosmodel"
_FOLDER = "model"
_OF_MOSES = "bpe.model"
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*")
_SEARCH = DecodeConfig(beam_size=4, length_penalty=0.2)  # as Argos searches; its penalty is length^0.2


def read_argos(path: Path) -> ForeignModel:
    """Reads a package.

    Raises:
        BundleError: a file is missing or damaged, or the archive is hostile.
        ExportError: our model cannot compute what this one does; the reasons are named.
    """
    files, usage = _checked(path)
    read = read_ctranslate2(files.within(_FOLDER), files, usage)
    name = path.resolve().name if path.is_dir() else path.resolve().stem
    terms = terms_among({each: files.size(each) for each in files.names() if "/" not in each}, files.read, card=CARD)
    return replace(read, config=replace(read.config, name=name), terms=terms)


def check_argos(path: Path) -> DataConfig:
    """Returns the languages of a package; raises what `read_argos` would raise, without reading its weights."""
    files, usage = _checked(path)
    check_ctranslate2(files.within(_FOLDER), files, usage)
    return usage.data


def _checked(path: Path) -> tuple[ForeignFiles, Usage]:
    """Returns the files of a package, and how Argos uses them, if it can be imported as far as its metadata say.

    Argos gives CTranslate2 the pieces of a sentence, and nothing before or after them.
    """
    files = FolderFiles(path) if path.is_dir() else ArchiveFiles(path)
    values, data = _metadata(files)
    prefix = values.get("target_prefix") or ""
    if not isinstance(prefix, str):
        raise BundleError(f"{files.where(METADATA)}: target_prefix = {str(prefix)[:40]}: must be a text.")
    if files.has(_OF_MOSES):
        raise ExportError(
            f"{files.where(_OF_MOSES)}: cannot be imported: subword-nmt's codes, which need the tokenizer of Moses. "
            "Take a version of the package with sentencepiece.model, or import the original of OPUS-MT."
        )
    if not files.has(f"{_FOLDER}/{MODEL}"):
        raise BundleError(f"{path}: {_FOLDER}/{MODEL} missing. Download it again.")
    return files, Usage(data=data, decode=_SEARCH, first=prefix, appends_end=False)


def _metadata(files: ForeignFiles) -> tuple[dict[str, Any], DataConfig]:
    """Returns the metadata of a package, and its languages.

    Raises:
        BundleError: `metadata.json` is missing or damaged.
        ExportError: the package is none for translation.
    """
    values = files.json_object(METADATA)
    if (kind := values.get("type", "translate")) != "translate":
        raise ExportError(
            f"{files.where(METADATA)}: a package of type '{str(kind)[:40]}', and only 'translate' is read."
        )
    codes = values.get("from_code"), values.get("to_code")
    for key, code in zip(("from_code", "to_code"), codes, strict=True):
        if not isinstance(code, str) or not _LANGUAGE.fullmatch(code):
            raise BundleError(f"{files.where(METADATA)}: {key} = {str(code)[:40]}: must be the code of a language.")
    return values, DataConfig(source_language=str(codes[0]), target_language=str(codes[1]))
