"""Grids of variations of a base configuration, and the TOML files that describe them.

    name = "dropout"                     # heads the results; default: the file's name
    base = "../multi30k-en-de.toml"      # a recipe, relative to this file; not needed where the command names one

    [rows.none]                          # either rows, each with the settings that it changes, as in a recipe
    model.dropout = 0.0

    [rows.more]
    model.dropout = 0.3
    train.label_smoothing = 0.2
    printed = { perplexity = 4.95, bleu = 25.5, parameters = 65 }    # published, for comparison; parameters × 10⁶

    [axes]                               # or axes: each combination of their values is a row
    model.dropout = [0.0, 0.1, 0.3]
    train.label_smoothing = [0.0, 0.1]

A row without settings, `[rows.base]` and nothing below it, is the base itself.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from transduce.config import Config
from transduce.config.loading import apply, read_toml
from transduce.config.schema import SECTIONS
from transduce.errors import ConfigError, suggestion

Changes = Mapping[str, Any]  # sections and their keys, as in a recipe

MEASURES = ("perplexity", "bleu", "parameters")  # what a row may give as printed
_FILE_KEYS = ("name", "base", "rows", "axes")
_ROW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]*")  # part of a folder's name, and of the list for --rows


@dataclass(frozen=True)
class Row:
    """One variation."""

    name: str
    change: Callable[[Config], Changes]  # what it changes, given the base
    printed: Mapping[str, float] = field(default_factory=dict)  # published figures, by `MEASURES`

    def __post_init__(self) -> None:
        if not _ROW_NAME.fullmatch(self.name):
            raise ConfigError(
                f"row '{self.name}': a name is of letters, digits and . _ = + -, because a folder is named for the row."
            )


@dataclass(frozen=True)
class Grid:
    """Variations of a base."""

    name: str
    rows: tuple[Row, ...]
    base: Path | None = None  # a recipe
    where: str = ""  # the file, for messages

    def select(self, names: Sequence[str]) -> "Grid":
        """Returns the grid with the named rows only, in its own order.

        Raises:
            ConfigError: it has no such row.
        """
        known = [row.name for row in self.rows]
        for name in names:
            if name not in known:
                raise ConfigError(f"grid {self.name} has no row '{name}'.{suggestion(name, known)}")
        return replace(self, rows=tuple(row for row in self.rows if row.name in names))

    def configs(self, base: Config) -> dict[str, Config]:
        """Returns the configuration of each row, by its name.

        Raises:
            ConfigError: a row sets what does not exist or cannot be; names file, row and key.
        """
        configs = {}
        for row in self.rows:
            try:
                configs[row.name] = apply(base, dict(row.change(base)))
            except ConfigError as error:
                raise ConfigError(f"{self.where or f'grid {self.name}'}: row {row.name}: {error}") from None
        return configs


def constant(changes: Changes) -> Callable[[Config], Changes]:
    """Returns a `change` that is the same for any base."""
    return lambda base: changes


def load_grid(path: Path) -> Grid:
    """Reads a grid file; `Grid.configs` checks its settings against a base.

    Raises:
        ConfigError: the file is missing, not TOML, or not as described above.
    """
    values = read_toml(path, "grid")
    try:
        for key in values:
            if key not in _FILE_KEYS:
                raise ConfigError(f"unknown key '{key}'.{suggestion(key, _FILE_KEYS)}")
        if ("rows" in values) == ("axes" in values):
            raise ConfigError("a grid has either [rows.NAME] tables or one [axes] table.")
        rows = _rows(_table(values, "rows")) if "rows" in values else _product(_table(values, "axes"))
        base = Path(path.parent, _text(values, "base")) if "base" in values else None
        return Grid(_text(values, "name") if "name" in values else path.stem, rows, base, str(path))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _rows(tables: Mapping[str, Any]) -> tuple[Row, ...]:
    if not tables:
        raise ConfigError("[rows] is empty: write a table [rows.NAME] for each row.")
    rows = []
    for name in tables:
        changes = dict(_table(tables, name, "rows."))
        printed = _printed(changes.pop("printed", {}), f"rows.{name}.printed")
        _require_sections(changes, f"rows.{name}")
        rows.append(Row(name, constant(changes), printed))
    return tuple(rows)


def _printed(values: Any, key: str) -> dict[str, float]:
    if not isinstance(values, dict):
        raise ConfigError(f"{key}: must be a table, such as {{ perplexity = 4.92, bleu = 25.8 }}.")
    for name, value in values.items():
        if name not in MEASURES:
            raise ConfigError(f"unknown key '{key}.{name}'.{suggestion(name, MEASURES)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{key}.{name} = {value!r}: must be a number.")
    return {name: float(value) for name, value in values.items()}


def _product(sections: Mapping[str, Any]) -> tuple[Row, ...]:
    """Returns a row for each combination: `dropout=0.1+label_smoothing=0.0`."""
    _require_sections(sections, "axes")
    axes = [(section, key, values) for section in sections for key, values in sections[section].items()]
    for section, key, values in axes:
        if not isinstance(values, list) or not values or any(isinstance(value, list | dict) for value in values):
            raise ConfigError(f"axes.{section}.{key} = {values!r}: must be a list of single values, at least one.")
        if (twice := next((value for value in values if values.count(value) > 1), None)) is not None:
            raise ConfigError(f"axes.{section}.{key} = {values!r}: has {twice} twice.")
    if not axes:
        raise ConfigError("[axes] is empty: write a list of values for each key, such as model.dropout = [0.0, 0.1].")
    keys = [key for _, key, _ in axes]
    rows = []
    for values in itertools.product(*(values for *_, values in axes)):
        changes: dict[str, dict[str, Any]] = {}
        names = []
        for (section, key, _), value in zip(axes, values, strict=True):
            changes.setdefault(section, {})[key] = value
            short = key if keys.count(key) == 1 else f"{section}.{key}"
            names.append(f"{short}={str(value).lower() if isinstance(value, bool) else value}")
        rows.append(Row("+".join(names), constant(changes)))
    return tuple(rows)


def _require_sections(changes: Mapping[str, Any], where: str) -> None:
    for section, settings in changes.items():
        if section not in SECTIONS:
            raise ConfigError(f"unknown key '{where}.{section}'.{suggestion(section, SECTIONS)}")
        if not isinstance(settings, dict):
            raise ConfigError(f"{where}.{section}: is a section: write {where}.{section}.KEY.")
        if section == "train" and "seed" in settings:
            raise ConfigError(f"{where}.train.seed: every row is trained with each of the seeds that --seeds asks for.")


def _table(values: Mapping[str, Any], key: str, where: str = "") -> dict[str, Any]:
    if not isinstance(values[key], dict):
        raise ConfigError(f"'{where}{key}' is a table: write [{where}{key}] and its keys below.")
    return dict(values[key])


def _text(values: Mapping[str, Any], key: str) -> str:
    if not isinstance(values[key], str):
        raise ConfigError(f"{key} = {values[key]!r}: must be a text in quotes.")
    return str(values[key])
