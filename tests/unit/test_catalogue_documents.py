"""JSON, ARB, `.strings` and CSV: values are translated, all else stays byte for byte."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_documents import translated
from text_engine import same
from transduce.errors import ConfigError, DataError
from transduce.translation.documents import Languages
from transduce.translation.documents.csv_tables import NAMES_COPIED, NAMES_UNKNOWN
from transduce.translation.documents.job import NO_TEXT

CATALOGUES = {
    "json values, no keys": (
        "a.json",
        '{ "a dog" : "a dog",\r\n\t"n": [1.50, 1e9, "two", null], "e": "" }\n',
        '{ "a dog" : "A DOG",\r\n\t"n": [1.50, 1e9, "TWO", null], "e": "" }\n',
    ),
    "a text alone": ("a.json", ' "a dog"\n', ' "A DOG"\n'),
    "escapes": (
        "a.json",
        r'["\u00e9t\u00e9 \"x\" a\/b\nc", "\u003cb\u003ehi you\u003c/b\u003e", "\ud83d dog"]',
        r'["ÉTÉ \"X\" A\/B\nC", "\u003cb\u003eHI YOU\u003c/b\u003e", "\ud83d dog"]',
    ),
    "placeholders": (
        "a.json",
        '["Hi {name}, {{count}} of %s or %(n)s", "see $t(a.dog), @:b.c and %{who} now", "<1>a dog</1> of <b>mine</b>"]',
        '["HI {name}, {{count}} OF %s OR %(n)s", "SEE $t(a.dog), @:b.c AND %{who} NOW", "<1>A DOG</1> OF <b>MINE</b>"]',
    ),
    "choices": (
        "a.arb",
        '{"a": "He has {n, plural, offset:1 =0 {no dog} other {# of {sex, select, male {his} other{its}} dogs}}."}',
        '{"a": "HE HAS {n, plural, offset:1 =0 {NO DOG} other {# OF {sex, select, male {HIS} other{ITS}} DOGS}}."}',
    ),
    "arb": (
        "a.arb",
        '{"@@locale": "en_US", "@@context": "a page", "hi": "Hi", "@hi": {"note": "a greeting", "x": ["y"]}}',
        '{"@@locale": "pt_BR", "@@context": "a page", "hi": "HI", "@hi": {"note": "a greeting", "x": ["y"]}}',
    ),
    "strings": (
        "a.strings",
        '/* a "note" = "x"; */\n"a dog" = "Hi \\"you\\",\\n%1$@";\r\n// b = "c";\nKey.a="a \\U00e9";\n"only"; "n"=5;\n',
        '/* a "note" = "x"; */\n"a dog" = "HI \\"YOU\\",\\n%1$@";\r\n// b = "c";\nKey.a="A É";\n"only"; "n"=5;\n',
    ),
    "an emoji as genstrings writes it": (
        "a.strings",
        '"a" = "a dog \\Ud83d\\Udc36";\n',
        '"a" = "A DOG \U0001f436";\n',
    ),
    "cells": (
        "a.csv",
        'id,name,made,sum\r\nA-1x,"a ""big"" dog, old",2026-11-26T10:00Z,=SUM(A1)\r\n,"two\nlines",,-3.5\r\n\r\nx',
        'id,name,made,sum\r\nA-1x,"A ""BIG"" DOG, OLD",2026-11-26T10:00Z,=SUM(A1)\r\n,"TWO\nLINES",,-3.5\r\n\r\nX',
    ),
    "semicolons": ("a.csv", "a dog, old;1,5\n\na cat;2,5", "A DOG, OLD;1,5\n\nA CAT;2,5"),
    "commas between tabs": ("a.tsv", "a dog, b\t=1, c\n", "A DOG, B\t=1, c\n"),
    "quotation marks within": ("a.tsv", 'a 5" dog\tx\n', 'A 5" DOG\tX\n'),
}


@pytest.mark.parametrize("case", CATALOGUES)
def test_only_values_are_translated(case: str) -> None:
    name, source, expected = CATALOGUES[case]
    languages = Languages("en", "pt-BR")
    found = translated(source.encode(), name, languages=languages).decode()
    assert found == expected
    assert translated(source.encode(), name, same).decode() == source


def test_a_catalogue_keeps_its_encoding() -> None:
    source = '"a" = "a dog";\n'.encode("utf-16")
    assert translated(source, "a.strings").decode("utf-16") == '"a" = "A DOG";\n'
    assert translated(b"\xef\xbb\xbfa dog,b\n", "a.csv") == b"\xef\xbb\xbfA DOG,B\n"


@pytest.mark.parametrize("name", ["a.json", "a.arb"])
def test_a_value_with_half_of_a_character_is_named(name: str) -> None:
    source, warnings = rb'{"u": "A dog \ud800 runs.", "v": "a cat", "w": "\ud800"}', list[str]()
    assert translated(source, name, warn=warnings.append) == source.replace(b"a cat", b"A CAT")
    assert warnings == [
        f"{name}: '\"A dog \\\\ud800 runs.\"': has half of a character (a lone surrogate): left as it was, "
        "in the source language. Correct it."
    ]


def test_a_cell_that_needs_quotation_marks_gets_them() -> None:
    def comma(text: str) -> str:
        return text.replace(" ", ', "')

    assert translated(b"a dog,b\n", "a.csv", comma) == b'"a, ""dog",b\n'
    assert translated(b'a "dog" runs,b\n', "a.csv", lambda text: text.removeprefix("a ")) == b'"""dog"" runs",b\n'


