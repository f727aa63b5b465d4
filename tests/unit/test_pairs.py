"""Trees as pairs of texts: what goes out comes back, and whatever a model writes becomes a tree over the words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.treebank import Tree, parse_trees
from transduce.treebank.pairs import WHOLE, from_output, sentence_words, to_pair, tree_words
from transduce.treebank.trees import is_atom
from tree_strategies import atoms, trees

_TREE = "(S (NP (DT The) (NN dog)) (VP (VBZ barks) (PRT (-LRB- -LRB-))) (. .))"


def tree_of(text: str) -> Tree:
    (tree,) = parse_trees([text], "text")
    return tree


def test_a_pair_by_hand() -> None:
    source, target = to_pair(tree_of(_TREE))
    assert source == "The dog barks -LRB- ."
    assert target == "(S (NP DT NN )NP (VP VBZ (PRT -LRB- )PRT )VP . )S"


@given(trees)
def test_there_and_back(tree: Tree) -> None:
    source, target = to_pair(tree)
    assert sentence_words(source) == tree_words(tree)
    assert from_output(target, sentence_words(source)) == (tree, False)


@given(st.text(), st.lists(atoms, min_size=1))
def test_any_output_is_a_tree_over_the_words(output: str, words: list[str]) -> None:
    tree, _ = from_output(output, words)
    assert tree_words(tree) == words
    assert list(parse_trees([str(tree)], "written")) == [tree]


@pytest.mark.parametrize(
    ("output", "tree"),
    [
        ("(S (NP DT NN )NP (VP VBZ )VP )S", "(S (NP (DT a) (NN b)) (VP (VBZ c)))"),
        ("(S (NP DT NN )NP (VP VBZ )VP )S NN", None),  # a leaf too many
        ("(S (NP DT NN )NP (VP )VP )S", None),  # one too few
        ("(S (NP DT NN (VP VBZ )VP )S", None),  # not closed
        ("(S (NP DT N(N )NP (VP VBZ )VP )S", None),  # a tag that could not be written
        ("", None),
    ],
)
def test_what_counts_as_repaired(output: str, tree: str | None) -> None:
    found, repaired = from_output(output, ["a", "b", "c"])
    assert repaired == (tree is None)
    assert tree is None or str(found) == tree
    assert tree_words(found) == ["a", "b", "c"]


@given(st.text())
def test_words_of_any_line_can_be_leaves(line: str) -> None:
    assert all(is_atom(word) for word in sentence_words(line))


def test_words_are_separated_as_in_trees() -> None:
    assert sentence_words("10\u00a0mg  of\tf(x)\u2028y \r") == ["10\u00a0mg", "of", "f-LRB-x-RRB-\u2028y"]
    assert sentence_words(" \t") == []


def test_what_should_be_one_piece() -> None:
    for text in ("(NP", ")NP", "(TOP", "-LRB-", "-RCB-", "PRP$"):
        assert re.fullmatch(WHOLE, text)
    for text in ("NP", "(", "(<s>", "-NONE-", "prp$"):
        assert not re.fullmatch(WHOLE, text)
