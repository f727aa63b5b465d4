"""Trains a parser from a recipe whose data are treebanks ([data] format = "trees"), and tests it.

The arguments are those of 'transduce train'. Each tree becomes a pair: its words, and its brackets without the words.
Validation parses sentences, repairs malformed trees, and reports labelled F1. At the end the test sentences of the
recipe are parsed with the recipe's beam size; the scores go into metrics.json and the model card.

A malformed tree in a treebank is an error that names file, line and column. It is found before training begins.

examples:
  transduce parse train recipes/wsj-parsing.toml --output runs/wsj
  transduce parse train recipes/wsj-parsing.toml --output runs/wsj --resume
  transduce parse train recipes/treebank-small.toml --output runs/trees --set data.folder=treebanks
  transduce parse train recipes/wsj-parsing-semi.toml --output runs/semi --set data.repeat=[20,1]
"""

import argparse
import sys
from typing import TYPE_CHECKING

from transduce.cli import train
from transduce.cli.requirements import require_training
from transduce.errors import ConfigError

if TYPE_CHECKING:
    from transduce.bundle import Bundle

SUMMARY = "train a parser on treebanks, and test it"

configure = train.configure


def run(args: argparse.Namespace) -> int:
    """Trains and tests, and returns the exit code."""
    require_training()
    from transduce import runs

    config, settings = train.configuration(args)
    if config.data.format != "trees":
        raise ConfigError(
            f"{args.recipe}: trains no parser: data.format is '{config.data.format}'. Set it to 'trees' for treebanks, "
            "or use 'transduce train' for text."
        )
    tests = runs.read_test_trees(config)  # now, so that a malformed tree is found before training

    def measure(bundle: "Bundle") -> None:
        measured = bundle.metrics
        if not all(f"test_{name}_f1" in measured for name in tests):  # else the run was finished before
            measured = runs.measure_parser(bundle, tests, show_progress=not args.quiet).metrics
        for name in tests:
            print(_row(name, measured), file=sys.stderr)

    outcome = runs.train(
        config, args.output, settings=settings, finish=measure if tests else None, **train.options(args)
    )
    return train.report(args, config, outcome)


def _row(name: str, metrics: dict[str, float]) -> str:
    scores = {key: metrics[f"test_{name}_{key}"] for key in ("f1", "precision", "recall", "complete_match")}
    shown = ", ".join(f"{key.replace('_', ' ')} {value:.2f}" for key, value in scores.items())
    return (
        f"{name}: {shown}, tagging accuracy {metrics[f'test_{name}_tagging_accuracy']:.2f} "
        f"on {metrics[f'test_{name}_sentences']:,} sentences; {metrics[f'test_{name}_repaired']:.2f} % repaired"
    )
