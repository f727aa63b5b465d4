"""Constituency parsing (section 6.3 of the paper): trees in brackets, as treebanks have them.

examples:
  transduce parse train recipes/wsj-parsing.toml --output runs/wsj
  echo "The dog barks ." | transduce parse run runs/wsj/model
  transduce parse run runs/wsj/model --trees --source wsj/23 --output wsj23.parsed
  transduce parse score --reference test.gold --hypothesis test.parsed
  transduce parse score --reference test.gold --hypothesis test.parsed --parameters COLLINS.prm --per-sentence
  transduce parse draw test.parsed --number 3
  transduce parse draw test.parsed --number 3 --output tree.svg

'transduce parse SUBCOMMAND --help' explains each one, with more examples.
"""

import argparse
from importlib import import_module

from transduce.cli.help import HelpFormatter

SUMMARY = "train and run a constituency parser; score parses as EVALB does; draw trees"

# Each is a module `transduce.cli.parse_NAME` with `SUMMARY`, `configure(parser)` and `run(args) -> int`.
SUBCOMMANDS = ("train", "run", "score", "draw")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommands and their arguments."""
    subcommands = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND")
    parser.set_defaults(run_subcommand=None)
    for name in SUBCOMMANDS:
        module = import_module(f"transduce.cli.parse_{name}")
        subcommand = subcommands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            formatter_class=HelpFormatter,
        )
        module.configure(subcommand)
        subcommand.set_defaults(run_subcommand=module.run, parser=subcommand)


def run(args: argparse.Namespace) -> int:
    """Runs the chosen subcommand, and returns the exit code; without one, prints the help."""
    if args.run_subcommand is None:
        args.parser.print_help()
        return 0
    return int(args.run_subcommand(args))
