"""EVALB's parameter files: what they set, and what is wrong with them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from transduce.errors import ConfigError
from transduce.treebank import BracketParameters, read_bracket_parameters

Parse = Callable[[str], BracketParameters]


@pytest.fixture
def parse(tmp_path: Path) -> Parse:
    """Returns a function from the text of a parameter file to what it sets."""

    def parse(text: str) -> BracketParameters:
        path = tmp_path / "x.prm"
        path.write_text(text, encoding="utf-8")
        return read_bracket_parameters(path)

    return parse


def test_a_byte_order_mark_is_no_keyword(tmp_path: Path) -> None:
    (tmp_path / "a.prm").write_bytes(b"\xef\xbb\xbf# Collins\r\nCUTOFF_LEN 25\r\n")
    assert read_bracket_parameters(tmp_path / "a.prm") == BracketParameters(cutoff_length=25)


def test_every_keyword(parse: Parse) -> None:
    parameters = parse(
        """# a comment
DEBUG 1
MAX_ERROR 7

CUTOFF_LEN   30
LABELED 0
DELETE_LABEL TOP
DELETE_LABEL ,
DELETE_LABEL_FOR_LENGTH -NONE-
EQ_LABEL ADVP PRT
EQ_LABEL A B
EQ_WORD  This this
QUOTE_LABEL POS
# DELETE_LABEL S
"""
    )
    assert parameters == BracketParameters(
        max_errors=7,
        cutoff_length=30,
        labelled=False,
        deleted_labels=frozenset(["TOP", ","]),
        deleted_for_length=frozenset(["-NONE-"]),
        equal_labels=frozenset([frozenset(["ADVP", "PRT"]), frozenset(["A", "B"])]),
        equal_words=frozenset([frozenset(["This", "this"])]),
        quote_labels=frozenset(["POS"]),
    )


def test_what_is_not_set_is_as_evalb_begins(parse: Parse) -> None:
    assert parse("") == BracketParameters()
    assert BracketParameters().max_errors == 10
    assert BracketParameters().cutoff_length == 40
    assert BracketParameters().labelled
    assert not BracketParameters().deleted_labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DEBUG 0\nDELETE_LABLE TOP", r"x\.prm, line 2: unknown keyword 'DELETE_LABLE'\. Did you mean 'DELETE_LABEL'"),
        ("DELETE_LABEL", "line 1: DELETE_LABEL takes one value, and has 0"),
        ("DELETE_LABEL TOP S1", "takes one value, and has 2"),
        ("EQ_LABEL ADVP", "EQ_LABEL takes 2 values, and has 1"),
        ("MAX_ERROR ten", "MAX_ERROR takes a whole number, not 'ten'"),
        ("CUTOFF_LEN -1", "CUTOFF_LEN takes a whole number, not '-1'"),
    ],
)
def test_errors(text: str, message: str, parse: Parse) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.prm: cannot be read: No such file"):
        read_bracket_parameters(tmp_path / "none.prm")
    (tmp_path / "binary.prm").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"binary\.prm: not UTF-8"):
        read_bracket_parameters(tmp_path / "binary.prm")
