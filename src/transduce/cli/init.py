"""Writes a first recipe for two aligned files: a commented TOML file, ready for 'transduce train'.

The number of pairs decides preset, vocabulary, batch size and steps; comments in the recipe say why. Languages come
from the names of the files ("train.de"), or from --languages. Without --validation, up to a thousand pairs, evenly
spread, are written next to the recipe as validation set, and training omits them. The corpus is not changed, and no
file is overwritten.

examples:
  transduce init --train train.en train.de --output mine.toml
  transduce init --train train.en train.de --validation dev.en dev.de --output mine.toml
  transduce init --train corpus/a.txt.gz corpus/b.txt.gz --languages en fr --output corpus/en-fr.toml
"""

import argparse
import shlex
import sys
from pathlib import Path

from transduce.cli.options import add_path, add_text
from transduce.errors import ConfigError
from transduce.reporting.tables import counted

SUMMARY = "write a first recipe for two files of your own"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    sides = ("SOURCE", "TARGET")
    corpus = "the training corpus, .gz or .zst, and its translations, line by line"
    add_path(parser, "--train", sides, corpus, nargs=2, required=True)
    add_path(parser, "--validation", sides, "validation set; default: some pairs of the corpus", nargs=2)
    add_text(parser, "--languages", sides, "codes, such as en de; default: from the file names", nargs=2)
    add_path(parser, "--output", "RECIPE", "the file to write, .toml", required=True)


def run(args: argparse.Namespace) -> int:
    """Writes the recipe, and returns the exit code."""
    from transduce.data.first_recipe import language_of, measure_corpus, write_recipe

    source, target = args.train
    if args.output.suffix != ".toml":
        raise ConfigError(f"--output {args.output}: a recipe's name ends in .toml.")
    if args.output.exists():
        raise ConfigError(f"{args.output}: exists already. Choose another --output, or delete it.")
    languages = tuple(args.languages or (language_of(source), language_of(target)))
    for language in languages:
        if language and not language.replace("-", "").isalnum():
            raise ConfigError(
                f"--languages {' '.join(languages)}: '{language}' is not a language code, such as en or pt-BR."
            )
    corpus = measure_corpus(source, target)
    validation = tuple(args.validation) if args.validation else None
    config = write_recipe(corpus, (languages[0], languages[1]), args.output, validation)
    codes = " → ".join(languages) if all(languages) else "languages unknown: name them in the recipe"
    print(
        f"{args.output}: {counted(corpus.num_pairs, 'pair')}, {codes}; {counted(config.train.max_steps, 'step')}",
        file=sys.stderr,
    )
    if validation is None:
        names = " ".join(Path(name).name for name in config.data.validation)
        print(f"validation set: {names}, pairs of the corpus that training leaves out", file=sys.stderr)
    recipe = shlex.quote(str(args.output))
    print(f"next: transduce prepare {recipe} --check-only", file=sys.stderr)
    print(f"then: transduce train {recipe} --output runs/{shlex.quote(args.output.stem)}", file=sys.stderr)
    return 0
