"""Trains a model from a recipe: prepares the data, trains, validates, averages the last checkpoints.

examples:
  transduce train recipes/multi30k-en-de.toml --output runs/m30k
  transduce train recipes/multi30k-en-de.toml --output runs/m30k --set train.max_steps=2000 --set model.dropout=0.2
  transduce train recipes/multi30k-en-de.toml --output runs/m30k --resume
  transduce train mine.toml --from models/general --output runs/mine
  transduce train mine.toml --blockwise models/general --output runs/blockwise --set train.max_steps=20000
  transduce train recipes/wmt14-en-de-base.toml --data data/wmt14 --output runs/base
  torchrun --nproc-per-node 8 -m transduce train recipes/wmt14-en-de-base.toml --output runs/base

--from starts from a model: from its weights, tokenizer and shape, with a low learning rate. The section [init] of a
recipe says the same and more: docs/guides/fine-tuning.md.

--blockwise adds heads to a model that predict the tokens after the next one, so that a greedy search may accept several
tokens a pass and still write what it wrote before (Stern, Shazeer, Uszkoreit 2018). They learn from the model's own
translations of the recipe's training sources, which it writes first, to RUN/distilled. The model itself stays as it is:
docs/guides/training.md#heads-for-later-tokens.

Ctrl-C or SIGTERM finishes the current step, writes a checkpoint and exits. --resume then continues exactly as if
training had not stopped; what was --set before still holds. A second Ctrl-C exits at once. The run folder gets
config.json, checkpoints/, best/, metrics.jsonl, tensorboard/ and, at the end, model/: the averaged model, ready for
'transduce translate'. Batches whose loss is a spike or not finite are set aside, with their text, in quarantine.jsonl.
"""

import argparse
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from transduce.cli.options import add_number, add_path, add_settings, add_switch, add_text, option_name, whole
from transduce.cli.output import warn
from transduce.cli.requirements import require_training
from transduce.errors import ConfigError

if TYPE_CHECKING:
    from transduce.config import Config
    from transduce.training.outcome import Outcome

SUMMARY = "train a model from a recipe"
_BLOCK_SIZE = 8
# Of a training of heads alone, which begin as the identity. Neither attention nor BLEU changes while they learn.
_OF_HEADS = (
    'init.freeze=["model"]',
    "init.learning_rate=0.002",
    "train.guided_attention=0",
    "train.validate_bleu=false",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "recipe", "RECIPE", "TOML file; see recipes/")
    add_path(parser, "--output", "RUN", "run folder to write", required=True)
    add_text(parser, "--from", "MODEL", "start from this model or run, not from random weights", dest="ancestor")
    blockwise = parser.add_argument_group("heads for later tokens")
    add_path(blockwise, "--blockwise", "MODEL", "start from this model folder, and train heads for it")
    add_number(blockwise, "--block-size", whole(2, 64), "K", f"tokens predicted at once; default: {_BLOCK_SIZE}", None)
    add_switch(blockwise, "--with-model", "train the model with its heads; default: the heads only")
    add_switch(blockwise, "--original-targets", "learn from the recipe's targets, without translating")
    add_switch(parser, "--resume", "continue from the last checkpoint in RUN")
    add_path(parser, "--data", "DIR", "folder made by 'transduce prepare'; default: RUN/data")
    add_path(parser, "--mirror", "DIR", "folder with downloaded corpora")
    add_settings(parser)
    add_switch(parser, "--quiet", "no progress")


def run(args: argparse.Namespace) -> int:
    """Trains, and returns the exit code: 128 + signal where one stopped it."""
    require_training()
    from transduce import runs

    config, settings = configuration(args)
    if args.blockwise is not None and not args.original_targets and args.data is None:
        from transduce.augmentation.blockwise import with_own_targets

        config = with_own_targets(config, args.blockwise, args.output, show_progress=not args.quiet, warn=warn)
    return report(args, config, runs.train(config, args.output, settings=settings, **options(args)))


def configuration(args: argparse.Namespace) -> "tuple[Config, list[str]]":
    """Returns the recipe with all settings applied, and the settings.

    With --resume, the run's own settings hold unless they are set again.
    """
    from transduce.config import load_recipe
    from transduce.config.loading import merge_settings
    from transduce.training.run_folder import require_run_folder, run_settings, started_config

    require_run_folder(args.output)

    given = [*_start_settings(args), *args.set]
    settings = merge_settings(run_settings(args.output), given) if args.resume else given
    held = [setting for setting in settings if setting not in given]
    if held and not args.quiet and os.environ.get("RANK", "0") == "0":  # of several processes, one says so
        print(f"still set in {args.output}: {' '.join(held)}", file=sys.stderr)
    started = started_config(args.output) if args.resume else None
    config = load_recipe(args.recipe, settings, started=started)
    if args.blockwise is not None and config.model.block_size == 1:
        settings = [*settings, f"model.block_size={_BLOCK_SIZE}"]
        config = load_recipe(args.recipe, settings, started=started)
    if args.blockwise is not None and config.data.format == "trees" and not args.original_targets:
        raise ConfigError(f"{args.recipe}: makes a parser, which learns from its own trees: add --original-targets.")
    return config, settings


def _start_settings(args: argparse.Namespace) -> list[str]:
    """Returns the settings that --from and --blockwise stand for."""
    if args.blockwise is None:
        for name in ("block_size", "with_model", "original_targets"):
            if getattr(args, name):
                raise ConfigError(f"{option_name(name)} is for --blockwise MODEL: give that as well.")
        return [_starting_from(args.ancestor)] if args.ancestor else []
    if args.ancestor:
        raise ConfigError("--blockwise says which model training starts from: leave out --from.")
    block_size = [f"model.block_size={args.block_size}"] if args.block_size else []
    return [_starting_from(str(args.blockwise)), *block_size, *([] if args.with_model else _OF_HEADS)]


def _starting_from(model: str) -> str:
    return f"init.model={json.dumps(model, ensure_ascii=False)}"


def options(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments as `runs.train` takes them."""
    return {"resume": args.resume, "data": args.data, "mirror": args.mirror, "show_progress": not args.quiet}


def report(args: argparse.Namespace, config: "Config", outcome: "Outcome") -> int:
    """Prints how training ended, and returns the exit code."""
    from transduce.training.outcome import End

    step = outcome.progress.step
    if outcome.end == End.SIGNAL:
        return stopped_by(outcome, "Continue with --resume.")
    if not outcome.is_main:
        return 0
    why = "early stopping" if outcome.end == End.EARLY_STOPPING else "done"
    print(f"{why} after step {step}. The model: {args.output / 'model'}", file=sys.stderr)
    print(outcome.progress.cost.summary(), file=sys.stderr)
    command = "parse run" if config.data.format == "trees" else "translate"
    print(f"try it: echo '…' | transduce {command} {args.output / 'model'}", file=sys.stderr)
    return 0


def stopped_by(outcome: "Outcome", to_continue: str) -> int:
    """Prints that a signal stopped training, and how to continue; returns the exit code."""
    number = outcome.signal or signal.SIGTERM  # where another process received it, and reported it
    name = signal.Signals(number).name if outcome.signal else "a signal to another process"
    step = outcome.progress.step
    if outcome.is_main:
        print(f"stopped by {name} after step {step}; a checkpoint is written. {to_continue}", file=sys.stderr)
    return 128 + number
