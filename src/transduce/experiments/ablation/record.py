"""What stays of a finished cell, in OUTPUT/cells/NAME.json: what was asked and what came out.

The table is made of these, and so outlives the run folders, which are large. Each has the request that it answers: with
that, results that do not compare are kept out of one table.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transduce import files
from transduce.config import Config
from transduce.errors import ConfigError
from transduce.experiments.ablation.grid import Grid
from transduce.experiments.ablation.plan import CELLS, REQUEST, RESULT, RUNS, difference, kept_path, make_cell
from transduce.experiments.ablation.results import CellResult


@dataclass(frozen=True)
class Record:
    """A finished cell."""

    run: Path  # its run folder, which may be gone
    request: Mapping[str, Any]  # as `plan.Cell.wanted`
    result: CellResult


def read_records(output: Path) -> list[Record]:
    """Returns all finished cells: those that are kept in `cells/`, and of others those that `runs/` has.

    Raises:
        ConfigError: a file of one is missing or damaged.
    """
    kept = {path.name.removesuffix(".json"): path for path in sorted((output / CELLS).glob("*.json"))}
    records = [_kept_record(output / RUNS / name, path) for name, path in kept.items()]
    runs = sorted(path.parent for path in (output / RUNS).glob(f"*/{RESULT}"))
    return records + [_run_record(run) for run in runs if run.name not in kept]


def keep_records(output: Path) -> list[Record]:
    """Writes into `cells/` what only `runs/` has yet, and returns all finished cells.

    Raises:
        ConfigError: a file of one is missing or damaged.
    """
    records = read_records(output)
    for record in records:
        if not kept_path(record.run).is_file():
            files.write_json(kept_path(record.run), {"request": record.request, "result": asdict(record.result)})
    return records


def require_comparable(records: Sequence[Record], grid: Grid, base: Config, output: Path, *, tokenized: bool) -> None:
    """Sees that what is finished answers what would be asked now; rows that the grid no longer has are passed over.

    Raises:
        ConfigError: a row's settings, or `tokenized`, were others; names row and setting.
    """
    finished = {record.result.row for record in records}
    configs = grid.select([row.name for row in grid.rows if row.name in finished]).configs(base)
    for record in records:
        row, seed, kept = record.result.row, record.result.seed, kept_path(record.run)
        if row not in configs:
            continue
        wanted = make_cell(row, seed, configs[row], output, tokenized=tokenized).wanted
        before = {key: value for key, value in record.request.items() if key != "data"}  # where it lay
        if changed := difference(before, wanted, str(kept)):
            raise ConfigError(
                f"{output}: row {row}, seed {seed}, has a result with {changed}: one table cannot have both. "
                f"Choose another --output, or remove {kept} and {record.run} to train it again."
            )


def _kept_record(run: Path, path: Path) -> Record:
    values = _read(path)
    try:
        return _record(run, values["request"], values["result"])
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not a finished cell: {error}. Remove it, or choose another --output.") from None


def _run_record(run: Path) -> Record:
    request, result = (_read(run / name) for name in (REQUEST, RESULT))
    try:
        return _record(run, request, result)
    except (KeyError, TypeError) as error:
        message = f"{run}: its {REQUEST} and {RESULT} are not of a finished cell: {error}."
        raise ConfigError(f"{message} Remove the folder to train the cell again.") from None


def _record(run: Path, request: Mapping[str, Any], result: Mapping[str, Any]) -> Record:
    if "config" not in request:
        raise KeyError("config")
    return Record(run, request, CellResult(**result))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: cannot be read: {error}. Remove what is left of the cell to train it again."
        ) from None
