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
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.cli.arguments import add_direction
from transduce.cli.options import add_number, add_path, add_switch, add_text, option_name, setting, whole
from transduce.cli.requirements import require_training
from transduce.errors import ConfigError

SUMMARY = "decode with many beam sizes, length penalties and averages, and compare"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "subject", "RUN|MODEL", "run folder or model folder")
    add_text(parser, "--source", "FILE", "what to translate", required=True)
    add_text(parser, "--reference", "FILE", "one or more references", required=True, nargs="+")
    add_path(parser, "--output", "DIR", "folder to write", required=True)
    grid = parser.add_argument_group("grid: values with commas between them")
    add_text(grid, "--beam-size", "N,…", "default: %(default)s", default="1,2,4,8")
    add_text(grid, "--length-penalty", "A,…", "GNMT's α; default: %(default)s", default="0,0.6,1")
    add_text(grid, "--average", "K,…", "checkpoints averaged; default: those that training averaged")
    score = parser.add_argument_group("score: as in 'transduce evaluate'")
    add_text(score, "--metric", "NAME", "bleu, bleu-paper, …; default: %(default)s", default="bleu")
    add_switch(score, "--tokenized", "the text is tokenised already")
    add_switch(score, "--lowercase", "ignore case")
    add_text(score, "--target-language", "CODE", "for the paper's BLEU; default: the model's")
    add_direction(parser)
    machine = parser.add_argument_group("machine")
    add_number(machine, "--batch-size", setting("batch_size"), "N", "lines translated together; changes speed only")
    machine.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1; default: %(default)s")
    add_switch(parser, "--quiet", "say nothing until the end")


def run(args: argparse.Namespace) -> int:
    """Decodes what is missing, prints the table, and returns the exit code."""
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
        language=args.target_language or args.target or subject_config(args.subject).data.held_out_languages[1],
        target=args.target,
        domain=args.domain,
        source_language=args.source_language,
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
    bounds = whole(1) if name == "average" else setting(name)
    number = replace(bounds, option=option_name(name))
    try:
        return tuple(dict.fromkeys(map(number, getattr(args, name).split(","))))
    except ConfigError as error:
        raise ConfigError(f"{error} Write several with commas between them, such as 1,2,4.") from None
