"""A run: prepared data → training → averaging → a model folder. The Python face of `transduce train` and `average`.

RUN/
    config.json       the resolved configuration; the only thing reloaded on resume
    data/             prepared data, unless they lie elsewhere
    data.json         where the data are, and which: what a run was begun with is what it is resumed with
    checkpoints/      the last ones
    best/             the checkpoint with the best validation score
    metrics.jsonl     every logged step and validation; tensorboard/ has the same
    model/            the averaged model, written at the end
"""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transduce import files
from transduce.bundle import Bundle, save_bundle
from transduce.config import Config
from transduce.config.weights import require_memory
from transduce.data.corpus import locate_tests
from transduce.data.prepare import Prepared, difference_from, load_prepared, prepare
from transduce.data.store import ParallelStore
from transduce.data.treebank_reader import beginnings, read_treebank
from transduce.errors import BundleError, ConfigError, TrainingError
from transduce.model import Transformer
from transduce.parser import Parser
from transduce.reporting.tables import counted
from transduce.scoring import scorer_of
from transduce.text import SubwordTokenizer
from transduce.training import state
from transduce.training.averaging import average
from transduce.training.device import Compute
from transduce.training.distributed import Ranks, local_device
from transduce.training.guidance import Guidance
from transduce.training.history import CONFIG, load_run_config
from transduce.training.run_folder import (
    DATA,
    changes_on_resume,
    data_folder,
    has_data_elsewhere,
    laid_over,
    load_run_data,
    run_settings,
    save_run_config,
    save_run_data,
)
from transduce.training.state import Progress, check_checkpoint, checkpoints, read_progress, scheduled_checkpoints
from transduce.training.trainer import Outcome, Trainer
from transduce.training.validation import perplexity
from transduce.translation.pipeline.sentences import SENTENCES_METRIC, usual_sentences
from transduce.treebank import Tree, normalise

__all__ = [
    "average_run",
    "data_folder",
    "laid_over",
    "load_run_config",
    "load_run_data",
    "measure_parser",
    "read_test_trees",
    "run_metrics",
    "run_settings",
    "train",
    "with_vocabulary",
]

_SENTENCES_SAMPLE = 1000  # training lines whose sentences are counted


