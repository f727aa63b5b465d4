"""Shows the configuration, size and cost of a model folder, a run folder, a prepared folder, a recipe or a preset.

  recipe   also the keys that differ from its preset
  run      also its progress, the time left, its best score, and what training has cost so far
  model    also its scores, and what training cost

The cost is the number of floating-point operations, and the paper's estimate of it (see docs/guides/training.md).

Estimates come from the configuration: the operations of a step with full batches, forward and backward, of sentences of
32 tokens; the memory of weights, gradients and Adam's moments in float32, and of activations. They do not include
PyTorch itself and its temporary buffers. The memory to translate is that of the weights in the ctranslate2 engine, with
its table of positions.

examples:
  transduce info models/m30k
  transduce info runs/m30k
  transduce info paper-base
  transduce info recipes/wmt14-en-de-big.toml --set model.d_model=512 --json
  transduce info --presets
"""

import argparse
import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.bundle import Bundle
from transduce.cli.options import add_settings, add_switch, add_text
from transduce.cli.output import print_report
from transduce.config import Config, TrainConfig, apply_settings, load_recipe, preset, preset_names, to_dict
from transduce.config.differences import differences
from transduce.config.estimates import SENTENCE_TOKENS, estimate
from transduce.config.loading import recipe_start
from transduce.config.model_card import format_metric
from transduce.config.modifiers import MODIFIERS
from transduce.engines.ctranslate2_limits import converted_bytes
from transduce.errors import ConfigError, suggestion
from transduce.reporting.tables import clock, counted, mebibytes, short, table
from transduce.training.schedule import describe_rate, describe_tuning

if TYPE_CHECKING:
    from transduce.training.progress import Progress

SUMMARY = "show the configuration, size and cost of a model, run, recipe or preset"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_text(parser, "subject", "WHAT", "model folder, run folder, prepared folder, recipe or preset", nargs="?")
    add_switch(parser, "--presets", "list all presets with their parameter counts")
    add_settings(parser, "change one value of the recipe or preset")
    add_switch(parser, "--json", "print JSON")


# What --json shows of a run's progress.
_PROGRESS = ("step", "epoch", "seconds", "skipped_steps", "best_score", "best_by", "best_step")


@dataclass(frozen=True)
class _Subject:
    kind: str
    config: Config
    metrics: dict[str, Any] = field(default_factory=dict)
    shortlist: dict[str, Any] | None = None  # what is known of the model's shortlist
    num_bytes: int | None = None  # on disk
    start: tuple[str, Config] | None = None  # the preset of a recipe: its name and its values
    progress: "Progress | None" = None  # of a run, by its last checkpoint
    languages: tuple[str, ...] = ()  # of a model, those that have a tag


def run(args: argparse.Namespace) -> int:
    """Prints the facts, and returns the exit code."""
    from transduce.config.weights import count_parameters
    from transduce.data.prepared import is_prepared, prepared_facts

    if args.presets:
        rows = [(name, count_parameters(preset(name).model)) for name in preset_names()]
        if args.json:
            print(json.dumps(dict(rows), indent=2))
        else:
            width = max(len(name) for name, _ in rows)
            print("\n".join(f"{name:<{width}} {count:>13,} parameters" for name, count in rows))
        return 0
    if args.subject is None:
        raise ConfigError("Name a model folder, a run folder, a recipe or a preset; --presets lists the presets.")
    if is_prepared(folder := Path(args.subject)) and not args.set:
        facts = {"kind": "prepared folder", "bytes": _size(folder), **prepared_facts(folder)}
        print_report(json.dumps(facts, indent=2) if args.json else _prepared_text(args.subject, facts))
        return 0
    subject = _find(args.subject, args.set)
    count = count_parameters(subject.config.model)
    if args.json:
        print(json.dumps(_as_json(subject, count), indent=2, ensure_ascii=False))
    else:
        print_report(_as_text(args.subject, subject, count))
    return 0


