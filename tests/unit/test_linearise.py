"""A linearised tree is what the paper's authors wrote, and becomes the same tree again."""

import pytest
from hypothesis import given

from transduce.errors import DataError
from transduce.treebank import Tree, delinearise, linearise
from transduce.treebank.trees import parse_line
from tree_strategies import trees

_WORDS = ["John", "has", "a", "dog", "."]


def example() -> Tree:
    # The example of Vinyals et al. (2015), figure 2.
    (tree,) = parse_line("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))", "test")
    assert isinstance(tree, Tree)
    return tree


def test_the_cited_example() -> None:
    assert " ".join(linearise(example(), keep_tags=True)) == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    assert " ".join(linearise(example())) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"


def test_tags_come_from_the_tokens_or_from_the_caller() -> None:
    tokens = linearise(example(), keep_tags=True)
    assert delinearise(tokens, _WORDS) == example()
    tags = ["A", "B", "C", "D", "E"]
    assert [leaf.tag for leaf in delinearise(tokens, _WORDS, tags).leaves()] == tags
    assert {leaf.tag for leaf in delinearise(linearise(example()), _WORDS).leaves()} == {"XX"}


@given(trees)
def test_round_trip(tree: Tree) -> None:
    words, tags = [leaf.word for leaf in tree.leaves()], [leaf.tag for leaf in tree.leaves()]
    assert delinearise(linearise(tree), words, tags) == tree
    assert delinearise(linearise(tree, keep_tags=True), words) == tree


@pytest.mark.parametrize(
    ("tokens", "num_words", "message"),
    [
        ("", 0, "there are no tokens"),
        ("XX", 1, r"token 1 \(XX\): is outside"),
        (")S", 0, r"token 1 \(\)S\): is outside"),
        ("(S XX", 1, r"\(S is never closed"),
        ("(S (NP XX )VP )S", 1, r"token 4 \(\)VP\): the innermost open bracket is \(NP"),
        ("(S XX )S XX", 2, r"token 4 \(XX\): the tree ends"),
        ("(S XX )S (S", 1, r"token 4 \(\(S\): the tree ends"),
        ("(S (NP )NP XX )S", 1, r"token 3 \(\)NP\): closes a constituent with nothing inside"),
        ("(S XX XX )S", 1, r"token 3 \(XX\): there are only 1 word"),
        ("(S XX )S", 2, "the tree has 1 leaf for 2 words"),
        ("( XX ) ", 1, "'' cannot be a constituent's label"),
    ],
)
def test_errors(tokens: str, num_words: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        delinearise(tokens.split(), ["word"] * num_words)


def test_tags_must_match_the_words() -> None:
    with pytest.raises(DataError, match="2 tags for 1 word"):
        delinearise(["(S", "XX", ")S"], ["dog"], ["NN", "NN"])
