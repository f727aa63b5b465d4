"""What the commands that decode share: their arguments, their output, their progress bar."""

import argparse
import contextlib
import io
import sys
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import IO, Any

from transduce.engines.interface import ENGINES
from transduce.files import atomic_path


def add_files(parser: argparse.ArgumentParser, what: str) -> None:
    """Declares where input comes from and where output goes."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument(
        "--input", type=Path, default=Path("-"), metavar="FILE", help=f"{what}, .gz or .zst; default: stdin"
    )
    parser.add_argument(
        "--output", type=Path, default=None, metavar="FILE", help="appears when it is whole; default: stdout"
    )


def add_search(parser: argparse.ArgumentParser, *, beam_size: int, length_penalty: float, extra: int) -> Any:
    """Declares the options of the search, with the paper's values in their help, and returns their group."""
    search = parser.add_argument_group("search (defaults come from the model folder)")
    search.add_argument("--beam-size", type=int, metavar="N", help=f"1 is greedy search; the paper uses {beam_size}")
    search.add_argument(
        "--length-penalty", type=float, metavar="A", help=f"GNMT's alpha; the paper uses {length_penalty}"
    )
    search.add_argument(
        "--max-extra-tokens",
        type=int,
        metavar="N",
        help=f"longest output: source length + N; the paper uses {extra}",
    )
    return search


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Declares on what, and how much at a time."""
    machine = parser.add_argument_group("machine")
    machine.add_argument("--batch-size", type=int, metavar="N", help="lines decoded together; changes speed only")
    machine.add_argument("--engine", choices=ENGINES, default="auto", help="default: %(default)s")
    machine.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1; default: %(default)s")
    machine.add_argument("--threads", type=int, metavar="N", help="CPU threads")


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[IO[str]]:
    """Opens a file that is written whole or not at all, or standard output."""
    if path is None or path == Path("-"):
        # Always UTF-8 and "\n", whatever the locale. Detached at the end, so that standard output stays open.
        output = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
        try:
            yield output
            output.flush()
        finally:
            output.detach()
        return
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def with_progress(lines: Iterable[str], args: argparse.Namespace, label: str) -> Iterable[str]:
    """Shows a progress bar where someone watches and output goes elsewhere."""
    if args.output is None or not sys.stderr.isatty():
        return lines
    from tqdm import tqdm

    from transduce.data.readers import read_lines

    total: int | None = None
    if isinstance(lines, Sized):
        total = len(lines)
    elif args.input.is_file():
        total = sum(1 for _ in read_lines(args.input))
    bar: Iterable[str] = tqdm(lines, total=total, unit=" lines", desc=label, smoothing=0.1)
    return bar


def warn_truncated(where: str, limit: int, what: str) -> None:
    """Says that a line was longer than the model reads."""
    print(
        f"transduce: warning: {where}: longer than the {limit} tokens that the model reads; "
        f"only its beginning is {what}.",
        file=sys.stderr,
    )
