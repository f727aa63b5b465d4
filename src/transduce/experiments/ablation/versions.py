"""Compares the results of two output folders, row by row: one ablation trained under two versions of the source code.

The same seed and settings train on the same batches under both. So each training is compared with that of its own
seed, and what seeds change in both alike cancels out.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import ConfigError
from transduce.experiments.ablation.conclusions import Measure
from transduce.experiments.ablation.results import Results
from transduce.experiments.ablation.trials import FinishedTrial, read_finished
from transduce.experiments.store import RESULTS
from transduce.reporting.intervals import student_t
from transduce.reporting.tables import table

_MEASURES: tuple[tuple[Measure, str, int], ...] = (("perplexity", "perplexity", 3), ("bleu", "BLEU", 2))
_NOT_NOTED = "not noted"
_Key = tuple[str, int]  # row, seed


@dataclass(frozen=True)
class Difference:
    """How one measure of a row differs, over the seeds that were trained under both versions."""

    before: float  # mean over these seeds
    after: float
    half_width: float | None  # of the 95 % interval of `after - before`; None where no row has two seeds

    def verdict(self, measure: Measure) -> str:
        """Returns "same", "better", "worse", "undecided" (zero is in the interval), or "" without an interval."""
        gain = (self.after - self.before) * (1 if measure == "bleu" else -1)  # low perplexity is good
        if self.half_width is None:
            return ""
        if abs(gain) <= self.half_width:
            return "undecided" if gain or self.half_width else "same"
        return "better" if gain > 0 else "worse"


@dataclass(frozen=True)
class Versions:
    """The results of two output folders."""

    folders: tuple[Path, Path]
    results: tuple[Results, Results]
    trials: tuple[Mapping[_Key, FinishedTrial], Mapping[_Key, FinishedTrial]]

    @property
    def common(self) -> list[_Key]:
        """Row and seed of the trainings that both have, in the order of the rows."""
        order = {row.name: index for index, row in enumerate(self.results[1].rows)}
        found = [key for key in self.trials[0] if key in self.trials[1]]
        return sorted(found, key=lambda key: (order.get(key[0], len(order)), key))

    def pairs(self, row: str, measure: Measure) -> list[tuple[float, float]]:
        """Returns a measure of a row before and after, for each seed that both have."""
        found = [[getattr(each[key].result, measure) for each in self.trials] for key in self.common if key[0] == row]
        return [(before, after) for before, after in found if before is not None and after is not None]

    def difference(self, row: str, measure: Measure) -> Difference | None:
        """Returns the difference of a row; None where no seed has the measure under both versions.

        The interval is Student's, from the spread of the differences over seeds in all rows together.
        """
        pairs = self.pairs(row, measure)
        if not pairs:
            return None
        before, after = (statistics.fmean(values) for values in zip(*pairs, strict=True))
        squares, freedom = 0.0, 0
        for name in dict.fromkeys(name for name, _ in self.common):
            changes = [later - earlier for earlier, later in self.pairs(name, measure)]
            if len(changes) > 1:
                squares += (len(changes) - 1) * statistics.variance(changes)
                freedom += len(changes) - 1
        half_width = student_t(freedom) * math.sqrt(squares / freedom / len(pairs)) if freedom else None
        return Difference(before, after, half_width)


def compare(before: Path, after: Path) -> Versions:
    """Reads the results of two output folders.

    Raises:
        ConfigError: one is not of an ablation, they have no training in common, or one in common has other settings.
    """
    folders = (before, after)
    remedy = "Name the output folders of two ablations."
    results = (Results.load(before / RESULTS, remedy=remedy), Results.load(after / RESULTS, remedy=remedy))
    first, second = (
        {(each.result.row, each.result.seed): each for each in read_finished(folder)} for folder in folders
    )
    versions = Versions(folders, results, (first, second))
    if not versions.common:
        raise ConfigError(f"{before} and {after}: have no finished training of the same row and seed.")
    for key in versions.common:
        first[key].require_same_settings(second[key])
    return versions


def render(versions: Versions) -> str:
    """Returns the comparison as a page."""
    rows = list(dict.fromkeys(row for row, _ in versions.common))
    header = ["row", "seeds"]
    for _, name, _ in _MEASURES:
        header += [f"{name}, before", "after", "difference"]
    lines = [[row, *_cells(versions, row)] for row in rows]
    sources = [_sources(versions, trials) for trials in versions.trials]
    parts = [
        f"# {versions.results[1].grid}: two versions of the source code\n",
        f"- before: {versions.folders[0]}, source {sources[0]}",
        f"- after: {versions.folders[1]}, source {sources[1]}\n",
        table(header, lines, text_columns=2) + "\n",
        _about_intervals(versions, rows),
    ]
    if sources[0] == sources[1] != _NOT_NOTED:
        parts.append("Both were trained by the same source code.")
    for folder, own, other in zip(versions.folders, versions.trials, reversed(versions.trials), strict=True):
        if alone := sorted(key for key in own if key not in other):
            parts.append(f"Only in {folder}: {'; '.join(f'{row}, seed {seed}' for row, seed in alone)}.")
    return "\n".join(parts)


def _cells(versions: Versions, row: str) -> list[str]:
    cells = [", ".join(str(seed) for name, seed in versions.common if name == row)]
    for measure, _, decimals in _MEASURES:
        found = versions.difference(row, measure)
        if found is None:
            cells += ["", "", ""]
            continue
        bounds = "" if found.half_width is None else f" ± {found.half_width:.{decimals}f}, {found.verdict(measure)}"
        cells += [f"{found.before:.{decimals}f}", f"{found.after:.{decimals}f}"]
        cells.append(f"{found.after - found.before:+.{decimals}f}{bounds}")
    return cells


def _sources(versions: Versions, trials: Mapping[_Key, FinishedTrial]) -> str:
    return ", ".join(sorted({trials[key].result.source or _NOT_NOTED for key in versions.common}))


def _about_intervals(versions: Versions, rows: Sequence[str]) -> str:
    if all(len(versions.pairs(row, measure)) < 2 for row in rows for measure, _, _ in _MEASURES):
        return "One seed in common: these figures do not show how much of a difference is chance."
    return (
        "A difference is after minus before, each training against that of the same seed; ± is half of the 95 % "
        "interval of its mean, from the spread over seeds in all rows together. It is undecided where zero is inside."
    )
