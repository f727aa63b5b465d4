"""The cells of an ablation: a run folder for each row and seed, and what is asked of it.

OUTPUT/
    base.json            the base and the grid's name: an output folder is of one ablation only
    data/KEY/            prepared data, one folder for all cells with the same text and data settings
    runs/A1-seed1/       a run folder, with cell.json (what was asked), result.json (at the end) and log.txt
    cells/A1-seed1.json  of a finished cell: what was asked and what came out, which outlive its run folder
    results.json         all results so far; table.md and rows.png show them
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transduce import files
from transduce.config import Config, TrainConfig, from_dict, to_dict
from transduce.errors import ConfigError
from transduce.experiments.ablation.grid import Grid

BASE, REQUEST, RESULT, LOG = "base.json", "cell.json", "result.json", "log.txt"
RUNS, CELLS = "runs", "cells"

# Where the corpus lies and what computes it: neither makes it another ablation.
_IRRELEVANT = {"data.folder", "train.device"}


@dataclass(frozen=True)
class Cell:
    """One row with one seed."""

    row: str
    seed: int
    config: Config
    folder: Path  # of its run
    data: Path  # prepared data
    tokenized: bool  # whether BLEU takes the corpus's tokens as they stand

    @property
    def done(self) -> bool:
        """Whether its result is there."""
        return kept_path(self.folder).is_file() or (self.folder / RESULT).is_file()

    @property
    def wanted(self) -> dict[str, Any]:
        """What decides its result, and what its result is of."""
        asked = {"row": self.row, "seed": self.seed, "tokenized": self.tokenized}
        return asked | {"config": to_dict(self.config)}

    def request(self) -> None:
        """Writes what the cell's process is to do; of a finished cell nothing, see `record.require_comparable`.

        Raises:
            ConfigError: its folder was begun with another request.
        """
        if not self.done:
            data = {"data": os.path.relpath(self.data, self.folder)}
            _write_or_compare(self.folder / REQUEST, self.wanted | data)


def kept_path(run: Path) -> Path:
    """Returns where the request and the result of a cell stay when its run folder is gone."""
    return run.parent.parent / CELLS / f"{run.name}.json"


def plan(grid: Grid, base: Config, output: Path, *, num_seeds: int = 1, tokenized: bool = False) -> list[Cell]:
    """Returns the cells, seed by seed, so that a whole table stands early.

    Raises:
        ConfigError: a row cannot be made of this base, or there is no validation data to compare rows by.
    """
    configs = grid.configs(base)
    cells = []
    for seed in range(base.train.seed, base.train.seed + num_seeds):
        for row, config in configs.items():
            if config.data.format == "trees":
                raise ConfigError(
                    f"row {row}: trains a parser, and rows are compared by BLEU: give a translator's recipe."
                )
            if not config.data.validation:
                raise ConfigError(f"row {row}: data.validation is not set, and rows are compared by it.")
            cells.append(make_cell(row, seed, config, output, tokenized=tokenized))
    return cells


def make_cell(row: str, seed: int, config: Config, output: Path, *, tokenized: bool) -> Cell:
    """Returns the cell of one row, whose configuration is `config`, with one seed."""
    name = f"{row}-seed{seed}"
    own = replace(config, name=f"{config.name}-{name}", train=_alike(config, seed))
    return Cell(row, seed, own, output / RUNS / name, output / "data" / _data_key(config), tokenized)


def _alike(config: Config, seed: int) -> TrainConfig:
    """Returns how a cell is trained: as its configuration says, to the end of its budget, without averaging (§6.2)."""
    train = config.train
    never = train.checkpoint_minutes == 0 and train.checkpoint_steps == 0
    return replace(
        train,
        seed=seed,
        average_last=1,
        keep_checkpoints=2,  # one to go on from, and one before it, should that be damaged
        checkpoint_minutes=10.0 if never else train.checkpoint_minutes,
        validate_bleu=False,  # measured at the end, by beam search on all of it
        best_by="perplexity",
        early_stopping=0,
    )


def begin(output: Path, grid: Grid, base: Config) -> None:
    """Makes `output` the folder of this ablation, or sees that it is.

    Raises:
        ConfigError: it is another's, or a file.
    """
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output}: is a file; name a folder for --output.")
    _write_or_compare(output / BASE, {"grid": grid.name, "config": to_dict(base)})


def _data_key(config: Config) -> str:
    """Names what the prepared data depends on, wherever the corpus lies."""
    values = to_dict(config)
    values["data"].pop("folder")
    settings = json.dumps([values["text"], values["data"]], sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()[:12]


def _write_or_compare(path: Path, wanted: dict[str, Any]) -> None:
    if not path.is_file():
        files.write_json(path, wanted)
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = difference(before, wanted, str(path))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}. Remove it, or choose another --output.") from None
    if changed:
        raise ConfigError(f"{path.parent}: was begun with {changed}. Choose another --output.")


def difference(before: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> str:
    """Returns the first thing that is asked otherwise now, as `model.d_ff = 512, now 1024`; "" where there is none.

    Args:
        before: what was asked then, its `config` of this version or an earlier one.
        wanted: what is asked now.
        where: the file that `before` stands in, for messages.

    Raises:
        ConfigError: `before` has a configuration that this version does not know.
        KeyError: it has none.
    """
    config = to_dict(from_dict(before["config"], where))  # with the defaults of keys that are newer
    then, now = dict(_flat({**before, "config": config})), dict(_flat(wanted))
    for key in [*then, *(key for key in now if key not in then)]:
        name = key.removeprefix("config.")
        if then.get(key) != now.get(key) and name not in _IRRELEVANT:
            return f"{name} = {then.get(key)!r}, now {now.get(key)!r}"
    return ""


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def changed_settings(base: Config, config: Config) -> dict[str, Any]:
    """Returns what a row's configuration has otherwise than the base, as `section.key`."""
    before = dict(_flat(to_dict(base)))
    return {key: value for key, value in _flat(to_dict(config)) if before.get(key) != value}
