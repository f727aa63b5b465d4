"""Pictures hold the words and as many lines as there are weights to see, and say what they cannot draw."""

import builtins
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from transduce import Attention
from transduce.errors import ConfigError, MissingDependencyError
from transduce.inspection import View, draw, view
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
