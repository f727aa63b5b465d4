"""Trees as pictures: lines of text for a terminal, or SVG for a page."""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from html import escape

from transduce.treebank.tree_layout import Box, lay_out
from transduce.treebank.trees import Leaf, Node, Tree

# The box-drawing character with lines up (1), down (2), left (4) and right (8), at the sum of these.
_JOINTS = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"

_TEXT_GAP = 2

# Pixels.
_FONT_SIZE = 15
_GAP = 16
_LEVEL_HEIGHT = 46
_WORD_DROP = 22  # from a tag's baseline to its word's
_EDGE_TOP, _EDGE_BOTTOM = 6, 17  # space between an edge and the baseline of the label above it, and below it
_BAR_DROP = 10
_MARGIN = 20
_BETWEEN_TREES = 36

_STYLE = f"""
text {{ font: {_FONT_SIZE}px "Helvetica Neue", Arial, "Noto Sans", "DejaVu Sans", sans-serif; text-anchor: middle; }}
.label {{ font-weight: 600; fill: #1f4e8c; }}
.tag {{ fill: #6b6b6b; }}
.word {{ fill: #111; }}
path {{ fill: none; stroke: #9aa7b5; stroke-width: 1.2; }}
"""


def draw_text(tree: Tree, width: int = 100) -> str:
    """Returns the tree as lines of text: the root above and the words below where that fits, otherwise as an outline.

               S
           ┌───┴────┐
          NP       VP
         ┌─┴──┐     │
        DT   NN    VBZ
        The  dog  barks

    Args:
        tree: What to draw.
        width: Columns to stay within; an outline, one node a line, may still be wider.
    """
    box = lay_out(tree, text_width, _TEXT_GAP)
    if box.span <= width:
        return _draw_top_down(box)
    return "\n".join(_outline(tree, first="", below=""))


def text_width(text: str) -> int:
    """Returns the columns that `text` takes in a terminal: wide characters two, combining marks none."""
    return sum(_columns(character) for character in _shown(text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _shown(text: str) -> str:
    """Returns `text` without control characters and direction marks, which would garble a terminal or a page."""
    shown = ""
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Co", "Cn"):
            shown += "\N{REPLACEMENT CHARACTER}"
        elif category in ("Zs", "Zl", "Zp"):
            shown += " "
        elif category != "Cf" or character in "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}":
            shown += character
    return shown


def _outline(node: Node, first: str, below: str) -> list[str]:
    """Returns a line for each node, with `first` in front of the node's own line and `below` in front of the others."""
    if isinstance(node, Leaf):
        return [f"{first}{_shown(node.tag)} {_shown(node.word)}"]
    lines = [first + _shown(node.label)]
    for child in node.children[:-1]:
        lines += _outline(child, f"{below}├─ ", f"{below}│  ")
    lines += _outline(node.children[-1], f"{below}└─ ", f"{below}   ")
    return lines


def _draw_top_down(root: Box) -> str:
    canvas = [[" "] * root.span for _ in range(2 * root.level + 2)]

    def write(row: int, centre: int, text: str) -> None:
        at = centre - text_width(text) // 2
        for character in _shown(text):
            columns = _columns(character)
            if columns == 0:
                canvas[row][max(at - 1, 0)] += character
                continue
            canvas[row][at : at + columns] = [character] + [""] * (columns - 1)
            at += columns

    for box in root.walk():
        row = 2 * (root.level - box.level)
        if isinstance(box.node, Leaf):
            write(row, box.centre, box.node.tag)
            write(row + 1, box.centre, box.node.word)
            continue
        write(row, box.centre, box.node.label)
        _draw_edges(canvas, row + 1, box)
    return "\n".join("".join(cells).rstrip() for cells in canvas)


def _draw_edges(canvas: list[list[str]], row: int, parent: Box) -> None:
    """Draws a bar below the parent, and from it a line down to each child."""
    downs = {child.centre for child in parent.children}
    first, last = min(downs | {parent.centre}), max(downs | {parent.centre})
    for column in range(first, last + 1):
        lines = (column == parent.centre, column in downs, column > first, column < last)
        canvas[row][column] = _JOINTS[sum(there << bit for bit, there in enumerate(lines))]
    for child in parent.children:
        for lower in range(row + 1, row + 2 * (parent.level - child.level) - 1):
            canvas[lower][child.centre] = "│"


def draw_svg(trees: Sequence[Tree]) -> str:
    """Returns a self-contained SVG picture of the trees, one below the other.

    Edges never cross, nor run through text: a bar below each parent, and from it straight down to each child.
    """
    boxes = [lay_out(tree, _pixels, _GAP) for tree in trees]
    width = max((box.span for box in boxes), default=0) + 2 * _MARGIN
    parts: list[str] = []
    top = _MARGIN
    for tree, box in zip(trees, boxes, strict=True):
        sentence = escape(_shown(" ".join(leaf.word for leaf in tree.leaves())))
        group = f'<g transform="translate({_MARGIN} {top + _FONT_SIZE})"><title>{sentence}</title>'
        parts += [group, _svg_edges(box), *_svg_labels(box), "</g>"]
        top += _FONT_SIZE + box.level * _LEVEL_HEIGHT + _WORD_DROP + _BETWEEN_TREES
    height = top - _BETWEEN_TREES + _MARGIN if boxes else 2 * _MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", background, *parts, "</svg>"]) + "\n"


def _svg_labels(root: Box) -> Iterator[str]:
    """Yields the text elements, the root's baseline at 0."""
    for box in root.walk():
        y = (root.level - box.level) * _LEVEL_HEIGHT
        if isinstance(box.node, Leaf):
            yield _svg_text("tag", box.centre, y, box.node.tag)
            yield _svg_text("word", box.centre, y + _WORD_DROP, box.node.word)
        else:
            yield _svg_text("label", box.centre, y, box.node.label)


def _svg_text(kind: str, x: int, y: int, text: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(_shown(text))}</text>'


def _svg_edges(root: Box) -> str:
    edges = []
    for parent in root.walk():
        baseline = (root.level - parent.level) * _LEVEL_HEIGHT
        bar = baseline + _EDGE_TOP + _BAR_DROP
        for child in parent.children:
            end = (root.level - child.level) * _LEVEL_HEIGHT - _EDGE_BOTTOM
            edges.append(f"M{parent.centre} {baseline + _EDGE_TOP}V{bar}H{child.centre}V{end}")
    return f'<path d="{"".join(edges)}"/>'


def _pixels(text: str) -> int:
    """Returns the estimated width of `text`; an overestimate, since fonts differ."""
    return math.ceil(_FONT_SIZE * sum(_ems(character) for character in _shown(text)))


def _ems(character: str) -> float:
    if (columns := _columns(character)) != 1:
        return columns / 2
    if character in "iIjlft.,:;'|!()[] ":
        return 0.38
    return 0.85 if character.isupper() or character in "mw%@—" else 0.62
