"""Translates a text of the target language back, with a model of the reverse direction.

The text becomes the target side of new pairs, the translations their source side. So a model that is to write German
learns from German that people wrote, even where nobody translated it. The model for the way back is trained on the same
real pairs, with the sides exchanged.

examples:
  transduce augment back-translate models/de-en mono.de --output data/bt
  transduce augment back-translate models/de-en mono.de.zst --output data/bt --beam-size 1 --batch-size 128
  transduce augment back-translate models/de-en mono.de --output data/bt --temperature 1 --top-p 0.9 --seed 7
  transduce augment back-translate models/de-en mono.de --output data/bt --ray auto

With --temperature, translations are drawn at random. They are more varied than those of a beam, and often teach more
where there is much text (Edunov et al. 2018). Each draw depends on the seed and on its line only.

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

SUMMARY = "pairs from a text of the target language, by a model of the reverse direction"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_job(parser, "text in the target language of the model to be trained: this model's source language")


def run(args: argparse.Namespace) -> int:
    """Translates, and returns the exit code."""
    from transduce.augmentation import back_translate

    return run_job(args, partial(back_translate, text=args.text), tag="back-translated")
