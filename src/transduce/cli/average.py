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
from pathlib import Path

from transduce.cli.numbers import whole

SUMMARY = "average a run's checkpoints into a model folder"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="run folder of 'transduce train'")
    parser.add_argument("--output", metavar="MODEL", type=Path, required=True, help="model folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing model")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--last", metavar="K", type=whole(1), default=5, help="how many checkpoints; default: %(default)s"
    )
    which.add_argument("--best", action="store_true", help="the one with the best validation score, not an average")


def run(args: argparse.Namespace) -> int:
    """Averages, and returns the exit code."""
    from transduce.cli.requirements import require_training

    require_training()
    from transduce.runs import average_run

    bundle = average_run(args.run_folder, args.output, last=args.last, best=args.best, overwrite=args.overwrite)
    measured = {name: value for name, value in bundle.metrics.items() if name.startswith("validation")}
    shown = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in measured.items())
    steps = bundle.metrics["averaged_steps"]
    which = f"the mean of the checkpoints after steps {steps}" if "," in steps else f"the checkpoint after step {steps}"
    print(f"{args.output}: {which}; {shown or 'not measured'}", file=sys.stderr)
    return 0