def _as_json(subject: _Subject, count: int) -> dict[str, Any]:
    values = {"kind": subject.kind, "parameters": count, "config": to_dict(subject.config)}
    values |= {"metrics": subject.metrics, "estimate": asdict(estimate(subject.config))}
    if subject.shortlist is not None:
        values["shortlist"] = subject.shortlist
    if subject.languages:
        values["languages"] = subject.languages
    if subject.num_bytes is not None:
        values["bytes"] = subject.num_bytes
    if (progress := subject.progress) is not None:
        train = subject.config.train
        shown = {key: getattr(progress, key) for key in _PROGRESS} | {"best_score": _best_score(progress)}
        values["progress"] = shown | {"max_steps": train.max_steps, "seconds_left": progress.seconds_left(train)}
    if subject.start is not None:
        name, start = subject.start
        values["preset"] = name
        changed = differences(to_dict(start), to_dict(subject.config))
        values["differs"] = {key: {"preset": before, "here": now} for key, (before, now) in changed.items()}
    return values


def _as_text(name: str, subject: _Subject, count: int) -> str:
    on_disk = "" if subject.num_bytes is None else f", {mebibytes(subject.num_bytes)} on disk"
    parts = [f"{name}: {subject.kind}, {count:,} parameters ({count / 1e6:.2f} M){on_disk}"]
    if subject.progress is not None:
        parts.append(_progress_text(subject.progress, subject.config.train))
    parts.append(_estimate_text(subject.config))
    if subject.config.init.model and subject.kind != "model folder":
        parts.append(describe_rate(subject.config))
    if subject.config.train.int8_tuning_steps:
        parts.append(describe_tuning(subject.config.train))
    if subject.start is not None:
        parts.append(_difference_text(*subject.start, subject.config))
    for section, values in to_dict(subject.config).items():
        if isinstance(values, dict):
            lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
            parts.append("\n".join([f"[{section}]", *lines]))
    if modifiers := subject.config.train.modifiers:
        rows = [(each.name, f"{each.probability:g}", MODIFIERS[each.name].effect) for each in modifiers]
        parts.append(table(("modifier", "probability", "effect on a line"), rows, text_columns=3))
    if subject.metrics:
        parts.append(
            "\n".join(["measured:", *(f"  {key}: {format_metric(value)}" for key, value in subject.metrics.items())])
        )
    if subject.config.text.algorithm == "sentencepiece":
        parts.append(
            "tokenizer: SentencePiece, of an imported model. It normalises text: ligatures, wide characters and white "
            "space do not come back as they were, and characters that it does not know are lost."
        )
    if subject.shortlist is not None:
        parts.append(_of_shortlist(subject.shortlist))
    if subject.languages:
        several = "translates between any two of" if subject.config.data.language_tags == "both" else "writes"
        number = counted(len(subject.languages), "language")
        parts.append(f"{several} {number}: {', '.join(subject.languages)}")
    return "\n\n".join(parts)


def _estimate_text(config: Config) -> str:
    costs, train = estimate(config), config.train
    rows = [
        ("FLOPs of a step", short(costs.step_flops)),
        ("memory to train", mebibytes(costs.memory_bytes)),
        ("of which weights, gradients and Adam", mebibytes(costs.training_bytes)),
        ("of which activations", mebibytes(costs.activation_bytes)),
        ("memory to translate, float32", mebibytes(converted_bytes(config.model, int8=False))),
        ("memory to translate, int8", mebibytes(converted_bytes(config.model, int8=True))),
    ]
    batch = f"batches of {train.source_batch_tokens:,} source and {train.target_batch_tokens:,} target tokens"
    return f"estimates, for {batch} in sentences of {SENTENCE_TOKENS}:\n\n{table(('what', 'estimate'), rows)}"


def _progress_text(progress: "Progress", train: TrainConfig) -> str:
    share = progress.step / train.max_steps
    rows = [("steps", f"{progress.step:,} of {train.max_steps:,} ({share:.0%})"), ("epoch", str(progress.epoch + 1))]
    rows.append(("time spent", clock(progress.seconds)))
    if seconds_left := progress.seconds_left(train):
        rows.append(("time left, at the speed so far", clock(seconds_left)))
    if progress.skipped_steps:
        rows.append(("updates left out, not finite", f"{progress.skipped_steps:,}; see quarantine.jsonl"))
    if (best_score := _best_score(progress)) is not None:
        measure = str(progress.best_by).replace("_", " ") or "score"
        rows.append((f"best {measure}", f"{best_score:.2f} at step {progress.best_step:,}"))
    return table(("progress by the last checkpoint", ""), rows)


