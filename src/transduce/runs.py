"""A run: prepared data → training → averaging → a model folder. The Python face of `transduce train` and `average`.

RUN/
    config.json       the resolved configuration; the only thing reloaded on resume
    data/             prepared data, unless it lies elsewhere (then data.json says where)
    checkpoints/      the last ones
    best/             the checkpoint with the best validation score
    metrics.jsonl     every logged step and validation; tensorboard/ has the same
    model/            the averaged model, written at the end
"""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transduce import __version__, files
from transduce.bundle import Bundle, save_bundle
from transduce.config import Config, to_dict
from transduce.config.parameters import require_memory
from transduce.data.corpus import locate_tests
from transduce.data.prepare import Prepared, difference_from, is_prepared, load_prepared, prepare
from transduce.data.store import ParallelStore
from transduce.data.treebank import beginnings, read_treebank
from transduce.errors import BundleError, ConfigError, TrainingError
from transduce.model import Transformer
from transduce.parser import Parser
from transduce.parsing import Tree, normalise
from transduce.passages.sentences import SENTENCES_METRIC, usual_sentences
from transduce.scoring import scorer_of
from transduce.text import SubwordTokenizer
from transduce.training.averaging import average
from transduce.training.device import Compute
from transduce.training.distributed import Ranks, local_device
from transduce.training.guidance import Guidance
from transduce.training.history import load_run_config as load_run_config
from transduce.training.state import Progress, check_checkpoint, checkpoints, read_progress
from transduce.training.trainer import Outcome, Trainer
from transduce.training.validation import perplexity

_CONFIG, _DATA = "config.json", "data.json"
_SENTENCES_SAMPLE = 1000  # training lines whose sentences are counted

# What may differ between a run's own configuration and the one it is resumed with: nothing that changes an update.
_FREE_ON_RESUME = {
    "train.max_steps", "train.max_minutes", "train.device", "train.compile", "train.log_steps",
    "train.checkpoint_steps", "train.checkpoint_minutes", "train.keep_checkpoints", "train.average_last",
    "train.validate_steps", "train.validate_bleu", "train.validate_bleu_sentences", "train.validate_beam_size",
    "train.early_stopping", "train.best_by",
    "train.micro_batch_tokens",  # as the number of processes: rounding, and which numbers dropout draws
    "name", "data.folder", "data.download", "data.source_language", "data.target_language", "data.test",
    "decode.beam_size", "decode.length_penalty", "decode.max_extra_tokens", "decode.batch_size",
}  # fmt: skip


def train(
    config: Config,
    run: Path,
    *,
    resume: bool = False,
    data: Path | None = None,
    mirror: Path | None = None,
    show_progress: bool = True,
    finish: Callable[[Bundle], object] | None = None,
) -> Outcome:
    """Trains a model in the folder `run`, preparing the data there first unless `data` is a prepared folder.

    With `resume`, goes on from the last checkpoint exactly as if training had not stopped; what has changed in `config`
    since may only be what changes no update (lengths, intervals, early stopping). `finish` is called with the model
    folder when it is written, by one process where there are several.

    Raises:
        TrainingError: `run` has a training in it already and `resume` is off; `config` is of another training; or
            another process is training there now.
        DataError: the corpus cannot be used; nothing was trained.
    """
    # Before hours of preparation. The size of the vocabulary is known after it only.
    require_memory(dataclasses.replace(config.model, vocab_size=min(config.model.vocab_size, config.text.vocab_size)))
    compute = Compute.of(local_device(config.train.device), config.train.precision)
    ranks = Ranks.join(compute.device)
    if run.exists() and not run.is_dir():
        raise TrainingError(f"{run}: is a file; name a folder for --output.")
    with files.exclusive(run) if ranks.leads else contextlib.nullcontext(True) as alone:
        if not alone:
            raise TrainingError(f"{run}: another training is at work here. Stop it, wait, or choose another --output.")
        return _train(config, run, resume, data, mirror, show_progress and ranks.leads, compute, ranks, finish)


