"""The results of an ablation: the figures of each trial, and the mean and spread of each row."""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transduce.config import Config, to_dict
from transduce.config.differences import differences
from transduce.experiments import store
from transduce.experiments.ablation.grid import Grid


@dataclass(frozen=True)
class TrialResult:
    """The figures of one row trained with one seed; of a failed trial, the reason."""

    row: str
    seed: int
    perplexity: float | None = None  # per subword of the validation set, EOS counted, without label smoothing
    bleu: float | None = None  # of beam search on the validation set
    parameters: int | None = None
    steps: int | None = None
    epochs: float | None = None  # target tokens seen, by those of the corpus
    training_seconds: float | None = None
    training_flops: int | None = None  # counted
    training_flops_estimate: float | None = None  # the paper's way: see `transduce.training.cost`
    error: str = ""
    source: str = ""  # of the code that trained it: see `ablation.source`; "" of versions that did not note it


@dataclass(frozen=True)
class Statistic:
    """The mean over seeds, and their standard deviation where there are at least two."""

    mean: float
    spread: float | None
    count: int


@dataclass(frozen=True)
class RowInfo:
    """A row of the table."""

    name: str
    settings: Mapping[str, Any]  # what differs from the base, as `section.key`
    printed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """All results of an ablation so far."""

    grid: str
    base: str  # the base's name
    bleu: str  # which BLEU, of which search
    rows: tuple[RowInfo, ...]
    trials: tuple[TrialResult, ...]

    def statistic(self, row: str, measure: str) -> Statistic | None:
        """Returns mean and spread of a measure, named as in `TrialResult`; None where no trial of the row has it."""
        found = [getattr(trial, measure) for trial in self.trials if trial.row == row]
        values = [float(value) for value in found if value is not None]
        if not values:
            return None
        return Statistic(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def pooled_spread(self, measure: str) -> float | None:
        """Returns one standard deviation for all rows, from the spread of each; None with one seed.

        Two or three seeds say little about the spread of one row; twenty rows together say enough. This assumes that
        seeds matter equally in all rows.
        """
        found = [self.statistic(row.name, measure) for row in self.rows]
        spreads = [(s.count - 1, s.spread) for s in found if s is not None and s.spread is not None]
        freedom = sum(count for count, _ in spreads)
        return math.sqrt(sum(count * spread**2 for count, spread in spreads) / freedom) if freedom else None

    def save(self, path: Path) -> None:
        """Writes `results.json`, atomically."""
        values = asdict(self)
        values["cells"] = values.pop("trials")  # as the file has always called them
        store.write(path, values)

    @classmethod
    def load(cls, path: Path, *, remedy: str = "") -> "Results":
        """Reads what `save` wrote; `remedy` says what to do where that fails.

        Raises:
            ConfigError: the file is missing or not of this kind.
        """
        with store.reading(path, "the results of an ablation", remedy=remedy) as values:
            rows = tuple(RowInfo(**row) for row in values["rows"])
            trials = tuple(TrialResult(**trial) for trial in values["cells"])
            return cls(values["grid"], values["base"], values["bleu"], rows, trials)


def row_infos(grid: Grid, base: Config) -> tuple[RowInfo, ...]:
    """Returns the grid's rows with what each changes in the base."""
    before = to_dict(base)
    return tuple(
        RowInfo(name, {key: now for key, (_, now) in differences(before, to_dict(config)).items()}, row.printed)
        for row, (name, config) in zip(grid.rows, grid.configs(base).items(), strict=True)
    )


def in_order(trials: Iterable[TrialResult], rows: Iterable[RowInfo]) -> tuple[TrialResult, ...]:
    """Returns the trials of these rows, in the order of rows and then of seeds."""
    order = {row.name: index for index, row in enumerate(rows)}
    return tuple(sorted((each for each in trials if each.row in order), key=lambda each: (order[each.row], each.seed)))
