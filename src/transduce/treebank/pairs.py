"""A tree as a pair of texts, the model's input and output (§6.3), and back.

    (S (NP (DT The) (NN dog)) (VP (VBZ barks)))   ↔   The dog barks   and   (S (NP DT NN )NP (VP VBZ )VP )S

Words and tokens are separated by one space. Tags are kept, as in the code that the paper's authors released.
"""

import re
from collections.abc import Sequence

from transduce.errors import DataError
from transduce.treebank.linearise import delinearise, linearise
from transduce.treebank.repair import repair
from transduce.treebank.trees import Tree, escape_brackets

# Matches what should be one piece of a subword vocabulary: "(NP", ")NP", "-LRB-", "PRP$".
WHOLE = r"[()][^\s()<]{1,100}|-[LR][CRS]B-|[A-Z]{1,9}\$"

_WORD = re.compile(r"\S+", re.ASCII)  # as in trees: a no-break space is part of a word


def sentence_words(sentence: str) -> list[str]:
    """Returns the words of a tokenised sentence as trees have them: round brackets become -LRB- and -RRB-."""
    return [escape_brackets(word) for word in _WORD.findall(sentence)]


def tree_words(tree: Tree) -> list[str]:
    """Returns the words of a tree."""
    return [leaf.word for leaf in tree.leaves()]


def to_pair(tree: Tree) -> tuple[str, str]:
    """Returns a parser's input and its expected output for `tree`."""
    return " ".join(tree_words(tree)), " ".join(linearise(tree, keep_tags=True))


def from_output(text: str, words: Sequence[str]) -> tuple[Tree, bool]:
    """Returns the tree that a parser's output describes, and whether it had to be repaired to match `words`.

    Args:
        text: Any text.
        words: The parser's input; at least one word.
    """
    tokens = _WORD.findall(text)
    try:
        return delinearise(tokens, words), False
    except DataError:  # a model may write anything
        return repair(tokens, words), True
