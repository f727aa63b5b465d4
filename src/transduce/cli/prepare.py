"""Checks a parallel corpus, learns its tokenizer, and encodes it for training.

examples:
  transduce prepare recipes/multi30k-en-de.toml --output prepared/m30k
  transduce prepare --train train.en train.de --validation dev.en dev.de --preset tiny --output prepared/mine
  transduce prepare --train a.tsv.gz --train b.en.zst b.de.zst --set text.vocab_size=16000 --output prepared/mine
  transduce prepare --train memory.tmx --set data.source_language=en --set data.target_language=de --output prepared/tm
  transduce prepare recipes/wmt14-en-de-base.toml --check-only
  transduce prepare robust.toml --output prepared/robust --show-modified 20

A corpus is two files aligned line by line, one TSV file, or one translation memory (.tmx); .gz and .zst are accepted.
With data.format set to trees it is treebanks, for a parser: see 'transduce parse train --help'. Of a translation memory
with more than two languages, data.source_language and data.target_language say which are read.

Problems are reported with file and line: hidden line breaks, empty sides, lines in the wrong language, duplicates,
training pairs that occur in validation or test, characters that validation or test often have and training hardly ever,
pairs that are too long or of unequal length. The [data] section says which of them are dropped: see --set. Some
problems are errors, found before any training: files that are not UTF-8, unequal line counts, lines that do not match
from some line on, swapped sides.

Corpora with names, weights and languages are in the recipe as [[data.corpora]]. The report says how often training
sees each of them. Weights can change later: they belong to the plan of an epoch, not to the prepared data.

A recipe with a section [init] uses the tokenizer of the model that it starts from, with the new words that it lists.

--show-modified prints lines as the [[train.modifiers]] of the recipe change them in the first epoch.

The output folder has tokenizer.json, train.arrow, validation.arrow, report.json and, written last, manifest.json.
dropped.jsonl says of each training pair that is left out where it is and why. A folder that was prepared from the same
files in the same way is used again. 'transduce train' prepares its data itself; this command prepares them in advance,
on another machine, or only checks them.
"""

import argparse
import dataclasses
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_corpora, add_overwrite
from transduce.cli.options import THREADS, add_number, add_path, add_settings, add_switch, add_text, whole
from transduce.errors import ConfigError

if TYPE_CHECKING:
    from transduce.config import Config


SUMMARY = "check a parallel corpus, learn its tokenizer, encode it"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "recipe", "RECIPE", "TOML file; or give --train", nargs="?")
    add_path(parser, "--output", "DIR", "folder to write; --check-only needs none")
    corpus = parser.add_argument_group("corpus, instead of the recipe's")
    add_corpora(corpus)
    add_text(corpus, "--validation", "FILE", "two aligned files, or one TSV or TMX file", nargs="+")
    add_text(corpus, "--preset", "NAME", "configuration to start from, without a recipe")
    add_settings(parser, "set section.key of the configuration")
    add_path(parser, "--tokenizer", "FILE", "use this tokenizer.json, or that of a model folder; learn none")
    add_path(parser, "--mirror", "DIR", "folder with downloaded corpora, used instead of the network")
    add_number(parser, "--threads", THREADS, "N", "threads that encode; default: all cores")
    add_overwrite(parser, "a folder that was prepared differently")
    add_switch(parser, "--check-only", "only report on the text; write nothing")
    add_number(parser, "--show-modified", whole(1, 1000), "N", "also print N lines before and after train.modifiers")
    add_switch(parser, "--quiet", "no progress on standard error")


def run(args: argparse.Namespace) -> int:
    """Checks and prepares the corpus, and returns the exit code."""
    config = configuration(args)
    if args.output is None and not args.check_only:
        raise ConfigError("Say where to write: --output DIR. Or add --check-only to write nothing.")
    from transduce.data import prepare as preparation

    if args.check_only and args.show_modified:
        raise ConfigError("--show-modified shows prepared pairs: leave out --check-only, and give --output DIR.")
    if args.check_only:
        from transduce.data.doctor import require_aligned
        from transduce.data.prepare_report import describe_examination

        examination = preparation.check(config, progress=not args.quiet, mirror=args.mirror)
        print(describe_examination(examination, config), flush=True)
        require_aligned(examination.findings, config.data)
        return 0
    from transduce.cli.requirements import require

    require("train", ["pyarrow"])
    report = preparation.prepare(
        config,
        args.output,
        progress=not args.quiet,
        num_workers=args.threads,
        tokenizer=args.tokenizer,
        mirror=args.mirror,
        overwrite=args.overwrite,
    )
    print(report)
    if args.show_modified:
        from transduce.data.modifiers.shown import show_modified

        print(f"\n{show_modified(config, args.output, args.show_modified)}")
    return 0


def configuration(args: argparse.Namespace) -> "Config":
    """Returns the configuration that the recipe or the corpus arguments describe, with `--set` applied."""
    from transduce.config import Config, apply_settings, load_recipe, preset

    if args.recipe is not None:
        if args.train or args.validation or args.preset:
            raise ConfigError("Give a recipe, or --train, --validation and --preset; not both.")
        return load_recipe(args.recipe, args.set)
    if not args.train:
        raise ConfigError("Nothing to prepare: give a recipe, or --train SOURCE TARGET.")
    config = preset(args.preset) if args.preset else Config()
    data = dataclasses.replace(
        config.data,
        train=tuple(tuple(names) for names in args.train),
        validation=tuple(args.validation or ()),
    )
    return apply_settings(dataclasses.replace(config, data=data), args.set)
