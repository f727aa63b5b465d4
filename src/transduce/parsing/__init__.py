"""Constituency trees (§6.3) as text, as sequences a Transformer reads and writes, and as pictures."""

from transduce.parsing.draw import draw_svg, draw_text
from transduce.parsing.linearise import delinearise, linearise
from transduce.parsing.normalise import normalise
from transduce.parsing.repair import repair
from transduce.parsing.trees import Leaf, Node, Tree, escape_brackets, parse_trees, read_trees, unescape_brackets

__all__ = [
    "Leaf",
    "Node",
    "Tree",
    "delinearise",
    "draw_svg",
    "draw_text",
    "escape_brackets",
    "linearise",
    "normalise",
    "parse_trees",
    "read_trees",
    "repair",
    "unescape_brackets",
]
