"""Translates training sources with a teacher; a student that learns from these pairs can be smaller and faster.

A teacher's translations are more regular than those of people, and easier to learn (Kim and Rush 2016).
This command only makes the data; 'transduce student' also trains and measures the student.

examples:
  transduce augment distill models/teacher train.en --output data/distilled
  transduce augment distill models/teacher train.en --ensemble models/second --output data/distilled
  transduce augment distill models/teacher train.en --reference train.de --nearest-reference chrf --output data/near
  transduce augment distill models/teacher pairs.tsv --columns --nearest-reference bleu --beam-size 8 --output data/near

--nearest-reference keeps, of each line's translations, the one closest to the reference by sentence BLEU or chrF,
instead of the most probable one. It chooses among all translations of the beam, or among --n-best of them.
"""

import argparse
from functools import partial
from typing import Any

from transduce.cli.augment_job import add_job, run_job
from transduce.cli.open_model import languages_of_memory
from transduce.cli.options import add_choice, add_number, add_path, add_switch, option_name, whole
from transduce.data.tmx import is_tmx
from transduce.errors import ConfigError

SUMMARY = "a teacher's translations of training sources, for a student"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_job(parser, "training text in the source language, or a translation memory (.tmx)")
    group = parser.add_argument_group("references")
    add_path(group, "--reference", "FILE", "the translations of TEXT, line by line")
    add_switch(group, "--columns", "instead: TEXT is a TSV or TMX of sources and references")
    add_choice(group, "--nearest-reference", ("bleu", "chrf"), "keep the translation closest to the reference")
    add_number(group, "--n-best", whole(1, 1_000_000), "N", "translations to choose from; default: the beam size")


def run(args: argparse.Namespace) -> int:
    """Translates, and returns the exit code."""
    from transduce.augmentation import distill
    from transduce.data.readers import STDIN, require_file

    if args.reference is not None and args.columns:
        raise ConfigError("References are in a file (--reference) or in TEXT (--columns): give one of them.")
    if args.nearest_reference is None:
        for name in ("reference", "columns", "n_best"):
            if getattr(args, name):
                raise ConfigError(f"{option_name(name)} is for --nearest-reference bleu or chrf: give that as well.")
        return run_job(args, partial(distill, corpus=args.text, **_languages(args)))
    if args.reference is None and not args.columns:
        raise ConfigError("--nearest-reference needs references: give --reference FILE, or --columns.")
    if STDIN in (args.text, args.reference):
        raise ConfigError(
            "--nearest-reference reads its files twice, so none can be standard input ('-'): name a file."
        )
    corpus = [args.text] if args.columns else [args.text, args.reference]
    for path in corpus:
        require_file(path)
    make = partial(distill, corpus=corpus, nearest=args.nearest_reference, n_best=args.n_best, **_languages(args))
    return run_job(args, make)


def _languages(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the keyword that says which languages of a translation memory the model translates."""
    return {"languages": languages_of_memory(args.model, target=args.target)} if is_tmx(args.text) else {}
