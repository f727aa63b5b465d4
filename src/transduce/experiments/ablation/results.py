"""What came out of an ablation: a figure for each cell, mean and spread for each row, kept in `results.json`."""

import json
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transduce import files
from transduce.__about__ import __version__
from transduce.errors import EvaluationError

FORMAT = 1


@dataclass(frozen=True)
class CellResult:
    """What one row came to with one seed; of a failed cell, why."""

    row: str
    seed: int
    perplexity: float | None = None  # per subword of the validation set, EOS counted, without label smoothing
    bleu: float | None = None  # of beam search on the validation set
    parameters: int | None = None
    steps: int | None = None
    training_seconds: float | None = None
    training_flops: int | None = None  # counted
    training_flops_estimate: float | None = None  # the paper's way: see `transduce.training.cost`
    error: str = ""


@dataclass(frozen=True)
class Statistic:
    """The mean over seeds, and their standard deviation where there are at least two."""

    mean: float
    spread: float | None
    count: int


@dataclass(frozen=True)
class RowInfo:
    """A row as it was asked for."""

    name: str
    settings: Mapping[str, Any]  # what differs from the base, as `section.key`
    printed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """All that is known of an ablation so far."""

    grid: str
    base: str  # the base's name
    bleu: str  # which BLEU, of which search
    rows: tuple[RowInfo, ...]
    cells: tuple[CellResult, ...]

    def statistic(self, row: str, measure: str) -> Statistic | None:
        """Returns mean and spread of a measure, named as in `CellResult`; None where no cell of the row has it."""
        found = [getattr(cell, measure) for cell in self.cells if cell.row == row]
        values = [float(value) for value in found if value is not None]
        if not values:
            return None
        return Statistic(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def pooled_spread(self, measure: str) -> float | None:
        """Returns one standard deviation for all rows, from the spread of each; None with one seed.

        Two or three seeds say little about a row's own spread; twenty rows together say enough. It takes seeds to
        matter about alike in all rows.
        """
        found = [self.statistic(row.name, measure) for row in self.rows]
        spreads = [(s.count - 1, s.spread) for s in found if s is not None and s.spread is not None]
        freedom = sum(count for count, _ in spreads)
        return math.sqrt(sum(count * spread**2 for count, spread in spreads) / freedom) if freedom else None

    def save(self, path: Path) -> None:
        """Writes `results.json`, atomically."""
        files.write_json(path, {"format": FORMAT, "transduce": __version__, **asdict(self)})

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Reads what `save` wrote.

        Raises:
            EvaluationError: the file is missing or not of this kind.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["format"] != FORMAT:
                raise EvaluationError(f"{path}: format {values['format']}; this version reads format {FORMAT}.")
            rows = tuple(RowInfo(**row) for row in values["rows"])
            cells = tuple(CellResult(**cell) for cell in values["cells"])
            return cls(values["grid"], values["base"], values["bleu"], rows, cells)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EvaluationError(f"{path}: not the results of an ablation: {error}.") from None


def in_order(cells: Iterable[CellResult], rows: Iterable[RowInfo]) -> tuple[CellResult, ...]:
    """Returns the cells of these rows, in the order of rows and then of seeds."""
    place = {row.name: number for number, row in enumerate(rows)}
    return tuple(sorted((cell for cell in cells if cell.row in place), key=lambda cell: (place[cell.row], cell.seed)))
