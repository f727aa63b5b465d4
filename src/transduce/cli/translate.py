r"""Translates a file, or standard input, line by line: one output line for each input line, always.

examples:
  echo "A dog runs." | transduce translate models/m30k
  transduce translate models/m30k --input test.en --output test.out
  transduce translate models/m30k --input big.en.gz --output big.de --beam-size 1 --batch-size 128
  transduce translate models/m30k --input test.en --n-best 4 --scores
  transduce translate models/m30k --input test.en --engine ctranslate2 --quantization int8
  transduce translate models/m30k --input test.en --beam-size 8 --diversity-groups 4 --n-best 4
  transduce translate models/m30k --input test.en --temperature 1 --top-p 0.9 --n-best 10 --seed 7
  transduce translate models/a --ensemble models/b models/c --input test.en --output test.out
  transduce translate models/m30k --input test.en --prefix begun.de --forbid never.txt

Lines that are typed are translated one by one; those of a file or a pipe, many at a time.

An empty line, or one of white space only, gives an empty line. A line longer than the model reads is
translated as far as it is read, and a warning names it. A line ends at "\n" and nowhere else.

The ctranslate2 engine needs no PyTorch, starts quickly, and with int8 is small and fast on a CPU. When it first sees a
model it converts it, into a folder beside the model's files.

With --n-best or --scores the output is tab-separated, several rows for each line, best first:
  --n-best 4           line number (from 1), translation
  --scores             translation, score
  --n-best 4 --scores  line number, translation, score
The score is the log-probability divided by the length penalty ((5 + length) / 6)^alpha. In such rows a tab or
line break within a translation is written as a space. A line has fewer rows than asked for where the search
finished fewer translations. Draws come as they were drawn, so that each is an honest sample.

A file of prefixes has a line for each input line: what its translation begins with, to the letter, or nothing. The last
word may go on ("do" as "dog"), unless a space ends the line. Forbidden phrases are whole words, capitals as they
stand; "dog" does not forbid "Dog" or "dogs". docs/guides/decoding.md explains each option, and what it costs.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.decoding import (
    add_ensemble,
    add_files,
    add_machine,
    add_rules,
    add_search,
    decode_changes,
    loading_arguments,
    open_output,
    say_engine,
    warn_truncated,
    with_progress,
)
from transduce.errors import ConfigError, DataError

if TYPE_CHECKING:
    from transduce.constraints import Constraints
    from transduce.translator import Translation

SUMMARY = "translate a file or standard input with a trained model"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_files(parser, "text")
    search = add_search(parser, beam_size=4, length_penalty=0.6, extra=50)
    search.add_argument("--n-best", type=int, default=1, metavar="N", help="translations for each line, as rows")
    search.add_argument("--scores", action="store_true", help="add a column with the score")
    add_rules(parser)
    add_ensemble(parser)
    add_machine(parser)


def run(args: argparse.Namespace) -> int:
    """Translates, and returns the exit code."""
    # Imported here, so that `transduce --help` need not load what they need.
    from transduce.data.readers import read_lines
    from transduce.translator import Translator

    lines = read_lines(args.input)
    prefixes, phrases = _Beside(args.prefix), _Beside(args.forbid_by_line)
    constraints = _constraints(args, prefixes, phrases)
    translator = Translator.load(args.model, **loading_arguments(args), ensemble=args.ensemble)
    say_engine(args, translator.engine)
    options = translator.with_options(**decode_changes(args))
    typed = args.input == Path("-") and sys.stdin.isatty()
    if typed:
        print("Type a line to translate; Ctrl-D ends.", file=sys.stderr)
    window = 1 if typed else None
    shown = with_progress(lines, args, "translating")
    results = translator.stream(shown, options=options, n_best=args.n_best, window=window, constraints=constraints)
    with open_output(args.output) as output:
        for number, translations in enumerate(results, start=1):
            if translations[0].source_truncated:
                limit = translator.engine.max_source_tokens
                warn_truncated(f"{args.input}, line {number}", limit, "translated")
            output.writelines(_rows(number, translations, many=args.n_best > 1, scores=args.scores))
            if typed:
                output.flush()
        prefixes.require_end()
        phrases.require_end()
    return 0


class _Beside:
    """A file that has a line for each line of the input; without a file, each is empty."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lines: Iterator[str] = itertools.repeat("")
        if path is not None:
            from transduce.data.readers import read_lines

            self._lines = read_lines(path)

    def __iter__(self) -> Iterator[str]:
        yield from self._lines
        raise DataError(f"{self.path}: has fewer lines than the input: give one for each, empty for none.")

    def require_end(self) -> None:
        """Raises DataError where lines are left when the input has ended."""
        if self.path is not None and next(self._lines, None) is not None:
            raise DataError(f"{self.path}: has more lines than the input: give one for each, empty for none.")


def _constraints(args: argparse.Namespace, prefixes: _Beside, phrases: _Beside) -> "Iterator[Constraints] | None":
    """Returns what the files of prefixes and phrases ask of each line, or None where none is given."""
    from transduce.constraints import Constraints
    from transduce.data.readers import STDIN, read_lines

    files = [path for path in (args.input, args.prefix, args.forbid, args.forbid_by_line) if path is not None]
    if files.count(STDIN) > 1:
        raise ConfigError("standard input ('-') can be only one of --input, --prefix, --forbid and --forbid-by-line.")
    if files == [args.input]:
        return None
    always = tuple(line for line in read_lines(args.forbid) if line.strip()) if args.forbid else ()
    return (
        Constraints(prefix, (*always, *(phrase for phrase in row.split("\t") if phrase.strip())))
        for prefix, row in zip(prefixes, phrases, strict=False)
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
