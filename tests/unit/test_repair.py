"""Any tokens become a tree over the given words; what is well-formed stays, and what is not changes little."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from transduce.errors import DataError
from transduce.treebank import Tree, linearise, repair
from transduce.treebank.trees import MAX_HEIGHT, parse_line
from tree_strategies import atoms, trees

_FEW_LABELS = st.sampled_from(["(S", "(NP", "(VP", ")S", ")NP", ")VP", "XX", "XX"])
_ANYTHING = _FEW_LABELS | st.text(max_size=4) | st.sampled_from(["(", ")", "", "( )", "</s>", "((S", "(TOP", ")TOP"])


def repaired(tokens: str, num_words: int) -> str:
    """Returns the repaired tree, linearised."""
    return " ".join(linearise(repair(tokens.split(), ["word"] * num_words)))


@given(trees)
def test_a_linearised_tree_stays_as_it_is(tree: Tree) -> None:
    words, tags = [leaf.word for leaf in tree.leaves()], [leaf.tag for leaf in tree.leaves()]
    assert repair(linearise(tree), words, tags) == tree
    assert repair(linearise(tree, keep_tags=True), words) == tree


@given(st.lists(_ANYTHING, max_size=40), st.lists(atoms, min_size=1, max_size=12))
def test_anything_becomes_a_tree_over_the_words(tokens: list[str], words: list[str]) -> None:
    tree = repair(tokens, words)
    assert [leaf.word for leaf in tree.leaves()] == words
    assert parse_line(str(tree), "test") == [tree]


@given(st.lists(_FEW_LABELS, max_size=30), st.integers(1, 8))
def test_no_constituent_is_invented(tokens: list[str], num_words: int) -> None:
    """Each constituent has a bracket of its label in the input; only TOP may be new, once."""
    tree = repair(tokens, ["word"] * num_words)
    opened = [token for token in linearise(tree) if token.startswith("(")]
    assert opened.count("(TOP") <= 1
    for label in ("S", "NP", "VP"):
        assert opened.count(f"({label}") <= tokens.count(f"({label}") + tokens.count(f"){label}")


@given(trees, st.integers(0, 5))
def test_brackets_cut_off_at_the_end_come_back(tree: Tree, num_lost: int) -> None:
    tokens = linearise(tree)
    num_closing = next(count for count, token in enumerate(reversed(tokens)) if not token.startswith(")"))
    kept = tokens[: len(tokens) - min(num_lost, num_closing)]
    assert repair(kept, [leaf.word for leaf in tree.leaves()], [leaf.tag for leaf in tree.leaves()]) == tree


@given(trees)
def test_a_bracket_lost_at_the_beginning_comes_back(tree: Tree) -> None:
    first = tree.children[0]
    assume(len(tree.children) > 1 or not (isinstance(first, Tree) and first.label == tree.label))
    words, tags = [leaf.word for leaf in tree.leaves()], [leaf.tag for leaf in tree.leaves()]
    assert repair(linearise(tree)[1:], words, tags) == tree


@pytest.mark.parametrize(
    ("tokens", "num_words", "expected"),
    [
        # Leaves: too few, too many, none.
        ("(S (NP XX )NP (VP XX )VP )S", 4, "(S (NP XX )NP (VP XX XX XX )VP )S"),
        ("(S (NP XX )NP (VP XX XX )VP XX )S", 2, "(S (NP XX )NP (VP XX )VP )S"),
        ("(S (NP XX )NP (VP XX )VP )S", 1, "(S (NP XX )NP )S"),
        ("(S (NP )NP )S", 2, "(S (NP XX XX )NP )S"),
        ("", 2, "(TOP XX XX )TOP"),
        ("XX XX", 2, "(TOP XX XX )TOP"),
        # Closing brackets: missing, wrong, too many.
        ("(S (VP XX (NP XX )VP )S", 2, "(S (VP XX (NP XX )NP )VP )S"),
        ("(S (NP XX )VP (VP XX )VP )S", 2, "(S (NP XX )NP (VP XX )VP )S"),
        ("(S XX )NP XX )S", 2, "(S XX XX )S"),
        ("(S XX )NP", 1, "(S XX )S"),
        ("(S XX )S )S )S", 1, "(S XX )S"),
        (")NP (S XX )S", 1, "(S XX )S"),
        # Opening brackets: missing, too many.
        ("(NP XX )NP (VP XX )VP )S", 2, "(S (NP XX )NP (VP XX )VP )S"),
        ("XX XX )S", 2, "(S XX XX )S"),
        ("(NP XX )NP (VP XX )VP )NP", 2, "(NP (NP XX )NP (VP XX )VP )NP"),  # one of several pieces has its label
        ("(S (NP XX )NP )S )NP", 1, "(NP (S (NP XX )NP )S )NP"),
        ("(S (NP (VP XX", 1, "(S (NP (VP XX )VP )NP )S"),
        ("(S (NP )NP XX (NP )S", 1, "(S XX )S"),
        # Pieces.
        ("(S XX )S (NP XX )NP", 2, "(TOP (S XX )S (NP XX )NP )TOP"),
        ("(S XX )S XX", 2, "(TOP (S XX )S XX )TOP"),
    ],
)
def test_examples(tokens: str, num_words: int, expected: str) -> None:
    assert repaired(tokens, num_words) == expected


def test_tags_are_the_callers_or_the_tokens() -> None:
    assert str(repair(["(S", "DT", "NN"], ["the", "dog"])) == "(S (DT the) (NN dog))"
    assert str(repair(["(S", "DT"], ["the", "dog"])) == "(S (DT the) (XX dog))"
    assert str(repair(["(S", "a b"], ["dog"])) == "(S (XX dog))"
    assert str(repair(["(S", "XX"], ["the", "dog"], ["DT", "NN"])) == "(S (DT the) (NN dog))"


def test_endless_brackets() -> None:
    assert repair(["(NP"] * 5000, ["dog"]).height < MAX_HEIGHT
    assert repair(["XX", *([")S", ")NP"] * 5000)], ["dog"]).height <= MAX_HEIGHT
    both = repair([*["(NP"] * 5000, "XX", *[")NP"] * 5000, "(NP", "XX", *[")S", ")NP"] * 5000], ["a", "dog"])
    assert both.height <= MAX_HEIGHT


def test_input_that_cannot_be_repaired() -> None:
    with pytest.raises(DataError, match="a tree needs at least one word"):
        repair(["(S", ")S"], [])
    with pytest.raises(DataError, match="1 tag for 2 words"):
        repair([], ["a", "dog"], ["DT"])
    with pytest.raises(DataError, match="-LRB-"):
        repair([], ["f(x)"])
