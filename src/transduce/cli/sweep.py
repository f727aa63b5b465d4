"""Decodes a text with a trained model under many settings: averaged checkpoints, beam sizes, length penalties.

examples:
  transduce sweep runs/m30k --source val.en --reference val.de --output sweeps/m30k
  transduce sweep runs/m30k --source val.en --reference val.de --average 1,5,10 --beam-size 4 --output sweeps/average
  transduce sweep models/m30k --source val.en --reference val.de --beam-size 1,2,4,8,16 --output sweeps/beam

In a run folder, the last checkpoints are averaged: as many as --average says, for each of its numbers (the run must
have kept them: train.keep_checkpoints). A model folder is used as it is. Each combination is decoded and scored: BLEU,
length ratio, seconds. The output folder gets results.json and table.md, rewritten after each point, and, with
the extra [figures], sweep.png. Stopped, the same command resumes; more values may be added.

Choose settings on validation text, never on the text that a result is reported on.
"""

import argparse
from pathlib import Path
from typing import Any

from transduce.cli.arguments import add_direction
from transduce.cli.numbers import setting, whole
from transduce.errors import ConfigError

SUMMARY = "decode with many beam sizes, length penalties and averages, and compare"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("subject", metavar="RUN|MODEL", type=Path, help="run folder or model folder")
    parser.add_argument("--source", metavar="FILE", required=True, help="what to translate")
    parser.add_argument("--reference", metavar="FILE", required=True, nargs="+", help="one or more references")
    parser.add_argument("--output", metavar="DIR", type=Path, required=True, help="folder to write")
    grid = parser.add_argument_group("grid: values with commas between them")
    grid.add_argument("--beam-size", metavar="N,…", default="1,2,4,8", help="default: %(default)s")
    grid.add_argument("--length-penalty", metavar="A,…", default="0,0.6,1", help="GNMT's α; default: %(default)s")
    grid.add_argument("--average", metavar="K,…", help="checkpoints averaged; default: as many as the recipe says")
    score = parser.add_argument_group("score: as in 'transduce evaluate'")
    score.add_argument("--metric", metavar="NAME", default="bleu", help="bleu, bleu-paper, …; default: %(default)s")
    score.add_argument("--tokenized", action="store_true", help="the text is tokenised already")
    score.add_argument("--lowercase", action="store_true", help="ignore case")
    score.add_argument("--target-language", metavar="CODE", help="for the paper's BLEU; default: the model's")
    add_direction(parser)
    machine = parser.add_argument_group("machine")
    machine.add_argument(
        "--batch-size", type=setting("batch_size"), metavar="N", help="lines translated together; changes speed only"
    )
    machine.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1; default: %(default)s")
    parser.add_argument("--quiet", action="store_true", help="say nothing until the end")


def run(args: argparse.Namespace) -> int:
    """Decodes what is missing, prints the table, and returns the exit code."""
    from transduce.cli.requirements import require_training

    axes = (_numbers(args, "beam_size"), _numbers(args, "length_penalty"))
    averages = _numbers(args, "average") if args.average else None
    require_training()
    from transduce.data.readers import read_lines
    from transduce.evaluation import Text
    from transduce.experiments.sweep.results import Axes, render
    from transduce.experiments.sweep.sweep import Task, default_averages, subject_config, sweep

    task = Task(
        source=Text(args.source, list(read_lines(Path(args.source)))),
        references=[Text(name, list(read_lines(Path(name)))) for name in args.reference],
        metric=args.metric,
        tokenized=args.tokenized,
        lowercase=args.lowercase,
        language=args.target_language or args.target or subject_config(args.subject).data.target_language,
        target=args.target,
        domain=args.domain,
    )
    results = sweep(
        args.subject,
        task,
        Axes(averages or default_averages(args.subject), *axes),
        args.output,
        device=args.device,
        batch_size=args.batch_size,
        show_progress=not args.quiet,
    )
    print(render(results))
    return 0


def _numbers(args: argparse.Namespace, name: str) -> tuple[Any, ...]:
    """Returns the values of an option such as `1,2,4`, without repetitions."""
    number = whole(1) if name == "average" else setting(name)
    parts, option = getattr(args, name).split(","), f"--{name.replace('_', '-')}"
    try:
        return tuple(dict.fromkeys(number.read(part, option) for part in parts))
    except ConfigError as error:
        raise ConfigError(f"{error} Write several with commas between them, such as 1,2,4.") from None
