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

    def half_width(self, measure: Measure, num_seeds: int) -> float | None:
        """Returns half of the 95 % interval of a mean difference over `num_seeds`; None where no row has two seeds.

        The interval is Student's, from the spread of the differences over seeds in all rows together.
        """
        squares, freedom = 0.0, 0
        for name in dict.fromkeys(name for name, _ in self.common):
            changes = [later - earlier for earlier, later in self.pairs(name, measure)]
            if len(changes) > 1:
                squares += (len(changes) - 1) * statistics.variance(changes)
                freedom += len(changes) - 1
        return student_t(freedom) * math.sqrt(squares / freedom / num_seeds) if freedom else None


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
        if not (pairs := versions.pairs(row, measure)):
            cells += ["", "", ""]
            continue
        before, after = (statistics.fmean(values) for values in zip(*pairs, strict=True))
        half_width = versions.half_width(measure, len(pairs))
        gain = after - before if measure == "bleu" else before - after  # low perplexity is good
        verdict = "" if half_width is None else f" ± {half_width:.{decimals}f}, {_verdict(gain, half_width)}"
        cells += [f"{before:.{decimals}f}", f"{after:.{decimals}f}", f"{after - before:+.{decimals}f}{verdict}"]
    return cells


def _verdict(gain: float, half_width: float) -> str:
    """Returns "same", "better", "worse", or "undecided" where zero is in the interval."""
    if abs(gain) <= half_width:
        return "undecided" if gain or half_width else "same"
    return "better" if gain > 0 else "worse"


def _sources(versions: Versions, trials: Mapping[_Key, FinishedTrial]) -> str:
    return ", ".join(sorted({trials[key].result.source or _NOT_NOTED for key in versions.common}))


def _about_intervals(versions: Versions, rows: Sequence[str]) -> str:
    if all(len(versions.pairs(row, measure)) < 2 for row in rows for measure, _, _ in _MEASURES):
        return "One seed in common: these figures do not show how much of a difference is chance."
    return (
        "A difference is after minus before, each training against that of the same seed; ± is half of the 95 % "
        "interval of its mean, from the spread over seeds in all rows together. It is undecided where zero is inside."
    )
