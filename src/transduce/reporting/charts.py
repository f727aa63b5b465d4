"""Charts by matplotlib, which is an extra: in one style, without a display, written atomically."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transduce.errors import MissingDependencyError, install_command
from transduce.files import atomic_path

# In order of use; the first is for the main subject of a chart.
COLOURS = ("#0b6fa4", "#d1495b", "#2e8b57", "#e09f3e", "#6d597a", "#4a4e69", "#8d99ae", "#9c6644")
GREY = "#888888"  # for what the others are compared with

_DOTS_PER_INCH = 130


def new_chart(
    columns: int = 1, rows: int = 1, *, width: float = 5.0, height: float = 3.6, share_y: bool = False
) -> tuple[Any, list[Any]]:
    """Returns a matplotlib figure and its panels, row by row.

    Args:
        columns: number of panels side by side.
        rows: number of rows of panels.
        width: width of a panel in inches.
        height: height of a panel in inches.
        share_y: whether all panels share one y axis.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingDependencyError(
            f"Pictures need matplotlib, which is not installed: {install_command('figures')}"
        ) from None
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, sharey=share_y, squeeze=False).flat)
    for panel in panels:
        panel.set_prop_cycle(color=COLOURS)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(True, color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
    return figure, panels


def log_sizes(panel: Any, sizes: Sequence[float], *, base: float = 10) -> None:
    """Makes the x axis of a panel logarithmic, with ticks at the given sizes only."""
    panel.set_xscale("log", base=base)
    panel.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
    panel.set_xticks([], minor=True)


def count_axis(axis: Any) -> None:
    """Limits an axis of counts (`panel.xaxis`, `panel.yaxis`) to ticks at whole numbers. Set its scale first."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    whole = FuncFormatter(lambda value, _: f"{value:,.0f}" if value == round(value) else "")
    if axis.get_scale() == "linear":
        axis.set_major_locator(MaxNLocator(integer=True))
    else:
        axis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    axis.set_major_formatter(whole)


def name_rows(panel: Any, names: Sequence[str], **style: Any) -> None:
    """Labels the rows of a picture, which lie at 0, 1, 2 … of its y axis, the first on top."""
    panel.set_yticks(range(len(names)), names, **style)
    panel.set_ylim(len(names) - 0.5, -0.5)


def legend_below(panel: Any, *, columns: int, **style: Any) -> None:
    """Puts a panel's legend under its x axis, where it hides nothing."""
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": columns}
    panel.legend(**place, fontsize=8, title_fontsize=8, **style)


def save_chart(figure: Any, path: Path) -> None:
    """Writes a figure atomically, in the format of the file's suffix."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=_DOTS_PER_INCH)
