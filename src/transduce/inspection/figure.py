"""Pictures of attention like Figures 3 to 5: two columns of words with lines between them, one colour a head."""

import math
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce.errors import ConfigError, MissingDependencyError, install_command, suggestion
from transduce.files import atomic_path
from transduce.inspection.palette import head_colours
from transduce.inspection.view import View, joined

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".png", ".svg")

MIN_WEIGHT = 0.01  # of a line; lesser ones are left out

# Captions of the columns: queries, then keys.
_CAPTIONS = {"encoder": ("source", "source"), "decoder": ("written", "read"), "cross": ("written", "source")}
_TITLES = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Decoder to encoder"}
# In inches.
_ROW, _GAP, _CHARACTER, _MARGIN, _HEAD = 0.21, 2.6, 0.1, 0.25, 0.75
_SQUARE = 0.09
_HEADS_APART = 0.7  # share of a row over which the lines of several heads end, so that their colours do not mix
_THINNEST, _THICKEST = 0.6, 3.6  # points: lines of weight 0 and 1
_FONT_SIZE = 10  # points
# For characters that DejaVu Sans, the font of matplotlib, does not have; used if they are installed, in this order.
_FALLBACKS = ("Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Devanagari")


def require_ending(path: Path) -> None:
    """Raises ConfigError if `path` does not end in one of `ENDINGS`."""
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"{path}: pictures end in {' or '.join(ENDINGS)}.")


@dataclass(frozen=True)
class Panel:
    """One layer of a view as it is drawn. Layers and heads count from 1."""

    view: View
    layer: int | None = None  # None: the last but one, the paper's choice
    heads: Sequence[int] | None = None  # None: all
    word: str | None = None  # only the lines of this label of the left column, or of a word whose pieces are there

    @property
    def shown_layer(self) -> int:
        """The layer that is drawn."""
        return self.view.usual_layer if self.layer is None else self.layer

    @property
    def shown_heads(self) -> Sequence[int]:
        """The heads that are drawn."""
        return range(1, self.view.num_heads + 1) if self.heads is None else self.heads

    def rows(self) -> list[int]:
        """Returns the rows whose lines are drawn.

        Raises:
            ConfigError: there is no such layer, head or word.
        """
        self.view.require_layer(self.shown_layer)
        self.view.require_heads(self.shown_heads)
        return list(range(len(self.view.queries))) if self.word is None else _rows_of(self.view, self.word)

    @property
    def left(self) -> float:
        """Inches from the panel's edge to the lines."""
        return _MARGIN + max(_width(unit.label) for unit in self.view.queries)

    @property
    def width(self) -> float:
        """Inches."""
        return self.left + _GAP + max(_width(unit.label) for unit in self.view.keys) + _MARGIN

    @property
    def height(self) -> float:
        """Inches."""
        return max(len(self.view.queries), len(self.view.keys)) * _ROW + _HEAD + _MARGIN


def draw(
    view: View,
    path: str | Path,
    *,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    word: str | None = None,
) -> None:
    """Draws one layer of a view and writes the picture, atomically, the same bytes each time.

    Queries are on the left, keys on the right. A line has the colour of its head. Its width grows with the weight, its
    opacity is the square root of it, so that small weights can still be seen. With `word`, as in Figure 3, only the
    lines of this word are drawn, and a square for each head next to the keys.

    Args:
        view: what to draw.
        path: ends in .png or .svg.
        layer: from 1; None for the last but one, the paper's choice.
        heads: from 1; None for all.
        word: a label of the left column, or a word whose pieces are there.

    Raises:
        ConfigError: another ending; there is no such layer, head or word.
        MissingDependencyError: matplotlib is not installed.
    """
    draw_panels([Panel(view, layer, heads, word)], path)


def draw_panels(panels: Sequence[Panel], path: str | Path) -> None:
    """Draws several panels side by side as `draw` does one, as Figures 4 and 5 have them.

    Raises:
        ConfigError: another ending; a panel's layer, head or word does not exist.
        MissingDependencyError: matplotlib is not installed.
    """
    path = Path(path)
    require_ending(path)
    rows = [panel.rows() for panel in panels]
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise MissingDependencyError(
            f"Pictures need matplotlib, which is not installed here: {install_command('figures')}"
        ) from None
    width, height = sum(panel.width for panel in panels), max(panel.height for panel in panels)
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "transduce",
        "font.family": _families(),
        "font.size": _FONT_SIZE,
    }
    with mpl.rc_context(style), warnings.catch_warnings():
        # A character without a glyph is drawn as a box in a PNG; in an SVG the reader's own fonts show it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        picture = Figure(figsize=(width, height), facecolor="white")
        begin = 0.0
        for panel, own_rows in zip(panels, rows, strict=True):
            bounds = (begin / width, 0.0, panel.width / width, 1.0)
            axes = picture.add_axes(bounds, xlim=(0, panel.width), ylim=(height, 0), label=f"panel at {begin}")
            axes.set_axis_off()
            _draw_words(axes, panel, own_rows)
            _draw_title(axes, panel)
            _draw_lines(axes, panel, own_rows)
            begin += panel.width
        with atomic_path(path) as temporary:
            kind = path.suffix.lower().removeprefix(".")
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            picture.savefig(temporary, format=kind, dpi=200, metadata=metadata)


