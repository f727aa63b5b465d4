"""Constituency trees (§6.3): as text, as sequences for a Transformer, as pictures, and scored as EVALB does."""

from transduce.treebank.bracket_analysis import BracketAnalysis, LabelScore, analyse_brackets
from transduce.treebank.bracket_comparison import SentenceBrackets
from transduce.treebank.bracket_parameters import COLLINS, BracketParameters, read_bracket_parameters
from transduce.treebank.brackets import (
    BracketEvaluation,
    BracketSummary,
    parse_scores,
    score_brackets,
    summarise_parses,
)
from transduce.treebank.draw import draw_svg, draw_text
from transduce.treebank.linearise import delinearise, linearise
from transduce.treebank.normalise import normalise
from transduce.treebank.paired_bootstrap import PairedBootstrap, paired_bootstrap
from transduce.treebank.repair import repair
from transduce.treebank.trees import Leaf, Node, Tree, escape_brackets, parse_trees, read_trees, unescape_brackets

__all__ = [
    "COLLINS",
    "BracketAnalysis",
    "BracketEvaluation",
    "BracketParameters",
    "BracketSummary",
    "LabelScore",
    "Leaf",
    "Node",
    "PairedBootstrap",
    "SentenceBrackets",
    "Tree",
    "analyse_brackets",
    "delinearise",
    "draw_svg",
    "draw_text",
    "escape_brackets",
    "linearise",
    "normalise",
    "paired_bootstrap",
    "parse_scores",
    "parse_trees",
    "read_bracket_parameters",
    "read_trees",
    "repair",
    "score_brackets",
    "summarise_parses",
    "unescape_brackets",
]
