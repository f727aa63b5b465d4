"""Learns from the training corpus which pieces translate which, and writes this shortlist into the model folder.

With it, 'transduce translate MODEL --shortlist on' computes probabilities of a few hundred pieces only, those that can
translate the source sentence, instead of the whole vocabulary: the output layer becomes much cheaper.
docs/guides/shortlist.md says what that gains, what it costs, and what scores then mean.

examples:
  transduce shortlist models/m30k --source train.en --target train.de
  transduce shortlist models/m30k --source train.en --target train.de --test-source val.en --test-reference val.de
  transduce shortlist models/m30k --data runs/m30k/data
  transduce shortlist models/m30k --data runs/m30k/data --candidates 200 --frequent 500

The corpus is split into pieces by the model's tokenizer. IBM Model 1 learns the translations of pieces. The most
probable translations of each piece are kept, as many as --candidates; the most frequent pieces, as many as --frequent,
are candidates in every sentence.

The table printed shows, for the chosen number of candidates (*) and for others, the share of reference pieces that are
in the shortlist of their sentence, and the size of that shortlist. It is measured on --test-source, or on the
validation pairs of the prepared data, or on a thousand pairs held out from the corpus. Choose the smallest number that
covers nearly all.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.cli.arguments import add_overwrite, require_both
from transduce.cli.options import add_number, add_path, add_switch, whole
from transduce.errors import ConfigError, DataError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.bundle import Bundle
    from transduce.engines.shortlist.learning import Coverage, Pairs

SUMMARY = "learn a shortlist from the training corpus: faster translation with a smaller vocabulary"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "model", "MODEL", "model folder; the shortlist is written into it")
    add_path(parser, "--source", "FILE", "the training corpus, .gz or .zst")
    add_path(parser, "--target", "FILE", "its translations, line by line")
    add_path(parser, "--data", "FOLDER", "instead: a prepared folder or a run folder")
    add_path(parser, "--test-source", "FILE", "other lines, to measure the coverage")
    add_path(parser, "--test-reference", "FILE", "their translations")
    # docs/guides/shortlist.md has the coverage of these numbers.
    add_number(parser, "--candidates", whole(1, 1_000_000), "K", "pieces kept for each source piece", 100)
    add_number(parser, "--frequent", whole(0, 1_000_000), "F", "pieces in the shortlist of every sentence", 300)
    add_number(parser, "--max-pairs", whole(1), "N", "learn from at most N pairs, evenly spread", 500_000)
    add_number(parser, "--iterations", whole(1, 1000), "N", "iterations of EM", 5)
    add_overwrite(parser, "the existing shortlist")
    add_switch(parser, "--json", "print JSON")


def run(args: argparse.Namespace) -> int:
    """Learns and writes the shortlist, and returns the exit code."""
    require_both(args, "source", "target")
    require_both(args, "test_source", "test_reference")
    if (args.source is None) == (args.data is None):
        raise ConfigError("Give the training corpus: either --source and --target, or --data.")
    # Imported here, so that `transduce --help` need not load what they need.
    from transduce.bundle import Bundle
    from transduce.engines.shortlist import FILE, learning
    from transduce.engines.shortlist.table import save_shortlist
    from transduce.files import require_free
    from transduce.translation.directions import Directions

    bundle = Bundle.load(args.model)
    directions = Directions.of(bundle.tokenizer, bundle)
    if args.source is not None and not directions.targets:  # else the corpus may be one of several directions
        directions.choose().require_source(args.source)
    require_free(bundle.path / FILE, overwrite=args.overwrite, option="")
    pairs, held_out = _pairs(args, bundle)
    size, same = bundle.tokenizer.target.vocab_size, learning.same_pieces(bundle.tokenizer)
    learned = learning.learn(pairs, size, same, iterations=args.iterations, progress=sys.stderr.isatty())
    shortlist, coverages = learning.learn_shortlist(
        learned, held_out, num_candidates=args.candidates, num_frequent=args.frequent
    )
    path = save_shortlist(bundle, shortlist)
    if args.json:
        rows = [asdict(each) for each in coverages]
        print(json.dumps({"shortlist": str(path), **shortlist.facts, "coverages": rows}, indent=2))
    else:
        print(_text(path, shortlist.facts, coverages))
    return 0


def _pairs(args: argparse.Namespace, bundle: "Bundle") -> "tuple[Pairs, Pairs]":
    """Returns the pairs to learn from, and the pairs to measure on."""
    from transduce.engines.shortlist import learning

    tokenizer, most, shown = bundle.tokenizer, args.max_pairs, sys.stderr.isatty()
    if args.data is not None:
        pairs, other = learning.read_prepared(_prepared(args.data), tokenizer, most)
    else:
        pairs, other = learning.read_files((args.source, args.target), tokenizer, most, progress=shown), None
    if args.test_source is not None:
        other = learning.read_files((args.test_source, args.test_reference), tokenizer, most)
        if not len(other):
            raise DataError(f"{args.test_source} and {args.test_reference} have no pair of lines with text.")
    return (pairs, other) if other is not None and len(other) else learning.hold_out(pairs)


def _prepared(folder: Path) -> Path:
    """Returns the prepared folder; a run folder contains it."""
    from transduce.data.prepared import is_prepared

    return folder / "data" if not is_prepared(folder) and is_prepared(folder / "data") else folder


def _text(path: Path, facts: dict[str, Any], coverages: "list[Coverage]") -> str:
    lines = [
        f"{path}: learned from {counted(facts['pairs'], 'pair')}; {counted(facts['candidates'], 'candidate')} of each "
        f"piece, {counted(facts['frequent'], 'frequent piece')}.",
        f"Of the references of {counted(facts['coverage']['pairs'], 'other pair')}, with "
        f"{counted(facts['frequent'], 'frequent piece')}:",
        "",
        "  candidates   pieces covered   whole sentences   shortlist of a sentence",
    ]
    for each in coverages:
        mark = "*" if each.num_candidates == facts["candidates"] else " "
        lines.append(
            f"{mark} {each.num_candidates:>10} {100 * each.share_of_tokens:>14.2f} % "
            f"{100 * each.share_of_sentences:>14.1f} % {each.mean_ids:>18,.0f} pieces"
        )
    return "\n".join(lines)
