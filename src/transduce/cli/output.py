"""What commands write: output files, reports, progress bars and warnings."""

import argparse
import contextlib
import io
import sys
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import IO

from transduce.files import atomic_path, is_special
from transduce.reporting.tables import aligned


def print_report(text: str) -> None:
    """Prints a report in Markdown; on a terminal the columns of its tables are aligned."""
    print(aligned(text) if sys.stdout.isatty() else text)


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[IO[str]]:
    """Opens a file that is written whole or not at all; or standard output, a pipe or a device."""
    if path is None or path == Path("-"):
        # Always UTF-8 and "\n", whatever the locale. Detaching keeps standard output open.
        output = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
        try:
            yield output
            output.flush()
        finally:
            output.detach()
        return
    if is_special(path):
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def with_progress(lines: Iterable[str], args: argparse.Namespace, label: str) -> Iterable[str]:
    """Shows a progress bar if standard error is a terminal and the output goes into a file."""
    if args.output is None or not sys.stderr.isatty():
        return lines
    from tqdm import tqdm

    from transduce.data.readers import read_lines

    total: int | None = None
    if isinstance(lines, Sized):
        total = len(lines)
    elif args.source.is_file():
        total = sum(1 for _ in read_lines(args.source))
    bar: Iterable[str] = tqdm(lines, total=total, unit=" lines", desc=label, smoothing=0.1)
    return bar


def warn_truncated(where: str, limit: int, what: str) -> None:
    """Warns that a line is longer than the model reads."""
    print(
        f"transduce: warning: {where}: longer than the {limit} tokens that the model reads; "
        f"only its beginning is {what}.",
        file=sys.stderr,
    )
