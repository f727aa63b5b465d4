"""Normalised trees have no traces, no function tags and no mark of the top; all else stays."""

import pytest
from hypothesis import given

from transduce.treebank import Tree, normalise
from transduce.treebank.normalise import TRACE, strip_functions
from transduce.treebank.trees import parse_line
from tree_strategies import trees


def tree_of(text: str) -> Tree:
    (tree,) = parse_line(text, "test")
    assert isinstance(tree, Tree)
    return tree


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # EVALB's manual has this example of traces.
        ("(S (VP (VBD reported) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (. .))", "(S (VP (VBD reported)) (. .))"),
        ("(S (NP-SBJ-1 (PRP We)) (VP=2 (VBD left)))", "(S (NP (PRP We)) (VP (VBD left)))"),
        ("(S (PRN (-LRB- -LRB-) (NP-TMP (CD 1999)) (-RRB- -RRB-)))",) * 2,
        ("(TOP (S (UH Yes)))", "(S (UH Yes))"),
        ("(ROOT (S1 (FRAG (UH Yes))))", "(FRAG (UH Yes))"),
        ("(ROOT (S (UH Yes)) (. .))", "(TOP (S (UH Yes)) (. .))"),
        ("(S1 (UH Yes))", "(TOP (UH Yes))"),
        ("(TOP (S (NP (-NONE- *))) (NP (NN Rain)))", "(NP (NN Rain))"),
    ],
)
def test_examples(before: str, after: str) -> None:
    after = after.replace("NP-TMP", "NP")
    assert str(normalise(tree_of(before))) == after


def test_nothing_but_traces() -> None:
    assert normalise(tree_of("(TOP (S (NP (-NONE- *))))")) is None


def test_same_label_over_itself_is_collapsed_where_asked() -> None:
    tree = tree_of("(S (NP (NP-SBJ (NP (NN dog)))) (VP (S (VP (VBZ barks)))))")
    assert str(normalise(tree)) == "(S (NP (NP (NP (NN dog)))) (VP (S (VP (VBZ barks)))))"
    assert str(normalise(tree, collapse_unaries=True)) == "(S (NP (NN dog)) (VP (S (VP (VBZ barks)))))"


def test_collapsing_sees_what_removed_traces_leave() -> None:
    tree = tree_of("(S (NP (NP (NN dog)) (SBAR (-NONE- 0))))")
    assert str(normalise(tree, collapse_unaries=True)) == "(S (NP (NN dog)))"


@pytest.mark.parametrize(
    ("label", "stripped"),
    [
        ("NP", "NP"),
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("NP-SBJ=3", "NP"),
        ("-LRB-", "-LRB-"),
        ("ADVP|PRT", "ADVP|PRT"),
    ],
)
def test_function_tags(label: str, stripped: str) -> None:
    assert strip_functions(label) == stripped


@given(trees)
def test_words_stay_and_a_second_time_changes_nothing(tree: Tree) -> None:
    normalised = normalise(tree)
    spoken = [leaf for leaf in tree.leaves() if leaf.tag != TRACE]
    if normalised is None:
        assert spoken == []
        return
    assert normalised.leaves() == spoken
    assert normalise(normalised) == normalised
