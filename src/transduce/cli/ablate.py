"""Trains and measures variations of a recipe in the same way and compares them: Table 3 of the paper.

examples:
  transduce ablate recipes/multi30k-en-de.toml --grid table3 --width 128 --seeds 2 --steps 3000 --output runs/table3
  transduce ablate recipes/multi30k-en-de.toml --grid label-smoothing --minutes 20 --output runs/smoothing
  transduce ablate recipes/multi30k-en-de.toml --grid recipes/grids/heads.toml --jobs 2 --output runs/heads
  transduce ablate recipes/wmt14-en-de-base.toml --grid table3 --rows base,A1,B1 --output runs/table3-wmt
  transduce ablate tiny --set 'data.train=[["a.en", "a.de"]]' --set 'data.validation=["v.en", "v.de"]' --output runs/a
  transduce ablate --compare runs/before runs/after

grids:
  table3           the paper's base and its nineteen variations, in proportion to the recipe's own model: base, A1 to
                   A4 (heads), B1 and B2 (d_k), C1 to C7 (size), D1 to D4 (dropout, label smoothing), E (learned
                   positions), big; and E2 (learned positions that start at the scale of sinusoids)
  label-smoothing  0.0, 0.1, 0.2
  attention-score  q · k with and without 1 / √d_k, and additive attention
  FILE.toml        your own rows, or the product of axes: docs/guides/ablations.md

Every row is trained once with each seed, in a run folder of its own, and measured from its last checkpoint without
averaging: perplexity per subword, and BLEU of beam search, on the whole validation set. The output folder gets
results.json, table.md (with the paper's figures next to the measured ones, and which of its conclusions hold) and, with
the extra [figures], rows.png; the first two are rewritten after each training. Stopped or killed, the same command
resumes: finished trainings are kept, stopped ones continue, failed ones are tried again.

--compare trains nothing. It reads two output folders of the same command, written by two versions of the source code,
and prints how much perplexity and BLEU of each row differ, training by training of the same seed, with a 95 % interval.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.options import add_number, add_path, add_settings, add_switch, add_text, real, whole
from transduce.cli.requirements import require_training
from transduce.errors import ConfigError, TrainingError, suggestion
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.config import Config
    from transduce.experiments.ablation.grid import Grid

SUMMARY = "train variations of a recipe and compare them (Table 3)"

_WITHOUT_LIMIT = 1_000_000_000  # steps, where minutes alone bound a training


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    base = "the base, a file or a preset; default: the one that the grid's file names"
    add_path(parser, "recipe", "RECIPE", base, nargs="?")
    add_text(parser, "--grid", "NAME|FILE", "see above; default: %(default)s", default="table3")
    add_path(parser, "--output", "DIR", "folder to write; needed unless --compare is given")
    both = "train nothing: print the differences between two output folders, by row, with an interval by seeds"
    add_path(parser, "--compare", ("BEFORE", "AFTER"), both, nargs=2)
    add_text(parser, "--rows", "NAMES", "these rows only, such as base,A1,B2; more may follow later")
    add_number(parser, "--seeds", whole(1, 1000), "N", "trainings of each row", 1)
    budget = parser.add_argument_group("budget of each training (default: the recipe's steps)")
    add_number(budget, "--steps", whole(1), "N", "updates; row 'big' of table3 makes three times as many")
    minutes = "of training, not counting validation; the same for each row"
    add_number(budget, "--minutes", real(0, 10_000_000, above=True), "M", minutes)
    width = "give the base the paper's layers and proportions at this d_model"
    add_number(parser, "--width", whole(1, 1_000_000), "D", width)
    add_number(parser, "--jobs", whole(1, 1024), "K", "trainings in parallel, sharing the threads", 1)
    add_switch(parser, "--tokenized", "the corpus is tokenised already: BLEU of its tokens")
    add_switch(parser, "--any-source", "also count trainings of other source code, which do not compare")
    add_path(parser, "--mirror", "DIR", "folder with downloaded corpora")
    add_settings(parser, "change a value of the recipe")
    add_switch(parser, "--quiet", "say nothing until the end")


def run(args: argparse.Namespace) -> int:
    """Trains what is missing, prints the table, and returns the exit code: 5 where a training failed."""
    if args.compare is not None:
        return _compare(args)
    if args.output is None:
        raise ConfigError("ablate needs --output DIR, the folder to write, or --compare BEFORE AFTER.")
    require_training()
    from transduce.experiments.ablation.ablate import ablate
    from transduce.experiments.ablation.built_in import find_grid
    from transduce.experiments.ablation.report import render
    from transduce.experiments.ablation.trials import Ablation
    from transduce.experiments.store import TABLE

    grid = find_grid(args.grid)
    results = ablate(
        Ablation(grid, _base(args, grid), args.output, args.seeds, args.tokenized, any_source=args.any_source),
        [name.strip() for name in args.rows.split(",")] if args.rows else (),
        jobs=args.jobs,
        mirror=args.mirror,
        show_progress=not args.quiet,
    )
    print(render(results))
    failed = sum(bool(trial.error) for trial in results.trials)
    if failed:
        text = f"{counted(failed, 'training')} failed, see {args.output / TABLE}; the same command tries them again"
        print(text, file=sys.stderr)
    return TrainingError.exit_code if failed else 0


def _compare(args: argparse.Namespace) -> int:
    from transduce.experiments.ablation.versions import compare, render

    if args.recipe is not None or args.output is not None:
        raise ConfigError("--compare reads two output folders and trains nothing: leave out RECIPE and --output.")
    print(render(compare(*args.compare)))
    return 0


def _preset(name: Path) -> "Config":
    """Returns the preset, whose corpus --set has to name."""
    from transduce.config import preset, preset_names

    if str(name) not in preset_names():
        raise ConfigError(f"'{name}' is not a recipe or a preset.{suggestion(str(name), preset_names())}")
    return preset(str(name))


def _base(args: argparse.Namespace, grid: "Grid") -> "Config":
    """Returns the recipe with `--set`, `--width` and the budget applied."""
    from transduce.config import apply_settings, load_recipe
    from transduce.experiments.ablation.built_in import at_width

    recipe = args.recipe or grid.base
    if recipe is None:
        raise ConfigError(f"grid {grid.name} names no base: give a RECIPE.")
    base = _preset(recipe) if recipe.suffix != ".toml" and not recipe.exists() else load_recipe(recipe)
    if args.width is not None:
        base = at_width(base, args.width)  # before --set, which may change what it sets
    settings = list(args.set)
    for key in ("train.cooldown_steps", "train.int8_tuning_steps"):
        last = getattr(base.train, key.removeprefix("train."))
        if not last or any(setting.startswith(key) for setting in settings):
            continue
        if args.minutes is not None:
            raise ConfigError(
                f"{recipe}: {key} is about the last {last:,} steps, and --minutes does not say which steps are the "
                f"last. Give --steps, or add --set {key}=0."
            )
        if args.steps is not None:  # the same share of them
            settings.insert(0, f"{key}={args.steps * last // base.train.max_steps}")
    if args.minutes is not None:
        settings += [f"train.max_minutes={args.minutes}", f"train.max_steps={args.steps or _WITHOUT_LIMIT}"]
    elif args.steps is not None:
        settings.append(f"train.max_steps={args.steps}")
    return apply_settings(base, settings)
