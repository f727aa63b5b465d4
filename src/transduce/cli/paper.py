"""Measures what the paper claims: its tables, figures and arguments, each printed next to the figures measured here.

examples:
  transduce paper table1 --scale smoke
  transduce paper table2 --corpus data/multi30k-en-de --output runs/table2
  transduce paper table3 --corpus data/multi30k-en-de-tok --rows A1,D3,E --jobs 2 --output runs/table3
  transduce paper figures --model runs/m30k/model --output runs/figures
  transduce paper scaling --scale paper --output runs/scaling

A stopped run resumes when the same command is given again. The output folder gets results.json (every measurement,
written as it comes), table.md (printed next to measured, and what differs) and pictures.
'transduce paper EXPERIMENT --help' explains each, with more examples.
"""

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from transduce.cli.help import HelpFormatter, show_help
from transduce.cli.options import add_choice, add_number, add_path, add_settings, add_switch, add_text, real, whole
from transduce.cli.output import print_report
from transduce.experiments.paper.scales import SCALES

SUMMARY = "measure the paper's tables, figures and claims"

_SCALE = (
    "smoke: seconds, to try it out; laptop: minutes to hours on two cores; paper: the real thing; default: %(default)s"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares each experiment, a subcommand with the arguments that its `Options` have fields for."""
    experiments = parser.add_subparsers(title="experiments", metavar="EXPERIMENT", dest="experiment")
    _add(
        experiments,
        "table1",
        "layer types: complexity, sequential operations, maximum path length (Table 1, section 4)",
    )
    _add_table2(experiments)
    _add_table3(experiments)
    _add_table4(experiments)
    _add_figures(experiments)
    _add(experiments, "positions", "sinusoids and learned positions, within and beyond trained lengths (section 3.5)")
    _add(experiments, "scaling", "1/sqrt(d_k), additive attention, heads, and recurrence (sections 3.2 and 4)")


def run(args: argparse.Namespace) -> int:
    """Measures, writes, and prints the table; without an experiment, prints the help."""
    if args.experiment is None:
        return show_help(args)
    from transduce.cli.requirements import require, require_training

    require_training()
    require("figures", ["matplotlib"])
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # PyTorch's profiler announces itself on standard error
    from transduce.experiments.paper.catalogue import EXPERIMENTS
    from transduce.experiments.paper.experiment import run_experiment

    folder = args.output = args.output or Path("runs", f"paper-{args.experiment}-{args.scale}")
    make, options = EXPERIMENTS[args.experiment]
    experiment = make(options(**{field.name: getattr(args, field.name) for field in fields(options)}))
    path = run_experiment(experiment, folder, show_progress=not args.quiet)
    print_report(path.read_text(encoding="utf-8").rstrip("\n"))
    pictures = ", ".join(sorted(picture.name for picture in folder.glob("*.png")))
    print(f"{folder}: {path.name}, results.json, {pictures}", file=sys.stderr)
    return 0


def _add(experiments: Any, name: str, summary: str, about: str = "", *examples: str) -> argparse.ArgumentParser:
    """Declares an experiment with the arguments that all have, and returns its parser."""
    first = "--scale smoke" if examples else f"--scale laptop --output runs/{name}"
    parser: argparse.ArgumentParser = experiments.add_parser(
        name,
        help=summary,
        description="\n\n".join(filter(None, [f"Measures {summary}.", about])),
        epilog="\n".join(["examples:", *(f"  transduce paper {name} {example}" for example in (first, *examples))]),
        formatter_class=HelpFormatter,
    )
    parser.set_defaults(parser=parser)
    add_choice(parser, "--scale", SCALES, _SCALE, default="laptop")
    add_path(parser, "--output", "DIR", f"folder to write; default: runs/paper-{name}-SCALE")
    add_switch(parser, "--quiet", "no progress")
    return parser


def _add_training(experiments: Any, name: str, summary: str, about: str, *examples: str) -> argparse.ArgumentParser:
    """Declares an experiment that trains recipes, with the arguments that all such have, and returns its parser."""
    parser = _add(experiments, name, summary, about, *examples)
    corpus = "the corpus, or a folder of corpora; default: where the recipe has it"
    add_path(parser, "--corpus", "DIR", corpus, dest="data")
    add_settings(parser, "change a value of the recipe", dest="settings")
    return parser


def _add_table2(experiments: Any) -> None:
    parser = _add_training(
        experiments,
        "table2",
        "BLEU and training cost, next to the literature (Table 2, section 6.1)",
        "Trains systems, or takes finished ones, and measures BLEU the paper's way on their recipes' test sets.\n"
        "smoke: two tiny models on the demo's corpus; laptop: recipes/multi30k-en-de.toml; paper: the four\n"
        "recipes/wmt14-*.toml.",
        "--corpus data/multi30k-en-de",
        "--recipe recipes/multi30k-en-de-tok.toml --corpus data/multi30k-en-de-tok --tokenized",
        "--model runs/base/model --model runs/big/model:en-de --corpus data/wmt14-en-de",
        "--controls --corpus data/multi30k-en-de --flops 3e13 --minutes 20 --trials 4 --seeds 3",
    )
    recipe = "a system to train instead of those of the scale; may be repeated"
    add_path(parser, "--recipe", "FILE", recipe, dest="recipes", action="append", default=[])
    model = "a finished system, in place of those of the scale; PAIR: en-de or en-fr; may be repeated"
    add_text(parser, "--model", "DIR[:PAIR]", model, dest="models", action="append", default=[])
    add_switch(parser, "--tokenized", "the corpus is tokenised already")
    controls = "train an LSTM and a convolutional system beside the recipe's Transformer, all at the same cost"
    add_switch(parser, "--controls", controls)
    add_number(parser, "--flops", real(0, 1e28, above=True), "N", "counted operations of each training with --controls")
    add_number(parser, "--minutes", real(0, 1e7, above=True), "M", "minutes of updates of each, likewise")
    add_number(parser, "--seeds", whole(1, 1000), "N", "trainings of each system with --controls; default: 1")
    systems = "these systems of --controls only: transformer, lstm, convs2s; others may follow, or run at the same time"
    add_text(parser, "--systems", "NAMES", systems, type=_names, default=[])
    tried = "settings of each system that --controls tries before, with a quarter of the operations; default: 1, none"
    add_number(parser, "--trials", whole(1, 4), "N", tried)


def _add_table3(experiments: Any) -> None:
    parser = _add_training(
        experiments,
        "table3",
        "the variations of the base model, and conclusions (A) to (E) (Table 3, section 6.2)",
        "Trains the rows as 'transduce ablate --grid table3' does, into DIR/ablation.\n"
        "smoke: four rows, tiny, on the demo's corpus; laptop: all rows at width 64, two seeds, Multi30k (a night on\n"
        "two cores); paper: recipes/wmt14-en-de-base.toml.",
        "--corpus data/multi30k-en-de-tok --jobs 2",
        "--corpus data/multi30k-en-de-tok --rows A1,D3,E --seeds 1 --set train.max_steps=1000",
    )
    add_path(parser, "--recipe", "FILE", "another base")
    rows = "these rows besides the base, such as A1,B2; more may follow later"
    add_text(parser, "--rows", "NAMES", rows, type=_names, default=[])
    add_number(parser, "--seeds", whole(1, 1000), "N", "trainings of each row")
    add_number(parser, "--jobs", whole(1, 1024), "K", "seeds trained in parallel")
    parser.set_defaults(jobs=1)
    add_switch(parser, "--tokenized", "the corpus of --recipe is tokenised already")
    add_switch(parser, "--any-source", "also count trainings of other source code, which do not compare")


def _add_table4(experiments: Any) -> None:
    parser = _add_training(
        experiments,
        "table4",
        "constituency parsing, on a treebank alone and with silver trees (Table 4, section 6.3)",
        "Trains parsers and measures labelled F1 on their recipe's test sets, over several seeds.\n"
        "smoke: a toy grammar; laptop: recipes/treebank-small.toml, three seeds; paper: recipes/wsj-parsing.toml.\n"
        "The semi-supervised parser is trained where there are silver trees, or raw sentences to make them of.",
        "--corpus data/treebanks --raw raw.tok",
        "--corpus data/treebanks --set 'data.train=[[\"gum/train\"]]' --seeds 1 --baseline pcfg.json",
        "--corpus data/treebanks --constrained --set decode.beam_size=21",
        "--scale paper --corpus PTB/parsed/mrg --silver silver.trees",
    )
    add_path(parser, "--recipe", "FILE", "another parser")
    raw = "tokenised sentences, one a line: parsed by the supervised parser into silver trees"
    add_path(parser, "--raw", "FILE", raw)
    add_path(parser, "--silver", "TREES", "silver trees, instead of --raw")
    add_number(parser, "--seeds", whole(1, 1000), "N", "trainings of each parser")
    baseline = 'another parser\'s results, for comparison: what benchmarks/pcfg.py writes, or {"f1": 77}'
    add_path(parser, "--baseline", "JSON", baseline)
    add_switch(parser, "--constrained", "parse test sets by searches among well-formed trees: nothing is repaired")


def _add_figures(experiments: Any) -> None:
    parser = _add(
        experiments,
        "figures",
        "what the encoder's heads attend to (Figures 3 to 5)",
        "Draws the three figures from a trained model, and says how the heads were chosen.\n"
        "smoke: a model trained for seconds on the demo's corpus; laptop: your model, sentences like Multi30k's;\n"
        "paper: your model, the paper's own sentences.",
        "--model runs/m30k/model",
        "--scale paper --model runs/wmt14-en-de-base/model",
        '--model runs/m30k/model --sentence "A man who holds two dogs smiles." --word smiles --related man',
        '--model runs/m30k/model --anaphora "A dog chases its tail." --anaphor its --antecedent dog',
        "--model runs/m30k/model --trees treebanks/gum/test",
    )
    add_path(parser, "--model", "DIR", "model folder")
    add_number(parser, "--layer", whole(1, 1000), "N", "default: the last but one")
    add_text(parser, "--sentence", "TEXT", "of Figure 3, with --word")
    add_text(parser, "--word", "TEXT", "the word of it whose attention is shown")
    add_text(parser, "--related", "WORDS", "words in it that --word is related to", type=_names, default=[])
    add_text(parser, "--anaphora", "TEXT", "of Figures 4 and 5, with --anaphor and --antecedent")
    add_text(parser, "--anaphor", "WORD", "a word of it that refers to another")
    add_text(parser, "--antecedent", "WORD", "that other word")
    trees = "treebank, on whose sentences all heads of the encoder are scored; may be repeated"
    add_path(parser, "--trees", "TREES", trees, action="append", default=[])
    add_number(parser, "--max-sentences", whole(4, 1_000_000), "N", "sentences of it; default: 1000")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
