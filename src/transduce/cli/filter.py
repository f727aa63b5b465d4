"""Cleans a parallel corpus: drops pairs that would harm training, and logs each of them with the reason.

examples:
  transduce filter recipes/multi30k-en-de.toml --output clean
  transduce filter --train train.en.zst train.fr.zst --output clean
  transduce filter --train a.tsv.gz --train b.en b.de --output clean --off near-duplicate --max-ratio 4
  transduce filter --train train.en train.fr --output clean --forward models/en-fr --backward models/fr-en
  transduce filter --train memory.tmx --languages en fr --output clean
  transduce filter --train train.en train.fr --dry-run

A pair is dropped by the first of these rules that it breaks:

  empty           a side without text
  encoding        bytes that are not UTF-8, text in a wrong encoding, letters lost to '?', hidden line breaks
  markup          tags and HTML entities
  length          a side of more than --max-words words
  junk            a side of random letters, or of signs only
  repetition      a side that repeats a phrase at once, where the other does not
  ratio           sides whose length ratio is far from the usual one of this corpus
  copy            a target that repeats its source, or most of it
  swapped         source and target swapped
  language        a side in a wrong language: that of the other side, or a third one
  truncated       a side that ends within a sentence, and is short
  numbers         sides with different numbers
  alignment       sides that are not translations of each other: single pairs, and runs of shifted lines
  duplicate       a pair that repeats an earlier one
  cross-entropy   a pair that two models score as improbable; needs --forward and --backward
  near-duplicate  a pair that repeats an earlier one except for case, punctuation, numbers and small edits

No model and no word list is needed. The command learns from the corpus itself what is usual, what the languages look
like, and which words translate each other. 'alignment' and third languages need at least 2000 pairs.

The output folder gets the clean files, with the names and the compression of the input, but a TSV file of its pairs for
a translation memory (.tmx); dropped.jsonl, with file, line, rule and reason of each dropped pair; report.json; and
report.html, to open in a browser. The folder appears once everything is written.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_corpora, add_device, add_overwrite, require_both
from transduce.cli.options import Number, add_choice, add_number, add_path, add_switch, add_text, option_name
from transduce.cli.output import print_report
from transduce.config.filter_options import RULES, FilterOptions
from transduce.config.ranges import flags_of, ranges_of
from transduce.engines.capabilities import ENGINE_NAMES
from transduce.errors import ConfigError

if TYPE_CHECKING:
    from transduce.augmentation.filtering.cross_entropy import Scorer
    from transduce.config import DataConfig

SUMMARY = "clean a parallel corpus, and log what was dropped and why"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "recipe", "RECIPE", "TOML file; or give --train", nargs="?")
    add_corpora(parser)
    languages = "filter the corpora of this language pair, such as en fr, if the recipe has others too"
    add_text(parser, "--languages", ("SOURCE", "TARGET"), languages, nargs=2)
    add_path(parser, "--output", "DIR", "folder to write; optional with --dry-run")
    add_overwrite(parser, "a folder that was written by a filter")
    add_switch(parser, "--dry-run", "write no corpus; write the reports if --output is given")
    rules = parser.add_argument_group("rules")
    add_choice(rules, "--off", RULES, "rules to switch off", nargs="+", default=[], metavar="RULE")
    defaults = FilterOptions()
    for key, flag in flags_of(FilterOptions).items():
        kind = Number(*ranges_of(FilterOptions)[key])
        add_number(rules, option_name(key), kind, flag.metavar, flag.help, getattr(defaults, key))
    models = parser.add_argument_group("models, for the rule cross-entropy")
    add_path(models, "--forward", "MODEL", "model folder, from source to target")
    add_path(models, "--backward", "MODEL", "model folder, from target to source")
    add_choice(models, "--engine", ENGINE_NAMES, "default: %(default)s", default="auto")
    add_device(models)
    add_switch(parser, "--quiet", "no progress on standard error")


def run(args: argparse.Namespace) -> int:
    """Filters the corpus, and returns the exit code."""
    if args.output is None and not args.dry_run:
        raise ConfigError("Say where to write: --output DIR. Or add --dry-run to write nothing.")
    require_both(args, "forward", "backward")
    from transduce.augmentation.filtering import filter_corpus

    options = FilterOptions(off=tuple(args.off), **{key: getattr(args, key) for key in flags_of(FilterOptions)})
    data = _data(args)
    source, target = data.held_out_languages
    report = filter_corpus(
        data,
        args.output,
        options,
        models=(
            (_load(args, "forward", source, target), _load(args, "backward", target, source)) if args.forward else None
        ),
        dry_run=args.dry_run,
        overwrite=args.overwrite,
        progress=not args.quiet,
    )
    print_report(str(report))
    if args.output is not None:
        page, log = args.output / "report.html", args.output / "dropped.jsonl"
        print(f"\nExamples are in {page}, and all dropped pairs in {log}.")
    return 0


def _data(args: argparse.Namespace) -> "DataConfig":
    """Returns the corpus that the recipe or --train names."""
    from transduce.config import DataConfig, load_recipe

    if (args.recipe is None) == (args.train is None):
        raise ConfigError("Say what to filter: a recipe, or --train SOURCE TARGET; not both.")
    data = load_recipe(args.recipe, []).data if args.recipe else DataConfig(train=tuple(map(tuple, args.train)))
    return _of_languages(data, *args.languages) if args.languages else data


def _of_languages(data: "DataConfig", source: str, target: str) -> "DataConfig":
    """Returns the corpora of one pair of languages, where the recipe says which they are; else all of them."""
    known = [corpus for corpus in data.corpora if corpus.source_language or corpus.target_language]
    if known:
        chosen = tuple(c for c in data.corpora if (c.source_language, c.target_language) == (source, target))
        if not chosen:
            pairs = sorted({f"{corpus.source_language} {corpus.target_language}" for corpus in known})
            raise ConfigError(f"--languages {source} {target}: the recipe has no such corpus, but: {', '.join(pairs)}.")
        data = dataclasses.replace(data, corpora=chosen)
    return dataclasses.replace(data, source_language=source, target_language=target)


def _load(args: argparse.Namespace, option: str, source: str, target: str) -> "Scorer":
    """Loads a model of the rule cross-entropy; one of several target languages writes `target`."""
    from transduce.augmentation.filtering.cross_entropy import ScorerTowards
    from transduce.translation.translator import Translator

    model: Path = getattr(args, option)
    translator = Translator.load(model, engine=args.engine, device=args.device, threads=args.threads)
    directions = translator.directions
    if not directions.targets:
        if not any(_may_be(own, source) and _may_be(other, target) for own, other in directions.pairs):
            own, other = directions.pairs[0]
            raise ConfigError(
                f"--{option} {model}: translates {own} → {other}, and a model of {source} → {target} is "
                "needed here. --forward is from the source to the target, --backward from the target to the source."
            )
        return translator
    if not target:
        known = ", ".join(directions.targets)
        raise ConfigError(f"--{option} {model}: writes {known}: say which pair this is: --languages SOURCE TARGET.")
    given = source if directions.language_tags == "both" else ""  # others split no sentences here
    return ScorerTowards(translator, given, directions.choose(given, target).target)


def _may_be(own: str, needed: str) -> bool:
    """Returns whether two codes name the same language, or one is not known."""
    from transduce.text.languages import without_region

    return not own or not needed or without_region(own) == without_region(needed)
