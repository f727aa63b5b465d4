"""Makes training data with a model: pairs of a text and its translations.

examples:
  transduce augment back-translate models/de-en mono.de --output data/bt
  transduce augment back-translate models/de-en mono.de --output data/bt --temperature 1 --top-p 0.9
  transduce augment forward-translate models/en-de mono.en --output data/ft
  transduce augment distill models/teacher train.en --output data/distilled
  transduce augment distill models/teacher train.en --reference train.de --nearest-reference chrf --output data/near

  back-translate      your text becomes the target side: for more text in the target language
  forward-translate   your text becomes the source side: for text of a new domain
  distill             like forward-translate, for the training sources of a smaller and faster student

'transduce augment SUBCOMMAND --help' explains each one. docs/guides/data-from-data.md says when to use which.
"""

import argparse

from transduce.cli.help import add_commands, show_help

SUMMARY = "make training data with a model: back-translation, forward translation, distillation"

SUBCOMMANDS = ("back-translate", "forward-translate", "distill")  # each is a module: see `add_commands`

run = show_help  # where no subcommand was chosen


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommands and their arguments."""
    add_commands(parser, "subcommands", SUBCOMMANDS, prefix="augment_")
