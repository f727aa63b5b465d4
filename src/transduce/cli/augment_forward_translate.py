"""Translates a text of the source language, and makes pairs of it: the model learns from its own translations.

It helps where text of the new domain is there in the source language only. Translations by the model that is to be
trained teach it nothing new but the domain's source side; those of a larger or of several models (--ensemble) do.

examples:
  transduce augment forward-translate models/en-de mono.en --output data/ft
  transduce augment forward-translate models/a mono.en --ensemble models/b models/c --output data/ft

OUTPUT is a folder:
  source.txt, target.txt    the pairs, for a recipe
  left-out.tsv              lines that were left out: number, reason, text, translation
  translations.jsonl.zst    the translation of every line, with its score
  manifest.json             command, model with checksums, options, counts

Left out are empty lines, lines or translations that were cut, and those that the guard finds: they loop, or copy their
source. If the command is stopped, the same command continues, and the files are the same as without the stop.
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
