"""Bracketed text becomes trees in any layout, and what is no tree becomes an error that says where."""

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given

from transduce.errors import DataError
from transduce.treebank import Leaf, Tree, escape_brackets, parse_trees, read_trees, unescape_brackets
from transduce.treebank.trees import MAX_HEIGHT, parse_line
from tree_strategies import atoms, trees

_DOG = Tree("S", (Tree("NP", (Leaf("DT", "The"), Leaf("NN", "dog"))), Tree("VP", (Leaf("VBZ", "barks"),))))

_MRG = """
( (S
    (NP-SBJ (DT The) (NN dog) )
    (VP (VBZ barks)
      (S (-NONE- *T*-1) ))
    (. .) ))
( (S (NP (NN Rain) ) ))
"""


def parse(text: str) -> list[Tree]:
    return list(parse_trees(text.split("\n"), "a.mrg"))


def test_one_tree_a_line() -> None:
    assert parse("(S (NP (DT The) (NN dog)) (VP (VBZ barks)))\n\n(S (NP (DT The) (NN dog)) (VP (VBZ barks)))") == [
        _DOG,
        _DOG,
    ]
    assert str(_DOG) == "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))"
    assert [leaf.word for leaf in _DOG.leaves()] == ["The", "dog", "barks"]
    assert _DOG.height == 2


def test_penn_treebank_layout() -> None:
    first, second = parse(_MRG)
    assert str(first) == "(TOP (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ barks) (S (-NONE- *T*-1))) (. .)))"
    assert str(second) == "(TOP (S (NP (NN Rain))))"


def test_layout_does_not_matter() -> None:
    assert parse("(S(NP(DT The)(NN dog))(VP(VBZ barks)))") == [_DOG]
    assert parse("(S (NP (DT\nThe) (\nNN dog\n) ) \t(VP\n\n(VBZ barks)))") == [_DOG]
    assert parse("(A (B c))(A (B c))  (A (B c))") == [Tree("A", (Leaf("B", "c"),))] * 3


def test_only_ascii_white_space_separates() -> None:
    (tree,) = parse("(NP (CD 5\N{NO-BREAK SPACE}000))")
    assert tree.leaves() == [Leaf("CD", "5\N{NO-BREAK SPACE}000")]


@given(trees)
def test_what_is_written_reads_back(tree: Tree) -> None:
    assert parse(str(tree)) == [tree]


@given(trees)
def test_tokens_on_lines_of_their_own_read_the_same(tree: Tree) -> None:
    assert parse(str(tree).replace(" ", "\n").replace("(", "\n(\n")) == [tree]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("(S (NP (NN dog))", "line 1, column 1", r"never closed\. Add the missing '\)'"),
        ("(S (NP (NN dog))\n  (VP (VB x)\n(S (NP (NN cat)))", "line 2, column 3", "Perhaps before line 3: another"),
        ("(S (NN dog))\n (NN cat))", "line 2, column 2", r"the leaf \(NN cat\) is in no constituent"),
        ("(S (NN dog)))", "line 1, column 13", "closes nothing"),
        ("(S (NN dog)) and", "line 1, column 14", "stray text 'and' outside"),
        ("A dog barks.", "line 1, column 1", "Is this a file of bracketed trees"),
        ("(S\n (NP (DT the) dog))", "line 2, column 15", r"'dog' has no tag.*\(TAG dog\)"),
        ("(S (NP the dog))", "line 1, column 12", "'dog' is a second word"),
        ("(S (NP (dog)))", "line 1, column 8", r"a tag or a word, not both"),
        ("(S ((NN dog)))", "line 1, column 4", "a constituent without a label"),
        ("(S (NN dog) ())", "line 1, column 13", "nothing inside"),
        ("(S (NN dog (NN cat)))", "line 1, column 12", r"a bracket within the leaf '\(NN dog'"),
        ("(S (NN dog)", "line 1, column 1", "never closed"),
    ],
)
def test_errors_say_where_and_what(text: str, where: str, what: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        parse(text)
    assert str(caught.value).startswith(f"a.mrg, {where}: ")


def test_too_many_open_brackets_are_an_error_and_not_a_crash() -> None:
    with pytest.raises(DataError, match=f"more than {MAX_HEIGHT}"):
        parse("(S " * 100_000)
    with pytest.raises(DataError, match=f"more than {MAX_HEIGHT} .* before line 2: another tree seems to begin there"):
        parse("(S (NN dog)\n" * 300)
    with pytest.raises(DataError, match=r"line 3, column 1: this bracket is never closed\. Add the missing '\)'\.$"):
        parse("(S (NN dog)\n(NN cat))\n(S (NN cat)\n")  # the guess is about the tree that is open
    highest = "(S " * MAX_HEIGHT + "(NN dog)" + ")" * MAX_HEIGHT
    assert parse(highest)[0].height == MAX_HEIGHT
    with pytest.raises(DataError, match="more than"):
        Tree("S", (parse(highest)[0],))


def test_what_could_not_be_read_back_is_refused() -> None:
    for text in ("", "a b", "(", "x)", "a\nb"):
        with pytest.raises(DataError, match="word"):
            Leaf("NN", text)
        with pytest.raises(DataError, match="tag"):
            Leaf(text, "dog")
        with pytest.raises(DataError, match="label"):
            Tree(text, (Leaf("NN", "dog"),))
    with pytest.raises(DataError, match="NP has no children"):
        Tree("NP", ())


def test_a_line_may_hold_anything() -> None:
    assert parse_line("", "x") == []
    assert parse_line("(P this) (Q is)", "x") == [Leaf("P", "this"), Leaf("Q", "is")]
    with pytest.raises(DataError, match="x, line 7, column 1"):
        parse_line("(S (P this)", "x", 7)


def test_trees_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "trees"
    path.write_text("(S (NN dog))\n(S (NN cat))\n(S", encoding="utf-8")
    assert [str(tree) for tree in islice(read_trees(path), 2)] == ["(S (NN dog))", "(S (NN cat))"]
    with pytest.raises(DataError, match="line 3"):
        list(read_trees(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.mrg: cannot be read: No such file"):
        list(read_trees(tmp_path / "missing.mrg"))
    (tmp_path / "latin1.mrg").write_bytes("(S (NN Köter))".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin1\.mrg: not UTF-8 \(byte 0xf6\)"):
        list(read_trees(tmp_path / "latin1.mrg"))


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "bom.mrg").write_bytes(b"\xef\xbb\xbf(S (NN dog))")
    assert [str(tree) for tree in read_trees(tmp_path / "bom.mrg")] == ["(S (NN dog))"]


def test_round_brackets_of_the_text_are_escaped() -> None:
    assert escape_brackets("f(x)") == "f-LRB-x-RRB-"
    assert unescape_brackets("-LRB-") == "("
    Leaf("NN", escape_brackets("f(x)"))


@given(atoms)
def test_escaping_leaves_other_words_alone(word: str) -> None:
    assert escape_brackets(word) == word
