"""Trains a small translator on generated data and tries it: from nothing to a working model in minutes.

examples:
  transduce demo
  transduce demo --languages en fr --output runs/demo-fr
  transduce demo --overwrite --set train.max_steps=2000

The corpus is dates, times, durations, quantities, amounts, ordinals and spelled-out numbers: in English-German, in
many carrier phrases; for any other pair of CLDR locales, as plain patterns. Test lines hold values, and phrases with
kinds of value, that training never saw. Exact match is the share of translations that equal the reference.
"""

import argparse
from pathlib import Path

from transduce.cli.numbers import whole

SUMMARY = "train and try a small translator on built-in data, in minutes"
_SHOWN = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    output, languages = Path("runs/demo"), ("SOURCE", "TARGET")
    parser.add_argument(
        "--output", metavar="DIR", type=Path, default=output, help="folder to write; default: %(default)s"
    )
    two = "two CLDR locales; default: en de"
    parser.add_argument("--languages", nargs=2, metavar=languages, default=["en", "de"], help=two)
    pairs = "training pairs to make; default: %(default)s"
    parser.add_argument("--pairs", type=whole(1, 10_000_000), default=60_000, metavar="N", help=pairs)
    parser.add_argument("--overwrite", action="store_true", help="replace a demo that is there")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a value of preset demo")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Runs the demo, and returns the exit code."""
    from transduce.cli.requirements import require, require_training

    require_training()
    require("demo", ["babel", "num2words"])
    from transduce.config import apply_settings, preset
    from transduce.experiments.demo import run_demo

    source, target = args.languages
    result = run_demo(
        apply_settings(preset("demo"), args.set),
        args.output,
        source_language=source,
        target_language=target,
        num_train=args.pairs,
        overwrite=args.overwrite,
        show_progress=not args.quiet,
    )
    print(f"\nheld-out lines ({source} → {target}):")
    step = max(1, len(result.sources) // _SHOWN)
    for index in range(0, len(result.sources), step)[:_SHOWN]:
        right = result.translations[index] == result.references[index]
        print(f"  {result.sources[index]}\n    {'✓' if right else '✗'} {result.translations[index]}")
        if not right:
            print(f"      expected: {result.references[index]}")
    count, exact = f"{len(result.sources):,}", f"{result.exact_match:.1%}"
    print(f"\nexact match {exact}, BLEU {result.bleu.value:.1f} on {count} held-out lines")
    print(f"sacreBLEU signature: {result.bleu.signature}")
    print(f"all of it took {result.seconds / 60:.1f} minutes; the model is in {result.model}. Try your own sentence:\n")
    example = "The train to Berlin leaves at 4:35 PM on March 12." if source == "en" else "…"
    print(f'  echo "{example}" | transduce translate {result.model}')
    return 0