def _rows_of(view: View, word: str) -> list[int]:
    """Returns the rows labelled `word`, or else those of the pieces of each word that reads so."""
    if rows := [row for row, unit in enumerate(view.queries) if unit.label == word]:
        return rows
    labels: dict[int, list[str]] = {}
    for unit in view.queries:
        if unit.word is not None:
            labels.setdefault(unit.word, []).append(unit.label.removeprefix("·"))
    spelled = {number: joined(parts) for number, parts in labels.items()}
    found = {number for number, text in spelled.items() if text == word}
    if not found and "·" in word:  # a piece may begin with a dot of the word itself, as in "col·lega"
        plain = word.replace("·", "")
        found = {number for number, text in spelled.items() if plain and text.replace("·", "") == plain}
    if not found:
        words = list(dict.fromkeys(spelled.values()))
        raise ConfigError(
            f"'{word}' is not among the words of the left column: {' '.join(words)}.{suggestion(word, words)}"
        )
    return [row for row, unit in enumerate(view.queries) if unit.word in found]


def _draw_words(axes: "Axes", panel: Panel, rows: Sequence[int]) -> None:
    view, left = panel.view, panel.left
    for row, unit in enumerate(view.queries):
        colour = "black" if row in rows else "0.7"
        axes.text(left - 0.06, _y(row), unit.label, ha="right", va="center", color=colour, parse_math=False)
    for row, unit in enumerate(view.keys):
        axes.text(left + _GAP + 0.06, _y(row), unit.label, ha="left", va="center", color="black", parse_math=False)


def _draw_title(axes: "Axes", panel: Panel) -> None:
    view, heads, left = panel.view, panel.shown_heads, panel.left
    middle = left + _GAP / 2
    title = f"{_TITLES[view.kind]}, layer {panel.shown_layer} of {view.num_layers}"
    axes.text(middle, 0.2, title, ha="center", va="center", weight="bold", parse_math=False)
    looks, looked_at = _CAPTIONS[view.kind]
    axes.text(left - 0.06, 0.48, looks, ha="right", va="center", color="0.4", style="italic")
    axes.text(left + _GAP + 0.06, 0.48, looked_at, ha="left", va="center", color="0.4", style="italic")
    colours = head_colours(view.num_heads)
    step = min(0.26, _GAP / len(heads))
    for index, head in enumerate(heads):
        x = middle + (index - (len(heads) - 1) / 2) * step
        axes.text(x, 0.48, str(head), ha="center", va="center", color=colours[head - 1], weight="bold", size=9)


def _draw_lines(axes: "Axes", panel: Panel, rows: Sequence[int]) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    weights_HQK, heads = panel.view.weights[panel.shown_layer - 1], panel.shown_heads
    colours, squares = head_colours(len(weights_HQK)), panel.word is not None
    start, end = panel.left, panel.left + _GAP - (_SQUARE * len(heads) + 0.04 if squares else 0.0)
    for index, head in enumerate(heads):
        weights_QK = weights_HQK[head - 1]
        colour = to_rgb(colours[head - 1])
        drawn = [(q, k) for q in rows for k in np.flatnonzero(weights_QK[q] >= MIN_WEIGHT).tolist()]
        drawn.sort(key=lambda line: float(weights_QK[line]))  # the strong ones on top
        weights = [float(weights_QK[line]) for line in drawn]
        shift = (index - (len(heads) - 1) / 2) / len(heads) * _HEADS_APART * _ROW if squares else 0.0
        lines = LineCollection(
            [[(start, _y(q)), (end, _y(k) + shift)] for q, k in drawn],
            colors=[(*colour, _opacity(weight)) for weight in weights],
            linewidths=[_THINNEST + (_THICKEST - _THINNEST) * weight for weight in weights],
            gid=f"head-{head}",
        )
        axes.add_collection(lines)
        if squares:
            for key, weight in enumerate(weights_QK[rows].mean(axis=0)):
                corner = (end + 0.02 + index * _SQUARE, _y(key) - _ROW / 2)
                face = (*colour, _opacity(float(weight)))
                axes.add_patch(Rectangle(corner, _SQUARE, _ROW, facecolor=face, linewidth=0.0))


def _opacity(weight: float) -> float:
    return math.sqrt(min(1.0, weight))


def _width(label: str) -> float:
    """Returns the inches that a label takes at most, or nearly; characters of East Asia are twice as wide."""
    return _CHARACTER * sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in label)


def _y(row: int) -> float:
    return _HEAD + (row + 0.5) * _ROW


def _families() -> list[str]:
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in _FALLBACKS if name in installed)]
