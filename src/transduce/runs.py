"""A run: data → trainer → scorer → average → model folder. The Python face of `transduce train` and `average`.

The files of a run folder are listed in `transduce.training.run_folder`.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transduce import files
from transduce.bundle import Bundle, save_bundle, save_metrics
from transduce.config import Config, DecodeConfig
from transduce.config.aligning_heads import guided_head
from transduce.config.terms import licence_in, terms_of
from transduce.config.weights import require_memory
from transduce.data.corpus import locate_tests
from transduce.data.prepare import prepare
from transduce.data.prepared import Prepared, difference_from, load_prepared
from transduce.data.store import ParallelStore
from transduce.data.treebank_reader import read_normalised
from transduce.engines.head_search import find_aligning_heads
from transduce.engines.interface import TokenConstraints
from transduce.engines.torch import TorchEngine
from transduce.errors import BundleError, TrainingError
from transduce.evaluation.bleu import Metric, bleu
from transduce.model import Transformer
from transduce.parser import Parser
from transduce.reporting.tables import counted
from transduce.text import Tokenizer, load_tokenizer
from transduce.training.ancestor import inherited_head, record_ancestor, require_ancestor, start_from_ancestor
from transduce.training.averaging import average_checkpoints, compare_with_single
from transduce.training.checkpoints import set_aside_damaged
from transduce.training.device import Compute
from transduce.training.distributed import ALONE, Ranks, local_device
from transduce.training.guidance import guidance_of
from transduce.training.outcome import End, Outcome
from transduce.training.progress import Progress
from transduce.training.resume import changes_on_resume, finished, save_run_config, trainable_config
from transduce.training.run_folder import (
    TERMS,
    ancestor_metrics,
    checkpoints,
    data_folder,
    load_run_config,
    load_run_data,
    remove_leftovers,
    save_run_data,
)
from transduce.training.schedule import untuned_steps
from transduce.training.trainable import new_model
from transduce.training.trainer import Trainer
from transduce.training.validation import Scorer, Validation, decode_shares, mean_scorer, require_validation
from transduce.translation.pipeline.sentences import SENTENCES_METRIC, usual_sentences
from transduce.treebank import Tree, delinearise
from transduce.treebank.brackets import parse_scores
from transduce.treebank.pairs import from_output, sentence_words

_SENTENCES_SAMPLE = 1000  # training lines whose sentences are counted


def train(
    config: Config,
    run: str | Path,
    *,
    resume: bool = False,
    data: str | Path | None = None,
    mirror: str | Path | None = None,
    show_progress: bool = True,
    finish: Callable[[Bundle], object] | None = None,
    settings: Sequence[str] = (),
) -> Outcome:
    """Trains a model in the folder `run`, preparing the data there first unless `data` is a prepared folder.

    With `resume`, continues from the last checkpoint exactly as if training had not stopped. `config` may then differ
    from the run's own only in what changes no update (lengths, intervals, early stopping); each change is printed. A
    finished run is left as it is, and any change of it is an error. `finish` is called by one process, with the model
    folder. `settings` are the values of the recipe that --set gave, `section.key=value`; the run keeps them.

    Raises:
        TrainingError: `run` has a training in it already and `resume` is off; `config` is of another training; or
            another process is training there now.
        DataError: the corpus cannot be used; nothing was trained.
    """
    run = Path(run)
    # Before hours of preparation. The size of the vocabulary is known after it only.
    require_memory(dataclasses.replace(config.model, vocab_size=min(config.model.vocab_size, config.text.vocab_size)))
    compute = Compute.of(local_device(config.train.device), config.train.precision)
    ranks = Ranks.join(compute.device)
    if run.exists() and not run.is_dir():
        raise TrainingError(f"{run}: is a file; name a folder for --output.")
    lock = files.exclusive(run) if ranks.is_main else contextlib.nullcontext(True)
    with ranks.watched(compute.device), lock as alone:
        if not alone:
            raise TrainingError(f"{run}: another training is at work here. Stop it, wait, or choose another --output.")
        config = trainable_config(config, run, resume, settings)
        require_ancestor(run, config)
        shown = show_progress and ranks.is_main
        changes = changes_on_resume(run, config, settings) if resume else {}
        if resume and (ended := finished(run, config, changes)) is not None:
            if shown:
                print(f"{run}: is finished already, and left as it is", file=sys.stderr)
            if finish is not None and ranks.is_main:
                finish(Bundle.load(run / "model"))
            return dataclasses.replace(ended, is_main=ranks.is_main)
        if ranks.is_main:
            remove_leftovers(run)
            for line in changes.values():
                print(f"resuming with a change: {line}", file=sys.stderr)
            if not checkpoints(run):  # before the data are prepared, so that `settings` outlive a crash in there
                save_run_config(run, config, settings)
            data, mirror = (None if path is None else Path(path) for path in (data, mirror))
            prepared = _prepared(config, run, data, mirror, shown)
        ranks.wait_for_long_work()
        if not ranks.is_main:
            prepared = load_run_data(run, checksums=False)  # the main process has compared them
        config = with_vocabulary(config, load_tokenizer(prepared.tokenizer))
        if ranks.is_main:
            save_run_config(run, config, settings)
            record_ancestor(run, config, prepared)
        ranks.wait()
        trainer = _trainer(config, run, prepared, compute, shown)
        if resume and not trainer.resume():
            trainer.log.say(f"{run}: no checkpoint to resume from; starting from the beginning")
        trainer.prepare()
        outcome = trainer.fit()
        ranks.finish()
        if outcome.end != End.SIGNAL and ranks.is_main:
            last = config.train.average_last
            for line in set_aside_damaged(run, last):
                print(f"warning: {line} The model is the mean of the undamaged ones.", file=sys.stderr)
            bundle = average_run(run, run / "model", last=last, overwrite=True, show_progress=show_progress)
            compare_with_single(run, bundle.metrics, outcome.progress, show=shown)
            if finish is not None:
                finish(bundle)
        return outcome


def _prepared(config: Config, run: Path, data: Path | None, mirror: Path | None, show_progress: bool) -> Prepared:
    if checkpoints(run):  # the data that it started with, wherever the corpus is by now
        prepared = load_run_data(run, data)
    elif data is None and data_folder(run) == run / "data":
        require_validation(config.train, config.data.validation_corpora)
        report = prepare(config, run / "data", mirror=mirror, progress=show_progress)
        if show_progress:
            print(report, file=sys.stderr)
        prepared = load_prepared(run / "data")
    else:
        prepared = load_prepared(data or data_folder(run))
        if differs := difference_from(config, prepared):
            message = f"warning: {prepared.folder}: was prepared differently from what the recipe says: {differs}."
            print(f"{message} It is used as it is.", file=sys.stderr)
    save_run_data(run, prepared)
    return prepared


def _trainer(config: Config, run: Path, prepared: Prepared, compute: Compute, show_progress: bool) -> Trainer:
    tokenizer = load_tokenizer(prepared.tokenizer)
    validation = None
    require_validation(config.train, prepared.validation)
    if prepared.validation is not None:
        store = ParallelStore.open(prepared.validation, prepared.validation_sets)
        scorer = scorer_of(config, tokenizer, store, Ranks.join(compute.device))
        validation = Validation(store, scorer if config.train.validate_bleu else None)
    model = new_model(config, compute)
    start_from_ancestor(model, run, config, prepared)
    if (guidance := guidance_of(config, prepared, tokenizer)) is not None:
        guidance.watch(model)
    store = ParallelStore.open(prepared.train, prepared.corpora)
    return Trainer(
        model, config, run, store, validation, guidance=guidance, compute=compute, show_progress=show_progress
    )


def with_vocabulary(config: Config, tokenizer: Tokenizer) -> Config:
    """Returns `config` with the model's tables as large as the tokeniser's vocabulary, or vocabularies."""
    model = dataclasses.replace(
        config.model, vocab_size=tokenizer.vocab_size, target_vocab_size=tokenizer.target_vocab_size
    )
    return dataclasses.replace(config, model=model)


# --- how a model does on the validation set: BLEU of a translator, F1 of a parser ------------------------------------


def scorer_of(config: Config, tokenizer: Tokenizer, validation: ParallelStore, ranks: Ranks = ALONE) -> Scorer:
    """Returns what all `ranks` call together: a function that decodes validation sources and scores the result."""
    given = (config, tokenizer, validation, ranks)
    if config.data.format == "trees":
        return bracket_scorer(*given)
    return mean_scorer({name: bleu_scorer(*given, rows=rows) for name, rows in validation.rows_of_corpora().items()})


def bleu_scorer(
    config: Config,
    tokenizer: Tokenizer,
    validation: ParallelStore,
    ranks: Ranks = ALONE,
    *,
    rows: range | None = None,
    metric: Metric = bleu,
) -> Scorer:
    """Returns a function that translates the validation sources with a model and scores the result.

    `rows` are those of one validation set of several; at most `train.validate_bleu_sentences` of them are translated.
    Source and reference are decoded from the store: the tokeniser is lossless, so this is the corpus's own text. The
    `metric` is given the translations and a list of references; it is sacreBLEU's BLEU unless another is given.
    """
    chosen = (range(len(validation)) if rows is None else rows)[: config.train.validate_bleu_sentences]
    sources = [validation.source(row).tolist() for row in chosen]
    targets = [validation.target(row).tolist() for row in chosen]
    references = tokenizer.target.decode_batch(targets)
    num_tags = 0 if config.data.language_tags == "source" else 1
    starts = [tuple(target[:num_tags]) for target in targets]

    def score(model: Transformer) -> dict[str, float]:
        return {"bleu": metric(_decode(model, sources, config, tokenizer, ranks, starts), [references]).value}

    return score


def bracket_scorer(config: Config, tokenizer: Tokenizer, validation: ParallelStore, ranks: Ranks) -> Scorer:
    """Returns a function that parses the validation sentences with a model, repairs the trees and scores them (§6.3).

    If only some are parsed, they are spread evenly: a validation set may consist of several treebanks.
    """
    count = min(len(validation), config.train.validate_bleu_sentences)
    rows = [index * len(validation) // count for index in range(count)]
    sources = [validation.source(row).tolist() for row in rows]
    words = [sentence_words(text) for text in tokenizer.decode_batch(sources)]
    targets = tokenizer.target.decode_batch([validation.target(row).tolist() for row in rows])
    gold = [delinearise(text.split(" "), each) for text, each in zip(targets, words, strict=True)]

    def score(model: Transformer) -> dict[str, float]:
        texts = _decode(model, sources, config, tokenizer, ranks)
        return parse_scores(gold, [from_output(text, each) for text, each in zip(texts, words, strict=True)])

    return score


def _decode(
    model: Transformer,
    sources: list[list[int]],
    config: Config,
    tokenizer: Tokenizer,
    ranks: Ranks,
    starts: Sequence[tuple[int, ...]] = (),
) -> list[str]:
    """Returns the best outputs for the sources as text; `starts` are the tokens that each output is begun with."""
    options = DecodeConfig(
        beam_size=config.train.validate_beam_size,
        length_penalty=config.decode.length_penalty,
        max_extra_tokens=config.decode.max_extra_tokens,
    )
    engine = TorchEngine(model, tags=tokenizer.target.tags.values(), record_steps=False)

    def decode(own: Sequence[tuple[list[int], TokenConstraints]], at_once: int) -> list[Sequence[int]]:
        given, constraints = [source for source, _ in own], [each for _, each in own]
        found = engine.translate(given, dataclasses.replace(options, batch_size=at_once), 1, constraints)
        return [best.ids for best, *_ in found]

    constraints = [TokenConstraints(start=start) for start in starts or [()] * len(sources)]
    return tokenizer.target.decode_batch(decode_shares(decode, [*zip(sources, constraints, strict=True)], ranks))


# --- the model folder ------------------------------------------------------------------------------------------------


def average_run(
    run: str | Path,
    output: str | Path,
    *,
    last: int | None = None,
    best: bool = False,
    overwrite: bool = False,
    show_progress: bool = True,
) -> Bundle:
    """Averages the last `last` checkpoints of `run` (§6.1), or takes its `best` one, and writes a model folder.

    It is measured on the validation data before it is written. `last` is `train.average_last` unless it is given.

    Raises:
        TrainingError: `run` is no run folder, or its data are not those that it was started with.
        BundleError: the run has no checkpoint, a weight is not finite, or `output` exists and may not be replaced.
    """
    run, output = Path(run), Path(output)
    config = load_run_config(run)
    last = last or config.train.average_last
    foreign = "" if (output / "model.safetensors").is_file() else "it is not a model folder"
    files.require_free(output, overwrite=overwrite, foreign=foreign, error=BundleError)
    progress, weights = average_checkpoints(run, last, config.train, best=best)
    if not best and len(progress) < last and show_progress:
        kind = "tuned checkpoint" if progress[0].step > untuned_steps(config.train) else "checkpoint"
        print(f"note: {run} has {counted(len(progress), kind)} to average, not {last}", file=sys.stderr)
    prepared = load_run_data(run)
    tokenizer = load_tokenizer(prepared.tokenizer)
    metrics = _measure(config, weights, tokenizer, prepared, progress) | ancestor_metrics(run)
    heads = guided_head(config) or inherited_head(run) or find_aligning_heads(config.model, weights, tokenizer)
    terms = terms_of(run / TERMS)
    if licence := licence_in(terms):
        metrics["licence"] = licence
    return save_bundle(output, config, weights, tokenizer, metrics, heads, terms)


def _measure(
    config: Config, weights: dict[str, Any], tokenizer: Tokenizer, prepared: Prepared, steps: Sequence[Progress]
) -> dict[str, Any]:
    metrics = steps[-1].metrics() | {"averaged_steps": ", ".join(str(each.step) for each in steps)}
    if config.data.format != "trees":
        metrics[SENTENCES_METRIC] = _usual_sentences(config, tokenizer, ParallelStore.open(prepared.train))
    if prepared.validation is not None:
        compute = Compute.of(config.train.device, config.train.precision)
        model = Transformer.from_weights(config.model, weights).to(compute.device)
        store = ParallelStore.open(prepared.validation, prepared.validation_sets)
        scorer = scorer_of(config, tokenizer, store) if config.train.validate_bleu else None
        scores = Validation(store, scorer).scores(model, compute)
        metrics |= {f"validation_{name}": value for name, value in scores.items()}
    return metrics


def _usual_sentences(config: Config, tokenizer: Tokenizer, store: ParallelStore) -> int:
    """Returns the number of sentences that 95 of 100 training lines do not exceed, by an evenly spread sample."""
    chosen = np.unique(np.linspace(0, len(store) - 1, _SENTENCES_SAMPLE).astype(np.int64))
    lines = tokenizer.decode_batch([store.source(int(index)).tolist() for index in chosen])
    return usual_sentences(lines, config.data.source_language)


def read_test_trees(config: Config) -> dict[str, list[Tree]]:
    """Returns the trees of each test set of a parser's configuration, normalised.

    Raises:
        DataError: a treebank is missing or has no trees, or something in it is no tree; names file, line and column.
    """
    return {name: list(read_normalised(part.paths)) for name, part in locate_tests(config.data).items()}


def measure_parser(bundle: Bundle, tests: Mapping[str, Sequence[Tree]], *, show_progress: bool = True) -> Bundle:
    """Parses the words of known trees, as validation does; adds the scores on each set to the metrics and the card."""
    parser = Parser.load(bundle.path, device=bundle.config.train.device, constrained=False)
    metrics = bundle.metrics
    for name, trees in tests.items():
        scores = parser.score(trees, label=f"parsing {name}" if show_progress else "")
        metrics |= {f"test_{name}_{key}": value for key, value in scores.items()}
        metrics[f"test_{name}_sentences"] = len(trees)
    save_metrics(bundle, metrics)
    return bundle
