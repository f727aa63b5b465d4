"""Pictures hold the words and as many lines as there are weights to see, and say what they cannot draw."""

import builtins
import colorsys
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from transduce import Attention
from transduce.errors import ConfigError, MissingDependencyError
from transduce.inspection import Panel, Unit, View, draw, draw_panels, figure, view
from transduce.inspection.figure import MIN_WEIGHT
from transduce.inspection.palette import head_colours

MakeAttention = Callable[..., Attention]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def cross(random_attention: MakeAttention) -> View:
    pytest.importorskip("matplotlib", reason="pictures need transduce[figures]")
    return view(random_attention("making $5^2$ <more> difficult", "machen schwieriger"), "cross")


def drawn(path: Path) -> tuple[list[str], dict[str, int]]:
    """Returns an SVG's texts and the number of lines of each head."""
    root = ElementTree.parse(path).getroot()
    texts = ["".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")]
    groups = [node for node in root.iter(f"{SVG}g") if node.get("id", "").startswith("head-")]
    return texts, {node.get("id", ""): sum(1 for _ in node.iter(f"{SVG}path")) for node in groups}


def count(weights: np.ndarray) -> int:
    return int((weights >= MIN_WEIGHT).sum())


def test_all_words_and_a_line_for_each_weight_to_see(cross: View, tmp_path: Path) -> None:
    draw(cross, tmp_path / "figure.svg", layer=2)
    texts, lines = drawn(tmp_path / "figure.svg")
    for unit in (*cross.queries, *cross.keys):
        assert unit.label in texts  # dollar signs are no formula, angle brackets no markup
    assert "Decoder to encoder, layer 2 of 2" in texts
    assert lines == {f"head-{head + 1}": count(cross.weights[1, head]) for head in range(3)}


def test_chosen_heads_of_the_last_but_one_layer(cross: View, tmp_path: Path) -> None:
    draw(cross, tmp_path / "figure.svg", heads=[3, 1])
    _, lines = drawn(tmp_path / "figure.svg")
    assert lines == {f"head-{head}": count(cross.weights[0, head - 1]) for head in (3, 1)}


def test_each_head_has_its_own_lines_and_weights_below_a_hundredth_none(cross: View, tmp_path: Path) -> None:
    """In both layers, the first head sees all keys alike; the second all but the last; the third the first key only."""
    num_keys = len(cross.keys)
    rows = [
        [1 / num_keys] * num_keys,
        [1 / (num_keys - 1)] * (num_keys - 1) + [0.0],
        [0.991] + [0.009] * (num_keys - 1),
    ]
    weights = np.array(rows)[:, None].repeat(len(cross.queries), axis=1)
    made = replace(cross, weights=np.stack([weights, weights[::-1]]).astype(np.float32))
    for layer, heads, lines in ((1, [3, 1], [1, num_keys]), (2, [2, 3], [num_keys - 1, num_keys])):
        draw(made, tmp_path / "figure.svg", layer=layer, heads=heads, word="</s>")
        expected = {f"head-{head}": count for head, count in zip(heads, lines, strict=True)}
        assert drawn(tmp_path / "figure.svg")[1] == expected
    draw(made, tmp_path / "figure.svg", heads=[2], word="</s>")  # the last but one of two layers
    assert "Decoder to encoder, layer 1 of 2" in drawn(tmp_path / "figure.svg")[0]
    three = replace(made, weights=np.concatenate([made.weights, made.weights[:1]]))
    draw(three, tmp_path / "figure.svg", heads=[1])
    assert "Decoder to encoder, layer 2 of 3" in drawn(tmp_path / "figure.svg")[0]


@pytest.mark.parametrize(("word", "rows"), [("mach", [0]), ("machen", [0, 1]), ("schwieriger", [2, 3]), ("</s>", [4])])
def test_a_word_alone(cross: View, tmp_path: Path, word: str, rows: list[int]) -> None:
    draw(cross, tmp_path / "figure.svg", heads=[2], word=word)
    texts, lines = drawn(tmp_path / "figure.svg")
    assert lines == {"head-2": count(cross.weights[0, 1, rows])}
    assert cross.queries[3].label in texts  # the other words stay


def test_a_word_with_a_dot_of_its_own(random_attention: MakeAttention, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need transduce[figures]")
    catalan = view(random_attention("col·lega", "cell·la meva"), "cross")
    assert [unit.label for unit in catalan.queries] == ["cell", "·la", "meva", "</s>"]
    draw(catalan, tmp_path / "figure.svg", heads=[2], word="cell·la")
    assert drawn(tmp_path / "figure.svg")[1] == {"head-2": count(catalan.weights[0, 1, [0, 1]])}
    with pytest.raises(ConfigError, match="is not among the words"):
        draw(catalan, tmp_path / "figure.svg", word="·")


def test_the_same_picture_each_time_and_no_trace_of_a_failed_one(cross: View, tmp_path: Path) -> None:
    for ending in ("svg", "png"):
        first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
        draw(cross, first)
        draw(cross, second)
        assert first.read_bytes() == second.read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg", "b.png", "b.svg"]


def test_characters_that_no_font_has_are_no_failure(random_attention: MakeAttention, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need transduce[figures]")
    shown = view(random_attention("\U00010380 ༀ 犬", "x"), "encoder")
    draw(shown, tmp_path / "figure.svg")
    draw(shown, tmp_path / "figure.png")
    assert "犬" in drawn(tmp_path / "figure.svg")[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 3}, "layer 3: the cross attention has layers 1 to 2"),
        ({"heads": [0]}, "head 0: each layer has heads 1 to 3"),
        ({"word": "machin"}, r"'machin' is not among .*: machen schwieriger\. Did you mean 'machen'\?"),
    ],
)
def test_missing_layers_heads_and_words_are_named(
    cross: View, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        draw(cross, tmp_path / "figure.svg", **options)
    assert not list(tmp_path.iterdir())


def test_unknown_endings_name_the_known_ones(cross: View, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"figure\.gif: pictures end in \.png or \.svg"):
        draw(cross, tmp_path / "figure.gif")


def test_without_matplotlib_the_message_names_the_extra(
    random_attention: MakeAttention, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = view(random_attention("a", "b"), "cross")
    real_import = builtins.__import__

    def no_matplotlib(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[figures\]"):
        draw(shown, tmp_path / "figure.svg")


def test_each_head_has_a_colour_of_its_own() -> None:
    colours = head_colours(32)
    assert len(set(colours)) == 32
    assert colours[:8] == head_colours(8)
    assert all(len(colour) == 7 and int(colour[1:], 16) >= 0 for colour in colours)


def test_head_colours_beyond_the_chosen_ones_are_bright_enough_to_see() -> None:
    """Of the generated ones, by turns of 0.382 of the circle, the lightness goes round 0.42, 0.50 and 0.58."""
    for head, colour in enumerate(head_colours(14)[8:], start=8):
        channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        hue, lightness, saturation = colorsys.rgb_to_hls(*channels)
        assert hue == pytest.approx(head * 0.381966 % 1, abs=0.01)
        assert lightness == pytest.approx(0.42 + 0.08 * (head % 3), abs=0.01)
        assert saturation == pytest.approx(0.6, abs=0.02)


# --- where everything is drawn ----------------------------------------------------------------------------------


def made_view(kind: str = "cross", *, queries: Sequence[str] = ("a", "bcd"), keys: Sequence[str] = ("x", "yz")) -> View:
    """Returns one layer of two heads, with a weight of 0.01 and one just below it."""
    weights = np.array([[[[0.75, 0.25], [0.01, 0.99]], [[0.0099, 0.9901], [0.5, 0.5]]]])
    units = [tuple(Unit(label, number) for number, label in enumerate(labels)) for labels in (queries, keys)]
    return View(kind, weights, *units)  # type: ignore[arg-type]


class Axes:
    """Notes what is drawn."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.squares: list[Any] = []
        self.texts: list[tuple[str, float, float, dict[str, Any]]] = []

    def add_collection(self, lines: Any) -> None:
        self.lines.append(lines)

    def add_patch(self, square: Any) -> None:
        self.squares.append(square)

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        self.texts.append((text, round(x, 3), round(y, 3), style))


def test_panels_stand_side_by_side_as_wide_as_their_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, in inches: margins of 0.25, labels of 0.1 a character, 2.6 between, rows of 0.21 below 0.75."""
    matplotlib_figure = pytest.importorskip("matplotlib.figure", reason="pictures need transduce[figures]")
    narrow, wide = made_view(), made_view(queries=("ab", "日本"), keys=("a", "b", "c"))
    wide = replace(wide, weights=np.full((1, 2, 2, 3), 1 / 3))
    added: list[Any] = []
    add_axes = matplotlib_figure.Figure.add_axes

    def noting(self: Any, bounds: Any, **options: Any) -> Any:
        added.append((self.get_size_inches().tolist(), bounds, options["xlim"], options["ylim"]))
        return add_axes(self, bounds, **options)

    monkeypatch.setattr(matplotlib_figure.Figure, "add_axes", noting)
    draw_panels([Panel(narrow), Panel(wide)], tmp_path / "both.svg")
    first, second = 0.25 + 0.3 + 2.6 + 0.2 + 0.25, 0.25 + 0.4 + 2.6 + 0.1 + 0.25  # characters of East Asia count two
    width, height = first + second, 3 * 0.21 + 0.75 + 0.25
    assert added == [
        (
            pytest.approx([width, height]),
            pytest.approx((begin / width, 0, own / width, 1)),
            pytest.approx((0, own)),
            pytest.approx((height, 0)),
        )
        for begin, own in ((0, first), (first, second))
    ]


def test_a_line_joins_its_words_and_is_as_thick_and_opaque_as_its_weight() -> None:
    pytest.importorskip("matplotlib", reason="pictures need transduce[figures]")
    axes: Any = Axes()
    figure._draw_lines(axes, Panel(made_view()), [0, 1])
    left, right, rows = 0.25 + 0.3, 0.25 + 0.3 + 2.6, (0.75 + 0.105, 0.75 + 0.315)
    expected = [
        [(1, 0, 0.01), (0, 1, 0.25), (0, 0, 0.75), (1, 1, 0.99)],  # the strong ones on top
        [(1, 0, 0.5), (1, 1, 0.5), (0, 1, 0.9901)],  # less than a hundredth is not drawn
    ]
    for number, (drawn, lines) in enumerate(zip(axes.lines, expected, strict=True)):
        assert drawn.get_gid() == f"head-{number + 1}"
        places = [[[left, rows[q]], [right, rows[k]]] for q, k, _ in lines]
        np.testing.assert_allclose([np.asarray(each) for each in drawn.get_segments()], places)
        np.testing.assert_allclose(drawn.get_linewidths(), [0.6 + 3 * weight for *_, weight in lines])
        np.testing.assert_allclose(drawn.get_colors()[:, 3], [weight**0.5 for *_, weight in lines])
        colour = [int(head_colours(2)[number][place : place + 2], 16) / 255 for place in (1, 3, 5)]
        np.testing.assert_allclose(drawn.get_colors()[:, :3], [colour] * len(lines))
    assert axes.squares == []


def test_a_word_alone_has_a_square_for_each_head_beside_each_key() -> None:
    """Two squares of 0.09 and a gap of 0.04; the lines of both heads end 0.35 of a row apart, around its middle."""
    pytest.importorskip("matplotlib", reason="pictures need transduce[figures]")
    axes: Any = Axes()
    figure._draw_lines(axes, Panel(made_view(), heads=[2, 1], word="bcd"), [1])
    end = 0.25 + 0.3 + 2.6 - 2 * 0.09 - 0.04
    weights = {2: [0.5, 0.5], 1: [0.01, 0.99]}
    shifts = {2: -0.25 * 0.7 * 0.21, 1: 0.25 * 0.7 * 0.21}
    for drawn, head in zip(axes.lines, (2, 1), strict=True):
        ends = sorted(each[1].tolist() for each in drawn.get_segments())
        np.testing.assert_allclose(ends, [[end, 0.75 + 0.105 + shifts[head]], [end, 0.75 + 0.315 + shifts[head]]])
    found = [(*each.get_xy(), each.get_width(), each.get_height(), each.get_facecolor()[3]) for each in axes.squares]
    np.testing.assert_allclose(
        found,
        [
            (end + 0.02 + index * 0.09, 0.75 + key * 0.21, 0.09, 0.21, weights[head][key] ** 0.5)
            for index, head in enumerate((2, 1))
            for key in (0, 1)
        ],
    )


def test_words_stand_at_their_lines_and_those_without_are_grey() -> None:
    axes: Any = Axes()
    figure._draw_words(axes, Panel(made_view()), [1])
    shown = [(text, x, y, style["ha"], style["color"]) for text, x, y, style in axes.texts]
    assert shown == [
        ("a", 0.49, 0.855, "right", "0.7"),
        ("bcd", 0.49, 1.065, "right", "black"),
        ("x", 3.21, 0.855, "left", "black"),
        ("yz", 3.21, 1.065, "left", "black"),
    ]
    assert all(style["parse_math"] is False for *_, style in axes.texts)


@pytest.mark.parametrize(
    ("kind", "title", "captions"),
    [
        ("encoder", "Encoder, layer 1 of 1", ("source", "source")),
        ("decoder", "Decoder, layer 1 of 1", ("written", "read")),
        ("cross", "Decoder to encoder, layer 1 of 1", ("written", "source")),
    ],
)
def test_a_title_says_what_is_shown_and_numbers_the_heads(kind: str, title: str, captions: tuple[str, str]) -> None:
    axes: Any = Axes()
    figure._draw_title(axes, Panel(made_view(kind), heads=[2]))
    (shown, *columns, head) = axes.texts
    assert shown[:3] == (title, 1.85, 0.2)
    assert [each[:3] for each in columns] == [(captions[0], 0.49, 0.48), (captions[1], 3.21, 0.48)]
    assert (head[:3], head[3]["color"]) == (("2", 1.85, 0.48), head_colours(2)[1])
    both: Any = Axes()
    figure._draw_title(both, Panel(made_view(kind)))
    assert [each[:2] for each in both.texts[3:]] == [("1", 1.72), ("2", 1.98)]


@pytest.mark.parametrize(
    ("word", "rows"), [("b", [1, 4]), ("ab", [0, 1, 3, 4]), ("c", [2]), ("a·b", [0, 1, 3, 4]), ("</s>", [5])]
)
def test_all_occurrences_of_a_word_are_its_rows(word: str, rows: list[int]) -> None:
    """A label comes before a word that is spelled so; "·" may be written where a piece continues."""
    labels = (("a", 0), ("b", 0), ("c", 1), ("a", 2), ("b", 2), ("</s>", None))
    queries = tuple(Unit(label, number) for label, number in labels)
    shown = View("cross", np.zeros((1, 1, 6, 6)), queries, queries)
    assert figure._rows_of(shown, word) == rows
