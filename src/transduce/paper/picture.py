"""Charts by matplotlib, in one style."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transduce import files
from transduce.errors import MissingDependencyError

COLOURS = ("#0b6fa4", "#d1495b", "#2e8b57", "#e09f3e", "#6d597a", "#4a4e69", "#8d99ae", "#9c6644")


def new_picture(columns: int, rows: int = 1, *, height: float = 3.6) -> tuple[Any, list[Any]]:
    """Returns a matplotlib figure and its axes, row by row.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError(
            "matplotlib is not installed. Pictures need: pip install 'transduce[figures]'"
        ) from None
    figure = Figure(figsize=(5.0 * columns, height * rows), layout="constrained", dpi=110)
    axes = [figure.add_subplot(rows, columns, place + 1) for place in range(rows * columns)]
    for place, axis in enumerate(axes):
        axis.set_prop_cycle(color=COLOURS)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.set_label(f"axis {place}")
    return figure, axes


def log_sizes(axis: Any, sizes: Sequence[float]) -> None:
    """Gives an axis a logarithmic scale of x, with the sizes that were measured as its only marks."""
    axis.set_xscale("log")
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
    axis.set_xticks([], minor=True)


def save_picture(figure: Any, path: Path) -> None:
    """Writes a figure as PNG, atomically."""
    with files.atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")
