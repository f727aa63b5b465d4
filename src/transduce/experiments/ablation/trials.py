"""An ablation and its trials, one for each row and seed: their requests and their results, in files.

OUTPUT/
    base.json            the base and the grid's name: an output folder belongs to one ablation
    data/KEY/            prepared data, shared by all trials with the same text and data settings
    runs/A1-seed1/       a run folder, with cell.json (the request), result.json (at the end) and log.txt
    cells/A1-seed1.json  request and result of a finished trial, kept when its run folder is deleted
    results.json         all results so far; table.md and rows.png show them
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from transduce import files
from transduce.config import Config, TrainConfig, from_dict, to_dict
from transduce.config.checked_json import digest
from transduce.data.prepared import ALIGNER
from transduce.data.word_links import needs_aligner
from transduce.errors import ConfigError
from transduce.experiments import store
from transduce.experiments.ablation.grid import Grid
from transduce.experiments.ablation.results import TrialResult
from transduce.experiments.ablation.source import training_source

BASE, REQUEST, RESULT, LOG = "base.json", "cell.json", "result.json", "log.txt"
_RUNS, _KEPT = "runs", "cells"

# The path of the corpus and the device do not make another ablation.
_IRRELEVANT = ("data.folder", "train.device")
_INIT_OF_DATA = ("model", "words", "words_file", "new_words")  # keys of `init` that decide on the vocabulary


@dataclass(frozen=True)
class Trial:
    """One row trained with one seed."""

    row: str
    seed: int
    config: Config
    folder: Path  # of its run
    data: Path  # prepared data
    tokenized: bool  # whether the corpus is tokenised already
    paper_bleu: bool  # whether BLEU is computed as the paper's authors did
    any_source: bool = False  # whether it may have been begun by other source code

    @property
    def done(self) -> bool:
        """Whether its result is there."""
        return kept_path(self.folder).is_file() or (self.folder / RESULT).is_file()

    @property
    def request(self) -> dict[str, Any]:
        """What decides its result."""
        return {
            "row": self.row,
            "seed": self.seed,
            "tokenized": self.tokenized,
            "paper_bleu": self.paper_bleu,
            "source": training_source(),
            "config": to_dict(self.config),
        }

    def write_request(self) -> None:
        """Writes what its process is to do, unless it is finished.

        Raises:
            ConfigError: its folder was begun with another request.
        """
        if not self.done:
            data = {"data": os.path.relpath(self.data, self.folder)}
            _write_or_compare(self.folder / REQUEST, self.request | data, any_source=self.any_source)


@dataclass(frozen=True)
class FinishedTrial:
    """A trial's request and result."""

    run: Path  # its run folder, which may be gone
    request: Mapping[str, Any]
    result: TrialResult

    def require_same_settings(self, other: "FinishedTrial") -> None:
        """Checks that another trial was trained and measured with the same settings, under any source code.

        Raises:
            ConfigError: it was not; names the first few settings.
        """
        mine, others = (_settings(each.request, kept_path(each.run)) for each in (self, other))
        where = f"{kept_path(other.run)}: compared with {kept_path(self.run)}, has"
        store.require_same(
            mine, others, where, ignore=_IRRELEVANT, remedy="Results of different settings do not compare."
        )


@dataclass(frozen=True)
class Ablation:
    """Variations of one configuration, each trained with each seed."""

    grid: Grid
    base: Config  # what the grid varies; its `train.max_steps` and `train.max_minutes` are the budget of each trial
    output: Path
    num_seeds: int = 1  # from the base's seed on
    tokenized: bool = False  # whether the corpus is tokenised already, and BLEU uses its tokens as they are
    paper_bleu: bool = False  # whether BLEU is computed as the paper's authors did; otherwise it is sacreBLEU's
    any_source: bool = False  # whether trainings of other source code count too

    @property
    def seeds(self) -> range:
        """The seeds of each row."""
        return range(self.base.train.seed, self.base.train.seed + self.num_seeds)

    def trials(self, rows: Sequence[str] = ()) -> list[Trial]:
        """Returns the trials of the named rows, or of all, seed by seed, so that there is a complete table early.

        Raises:
            ConfigError: a row cannot be made of this base, or there is no validation data to compare rows by.
        """
        configs = (self.grid.select(rows) if rows else self.grid).configs(self.base)
        for row, config in configs.items():
            if config.data.format == "trees":
                raise ConfigError(
                    f"row {row}: trains a parser, and rows are compared by BLEU: give a translator's recipe."
                )
            if not config.data.validation_corpora:
                raise ConfigError(f"row {row}: data.validation is not set, and rows are compared by it.")
        return [self.trial(row, seed, config) for seed in self.seeds for row, config in configs.items()]

    def trial(self, row: str, seed: int, config: Config) -> Trial:
        """Returns the trial of one row, whose configuration is `config`, with one seed."""
        name = f"{row}-seed{seed}"
        own = replace(config, name=f"{config.name}-{name}", train=_train_config(config, seed))
        data = self.output / "data" / _data_key(config)
        return Trial(row, seed, own, self.output / _RUNS / name, data, self.tokenized, self.paper_bleu, self.any_source)

    def begin(self) -> None:
        """Makes `output` the folder of this ablation, or checks that it is.

        Raises:
            ConfigError: it belongs to another, or is a file, or has results that do not compare with this ablation's.
        """
        store.require_folder(self.output)
        _write_or_compare(self.output / BASE, {"grid": self.grid.name, "config": to_dict(self.base)})
        finished = read_finished(self.output)
        rows = {trial.result.row for trial in finished}
        configs = self.grid.select([row.name for row in self.grid.rows if row.name in rows]).configs(self.base)
        for trial in finished:
            row, seed, kept = trial.result.row, trial.result.seed, kept_path(trial.run)
            if row in configs:  # a row that the grid no longer has does not matter
                _require_source(trial.request, kept, any_source=self.any_source)
                store.require_same(
                    _settings(trial.request, kept),
                    _settings(self.trial(row, seed, configs[row]).request, kept),
                    f"{self.output}: row {row}, seed {seed}, has a result of",
                    ignore=_IRRELEVANT,
                    remedy="One table cannot have both. "
                    f"Choose another --output, or remove {kept} and {trial.run} to train it again.",
                )


