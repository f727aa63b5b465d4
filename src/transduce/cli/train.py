"""Trains a model from a recipe: prepares the data, trains, validates, averages the last checkpoints.

examples:
  transduce train recipes/multi30k-en-de.toml --output runs/m30k
  transduce train recipes/multi30k-en-de.toml --output runs/m30k --set train.max_steps=2000 --set model.dropout=0.2
  transduce train recipes/multi30k-en-de.toml --output runs/m30k --resume
  transduce train recipes/wmt14-en-de-base.toml --data data/wmt14 --output runs/base
  torchrun --nproc-per-node 8 -m transduce train recipes/wmt14-en-de-base.toml --output runs/base

Ctrl-C or SIGTERM finishes the step at hand, writes a checkpoint and leaves; --resume then goes on exactly as if
nothing had happened; what was --set at the start holds. A second Ctrl-C leaves at once. The run folder gets
config.json, checkpoints/, best/, metrics.jsonl, tensorboard/ and, at the end, model/: the averaged model, ready for
'transduce translate'.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.bundle import Bundle
    from transduce.config import Config

SUMMARY = "train a model from a recipe"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("recipe", metavar="RECIPE", type=Path, help="TOML file; see recipes/")
    parser.add_argument("--output", metavar="RUN", type=Path, required=True, help="run folder to write")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in RUN")
    parser.add_argument(
        "--data", metavar="DIR", type=Path, help="folder made by 'transduce prepare'; default: RUN/data"
    )
    parser.add_argument("--mirror", metavar="DIR", type=Path, help="folder that stands in for the network")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change one value of the recipe, such as train.max_steps=2000; may be repeated",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Trains, and returns the exit code: 128 + signal where one stopped it."""
    from transduce.cli.requirements import require_training

    require_training()
    config, settings = configuration(args)
    return train(args, config, settings)


def configuration(args: argparse.Namespace) -> "tuple[Config, list[str]]":
    """Returns the recipe with all settings laid over it, and the settings.

    With --resume, what was set when the run was begun holds unless it is set anew.
    """
    from transduce.config import load_recipe
    from transduce.runs import laid_over, run_settings

    settings = laid_over(run_settings(args.output), args.set) if args.resume else args.set
    held = [setting for setting in settings if setting not in args.set]
    if held and not args.quiet:
        print(f"still set, as when {args.output} was begun: {' '.join(held)}", file=sys.stderr)
    return load_recipe(args.recipe, settings), settings


def train(
    args: argparse.Namespace,
    config: "Config",
    settings: "Sequence[str]",
    finish: "Callable[[Bundle], object] | None" = None,
) -> int:
    """Trains as the arguments say, and returns the exit code; for `finish` and `settings` see `runs.train`."""
    from transduce import runs

    outcome = runs.train(
        config,
        args.output,
        resume=args.resume,
        data=args.data,
        mirror=args.mirror,
        show_progress=not args.quiet,
        finish=finish,
        settings=settings,
    )
    step = outcome.progress.step
    if outcome.reason == "stopped":
        number = outcome.signal or signal.SIGTERM  # where another process got it, and told this one
        name = signal.Signals(number).name
        print(f"stopped by {name} after step {step}; a checkpoint is written. Go on with --resume.", file=sys.stderr)
        return 128 + number
    why = "early stopping" if outcome.reason == "early" else "done"
    print(f"{why} after step {step}. The model: {args.output / 'model'}", file=sys.stderr)
    print(outcome.progress.cost.summary(), file=sys.stderr)
    command = "parse run" if config.data.format == "trees" else "translate"
    print(f"try it: echo '…' | transduce {command} {args.output / 'model'}", file=sys.stderr)
    return 0
