"""Parts that the reports and pictures of several experiments share."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from transduce.experiments.paper.experiment import Measured, Values
from transduce.reporting.tables import mebibytes, seconds, short, table


def page(*parts: str | Iterable[str]) -> str:
    """Returns the paragraphs with blank lines between; a part is one paragraph or several."""
    return "\n\n".join(text for part in parts for text in ([part] if isinstance(part, str) else part))


def differences(lines: Iterable[str], scale: str, smoke: str) -> str:
    """Returns the section on what differs from the paper; at smoke scale, `smoke` comes first."""
    first = [f"- **Smoke scale: {smoke}**"] if scale == "smoke" else []
    return "\n\n".join(["## What differs from the paper", "\n".join([*first, *lines])])


def claims_table(printed: Mapping[str, str], measured: Sequence[str], *, heading: str = "claim") -> str:
    """Returns the paper's claims, by what it prints of each, as a table with what was measured, in the same order."""
    rows = [[*claim, found] for claim, found in zip(printed.items(), measured, strict=True)]
    return table([heading, "printed", "measured"], rows, text_columns=3)


def cost_cells(sample: Values) -> list[str]:
    """Returns the cells of a table for GFLOP, time and peak memory."""
    return [short(sample["flops"] / 1e9), seconds(sample["seconds"]), mebibytes(sample["peak_bytes"])]


def select(measured: Measured, start: str, **fixed: Any) -> list[Values]:
    """Returns the measurements whose names begin with `start` and a slash, and that have these values."""
    return [
        values
        for name, values in measured.items()
        if name.startswith(f"{start}/") and all(values[key] == value for key, value in fixed.items())
    ]


def distinct(samples: Iterable[Values], key: str) -> list[Any]:
    """Returns the different values of a quantity, in the order in which they were measured."""
    return list(dict.fromkeys(sample[key] for sample in samples))


def listed(values: Iterable[object], separator: str = ", ") -> str:
    """Returns "1, 2, 3"."""
    return separator.join(map(str, values))


def mean_and_spread(values: Sequence[float]) -> str:
    """Returns "91.30", or with several values "91.30 ± 0.12", their standard deviation."""
    mean = f"{statistics.fmean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean


def plot(axis: Any, samples: Sequence[Values], x: str, y: str, *, scale: float = 1.0, **style: Any) -> None:
    """Draws one quantity by another, a dot for each sample on a line."""
    points = [sample[y] * scale for sample in samples]
    axis.plot([sample[x] for sample in samples], points, **{"marker": "o", "ms": 4} | style)