def test_spaces_after_a_cell_in_quotation_marks_stay() -> None:
    """As Python's csv module reads them, the delimiter in the cell is none."""
    source = b'id,text\n7,"a dog, or ""two"""  \n8,"a ""cat"" " ,x\n'
    assert translated(source, "a.csv", columns=("text",)) == (b'id,text\n7,"A DOG, OR ""TWO"""  \n8,"A ""CAT"" " ,x\n')


@pytest.mark.parametrize("columns", [("text",), ("2",)])
def test_columns_are_chosen_by_heading_or_number(columns: tuple[str, ...]) -> None:
    source = b"name,text\na dog,a dog\nb,c\n"
    assert translated(source, "a.csv", columns=columns) == b"name,text\na dog,A DOG\nb,C\n"


def test_all_columns_of_a_name_are_chosen() -> None:
    source = b"text,id,text,1\na,b,c,d\n"
    assert translated(source, "a.csv", columns=("text",)) == b"text,id,text,1\nA,b,C,d\n"
    assert translated(source, "a.csv", columns=("1", "2")) == b"text,id,text,1\na,B,c,D\n"  # a name before a number


@pytest.mark.parametrize(
    ("source", "expected", "remark"),
    [
        (b"id,name,price\n7,a dog,3.50\n", b"id,name,price\n7,A DOG,3.50\n", NAMES_COPIED),  # numbers below names
        (b",word\n0,dog\n1,cat\n", b",word\n0,DOG\n1,CAT\n", NAMES_COPIED),  # an index without a name
        (b"Name;Text\nDog;it barks\nCat;it purrs\n", b"Name;Text\nDOG;IT BARKS\nCAT;IT PURRS\n", NAMES_COPIED),
        (b"Name;Text\nDog;it barks\nCat; \n", b"Name;Text\nDOG;IT BARKS\nCAT; \n", NAMES_COPIED),  # an empty cell
        (b"Dog;Text\nDog;barks\nCat;it purrs\n", b"DOG;TEXT\nDOG;BARKS\nCAT;IT PURRS\n", NAMES_UNKNOWN),
        (b"the dog,a hat\nthe cat,a cat\n", b"THE DOG,A HAT\nTHE CAT,A CAT\n", NAMES_UNKNOWN),  # no single words
        (b"dog,7\ncat,8\n", b"DOG,7\nCAT,8\n", ""),  # names are no numbers
        (b"dog,dog\n7,8\n", b"DOG,DOG\n7,8\n", ""),  # nor are two of them equal
        (b"Text\nit barks\nit purrs\n", b"Text\nIT BARKS\nIT PURRS\n", NAMES_COPIED),  # a single column
        (b"Text\nit barks\npurrs\n", b"TEXT\nIT BARKS\nPURRS\n", NAMES_UNKNOWN),
        (b"the dog\nit barks\n", b"THE DOG\nIT BARKS\n", NAMES_UNKNOWN),
        (b"sep=;\r\nid;text\r\n7;a dog, old\r\n", b"sep=;\r\nid;text\r\n7;A DOG, OLD\r\n", NAMES_COPIED),
        (b"SEP=^\na dog^a cat,8\n", b"SEP=^\nA DOG^A CAT,8\n", ""),
        (b"sep=,", b"sep=,", NO_TEXT),
        (b"dog,price\n\n", b"DOG,PRICE\n\n", ""),  # nothing is below
    ],
)
def test_a_first_line_of_names_is_copied(source: bytes, expected: bytes, remark: str) -> None:
    warnings: list[str] = []
    assert translated(source, "a.csv", warn=warnings.append) == expected
    assert warnings == ([f"a.csv: {remark}"] if remark else [])