def _best_score(progress: "Progress") -> float | None:
    """Returns the best score as it was measured."""
    score = progress.best_score
    return -score if score is not None and progress.best_by == "perplexity" else score


def _difference_text(name: str, start: Config, config: Config) -> str:
    origin = f"preset {name}" if name else "the defaults (it names no preset)"
    origin += f" and from {start.init.model}, which it starts from" if start.init.model else ""
    changed = differences(to_dict(start), to_dict(config))
    rows = [(key, *(json.dumps(value, ensure_ascii=False) for value in both)) for key, both in changed.items()]
    if not rows:
        return f"nothing differs from {origin}."
    return f"differs from {origin}:\n\n{table(('key', 'preset', 'here'), rows, text_columns=3)}"


def _of_shortlist(facts: dict[str, Any]) -> str:
    covered = facts["coverage"]
    return (
        f"shortlist: {counted(facts['candidates'], 'candidate')} of each piece and "
        f"{counted(facts['frequent'], 'frequent piece')}, learned from {counted(facts['pairs'], 'pair')}; a sentence "
        f"has {covered['mean_ids']:,.0f} pieces on average, which cover {100 * covered['share_of_tokens']:.1f} % of "
        "references"
    )


def _prepared_text(name: str, facts: dict[str, Any]) -> str:
    rows = [
        (part, *(f"{values[key]:,}" if key in values else "?" for key in ("pairs", "source_tokens", "target_tokens")))
        for part, values in facts["parts"].items()
    ]
    text = f"{name}: prepared folder, {facts['vocab_size']:,} pieces in the vocabulary"
    text += f", {mebibytes(facts['bytes'])} on disk"
    text += f"\n\n{table(('part', 'pairs', 'source tokens', 'target tokens'), rows)}"
    batches = facts["batches_in_an_epoch"]
    return text if batches is None else f"{text}\n\nbatches in an epoch: {batches:,}"


def _size(path: Path) -> int:
    """Returns the size of a folder's files in bytes."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # a training removes old checkpoints meanwhile
                total += Path(folder, name).stat().st_size
    return total


def _find(name: str, settings: Sequence[str]) -> _Subject:
    path = Path(name)
    if path.suffix == ".toml":
        return _Subject("recipe", _with_vocabulary(load_recipe(path, settings)), start=recipe_start(path, settings))
    if name in preset_names() and not path.exists():
        return _Subject("preset", apply_settings(preset(name), settings))
    if settings:
        raise ConfigError(f"--set {settings[0]}: {name} is neither a recipe nor a preset: what it is does not change.")
    if (path / "model.safetensors").is_file() or (path / "tokenizer.json").is_file():
        from transduce.engines.shortlist.table import shortlist_facts

        bundle = Bundle.load(path)
        bundle.require_shapes()  # before parameters are counted
        return _Subject(
            "model folder",
            bundle.config,
            bundle.metrics,
            shortlist_facts(bundle),
            _size(path),
            languages=bundle.tokenizer.target_languages,
        )
    if (path / "config.json").is_file():
        return _run_folder(path)
    raise ConfigError(
        f"'{name}' is not a model folder, a run folder, a prepared folder, a recipe or a preset."
        f"{suggestion(name, preset_names())}"
    )


def _with_vocabulary(config: Config) -> Config:
    """Returns the recipe with the vocabulary size that training will set: that of the tokeniser, without new words."""
    if config.init.model:
        return config
    return replace(config, model=replace(config.model, vocab_size=config.text.vocab_size))


def _run_folder(path: Path) -> _Subject:
    from transduce.training.progress import last_progress
    from transduce.training.run_folder import ancestor_metrics, load_run_config

    config, progress = load_run_config(path), last_progress(path)
    metrics = (progress.metrics() if progress is not None else {}) | ancestor_metrics(path)
    return _Subject("run folder", config, metrics, num_bytes=_size(path), progress=progress)
