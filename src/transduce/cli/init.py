"""Writes a first recipe for a corpus: a commented TOML file, ready for 'transduce train'.

A corpus is two files aligned line by line, one TSV file, or one translation memory (.tmx); .gz and .zst are accepted.
The number of pairs decides preset, vocabulary, batch size and steps; comments in the recipe say why. Languages come
from the names of two files ("train.de"), from the translation memory, or from --languages. Without --validation, up to
a thousand pairs, evenly spread, are written next to the recipe as validation set, and training omits them. The corpus
is not changed, and no file is overwritten. With --from, the recipe adapts a model to the corpus; its languages are
those of the model.

examples:
  transduce init --train train.en train.de --output mine.toml
  transduce init --train train.en train.de --validation dev.en dev.de --output mine.toml
  transduce init --train memory.tmx --output mine.toml
  transduce init --from models/en-de --train memory.tmx --output mine.toml
  transduce init --train corpus/a.txt.gz corpus/b.txt.gz --languages en fr --output corpus/en-fr.toml
"""

import argparse
import shlex
import sys
from pathlib import Path

from transduce.cli.options import add_path, add_text
from transduce.cli.output import warn
from transduce.errors import ConfigError
from transduce.reporting.tables import counted

SUMMARY = "write a first recipe for a corpus of your own"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "--train", "FILE", "two aligned files, or one TSV or TMX file", nargs="+", required=True)
    add_path(parser, "--validation", "FILE", "validation set; default: some pairs of the corpus", nargs="+", default=[])
    add_text(parser, "--languages", ("SOURCE", "TARGET"), "codes, such as en de; default: see above", nargs=2)
    add_path(parser, "--from", "MODEL", "adapt this model or run: a recipe with [init]", dest="ancestor")
    add_path(parser, "--output", "RECIPE", "the file to write, .toml", required=True)


def run(args: argparse.Namespace) -> int:
    """Writes the recipe, and returns the exit code."""
    from transduce.data.first_recipe import measure_corpus, write_recipe

    if args.output.suffix != ".toml":
        raise ConfigError(f"--output {args.output}: a recipe's name ends in .toml.")
    if args.output.exists():
        raise ConfigError(f"{args.output}: exists already. Choose another --output, or delete it.")
    source, target = args.languages or ("", "")
    for language in (source, target):
        if language and not language.replace("-", "").isalnum():
            raise ConfigError(
                f"--languages {source} {target}: '{language}' is not a language code, such as en or pt-BR."
            )
    if args.ancestor is not None:
        from transduce.config.ancestor import read_ancestor

        own = read_ancestor(str(args.ancestor))[0].get("data", {})
        pair = own.get("source_language", ""), own.get("target_language", "")
        if args.languages and (source, target) == pair[::-1] != pair:
            raise ConfigError(
                f"--languages {source} {target}: {args.ancestor} translates {' → '.join(pair)}. Start from a model of "
                f"{source} → {target}, or leave --languages out."
            )
        source, target = source or pair[0], target or pair[1]
    corpus = measure_corpus(args.train, (source, target))
    config = write_recipe(corpus, corpus.languages, args.output, args.validation, args.ancestor)
    _warn_of_names(args, corpus.languages)
    codes = " → ".join(corpus.languages) if all(corpus.languages) else "languages unknown: name them in the recipe"
    print(
        f"{args.output}: {counted(corpus.num_pairs, 'pair')}, {codes}; {counted(config.train.max_steps, 'step')}",
        file=sys.stderr,
    )
    if corpus.num_skipped:
        print(f"skipped: {counted(corpus.num_skipped, 'unit')} without a text in both languages", file=sys.stderr)
    if not args.validation:
        names = " ".join(Path(name).name for name in config.data.validation)
        print(f"validation set: {names}, pairs of the corpus that training leaves out", file=sys.stderr)
    recipe = shlex.quote(str(args.output))
    name = shlex.quote(args.output.stem)
    steps = [f"transduce train {recipe} --output runs/{name}"]
    if args.ancestor is None:
        steps.insert(0, f"transduce prepare {recipe} --check-only")
    for word, step in zip(("next", "then"), steps, strict=False):
        print(f"{word}: {step}", file=sys.stderr)
    return 0


def _warn_of_names(args: argparse.Namespace, languages: tuple[str, str]) -> None:
    """Warns if the languages are those of the model to start from, and the files are named by others."""
    from transduce.text.languages import language_of, without_region

    named = [language_of(path) for path in args.train]
    if args.ancestor is None or args.languages or len(named) != 2 or not all(named):
        return
    if named != [without_region(code) for code in languages]:
        warn(
            f"{' and '.join(map(str, args.train))}: by their names {' → '.join(named)}, but the recipe has the model's "
            f"languages, {' → '.join(languages)}. If the names are right: --languages {' '.join(named)}"
        )