def test_columns_are_those_of_the_line_after_the_separator_of_excel() -> None:
    source = b"\xef\xbb\xbfsep=;\nname;text\na, dog;a dog\n"
    assert translated(source, "a.csv", columns=("text",)) == b"\xef\xbb\xbfsep=;\nname;text\na, dog;A DOG\n"
    with pytest.raises(DataError, match=r"^a.csv: line 3: a cell begins with a quotation mark"):
        translated(b'sep=;\nid;text\n"7;a dog\n', "a.csv")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(("*",), b"ID,TEXT\n7,A DOG\nA CAT,B\n"), (("*", "2"), b"id,TEXT\n7,A DOG\na cat,B\n")],
)
def test_the_first_line_is_translated_where_that_is_wanted(columns: tuple[str, ...], expected: bytes) -> None:
    assert translated(b"id,text\n7,a dog\na cat,b\n", "a.csv", columns=columns) == expected


def test_a_damaged_first_line_names_its_file() -> None:
    with pytest.raises(DataError, match=r"^a.csv: line 1: a cell begins with a quotation mark"):
        translated(b'"id,text\n7,a dog\n', "a.csv")


def test_columns_that_are_not_there_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"a.csv: has no column 'x'. Its columns are: name, text\."):
        translated(b"name,text\n", "a.csv", columns=("x",))
    with pytest.raises(ConfigError, match=r"a.json: is JSON: columns are chosen in CSV files only\."):
        translated(b'"x"', "a.json", columns=("x",))


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("a.json", '{"a": "b",}', r"a.json: line 1, column 11: is not JSON: "),
        ("a.json", "[" * 100_000, r"a.json: cannot be read as JSON: maximum recursion"),
        ("a.arb", "", r"a.arb: line 1, column 1: is not JSON: Expecting value"),
        ("a.strings", '"a" = "b";\n"c" = d e;', r"a.strings: the entry after line 1 is not of the form"),
        ("a.csv", 'a\nb,"c\nd', r"a.csv: line 2: a cell begins with a quotation mark"),
    ],
)
def test_damaged_catalogues_are_refused(name: str, source: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        translated(source.encode(), name)


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["a {b} c", "{n, plural, one {a} other {b}}", "<b>a</b>", "{", "}}", '"', "\\n", "a\tb", "#"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
)


@given(_VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_any_json_stays_as_it_is_if_nothing_changes(value: object, ascii_only: bool, indent: int | None) -> None:
    source = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert translated(source.encode(), "a.json", same).decode() == source
    json.loads(translated(source.encode(), "a.json"))


@settings(max_examples=50)
@given(st.lists(st.lists(_TEXTS, min_size=2, max_size=2), min_size=1, max_size=4))
def test_any_table_has_its_rows_and_cells(rows: list[list[str]]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["h", "i"], *rows])
    source = file.getvalue()
    if "\0" in source:
        return
    assert translated(source.encode(), "a.csv", same).decode() == source
    found = list(csv.reader(io.StringIO(translated(source.encode(), "a.csv").decode(), newline="")))
    assert [len(row) for row in found] == [2] * (len(rows) + 1)
