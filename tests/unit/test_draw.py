"""Drawn trees keep their parts apart, fit where they should, and show whatever a word may be."""

import inspect
import xml.etree.ElementTree as ET
from itertools import pairwise
from textwrap import indent

import pytest
from hypothesis import given, settings

from transduce.treebank import Tree, draw_svg, draw_text
from transduce.treebank.draw import text_width
from transduce.treebank.tree_layout import lay_out
from transduce.treebank.trees import parse_line
from tree_strategies import trees

_SVG = "{http://www.w3.org/2000/svg}"


def tree_of(text: str) -> Tree:
    (tree,) = parse_line(text, "test")
    assert isinstance(tree, Tree)
    return tree


_DOG = tree_of("(S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))")


def test_from_the_top_down() -> None:
    assert draw_text(_DOG).split("\n") == [
        "          S",
        "   ┌──────┴─┬────┐",
        "  NP       VP    │",
        " ┌─┴──┐     │    │",
        "DT   NN    VBZ   .",
        "The  dog  barks  .",
    ]


def test_the_docstrings_picture_is_what_is_drawn() -> None:
    drawn = draw_text(tree_of("(S (NP (DT The) (NN dog)) (VP (VBZ barks)))"))
    assert indent(drawn, " " * 4) in (inspect.getdoc(draw_text) or "")


def test_an_outline_where_it_would_be_too_wide() -> None:
    assert draw_text(_DOG, width=18).startswith("          S\n")
    assert draw_text(_DOG, width=17).split("\n") == [
        "S",
        "├─ NP",
        "│  ├─ DT The",
        "│  └─ NN dog",
        "├─ VP",
        "│  └─ VBZ barks",
        "└─ . .",
    ]


def test_a_label_wider_than_its_words() -> None:
    assert draw_text(tree_of("(CONSTITUENT (A b) (C d))")).split("\n") == [
        "CONSTITUENT",
        "   ┌─┴┐",
        "   A  C",
        "   b  d",
    ]


def test_wide_characters_and_combining_marks_keep_their_columns() -> None:
    lines = draw_text(tree_of("(S (NN 犬犬犬) (VV e\u0301té) (. .))")).split("\n")
    assert lines[-1] == "犬犬犬  e\u0301té  ."
    assert lines[-2] == "  NN    VV   ."
    assert text_width("犬犬犬") == 6
    assert text_width("e\u0301té") == 3


@pytest.mark.parametrize("character", ["\x1b", "\x00", "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{NO-BREAK SPACE}", "\u2028"])
def test_what_would_upset_a_terminal_is_not_shown(character: str) -> None:
    tree = tree_of(f"(S (NN a{character}b))")
    assert character not in draw_text(tree)
    assert character not in draw_text(tree, width=1)
    assert character not in draw_svg([tree])


@given(trees)
def test_boxes_do_not_overlap(tree: Tree) -> None:
    for box in lay_out(tree, text_width, 2).walk():
        texts = [box.node.label] if isinstance(box.node, Tree) else [box.node.tag, box.node.word]
        for text in texts:
            width = text_width(text)
            start = box.centre - width // 2
            assert box.left <= start
            assert start + width <= box.left + box.span
        for child in box.children:
            assert box.left <= child.left
            assert child.left + child.span <= box.left + box.span
            assert child.level < box.level
        for one, other in pairwise(box.children):
            assert one.left + one.span + 2 <= other.left


@given(trees)
def test_text_keeps_its_width_and_shows_every_node(tree: Tree) -> None:
    lines = draw_text(tree, width=10_000).split("\n")
    span = lay_out(tree, text_width, 2).span
    assert len(lines) == 2 * tree.height + 2
    assert all(text_width(line) <= span for line in lines)
    num_nodes = sum(1 for _ in lay_out(tree, text_width, 2).walk())
    assert len(draw_text(tree, width=-1).split("\n")) == num_nodes


