"""Parts that the reports and pictures of several experiments share."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from transduce.experiments.paper.experiment import Measured, Values


def page(*parts: str | Iterable[str]) -> str:
    """Returns the paragraphs with blank lines between; a part is one paragraph or several."""
    return "\n\n".join(text for part in parts for text in ([part] if isinstance(part, str) else part))


def differences(lines: Sequence[str], scale: str, smoke: str) -> str:
    """Returns the section on what differs from the paper; at smoke scale, `smoke` comes first."""
    first = [f"- **Smoke scale: {smoke}**"] if scale == "smoke" else []
    return "\n\n".join(["## What differs from the paper", "\n".join([*first, *lines])])


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


def name_rows(panel: Any, names: Sequence[str], **style: Any) -> None:
    """Labels the rows of a picture, which lie at 0, 1, 2 … of its y axis, the first on top."""
    panel.set_yticks(range(len(names)), names, **style)
    panel.set_ylim(len(names) - 0.5, -0.5)
