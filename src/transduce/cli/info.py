"""Shows the configuration and the number of parameters of a model folder, a run folder, a recipe or a preset.

Of a model or a run, also what was measured, and what its training cost: the floating-point operations that it made, and
the paper's estimate of them (see docs/guides/training.md).

examples:
  transduce info models/m30k
  transduce info paper-base
  transduce info recipes/wmt14-en-de-big.toml --json
  transduce info --presets
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.config import Config, load_recipe, preset, preset_names, to_dict
from transduce.errors import ConfigError, suggestion
from transduce.model_card import shown

SUMMARY = "show the configuration, size and cost of a model, run, recipe or preset"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("subject", metavar="WHAT", nargs="?", help="model folder, run folder, recipe or preset")
    parser.add_argument("--presets", action="store_true", help="list all presets with their parameter counts")
    parser.add_argument("--json", action="store_true", help="print JSON")


@dataclass(frozen=True)
class _Subject:
    kind: str
    config: Config
    metrics: dict[str, Any]
    shortlist: dict[str, Any] | None = None  # what is known of a model's


def run(args: argparse.Namespace) -> int:
    """Prints what is asked for, and returns the exit code."""
    from transduce.config.parameters import count_parameters

    if args.presets:
        rows = [(name, count_parameters(preset(name).model)) for name in preset_names()]
        if args.json:
            print(json.dumps(dict(rows), indent=2))
        else:
            print("\n".join(f"{name:<16} {count:>13,} parameters" for name, count in rows))
        return 0
    if args.subject is None:
        raise ConfigError("Name a model folder, a run folder, a recipe or a preset; --presets lists the presets.")
    subject = _find(args.subject)
    count = count_parameters(subject.config.model)
    if args.json:
        values = {"kind": subject.kind, "parameters": count, "config": to_dict(subject.config)}
        values |= {"metrics": subject.metrics}
        values |= {"shortlist": subject.shortlist} if subject.shortlist is not None else {}
        print(json.dumps(values, indent=2, ensure_ascii=False))
        return 0
    print(f"{args.subject}: {subject.kind}, {count:,} parameters ({count / 1e6:.2f} M)")
    for name, section in to_dict(subject.config).items():
        if isinstance(section, dict):
            print(f"\n[{name}]")
            print("\n".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in section.items()))
    if subject.metrics:
        print("\nmeasured:")
        print("\n".join(f"  {name}: {shown(value)}" for name, value in subject.metrics.items()))
    if subject.shortlist is not None:
        print(f"\n{_of_shortlist(subject.shortlist)}")
    return 0


def _of_shortlist(facts: dict[str, Any]) -> str:
    covered = facts["coverage"]
    return (
        f"shortlist: {facts['candidates']} candidates of each piece and {facts['frequent']} frequent ones, learned "
        f"from {facts['pairs']:,} pairs; a sentence has {covered['mean_ids']:,.0f} pieces on average, which cover "
        f"{100 * covered['share_of_tokens']:.1f} % of references"
    )


def _find(name: str) -> _Subject:
    path = Path(name)
    if path.suffix == ".toml":
        return _Subject("recipe", load_recipe(path), {})
    if (path / "model.safetensors").is_file():
        from transduce.bundle import Bundle
        from transduce.shortlist.table import shortlist_facts

        bundle = Bundle.load(path)
        return _Subject("model folder", bundle.config, bundle.metrics, shortlist_facts(bundle))
    if (path / "config.json").is_file():
        from transduce.runs import load_run_config, run_metrics

        return _Subject("run folder", load_run_config(path), run_metrics(path))
    if name in preset_names():
        return _Subject("preset", preset(name), {})
    raise ConfigError(
        f"'{name}' is not a model folder, a run folder, a recipe or a preset.{suggestion(name, preset_names())}"
    )
