"""Measures what the paper claims: its tables, figures and arguments, each printed beside what comes out here.

examples:
  transduce paper table1 --scale smoke
  transduce paper table1 --output runs/table1
  transduce paper positions --scale laptop --output runs/positions
  transduce paper scaling --scale paper --output runs/scaling

A run that was stopped goes on where it was when the same command is given again. The output folder gets results.json
(every measurement, written as it comes), table.md (printed beside measured, and what differs) and a picture.
"""

import argparse
import os
import sys
from pathlib import Path

from transduce.paper.scales import SCALES

SUMMARY = "measure the paper's tables, figures and claims"

# Each is an experiment of the same name in `transduce.paper.catalogue`.
EXPERIMENTS = {
    "table1": "layer types: complexity, sequential operations, maximum path length (Table 1, section 4)",
    "positions": "sinusoids and learned positions, within and beyond trained lengths (section 3.5)",
    "scaling": "1/sqrt(d_k), additive attention, heads, and recurrence (sections 3.2 and 4)",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    experiments = parser.add_subparsers(title="experiments", metavar="EXPERIMENT", dest="experiment", required=True)
    for name, summary in EXPERIMENTS.items():
        experiment = experiments.add_parser(
            name,
            help=summary,
            description=f"Measures {summary}.",
            epilog=f"examples:\n  transduce paper {name} --scale laptop --output runs/{name}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        experiment.add_argument(
            "--scale",
            choices=SCALES,
            default="laptop",
            help="smoke: seconds, to try it out; laptop: minutes on two cores; paper: the real thing; "
            "default: %(default)s",
        )
        experiment.add_argument(
            "--output", metavar="DIR", type=Path, help=f"folder to write; default: runs/paper-{name}-SCALE"
        )
        experiment.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Measures, writes, and prints the table."""
    from transduce.cli.requirements import require, require_training

    require_training()
    require("figures", ["matplotlib"])
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # PyTorch's profiler announces itself on standard error
    from transduce.paper.catalogue import EXPERIMENTS as CATALOGUE
    from transduce.paper.experiment import run_experiment

    folder = args.output or Path("runs", f"paper-{args.experiment}-{args.scale}")
    path = run_experiment(CATALOGUE[args.experiment](args.scale), folder, show_progress=not args.quiet)
    print(path.read_text(encoding="utf-8"), end="")
    pictures = ", ".join(sorted(picture.name for picture in folder.glob("*.png")))
    print(f"{folder}: {path.name}, results.json, {pictures}", file=sys.stderr)
    return 0
