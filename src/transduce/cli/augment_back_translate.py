"""Translates a text of the target language back, with a model of the reverse direction.

The text becomes the target side of new pairs, and the translations become the source side. So a model for English to
German can learn from German text that nobody has translated. The model that translates back is trained on the real
pairs, with source and target swapped.

examples:
  transduce augment back-translate models/de-en mono.de --output data/bt
  transduce augment back-translate models/de-en mono.de.zst --output data/bt --beam-size 1 --batch-size 128
  transduce augment back-translate models/de-en mono.de --output data/bt --temperature 1 --top-p 0.9 --seed 7
  transduce augment back-translate models/de-en mono.de --output data/bt --ray auto

With --temperature, translations are sampled. They are more varied than those of a beam, and often work better when
there is much text (Edunov et al. 2018). A sample depends only on the seed and on its line.
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
