r"""Translates a file, or standard input, line by line: one output line for each input line, always.

examples:
  echo "A dog runs." | transduce translate models/m30k
  transduce translate models/m30k --input test.en --output test.out
  transduce translate models/m30k --input big.en.gz --output big.de --beam-size 1 --batch-size 128
  transduce translate models/m30k --input test.en --n-best 4 --scores

Lines that are typed are translated one by one; those of a file or a pipe, many at a time.

An empty line, or one of white space only, gives an empty line. A line longer than the model reads is
translated as far as it is read, and a warning names it. A line ends at "\n" and nowhere else.

With --n-best or --scores the output is tab-separated, several rows for each line, best first:
  --n-best 4           line number (from 1), translation
  --scores             translation, score
  --n-best 4 --scores  line number, translation, score
The score is the log-probability divided by the length penalty ((5 + length) / 6)^alpha. In such rows a tab or
line break within a translation is written as a space. A line has fewer rows than asked for where the search
finished fewer translations.
"""

import argparse
import contextlib
import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from transduce.engines.interface import ENGINES
from transduce.files import atomic_path

if TYPE_CHECKING:
    from transduce.translator import Translation

SUMMARY = "translate a file or standard input with a trained model"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument(
        "--input", type=Path, default=Path("-"), metavar="FILE", help="text, .gz or .zst; default: stdin"
    )
    parser.add_argument("--output", type=Path, default=None, metavar="FILE", help="written atomically; default: stdout")
    search = parser.add_argument_group("search (defaults come from the model folder)")
    search.add_argument("--beam-size", type=int, metavar="N", help="1 is greedy search; the paper uses 4")
    search.add_argument("--length-penalty", type=float, metavar="A", help="GNMT's alpha; the paper uses 0.6")
    search.add_argument(
        "--max-extra-tokens",
        type=int,
        metavar="N",
        help="longest output: source length + N; the paper uses 50",
    )
    search.add_argument("--n-best", type=int, default=1, metavar="N", help="translations for each line, as rows")
    search.add_argument("--scores", action="store_true", help="add a column with the score")
    machine = parser.add_argument_group("machine")
    machine.add_argument("--batch-size", type=int, metavar="N", help="lines translated together; changes speed only")
    machine.add_argument("--engine", choices=ENGINES, default="auto", help="default: %(default)s")
    machine.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1; default: %(default)s")
    machine.add_argument("--threads", type=int, metavar="N", help="CPU threads")


def run(args: argparse.Namespace) -> int:
    """Translates, and returns the exit code."""
    # Imported here, so that `transduce --help` need not load what they need.
    from transduce.data.readers import read_lines
    from transduce.translator import Translator

    lines = read_lines(args.input)
    translator = Translator.load(args.model, engine=args.engine, device=args.device, threads=args.threads)
    options = translator.with_options(args.beam_size, args.length_penalty, args.max_extra_tokens, args.batch_size)
    typed = args.input == Path("-") and sys.stdin.isatty()
    if typed:
        print("Type a line to translate; Ctrl-D ends.", file=sys.stderr)
    window = 1 if typed else None
    results = translator.stream(_with_progress(lines, args), options=options, n_best=args.n_best, window=window)
    with _open_output(args.output) as output:
        for number, translations in enumerate(results, start=1):
            if translations[0].source_truncated:
                _warn_truncated(f"{args.input}, line {number}", translator.engine.max_source_tokens)
            output.writelines(_rows(number, translations, many=args.n_best > 1, scores=args.scores))
            if typed:
                output.flush()
    return 0


def _warn_truncated(where: str, limit: int) -> None:
    print(
        f"transduce: warning: {where}: longer than the {limit} tokens that the model reads; "
        "only its beginning is translated.",
        file=sys.stderr,
    )


def _rows(number: int, translations: list["Translation"], *, many: bool, scores: bool) -> Iterator[str]:
    if not many and not scores:
        yield translations[0].text + "\n"
        return
    for translation in translations:
        columns = [translation.text.replace("\t", " ")]
        if many:
            columns.insert(0, str(number))
        if scores:
            columns.append(f"{translation.score:.6f}")
        yield "\t".join(columns) + "\n"


def _with_progress(lines: Iterable[str], args: argparse.Namespace) -> Iterable[str]:
    """Shows a progress bar where someone watches and output goes elsewhere."""
    if args.output is None or not sys.stderr.isatty():
        return lines
    from tqdm import tqdm

    from transduce.data.readers import read_lines

    total = None if args.input == Path("-") else sum(1 for _ in read_lines(args.input))
    bar: Iterable[str] = tqdm(lines, total=total, unit=" lines", desc="translating", smoothing=0.1)
    return bar


@contextlib.contextmanager
def _open_output(path: Path | None) -> Iterator[IO[str]]:
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