def _train(
    config: Config,
    run: Path,
    resume: bool,
    data: Path | None,
    mirror: Path | None,
    show_progress: bool,
    compute: Compute,
    ranks: Ranks,
    finish: Callable[[Bundle], object] | None,
) -> Outcome:
    if checkpoints(run) and not resume:
        raise TrainingError(
            f"{run}: there is a training here already. Add --resume to go on with it, or choose another --output."
        )
    if config.train.guided_attention and config.data.format != "trees":
        raise ConfigError(
            f"train.guided_attention = {config.train.guided_attention}: must be 0 where data.format is not 'trees': "
            "only a parser's target tells which word it is at."
        )
    if resume and (run / _CONFIG).is_file():
        _require_same_training(config, run)
    if ranks.leads:
        prepared = _prepared(config, run, data, mirror, show_progress)
    ranks.wait_for_long_work()
    if not ranks.leads:
        prepared = load_prepared(data_folder(run), checksums=False)  # the leading process has compared them
    tokenizer = SubwordTokenizer.load(prepared.tokenizer)
    config = with_vocabulary(config, tokenizer)
    if ranks.leads:
        files.write_json(run / _CONFIG, {"transduce": __version__, "torch": torch.__version__, **to_dict(config)})
    store = ParallelStore.open(prepared.train)
    validation = ParallelStore.open(prepared.validation) if prepared.validation else None
    if config.train.early_stopping and validation is None:
        raise TrainingError("train.early_stopping needs data.validation: there is nothing to measure progress by.")
    scorer = scorer_of(config, tokenizer, validation) if validation is not None else None
    weight = config.train.guided_attention
    trainer = Trainer(
        config,
        run,
        store,
        validation,
        scorer=scorer,
        guidance=Guidance(weight, *beginnings(tokenizer.piece_bytes(range(tokenizer.vocab_size)))) if weight else None,
        show_progress=show_progress,
        compute=compute,
    )
    if resume and not trainer.resume():
        trainer.report.say(f"{run}: no checkpoint to resume from; starting from the beginning")
    if show_progress:
        _announce(config, trainer, store)
    outcome = trainer.fit()
    bundle = None
    if outcome.reason != "stopped" and ranks.leads:
        bundle = average_run(
            run, run / "model", last=config.train.average_last, overwrite=True, show_progress=show_progress
        )
    if bundle is not None and finish is not None:
        finish(bundle)
    ranks.wait_for_long_work()
    return outcome


def with_vocabulary(config: Config, tokenizer: SubwordTokenizer) -> Config:
    """Returns `config` with the model's table as large as the tokeniser's vocabulary."""
    return dataclasses.replace(config, model=dataclasses.replace(config.model, vocab_size=tokenizer.vocab_size))


def run_metrics(run: Path) -> dict[str, Any]:
    """Returns how far a run has come and what it has cost, from its last checkpoint; empty where it has none yet."""
    found = checkpoints(run)
    return _training_metrics(read_progress(found[-1])) if found else {}


def _training_metrics(progress: Progress) -> dict[str, Any]:
    return {
        "steps": progress.step,
        "training_seconds": progress.seconds,
        "target_tokens_seen": progress.target_tokens,
        **progress.cost.metrics(),
    }


def average_run(
    run: Path,
    output: Path,
    *,
    last: int = 5,
    best: bool = False,
    overwrite: bool = False,
    show_progress: bool = True,
) -> Bundle:
    """Averages the last `last` checkpoints of `run` (§6.1), or takes its `best` one, and writes a model folder.

    The model is measured on the validation data before it is written.

    Raises:
        BundleError: the run has no checkpoint, or `output` holds something that is not a model, or one that may not be
            replaced, for lack of `overwrite`.
    """
    config = load_run_config(run)
    foreign = "" if (output / "model.safetensors").is_file() else "it is not a model folder"
    files.require_free(output, overwrite=overwrite, foreign=foreign, error=BundleError)
    progress, weights = _average(run, last, best)
    if not best and len(progress) < last and show_progress:
        print(f"note: {run} has {len(progress)} checkpoints; averaging those", file=sys.stderr)
    prepared = load_prepared(data_folder(run))
    tokenizer = SubwordTokenizer.load(prepared.tokenizer)
    metrics = _measure(config, weights, tokenizer, prepared, progress)
    return save_bundle(output, config, weights, tokenizer, metrics)


def _average(run: Path, last: int, best: bool) -> tuple[list[Progress], dict[str, np.ndarray]]:
    """Returns where the checkpoints were made and the mean of their weights.

    A training that goes on meanwhile removes its oldest: if one is gone, those that are there now are taken instead.
    """
    paths: list[Path] = []
    while True:
        before, paths = paths, [run / "best"] if best else checkpoints(run)[-last:]
        if not paths or not paths[0].is_dir():
            raise BundleError(f"{run}: no {'best ' if best else ''}checkpoint to make a model of.")
        try:
            return [check_checkpoint(path) for path in paths], average(paths)
        except BundleError:
            if paths == before:  # not removed, but damaged
                raise


def _measure(
    config: Config,
    weights: dict[str, np.ndarray],
    tokenizer: SubwordTokenizer,
    prepared: Prepared,
    progress: Sequence[Progress],
) -> dict[str, Any]:
    metrics = _training_metrics(progress[-1]) | {"averaged_steps": ", ".join(str(p.step) for p in progress)}
    if config.data.format != "trees":
        metrics[SENTENCES_METRIC] = _usual_sentences(config, tokenizer, ParallelStore.open(prepared.train))
    if prepared.validation is not None:
        compute = Compute.of(config.train.device, config.train.precision)
        model = Transformer.from_weights(config.model, weights).to(compute.device)
        validation = ParallelStore.open(prepared.validation)
        metrics["validation_perplexity"] = perplexity(model, validation, compute)
        if config.train.validate_bleu:
            scores = scorer_of(config, tokenizer, validation)(model)
            metrics |= {f"validation_{name}": value for name, value in scores.items()}
    return metrics