def train(
    config: Config,
    run: Path,
    *,
    resume: bool = False,
    data: Path | None = None,
    mirror: Path | None = None,
    show_progress: bool = True,
    finish: Callable[[Bundle], object] | None = None,
    settings: Sequence[str] = (),
) -> Outcome:
    """Trains a model in the folder `run`, preparing the data there first unless `data` is a prepared folder.

    With `resume`, goes on from the last checkpoint exactly as if training had not stopped; what has changed in `config`
    since may only be what changes no update (lengths, intervals, early stopping), and is printed. `finish` is called
    with the model folder when it is written, by one process where there are several. `settings` are those that were
    laid over the recipe (`section.key=value`): they are noted in the run, for `run_settings`.

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
        _require_trainable(config, run, resume)
        shown = show_progress and ranks.leads
        if ranks.leads:
            _remove_leftovers(run)
            if resume:
                for line in changes_on_resume(run, config, settings):
                    print(f"resuming with a change: {line}", file=sys.stderr)
            if not checkpoints(run):  # before the data are prepared, so that `settings` outlive a crash in there
                save_run_config(run, config, settings)
            prepared = _prepared(config, run, data, mirror, shown)
        ranks.wait_for_long_work()
        if not ranks.leads:
            prepared = load_run_data(run, checksums=False)  # the leading process has compared them
        config = with_vocabulary(config, SubwordTokenizer.load(prepared.tokenizer))
        if ranks.leads:
            save_run_config(run, config, settings)
        outcome = _trainer(config, run, prepared, resume, shown, compute).fit()
        if outcome.reason != "stopped" and ranks.leads:
            for line in state.set_aside_damaged(run, config.train.average_last):  # the night's work is not lost by one
                print(f"warning: {line} The model is the mean of those that are whole.", file=sys.stderr)
            bundle = average_run(
                run, run / "model", last=config.train.average_last, overwrite=True, show_progress=show_progress
            )
            _compare(bundle.metrics, outcome.progress, run, shown)
            if finish is not None:
                finish(bundle)
        ranks.wait_for_long_work()
        return outcome


def _require_trainable(config: Config, run: Path, resume: bool) -> None:
    if checkpoints(run) and not resume:
        raise TrainingError(
            f"{run}: there is a training here already. Add --resume to go on with it, or choose another --output."
        )
    if config.train.guided_attention and config.data.format != "trees":
        raise ConfigError(
            f"train.guided_attention = {config.train.guided_attention}: must be 0 where data.format is not 'trees': "
            "only a parser's target tells which word it is at."
        )


def _remove_leftovers(run: Path) -> None:
    """Removes what processes that were killed left here; this process holds the run."""
    state.remove_leftovers(run)
    files.remove_leftovers(run, "model", CONFIG, DATA, "metrics.jsonl")
    files.remove_leftovers(run / "data", "*.json", "*.arrow")


def _trainer(
    config: Config, run: Path, prepared: Prepared, resume: bool, show_progress: bool, compute: Compute
) -> Trainer:
    tokenizer = SubwordTokenizer.load(prepared.tokenizer)
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
    return trainer


def _compare(metrics: Mapping[str, Any], progress: Progress, run: Path, show_progress: bool) -> None:
    """Prints the averaged model's validation scores beside the last checkpoint's, and warns where they are worse."""
    last = {name: score for name, score in progress.validations.items() if f"validation_{name}" in metrics}
    if not last or metrics["averaged_steps"] == str(progress.step):
        return
    mean = {name: metrics[f"validation_{name}"] for name in last}
    if show_progress:
        means, lasts = (", ".join(f"{n.replace('_', ' ')} {v:.2f}" for n, v in each.items()) for each in (mean, last))
        print(
            f"validation: {means} by the mean of the checkpoints after steps {metrics['averaged_steps']}; {lasts} by "
            "the last one alone",
            file=sys.stderr,
        )
    by = progress.best_by if progress.best_by in last else "perplexity"
    if mean[by] > last[by] if by == "perplexity" else mean[by] < last[by]:
        print(
            f"warning: {run / 'model'}: by {by.replace('_', ' ')}, this mean of checkpoints ({mean[by]:.2f}) is worse "
            f"than the last checkpoint alone ({last[by]:.2f}): it averages over too much of the training. Take fewer: "
            f"transduce average {run} --last 1 --output MODEL.",
            file=sys.stderr,
        )


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

    The model is measured on the validation data before it is written. Checkpoints that came off the schedule, such as
    when training was stopped, are left out; where there is no other, the last of them is taken, and that is printed.

    Raises:
        TrainingError: `run` is no run folder, or its data are not those that it was begun with.
        BundleError: the run has no checkpoint, a weight is not finite, or `output` holds something that is not a model,
            or one that may not be replaced, for lack of `overwrite`.
    """
    config = load_run_config(run)
    foreign = "" if (output / "model.safetensors").is_file() else "it is not a model folder"
    files.require_free(output, overwrite=overwrite, foreign=foreign, error=BundleError)
    progress, weights = _average(run, last, best)
    if not best and len(progress) < last and show_progress:
        print(f"note: {run} has {counted(len(progress), 'checkpoint')} to average, not {last}", file=sys.stderr)
    prepared = load_run_data(run)
    tokenizer = SubwordTokenizer.load(prepared.tokenizer)
    metrics = _measure(config, weights, tokenizer, prepared, progress)
    return save_bundle(output, config, weights, tokenizer, metrics)


def _average(run: Path, last: int, best: bool) -> tuple[list[Progress], dict[str, np.ndarray]]:
    """Returns where the scheduled checkpoints were made and the mean of their weights.

    A training that goes on meanwhile removes its oldest: if one is gone, those that are there now are taken instead.
    """
    paths: list[Path] = []
    while True:
        before, paths = paths, [run / "best"] if best else scheduled_checkpoints(run)[-last:]
        if not paths and (stopped := checkpoints(run)):
            paths = stopped[-1:]
            print(f"warning: {run}: no checkpoint came by the schedule yet; taking {paths[0].name}", file=sys.stderr)
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
    if checkpoints(run):  # what it began with, wherever the corpus is by now
        prepared = load_run_data(run, data)
    elif data is None and not has_data_elsewhere(run):
        report = prepare(config, run / "data", mirror=mirror, progress=show_progress)
        if show_progress:
            print(report, file=sys.stderr)
        prepared = load_prepared(run / "data")
    else:
        prepared = load_prepared(data or data_folder(run))
        if show_progress and (differs := difference_from(config, prepared)):
            message = f"warning: {prepared.folder}: was prepared differently from what the recipe says: {differs}."
            print(f"{message} It is used as it is.", file=sys.stderr)
    save_run_data(run, prepared)
    return prepared


def _announce(config: Config, trainer: Trainer, store: ParallelStore) -> None:
    plan, max_steps = trainer.plan(trainer.progress.epoch), config.train.max_steps
    trainer.report.say(
        f"{config.name}: {trainer.model.num_parameters:,} parameters on {trainer.compute}; "
        f"{counted(len(store), 'pair')}, {counted(len(plan), 'batch', 'batches')} an epoch "
        f"({plan.padding_share:.1%} padding), {counted(max_steps, 'step')} = {max_steps / max(len(plan), 1):.1f} epochs"
    )