@settings(max_examples=50)
@given(trees)
def test_svg_is_xml_with_every_node(tree: Tree) -> None:
    root = ET.fromstring(draw_svg([tree, tree]))
    boxes = list(lay_out(tree, len, 1).walk())
    num_leaves = len(tree.leaves())
    texts = root.findall(f".//{_SVG}text")
    assert len(texts) == 2 * (len(boxes) + num_leaves)
    assert sum(text.get("class") == "word" for text in texts) == 2 * num_leaves
    assert sum((path.get("d") or "").count("M") for path in root.iter(f"{_SVG}path")) == 2 * (len(boxes) - 1)


def test_svg_escapes_and_stays_inside_its_frame() -> None:
    tree = tree_of('(S&T (NN <b>) (NN "quoted") (NN AT&T))')
    root = ET.fromstring(draw_svg([tree]))
    words = [text.text for text in root.iter(f"{_SVG}text") if text.get("class") == "word"]
    assert words == ["<b>", '"quoted"', "AT&T"]
    width, height = int(root.get("width") or 0), int(root.get("height") or 0)
    for text in root.iter(f"{_SVG}text"):
        assert 0 < int(text.get("x") or -1) < width
        assert 0 <= int(text.get("y") or -1) < height
    assert "http" not in draw_svg([tree]).replace("http://www.w3.org/2000/svg", "")


def test_svg_of_nothing() -> None:
    assert ET.fromstring(draw_svg([])).findall(f".//{_SVG}text") == []


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("dog", 3),
        ("犬", 2),
        ("\uff21", 2),
        ("e\u0301", 1),
        ("\uff76", 1),
        ("a\u200db", 2),
        ("a\tb", 3),
        ("a\u3000b", 3),
    ],
)
def test_columns_of_a_terminal(text: str, columns: int) -> None:
    """A full-width A takes two, a half-width katakana one; a tab is a sign of its own, and a space one column."""
    assert text_width(text) == columns


def test_where_an_svg_has_its_labels_and_edges() -> None:
    """A label's baseline, 6 pixels, 10 to the bar, and down to 17 above the next; 46 a level, 22 from tag to word."""
    root = ET.fromstring(draw_svg([tree_of("(S (NP (DT The) (NN dog)) (VB ran))"), tree_of("(S (UH yes))")]))
    groups = root.findall(f"{_SVG}g")
    # 15 pixels of a letter; two levels of 46, the word's 22, and 36 to the next tree.
    assert [group.get("transform") for group in groups] == ["translate(20 35)", "translate(20 200)"]
    assert [group.findtext(f"{_SVG}title") for group in groups] == ["The dog ran", "yes"]
    labels = [(text.get("class"), text.text, int(text.get("y") or -1)) for text in groups[0].findall(f"{_SVG}text")]
    assert labels == [
        ("label", "S", 0),
        ("label", "NP", 46),
        ("tag", "DT", 92),
        ("word", "The", 114),
        ("tag", "NN", 92),
        ("word", "dog", 114),
        ("tag", "VB", 92),
        ("word", "ran", 114),
    ]
    at = {text.text: text.get("x") for text in groups[0].findall(f"{_SVG}text")}
    (path,) = groups[0].findall(f"{_SVG}path")
    edges = (path.get("d") or "").split("M")[1:]
    assert edges == [
        f"{at['S']} 6V16H{at['NP']}V29",
        f"{at['S']} 6V16H{at['VB']}V75",
        f"{at['NP']} 52V62H{at['DT']}V75",
        f"{at['NP']} 52V62H{at['NN']}V75",
    ]
    assert int(root.get("height") or 0) == 200 - 15 + 15 + 46 + 22 + 20
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"


def test_neighbours_in_an_svg_have_sixteen_pixels_between_them() -> None:
    """A capital is 0.85 of 15 pixels wide, "i" 0.38, other letters 0.62, an ideograph 1."""
    root = ET.fromstring(draw_svg([tree_of("(S (A AA) (B iii) (C \u72ac))")]))
    # 26 for "AA", 18 for "iii", 15 for the ideograph, rounded up, and twice the gap.
    assert root.get("width") == str(26 + 18 + 15 + 2 * 16 + 2 * 20)
