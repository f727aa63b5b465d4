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

from transduce.cli.help import add_commands, show_help

SUMMARY = "train and run a constituency parser; score parses as EVALB does; draw trees"

SUBCOMMANDS = ("train", "run", "score", "draw")  # each is a module: see `add_commands`

run = show_help  # where no subcommand was chosen


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommands and their arguments."""
    add_commands(parser, "subcommands", SUBCOMMANDS, prefix="parse_")
