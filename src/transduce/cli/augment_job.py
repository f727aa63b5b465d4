"""What the subcommands of `transduce augment` share: their arguments, and how a job is run and reported."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from transduce.cli import arguments
from transduce.cli.open_model import loaded_workers, open_translator
from transduce.cli.options import add_path, add_switch
from transduce.cli.output import say, warn
from transduce.config import DecodeConfig
from transduce.errors import DataError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.augmentation import MadeCorpus

_OUTPUT = """
Files in the output folder:
  source.txt, target.txt    the pairs, for a recipe
  left-out.tsv              lines that gave no pair: line number, reason, text, translation
  translations.jsonl.zst    the translation of every line, with its score
  manifest.json             command, model with checksums, options, counts

A line is left out if it is empty, if it or its translation was cut, or if the guard finds that its translation loops or
copies the source. If the command is stopped, run it again to continue; the files are the same as without the stop.
"""


def add_job(parser: argparse.ArgumentParser, text: str) -> None:
    """Declares model, text, output and the options of translation, and adds the output to the description."""
    parser.description = f"{parser.description}{_OUTPUT}"
    add_path(parser, "model", "MODEL", "model folder")
    add_path(parser, "text", "TEXT", f"{text}, line by line; .gz or .zst, or - for stdin")
    add_path(parser, "--output", "DIR", "folder to write or to continue", required=True)
    arguments.add_overwrite(parser, "what an earlier run wrote, and start again")
    lines = parser.add_argument_group("lines")
    arguments.add_split(lines)
    add_switch(lines, "--no-guard", "keep translations that loop or copy their source")
    arguments.add_window(lines)
    arguments.add_options(parser, "search", paper=DecodeConfig())
    for group in ("limits", "diversity", "sampling"):
        arguments.add_options(parser, group)
    arguments.add_direction(parser)
    arguments.add_ensemble(parser)
    arguments.add_machine(parser)
    arguments.add_shortlist(parser)
    arguments.add_cluster(parser)


def run_job(args: argparse.Namespace, make: "Callable[..., MadeCorpus]", tag: str = "") -> int:
    """Runs the job, prints what was made and how a recipe names it, and returns the exit code.

    Args:
        args: those of `add_job`.
        make: a function of `transduce.augmentation` that already has its input.
        tag: of such data in a recipe; "" for distilled data: a student sees no other data, and must not expect a tag.

    Raises:
        DataError: there is no such file, or every line was left out.
    """
    from transduce.augmentation import CorpusJob
    from transduce.augmentation.made_corpus import LEFT_OUT
    from transduce.data.readers import STDIN, require_file, shown_name
    from transduce.translation.directions import Directions
    from transduce.translation.pipeline import TextOptions

    if args.text != STDIN:
        require_file(args.text)
    arguments.require_cluster(args)
    opened = open_translator(args)
    # As the model spells them: the lines of the recipe name them, and there FR and fr are two languages.
    direction = Directions.of(opened.bundle.tokenizer, opened.bundle).choose(
        args.source_language, args.target, args.domain
    )
    direction.require_source(args.text)
    say(f"{opened.bundle.path}: {opened.bundle.summary}", quiet=args.quiet)
    with loaded_workers(args, opened) as translator:
        made = make(
            translator,
            output=args.output,
            job=CorpusJob(
                options=opened.options,
                text_options=TextOptions(
                    split=args.split_sentences,
                    guard=not args.no_guard,
                    language=args.source_language,
                    target=direction.target if args.target else "",
                    domain=direction.domain,
                ),
                window=args.window,
                overwrite=args.overwrite,
                progress=not args.quiet and sys.stderr.isatty(),
                warn=warn,
            ),
        )
    if not args.quiet:
        _report(made)
    if not made.num_pairs:
        why = f"{made.folder / LEFT_OUT} says why each line was left out" if made.num_lines else "it has no lines"
        raise DataError(f"{shown_name(args.text)}: gave no pairs: {why}.")
    say("to train on these pairs, add to the recipe:", quiet=args.quiet)
    print(made.recipe_lines(tag))
    return 0


def _report(made: "MadeCorpus") -> None:
    """Says what was made, on standard error."""
    if made.was_finished:
        say(f"{made.folder}: finished already, by the same command.")
    elif made.num_resumed:
        say(f"continued after {counted(made.num_resumed, 'line')} done before.")
    say(f"{counted(made.num_pairs, 'pair')} of {counted(made.num_lines, 'line')}")
    for reason, count in made.left_out.items():
        say(f"left out: {count:,}: {reason}")
