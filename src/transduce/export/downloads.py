"""What a folder of downloads holds: which models can be imported, and what keeps the others from it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transduce.config import DataConfig
from transduce.errors import BundleError, TransduceError
from transduce.export.argos import check_argos
from transduce.export.checkpoint_files import weight_files
from transduce.export.ctranslate2_reading import check_ctranslate2
from transduce.export.foreign_files import FolderFiles
from transduce.export.huggingface_settings import read_settings
from transduce.export.huggingface_vocabulary import languages_of
from transduce.export.imports import find_format
from transduce.export.marian_options import read_decoder
from transduce.export.marian_reading import languages_of_card
from transduce.reporting.tables import mebibytes, table


@dataclass(frozen=True)
class Download:
    """An entry of a folder of downloads.

    Attributes:
        name: of the file or folder.
        format: as `find_format` names it; "" for no model.
        source_language, target_language: codes; "" where the download does not say.
        num_bytes: of all its files.
        problem: why it cannot be imported; "" where nothing is seen to keep it from that.
    """

    name: str
    format: str
    source_language: str
    target_language: str
    num_bytes: int
    problem: str


def list_downloads(folder: Path) -> list[Download]:
    """Returns what each entry of a folder is, in order of name; weights are not read.

    Raises:
        BundleError: there is no such folder.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise BundleError(f"{folder}: cannot be listed: {error.strerror}.") from None
    return [_listed(entry) for entry in entries if not entry.name.startswith(".")]


def to_markdown(downloads: list[Download]) -> str:
    """Returns the entries as a table."""
    rows = []
    for each in downloads:
        languages = f"{each.source_language or '?'} → {each.target_language or '?'}"
        known = each.source_language or each.target_language
        problem = " ".join(each.problem.split())
        rows.append([each.name, each.format or "-", languages if known else "-", mebibytes(each.num_bytes), problem])
    return table(["download", "format", "languages", "size", "cannot be imported"], rows, text_columns=5)


def _listed(path: Path) -> Download:
    form, data, problem, num_bytes = "", DataConfig(), "", 0
    try:
        num_bytes = _num_bytes(path)
        form = find_format(path)
        data = _CHECKS[form](path)
    except TransduceError as error:
        problem = str(error).removeprefix(f"{path}: ")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}."
    languages = data.source_language, data.target_language
    return Download(path.name, form, *languages, num_bytes, problem)


def _num_bytes(path: Path) -> int:
    paths = [path] if path.is_file() else path.rglob("*")
    return sum(each.stat().st_size for each in paths if each.is_file())


def _ctranslate2(path: Path) -> DataConfig:
    check_ctranslate2(FolderFiles(path), FolderFiles(path))
    return DataConfig()


def _huggingface(path: Path) -> DataConfig:
    read_settings(path)
    weight_files(path)
    source, target = languages_of(path)
    return DataConfig(source_language=source, target_language=target)


def _marian(path: Path) -> DataConfig:
    read_decoder(path)
    return languages_of_card(path, has_tags=False)


def _torch(path: Path) -> DataConfig:
    raise BundleError(f"{path}: a state dict: it needs --description and --tokenizer.")


# Finds the languages of a download of each format, and raises what keeps it from being imported.
_CHECKS: dict[str, Callable[[Path], DataConfig]] = {
    "huggingface": _huggingface,
    "marian": _marian,
    "ctranslate2": _ctranslate2,
    "argos": check_argos,
    "torch": _torch,
}
