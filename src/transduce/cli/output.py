"""What commands write: output files, reports, messages and warnings."""

import argparse
import contextlib
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from transduce.data.compression import zstd
from transduce.errors import DataError, TransduceError, writing
from transduce.files import atomic_path, is_special
from transduce.reporting.tables import aligned

# The options that name what a command writes. All others that are paths are inputs, and so are these, which are kept
# as they were written, for the records of a corpus. A test compares these names with all commands.
OUTPUTS = ("output", "report", "figure", "arrays", "pharaoh")
_WRITTEN_INPUTS = ("ancestor", "reference", "source", "train", "validation")


def require_no_input(args: argparse.Namespace) -> None:
    """Checks that a command writes over nothing that it reads, `--overwrite` or not, nor over another output.

    What it reads are the files and folders named as inputs, standard input, the files of a model folder, and the
    corpora that a model was trained on and is verified with.

    Raises:
        DataError: an output is one of these, or two are the same.
    """
    values = vars(args)
    outputs = [path for name in OUTPUTS if isinstance(path := values.get(name), Path) and not is_special(path)]
    inputs = [
        path
        for name, value in values.items()
        if name not in OUTPUTS
        for path in _paths(value, str if name in _WRITTEN_INPUTS else Path)
    ]
    written: set[str] = set()
    for output in (each for each in outputs if each != Path("-")):
        if os.path.realpath(output) in written:
            raise DataError(f"{output}: is named as two outputs. Name another for one of them.")
        written.add(os.path.realpath(output))
        for path in inputs:
            if _is_same(output, path) or (path.is_dir() and _belongs_to(output, path)):
                raise DataError(
                    f"{output}: is an input of this command, and would be overwritten. Name another output."
                )


def _paths(value: Any, kind: type[Path] | type[str]) -> list[Path]:
    if isinstance(value, list | tuple):
        return [path for each in value for path in _paths(each, kind)]
    return [Path(value)] if isinstance(value, Path | kind) else []


def _is_same(output: Path, path: Path) -> bool:
    """Returns whether both are one file or folder; "-" is standard input."""
    try:
        return os.path.samestat(output.stat(), os.fstat(0) if path == Path("-") else path.stat())
    except OSError:  # there is no such file
        return False


def _belongs_to(output: Path, folder: Path) -> bool:
    """Returns whether an output is a file of an input folder. New files may be written into one, also a model's."""
    from transduce.bundle import OWN_FILES, Bundle
    from transduce.data.corpus import named_files

    resolved, root = output.parent.resolve() / output.name, folder.resolve()
    is_inside = root in resolved.parents
    if not is_inside and not output.is_file():
        return False
    try:
        data = Bundle.load(folder).config.data
    except TransduceError:  # not a model folder
        return is_inside and output.is_file()
    own = [root / name for name in OWN_FILES]
    return any(path in (resolved, *resolved.parents) for path in own) or any(
        _is_same(output, path) for path in (*own, *named_files(data))
    )


def print_report(text: str) -> None:
    """Prints a report in Markdown; on a terminal the columns of its tables are aligned."""
    print(aligned(text) if sys.stdout.isatty() else text)


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[IO[str]]:
    """Opens a file that is written whole or not at all, compressed if it ends in .gz or .zst; or standard output.

    A pipe or a device is written to in place.
    """
    if path is None or path == Path("-"):
        # Always UTF-8 and "\n", in any locale. Detaching keeps standard output open.
        output = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
        with writing("standard output"):
            try:
                yield output
                output.flush()
            finally:
                output.detach()
        return
    open_text: Callable[..., IO[str]] = open
    if path.suffix in (".gz", ".zst"):
        open_text = gzip.open if path.suffix == ".gz" else zstd.open
    own = contextlib.nullcontext(path) if is_special(path) else atomic_path(path)
    with own as written, open_text(written, "wt", encoding="utf-8", newline="\n") as file:
        yield file


def say(message: str, *, quiet: bool = False) -> None:
    """Prints a message on standard error, unless `quiet`."""
    if not quiet:
        print(f"transduce: {message}", file=sys.stderr)


def warn(message: str) -> None:
    """Prints a warning on standard error."""
    say(f"warning: {message}")


def warn_truncated(where: str, limit: int, what: str) -> None:
    """Warns that a line is longer than the model reads."""
    warn(f"{where}: longer than the {limit} tokens that the model reads; only its beginning is {what}.")
