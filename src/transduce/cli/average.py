"""Averages the last checkpoints of a run (section 6.1 of the paper) into a model folder.

examples:
  transduce average runs/m30k --last 20 --output models/m30k
  transduce average runs/m30k --best --output models/m30k-best

Only checkpoints that were written at regular intervals are averaged, not those of a stopped training
(docs/guides/training.md). The model is measured on the run's validation data; metrics.json and the model card give the
scores. 'transduce train' writes RUN/model by itself when it ends: this command is for another number of checkpoints,
or for a run that is still training.
"""

import argparse
import sys

from transduce.cli.arguments import add_overwrite
from transduce.cli.options import add_number, add_path, add_switch, whole
from transduce.cli.requirements import require_training

SUMMARY = "average a run's checkpoints into a model folder"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "run_folder", "RUN", "run folder of 'transduce train'")
    add_path(parser, "--output", "MODEL", "model folder to write", required=True)
    add_overwrite(parser, "an existing model")
    which = parser.add_mutually_exclusive_group()
    add_number(which, "--last", whole(1), "K", "how many checkpoints; default: train.average_last of its recipe")
    add_switch(which, "--best", "the one with the best validation score, not an average")


def run(args: argparse.Namespace) -> int:
    """Averages, and returns the exit code."""
    require_training()
    from transduce.runs import average_run

    bundle = average_run(args.run_folder, args.output, last=args.last, best=args.best, overwrite=args.overwrite)
    measured = {name: value for name, value in bundle.metrics.items() if name.startswith("validation")}
    shown = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in measured.items())
    steps = bundle.metrics["averaged_steps"]
    which = f"the mean of the checkpoints after steps {steps}" if "," in steps else f"the checkpoint after step {steps}"
    print(f"{args.output}: {which}; {shown or 'not measured'}", file=sys.stderr)
    return 0