def kept_path(run: Path) -> Path:
    """Returns where the request and the result of a trial stay when its run folder is gone."""
    return run.parent.parent / _KEPT / f"{run.name}.json"


def read_finished(output: Path) -> list[FinishedTrial]:
    """Returns all finished trials: those in `cells/`, then those that only have a run folder.

    Raises:
        ConfigError: a file of one is missing or damaged.
    """
    kept = [output / _RUNS / path.stem for path in sorted((output / _KEPT).glob("*.json"))]
    runs = sorted(path.parent for path in (output / _RUNS).glob(f"*/{RESULT}"))
    return [_read_kept(run) for run in kept] + [_read_run(run) for run in runs if run not in kept]


def keep_finished(output: Path) -> list[FinishedTrial]:
    """Copies finished trials that only have a run folder into `cells/`, and returns all.

    Raises:
        ConfigError: a file of one is missing or damaged.
    """
    finished = read_finished(output)
    for trial in finished:
        if not kept_path(trial.run).is_file():
            files.write_json(kept_path(trial.run), {"request": trial.request, "result": asdict(trial.result)})
    return finished


def _read_kept(run: Path) -> FinishedTrial:
    remedy = "Remove it to train it again, or choose another --output."
    with store.reading(kept_path(run), "a finished training", remedy=remedy) as values:
        return FinishedTrial(run, _request(values["request"]), TrialResult(**values["result"]))


def _read_run(run: Path) -> FinishedTrial:
    remedy = "Remove the folder to train it again."
    with store.reading(run / REQUEST, "the request of a training", remedy=remedy) as values:
        request = _request(values)
    with store.reading(run / RESULT, "the result of a training", remedy=remedy) as values:
        return FinishedTrial(run, request, TrialResult(**values))


def _request(values: dict[str, Any]) -> dict[str, Any]:
    if "config" not in values:
        raise KeyError("config")
    return values


def _write_or_compare(path: Path, request: dict[str, Any], *, any_source: bool = True) -> None:
    if path.is_file():
        remedy = "Remove it, or choose another --output."
        with store.reading(path, "the settings of a training", remedy=remedy) as before:
            settings = _settings(before, path)
        _require_source(before, path, any_source=any_source)
        store.require_same(settings, _settings(request, path), f"{path.parent}: was begun with", ignore=_IRRELEVANT)
        if before.get("source") == request.get("source"):
            return
    files.write_json(path, request)


def _require_source(request: Mapping[str, Any], path: Path, *, any_source: bool) -> None:
    """Checks that a training is one of the source code that runs now; versions that noted none are not refused."""
    before, now = request.get("source") or "", training_source()
    if before and before != now and not any_source:
        raise ConfigError(
            f"{path}: trained by other source code ({before}, now {now}), so it does not compare with what is trained "
            "now. Choose another --output, run the commit that made it, or count it all the same with --any-source "
            "(docs/guides/ablations.md)."
        )


def _settings(request: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Returns what a request asks for; keys that its version did not know have their defaults."""
    config = to_dict(from_dict(request["config"], str(path)))
    others = {key: value for key, value in request.items() if key not in ("config", "data", "source")}
    return {"paper_bleu": False} | others | config


def _train_config(config: Config, seed: int) -> TrainConfig:
    """Returns how a trial is trained: as its configuration says, to the end of its budget, without averaging (§6.2)."""
    train = config.train
    never = train.checkpoint_minutes == 0 and train.checkpoint_steps == 0
    return replace(
        train,
        seed=seed,
        average_last=1,
        keep_checkpoints=2,  # one to resume from, and one before it, should that be damaged
        checkpoint_minutes=10.0 if never else train.checkpoint_minutes,
        validate_bleu=False,  # measured at the end, by beam search on all of it
        best_by="perplexity",
        early_stopping=0,
    )


def _data_key(config: Config) -> str:
    """Returns a name for all settings that the prepared data depends on; the path of the corpus is not one."""
    values = to_dict(config)
    values["data"].pop("folder")
    depends_on = [values["text"], values["data"]]
    if config.init.model:
        depends_on.append({key: values["init"][key] for key in _INIT_OF_DATA})
    if needs_aligner(config):
        depends_on.append(ALIGNER)
    return digest(depends_on)[:12]
