"""Translates a text of the source language; text and translations become new pairs.

Use it if you have text of the new domain in the source language only. If the model that makes the translations is also
the one to be trained, it learns only from the source side. It learns more from a larger model, or from several models
(--ensemble).

examples:
  transduce augment forward-translate models/en-de mono.en --output data/ft
  transduce augment forward-translate models/a mono.en --ensemble models/b models/c --output data/ft
"""

import argparse
from functools import partial

from transduce.cli.augment_job import add_job, run_job

SUMMARY = "pairs from a text of the source language"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_job(parser, "text in the source language")


def run(args: argparse.Namespace) -> int:
    """Translates, and returns the exit code."""
    from transduce.augmentation import forward_translate

    return run_job(args, partial(forward_translate, text=args.text), tag="forward-translated")
