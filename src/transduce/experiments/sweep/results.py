"""The points of a sweep, their results, and the page and the picture of them."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from transduce.experiments import store
from transduce.reporting.charts import legend_below, log_sizes, new_chart, save_chart
from transduce.reporting.tables import counted, table


@dataclass(frozen=True, order=True)
class Point:
    """One setting. Greedy search (beam size 1) does not depend on the length penalty."""

    average: int  # the number of last checkpoints averaged; 0: a model folder as it is
    beam_size: int
    length_penalty: float


@dataclass(frozen=True)
class Axes:
    """The values of each setting: every combination is a point."""

    averages: tuple[int, ...]
    beam_sizes: tuple[int, ...]
    length_penalties: tuple[float, ...]


@dataclass(frozen=True)
class Measured:
    """The result of one point."""

    point: Point
    weights: str  # a checksum: a run that was trained further has others
    score: float
    length_ratio: float | None  # tokens of the translations over those of the reference
    seconds: float  # of decoding all lines


@dataclass(frozen=True)
class Comparability:
    """What must be equal for scores to be compared in one table."""

    source_sha256: str
    reference_sha256: str
    metric: str
    tokenized: bool
    lowercase: bool
    language: str | None = ""  # of the target, where the score depends on it; None: an older version did not record it


@dataclass(frozen=True)
class SweepResults:
    """All results of a sweep so far."""

    subject: str
    comparability: Comparability
    signature: str  # of the score
    measured: tuple[Measured, ...]

    @property
    def best(self) -> Measured:
        """The point with the highest score; the first of equals."""
        return max(self.measured, key=lambda measured: measured.score)

    @property
    def points(self) -> dict[Point, Measured]:
        """What was measured, by point."""
        return {one.point: one for one in self.measured}

    def current(self, weights: Mapping[int, str | None]) -> "SweepResults":
        """Returns the results without points of these averages that were decoded with other weights."""
        current = (one for one in self.measured if weights.get(one.point.average, one.weights) == one.weights)
        return replace(self, measured=tuple(current))

    def with_point(self, one: Measured, signature: str) -> "SweepResults":
        """Returns the results with one more point, in order; `signature` is that of its score."""
        measured = sorted((*self.measured, one), key=lambda each: each.point)
        return replace(self, measured=tuple(measured), signature=signature)

    def save(self, path: Path) -> None:
        """Writes `results.json`, atomically."""
        store.write(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> "SweepResults":
        """Reads what `save` wrote.

        Raises:
            ConfigError: the file is missing or not of this kind.
        """
        with store.reading(path, "the results of a sweep") as values:
            comparability = Comparability(**{"language": None} | values["comparability"])
            measured = tuple(Measured(**(one | {"point": Point(**one["point"])})) for one in values["measured"])
            return cls(values["subject"], comparability, values["signature"], measured)


def render(results: SweepResults) -> str:
    """Returns the results as a page of Markdown."""
    rows = [
        [
            str(one.point.average) if one.point.average else "as it is",
            str(one.point.beam_size),
            f"{one.point.length_penalty:g}",
            f"{one.score:.2f}",
            "" if one.length_ratio is None else f"{one.length_ratio:.3f}",
            f"{one.seconds:.1f}",
        ]
        for one in results.measured
    ]
    header = ["checkpoints averaged", "beam size", "length penalty α", "score", "length ratio", "seconds"]
    lines = [f"# {results.subject}: a sweep\n", table(header, rows, text_columns=0), ""]
    best = results.best
    averaged = f", {counted(best.point.average, 'checkpoint')} averaged" if best.point.average else ""
    lines.append(
        f"Best: {best.score:.2f} at beam {best.point.beam_size}, α {best.point.length_penalty:g}{averaged}. The "
        "best of many points on one text is biased upwards: choose on validation text, report on test text.\n"
    )
    lines += _effects(results)
    lines.append(f"\nScore: {results.comparability.metric}, `{results.signature}`.\n")
    return "\n".join(lines)


_AXES = {"average": "checkpoints averaged", "beam_size": "beam size", "length_penalty": "length penalty"}


def _effects(results: SweepResults) -> Iterator[str]:
    """Yields for each axis with several values the mean score at each, over the other settings that all have."""
    for setting, name in _AXES.items():
        scores: dict[float, dict[Point, float]] = {}
        for one in results.measured:
            others = replace(one.point, **{setting: 0})
            scores.setdefault(getattr(one.point, setting), {})[others] = one.score
        shared = set.intersection(*map(set, scores.values()))
        if len(scores) > 1 and shared:
            by_value = {key: statistics.fmean(found[other] for other in shared) for key, found in scores.items()}
            means = ", ".join(f"{key:g}: {mean:.2f}" for key, mean in sorted(by_value.items()))
            yield f"- mean score by {name}: {means}"


def draw(results: SweepResults, path: Path) -> None:
    """Draws into `path`, whose name ends in .png, .svg or .pdf.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    averages, sizes, penalties = (sorted({getattr(one.point, axis) for one in results.measured}) for axis in _AXES)
    if len(sizes) == 1 and len(averages) > 1:
        x, label, parts = "average", "checkpoints averaged", {f"beam size {sizes[0]}": list(results.measured)}
    else:
        x, label, parts = "beam_size", "beam size", {}
        for average in averages:
            title = f"{average} checkpoint{'s averaged' if average > 1 else ', not averaged'}" if average else ""
            parts[title] = [one for one in results.measured if one.point.average == average]
    figure, panels = new_chart(len(parts), width=4.0, share_y=True)
    for panel, (title, measured) in zip(panels, parts.items(), strict=True):
        for penalty in penalties:
            drawn = sorted((one.point, one.score) for one in measured if one.point.length_penalty == penalty)
            xs = [getattr(point, x) for point, _ in drawn]
            panel.plot(xs, [score for _, score in drawn], marker="o", markersize=4, label=f"α = {penalty:g}")
        log_sizes(panel, sorted({getattr(one.point, x) for one in measured}), base=2)
        panel.set(xlabel=label, title=title)
    panels[0].set_ylabel(results.comparability.metric)
    legend_below(panels[0], columns=len(penalties), title="length penalty")
    figure.suptitle(results.subject)
    save_chart(figure, path)
