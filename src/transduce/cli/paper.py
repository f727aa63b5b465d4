"""Measures what the paper claims: its tables, figures and arguments, each printed beside what comes out here.

examples:
  transduce paper table1 --scale smoke
  transduce paper table2 --corpus data/multi30k-en-de --output runs/table2
  transduce paper table3 --corpus data/multi30k-en-de-tok --rows A1,D3,E --jobs 2 --output runs/table3
  transduce paper figures --model runs/m30k/model --output runs/figures
  transduce paper scaling --scale paper --output runs/scaling

A run that was stopped goes on where it was when the same command is given again. The output folder gets results.json
(every measurement, written as it comes), table.md (printed beside measured, and what differs) and pictures.
'transduce paper EXPERIMENT --help' explains each, with more examples.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.cli.help import HelpFormatter
from transduce.cli.numbers import whole
from transduce.cli.report import print_report
from transduce.experiments.paper.scales import SCALES

SUMMARY = "measure the paper's tables, figures and claims"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@dataclass(frozen=True)
class Option:
    """An option that only some experiments have: the flag, the argument of the experiment, and what argparse needs."""

    flag: str
    keyword: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Described:
    """An experiment as the command line shows it."""

    summary: str
    about: str = ""
    examples: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    trains: bool = False  # whether it keeps models in its folder, and shows how far they are


_DATA = Option(
    "--corpus",
    "data",
    {"metavar": "DIR", "type": Path, "help": "the corpus, or a folder of corpora; default: where the recipe has it"},
)
_SET = Option(
    "--set",
    "settings",
    {"metavar": "KEY=VALUE", "action": "append", "default": [], "help": "change a value of the recipe"},
)
_TOKENIZED = Option("--tokenized", "tokenized", {"action": "store_true", "help": "the corpus is tokenised already"})

# Each is an experiment of the same name in `transduce.experiments.paper.catalogue`.
EXPERIMENTS = {
    "table1": Described("layer types: complexity, sequential operations, maximum path length (Table 1, section 4)"),
    "table2": Described(
        "BLEU and training cost, beside the literature (Table 2, section 6.1)",
        about="Trains systems, or takes finished ones, and measures BLEU the paper's way on their recipes' test sets.\n"
        "smoke: two tiny models on the demo's corpus; laptop: recipes/multi30k-en-de.toml; paper: the four\n"
        "recipes/wmt14-*.toml.",
        examples=(
            "--corpus data/multi30k-en-de",
            "--recipe recipes/multi30k-en-de-tok.toml --corpus data/multi30k-en-de-tok --tokenized",
            "--model runs/base/model --model runs/big/model:en-de --corpus data/wmt14-en-de",
        ),
        options=(
            Option(
                "--recipe",
                "recipes",
                {
                    "metavar": "FILE",
                    "type": Path,
                    "action": "append",
                    "default": [],
                    "help": "a system to train, in place of those of the scale; may be repeated",
                },
            ),
            Option(
                "--model",
                "models",
                {
                    "metavar": "DIR[:PAIR]",
                    "action": "append",
                    "default": [],
                    "help": "a finished system, in place of those of the scale; PAIR: en-de or en-fr; may be repeated",
                },
            ),
            _DATA,
            _SET,
            _TOKENIZED,
        ),
        trains=True,
    ),
    "table3": Described(
        "the variations of the base model, and conclusions (A) to (E) (Table 3, section 6.2)",
        about="Trains the rows as 'transduce ablate --grid table3' does, into DIR/ablation.\n"
        "smoke: four rows, tiny, on the demo's corpus; laptop: all rows at width 64, two seeds, Multi30k (a night on\n"
        "two cores); paper: recipes/wmt14-en-de-base.toml.",
        examples=(
            "--corpus data/multi30k-en-de-tok --jobs 2",
            "--corpus data/multi30k-en-de-tok --rows A1,D3,E --seeds 1 --set train.max_steps=1000",
        ),
        options=(
            Option("--recipe", "recipe", {"metavar": "FILE", "type": Path, "help": "another base"}),
            _DATA,
            Option(
                "--rows",
                "rows",
                {
                    "metavar": "NAMES",
                    "type": _names,
                    "default": [],
                    "help": "these rows beside the base, such as A1,B2; more may follow later",
                },
            ),
            Option("--seeds", "seeds", {"metavar": "N", "type": whole(1, 1000), "help": "trainings of each row"}),
            Option(
                "--jobs",
                "jobs",
                {"metavar": "K", "type": whole(1, 1024), "default": 1, "help": "seeds trained side by side"},
            ),
            _SET,
            Option(
                "--tokenized",
                "tokenized",
                {"action": "store_true", "help": "the corpus of --recipe is tokenised already"},
            ),
        ),
        trains=True,
    ),
    "table4": Described(
        "constituency parsing, on a treebank alone and with silver trees (Table 4, section 6.3)",
        about="Trains parsers and measures labelled F1 on their recipe's test sets, over several seeds.\n"
        "smoke: a toy grammar; laptop: recipes/treebank-small.toml, three seeds; paper: recipes/wsj-parsing.toml.\n"
        "The semi-supervised parser is trained where there are silver trees, or raw sentences to make them of.",
        examples=(
            "--corpus data/treebanks --raw raw.tok",
            "--corpus data/treebanks --set 'data.train=[[\"gum/train\"]]' --seeds 1 --baseline pcfg.json",
            "--scale paper --corpus PTB/parsed/mrg --silver silver.trees",
        ),
        options=(
            Option("--recipe", "recipe", {"metavar": "FILE", "type": Path, "help": "another parser"}),
            _DATA,
            Option(
                "--raw",
                "raw",
                {
                    "metavar": "FILE",
                    "type": Path,
                    "help": "tokenised sentences, one a line: parsed by the supervised parser into silver trees",
                },
            ),
            Option("--silver", "silver", {"metavar": "TREES", "type": Path, "help": "silver trees, in place of --raw"}),
            Option("--seeds", "seeds", {"metavar": "N", "type": whole(1, 1000), "help": "trainings of each parser"}),
            Option(
                "--baseline",
                "baseline",
                {
                    "metavar": "JSON",
                    "type": Path,
                    "help": 'another parser\'s results, shown beside: what benchmarks/pcfg.py writes, or {"f1": 77}',
                },
            ),
            _SET,
        ),
        trains=True,
    ),
    "figures": Described(
        "what the encoder's heads attend to (Figures 3 to 5)",
        about="Draws the three figures from a trained model, and says how the heads were chosen.\n"
        "smoke: a model of seconds on the demo's corpus; laptop: your model, sentences like those of Multi30k; paper:\n"
        "your model, the paper's own sentences.",
        examples=(
            "--model runs/m30k/model",
            "--scale paper --model runs/wmt14-en-de-base/model",
            '--model runs/m30k/model --sentence "A man who holds two dogs smiles." --word smiles --related man',
            '--model runs/m30k/model --anaphora "A dog chases its tail." --anaphor its --antecedent dog',
        ),
        options=(
            Option("--model", "model", {"metavar": "DIR", "type": Path, "help": "model folder"}),
            Option("--layer", "layer", {"metavar": "N", "type": whole(1, 1000), "help": "default: the last but one"}),
            Option("--sentence", "sentence", {"metavar": "TEXT", "help": "of Figure 3, with --word"}),
            Option("--word", "word", {"metavar": "TEXT", "help": "the word of it whose attention is shown"}),
            Option(
                "--related",
                "related",
                {"metavar": "WORDS", "type": _names, "default": [], "help": "words of it that --word belongs with"},
            ),
            Option(
                "--anaphora",
                "anaphora",
                {"metavar": "TEXT", "help": "of Figures 4 and 5, with --anaphor and --antecedent"},
            ),
            Option("--anaphor", "anaphor", {"metavar": "WORD", "help": "a word of it that stands for another"}),
            Option("--antecedent", "antecedent", {"metavar": "WORD", "help": "that other word"}),
        ),
        trains=True,
    ),
    "positions": Described("sinusoids and learned positions, within and beyond trained lengths (section 3.5)"),
    "scaling": Described("1/sqrt(d_k), additive attention, heads, and recurrence (sections 3.2 and 4)"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    experiments = parser.add_subparsers(title="experiments", metavar="EXPERIMENT", dest="experiment")
    for name, described in EXPERIMENTS.items():
        first = "--scale smoke" if described.trains else f"--scale laptop --output runs/{name}"
        examples = (first, *described.examples)
        experiment = experiments.add_parser(
            name,
            help=described.summary,
            description="\n\n".join(filter(None, [f"Measures {described.summary}.", described.about])),
            epilog="\n".join(["examples:", *(f"  transduce paper {name} {example}" for example in examples)]),
            formatter_class=HelpFormatter,
        )
        experiment.set_defaults(parser=experiment)
        experiment.add_argument(
            "--scale",
            choices=SCALES,
            default="laptop",
            help="smoke: seconds, to try it out; laptop: minutes to hours on two cores; paper: the real thing; "
            "default: %(default)s",
        )
        experiment.add_argument(
            "--output", metavar="DIR", type=Path, help=f"folder to write; default: runs/paper-{name}-SCALE"
        )
        experiment.add_argument("--quiet", action="store_true", help="no progress")
        for option in described.options:
            experiment.add_argument(option.flag, dest=option.keyword, **option.settings)


def run(args: argparse.Namespace) -> int:
    """Measures, writes, and prints the table; without an experiment, prints the help."""
    if args.experiment is None:
        args.parser.print_help()
        return 0
    from transduce.cli.requirements import require, require_training

    require_training()
    require("figures", ["matplotlib"])
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # PyTorch's profiler announces itself on standard error
    from transduce.experiments.paper.catalogue import EXPERIMENTS as CATALOGUE
    from transduce.experiments.paper.experiment import run_experiment

    folder = args.output or Path("runs", f"paper-{args.experiment}-{args.scale}")
    described = EXPERIMENTS[args.experiment]
    own = {option.keyword: getattr(args, option.keyword) for option in described.options}
    if described.trains:
        own |= {"output": folder, "quiet": args.quiet}
    experiment = CATALOGUE[args.experiment](args.scale, **own)
    path = run_experiment(experiment, folder, show_progress=not args.quiet)
    print_report(path.read_text(encoding="utf-8").rstrip("\n"))
    pictures = ", ".join(sorted(picture.name for picture in folder.glob("*.png")))
    print(f"{folder}: {path.name}, results.json, {pictures}", file=sys.stderr)
    return 0
