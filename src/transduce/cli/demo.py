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
from shlex import quote as quoted

from transduce.cli.arguments import add_overwrite
from transduce.cli.options import add_number, add_path, add_settings, add_switch, add_text, whole

SUMMARY = "train and try a small translator on built-in data, in minutes"
_SHOWN = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    output, languages = Path("runs/demo"), ("SOURCE", "TARGET")
    add_path(parser, "--output", "DIR", "folder to write; default: %(default)s", default=output)
    add_text(parser, "--languages", languages, "two CLDR locales; default: en de", nargs=2, default=["en", "de"])
    add_number(parser, "--pairs", whole(1, 10_000_000), "N", "training pairs to make", 60_000)
    add_overwrite(parser, "a demo that is there")
    add_settings(parser, "change a value of preset demo")
    add_switch(parser, "--quiet", "no progress bar")


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
        languages=(source, target),
        num_train=args.pairs,
        overwrite=args.overwrite,
        show_progress=not args.quiet,
    )
    translated, int8 = result.translated, result.translated_int8
    print(f"\nheld-out lines ({source} → {target}):")
    step = max(1, len(result.sources) // _SHOWN)
    for index in range(0, len(result.sources), step)[:_SHOWN]:
        right = translated.lines[index] == translated.references[index]
        print(f"  {result.sources[index]}\n    {'✓' if right else '✗'} {translated.lines[index]}")
        if not right:
            print(f"      expected: {translated.references[index]}")
    bleu, count = translated.bleu, f"{len(result.sources):,}"
    print(f"\nexact match {translated.exact_match:.1%}, BLEU {bleu.value:.1f} on {count} held-out lines")
    print(f"sacreBLEU signature: {bleu.signature}")
    print(f"all of it took {result.seconds / 60:.1f} minutes; the model is in {result.model}\n")
    print(f"a sentence of your own:  echo {quoted(result.example[0])} | transduce translate {result.model}")
    print(f"                         {result.example[1]}")
    print(f"its attention:           open {result.page} in a browser")
    print(
        f"CTranslate2 in int8:     the same {count} lines in {int8.seconds:.1f} seconds (torch: "
        f"{translated.seconds:.1f}), exact match {int8.exact_match:.1%}"
    )
    return 0