def _usual_sentences(config: Config, tokenizer: SubwordTokenizer, store: ParallelStore) -> int:
    """Returns how many sentences 95 of 100 training lines have at most, judged by a sample that is evenly spread."""
    chosen = np.unique(np.linspace(0, len(store) - 1, _SENTENCES_SAMPLE).astype(np.int64))
    lines = tokenizer.decode_batch([store.source(int(index)).tolist() for index in chosen])
    return usual_sentences(lines, config.data.source_language)


def read_test_trees(config: Config) -> dict[str, list[Tree]]:
    """Returns the trees of each test set of a parser's configuration, normalised.

    Raises:
        DataError: a treebank is missing, or something in it is no tree; names file, line and column.
    """
    raw = {name: read_treebank(part.paths) for name, part in locate_tests(config.data).items()}
    return {name: [tree for tree in map(normalise, trees) if tree is not None] for name, trees in raw.items()}


def measure_parser(bundle: Bundle, tests: Mapping[str, Sequence[Tree]], *, show_progress: bool = True) -> Bundle:
    """Parses the words of known trees, and adds to the model's metrics and card how right it is on each set."""
    parser = Parser.load(bundle.path, device=bundle.config.train.device)
    metrics = bundle.metrics
    for name, trees in tests.items():
        scores = parser.score(trees, label=f"parsing {name}" if show_progress else "")
        metrics |= {f"test_{name}_{key}": value for key, value in scores.items()}
        metrics[f"test_{name}_sentences"] = len(trees)
    return save_bundle(bundle.path, bundle.config, bundle.weights(), bundle.tokenizer, metrics)


def _prepared(config: Config, run: Path, data: Path | None, mirror: Path | None, show_progress: bool) -> Prepared:
    run.mkdir(parents=True, exist_ok=True)
    if data is None and not (run / _DATA).is_file():
        if checkpoints(run) and is_prepared(run / "data"):  # what it began with, wherever the corpus is by now
            return load_prepared(run / "data")
        report = prepare(config, run / "data", mirror=mirror, progress=show_progress)
        if show_progress:
            print(report, file=sys.stderr)
        return load_prepared(run / "data")
    prepared = load_prepared(data or data_folder(run))
    if checkpoints(run):
        _require_same_data(run, prepared)
    elif show_progress and (differs := difference_from(config, prepared)):
        message = f"warning: {prepared.folder}: was prepared differently from what the recipe says: {differs}."
        print(f"{message} It is used as it is.", file=sys.stderr)
    files.write_json(run / _DATA, {"folder": str(prepared.folder.resolve()), "train_sha256": _train_sha256(prepared)})
    return prepared


def _require_same_data(run: Path, now: Prepared) -> None:
    """Lets the data of a resumed training have moved, but not changed: its batches would be others."""
    if (run / _DATA).is_file():
        before = json.loads((run / _DATA).read_text(encoding="utf-8")).get("train_sha256", _train_sha256(now))
    else:
        before = _train_sha256(load_prepared(run / "data"))
    if _train_sha256(now) != before:
        raise TrainingError(f"{run}: was begun with other data than {now.folder}; it can be resumed with its own only.")


def _train_sha256(prepared: Prepared) -> str:
    return str(prepared.manifest["files"][prepared.train.name]["sha256"])


def data_folder(run: Path) -> Path:
    """Returns the folder of the prepared data that a run trains on."""
    elsewhere = run / _DATA
    if elsewhere.is_file():
        return Path(json.loads(elsewhere.read_text(encoding="utf-8"))["folder"])
    return run / "data"


def _require_same_training(config: Config, run: Path) -> None:
    before, now = _flat(to_dict(load_run_config(run))), _flat(to_dict(config))
    free = _FREE_ON_RESUME | {"model.vocab_size"}
    if config.train.cooldown_steps:
        free -= {"train.max_steps"}  # the rate depends on where it ends
    changed = [
        f"  {key}: was {before.get(key)!r}, now {now.get(key)!r}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and key not in free and not key.startswith("data.test.")
    ]
    if changed:
        raise TrainingError(
            f"{run}: cannot be resumed with another configuration than it was begun with:\n" + "\n".join(changed)
        )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _announce(config: Config, trainer: Trainer, store: ParallelStore) -> None:
    plan, max_steps = trainer.plan(trainer.progress.epoch), config.train.max_steps
    trainer.report.say(
        f"{config.name}: {trainer.model.num_parameters:,} parameters on {trainer.compute}; {len(store):,} pairs, "
        f"{len(plan):,} batches an epoch ({plan.padding_share:.1%} padding), {max_steps:,} steps "
        f"= {max_steps / max(len(plan), 1):.1f} epochs"
    )
