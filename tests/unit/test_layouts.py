"""Layouts: what is not translated stays byte for byte, and errors name file and line."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import ConfigError, DataError
from transduce.translation.result import Translation
from transduce.translation.streams import Columns, JsonLines, Layout, PlainLines


def translation(text: str, score: float = -0.5, **values: Any) -> Translation:
    return Translation(text, score, 4 * score, (), True, False, **values)  # as after a length penalty of 4


BEST = translation("Ein\tHund.", confidence=0.75, words=(("Ein", 0.9), ("Hund.", 0.6)))
SECOND = translation("Hund.", -1.5)


def rows(layout: Layout, line: str) -> list[str]:
    return list(layout.rows(line, 7, [BEST, SECOND]))


def test_plain_lines() -> None:
    assert PlainLines().text("A\tdog.", "here") == "A\tdog."
    assert rows(PlainLines(), "A dog.") == ["Ein\tHund."]
    assert rows(PlainLines(scores=True), "A dog.") == ["Ein Hund.\t-0.500000"]
    assert rows(PlainLines(many=True), "A dog.") == ["7\tEin Hund.", "7\tHund."]
    assert rows(PlainLines(many=True, scores=True), "") == ["7\tEin Hund.\t-0.500000", "7\tHund.\t-1.500000"]
    assert rows(PlainLines(confidence=True), "A dog.") == ["Ein Hund.\t0.750000"]


def test_columns() -> None:
    line = "7\t A dog. \t\tend"
    assert Columns(2).text(line, "here") == " A dog. "
    assert rows(Columns(2), line) == [line + "\tEin Hund."]
    assert rows(Columns(2, replace=True), line) == ["7\tEin Hund.\t\tend"]
    assert rows(Columns(2, replace=True, scores=True), line) == ["7\tEin Hund.\t\tend\t-0.500000"]
    assert Columns(2).text("", "here") == ""
    assert rows(Columns(2), "") == [""]


@pytest.mark.parametrize(("line", "count"), [("alone", "1 column"), ("one\ttwo", "2 columns")])
def test_a_missing_column_is_named(line: str, count: str) -> None:
    with pytest.raises(DataError, match=rf"^table\.tsv, line 9: has {count}, and column 3 is to be translated"):
        Columns(3).text(line, "table.tsv, line 9")
    with pytest.raises(ConfigError, match="columns count from 1"):
        Columns(0)


def test_json_lines_keep_the_rest_to_the_letter() -> None:
    line = '  {"id": 1.10, "big":12345678901234567890123, "text": "A \\u0064og.", "x": 1e400 } '
    layout = JsonLines("text")
    assert layout.text(line, "here") == "A dog."
    assert rows(layout, line) == [line.rstrip()[:-1].rstrip() + ', "translation": "Ein\\tHund."}']


def test_json_lines_with_all_fields() -> None:
    layout = JsonLines("text", "de", many=True, scores=True, confidence=True)
    [row] = rows(layout, '{"text": "A dog."}')
    assert json.loads(row) == {
        "text": "A dog.",
        "de": "Ein\tHund.",
        "de_n_best": [
            {"text": "Ein\tHund.", "score": -0.5, "log_probability": -2.0},
            {"text": "Hund.", "score": -1.5, "log_probability": -6.0},
        ],
        "de_score": -0.5,
        "de_confidence": 0.75,
        "de_words": [["Ein", 0.9], ["Hund.", 0.6]],
    }
    aligned = translation("Ein Hund.", alignment=(((0, 1), (0, 3)),), sentences=(((0, 6), (0, 9)),))
    [row] = JsonLines("text", "de", alignment=True).rows('{"text": "A dog."}', 1, [aligned])
    assert json.loads(row) == {
        "text": "A dog.",
        "de": "Ein Hund.",
        "de_alignment": [[[0, 1], [0, 3]]],
        "de_sentences": [[[0, 6], [0, 9]]],
    }
    with pytest.raises(DataError, match="has a field 'de_alignment' already"):
        JsonLines("text", "de", alignment=True).text('{"text": "A", "de_alignment": 1}', "here")
    [row] = layout.rows('{"text": ""}', 1, [translation("", float("-inf"))])
    assert json.loads(row)["de_score"] is None  # JSON has no infinity


def test_numbers_have_six_digits() -> None:
    best = translation("A", -1.23456789, confidence=0.123456789, words=(("A", 0.987654321),))
    assert list(PlainLines(scores=True, confidence=True).rows("a", 1, [best])) == ["A\t-1.234568\t0.123457"]
    assert list(Columns(1, scores=True, confidence=True).rows("a", 1, [best])) == ["a\tA\t-1.234568\t0.123457"]
    [row] = JsonLines("text", "de", many=True, scores=True, confidence=True).rows('{"text": "a"}', 1, [best])
    found = json.loads(row)
    assert (found["de_score"], found["de_confidence"], found["de_words"]) == (-1.234568, 0.123457, [["A", 0.987654]])
    assert found["de_n_best"] == [{"text": "A", "score": -1.234568, "log_probability": -4.938272}]
    nothing = translation("", words=())  # an empty line has no confidence
    assert list(PlainLines(confidence=True).rows("", 1, [nothing])) == ["\t"]
    [row] = JsonLines("text", "de", confidence=True).rows('{"text": ""}', 1, [nothing])
    assert json.loads(row) == {"text": "", "de": "", "de_confidence": None, "de_words": []}


@pytest.mark.parametrize(
    ("option", "suffixes"),
    [
        ("many", ["_n_best"]),
        ("scores", ["_score"]),
        ("confidence", ["_confidence", "_words"]),
        ("alignment", ["_alignment", "_sentences"]),
    ],
)
def test_a_field_that_would_be_written_twice_is_refused(option: str, suffixes: list[str]) -> None:
    asked: dict[str, Any] = {option: True}
    for suffix in suffixes:
        line = json.dumps({"text": "A", f"de{suffix}": 1})
        assert JsonLines("text", "de").text(line, "here") == "A"
        with pytest.raises(DataError, match=f"^here: has a field 'de{suffix}' already"):
            JsonLines("text", "de", **asked).text(line, "here")
    for name in ("de", "de_forced"):  # required terms may be forced in any job
        with pytest.raises(DataError, match=f"has a field '{name}' already"):
            JsonLines("text", "de").text(json.dumps({"text": "A", name: 1}), "here")


def test_terms_that_were_forced_are_a_field_of_lines_that_have_some() -> None:
    forced = translation("A", forced=(("Hund", "Köter"), ("Katze",)))
    [row] = JsonLines("text", "de").rows('{"text": "a"}', 1, [forced])
    assert json.loads(row) == {"text": "a", "de": "A", "de_forced": [["Hund", "Köter"], ["Katze"]]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (json.dumps({f"n{number}": 1 for number in range(9)}), r"It has: n0, n1, n2, n3, n4, n5, n6, n7\.$"),
        (json.dumps({"text": ["a" * 100]}), rf"is not a string, but \[\"{'a' * 38}\.$"),
        ('{"text": "A', r"^f\.jsonl, line 3, column 10: not JSON"),
        ("[1]", r"^f\.jsonl, line 3: is not a JSON object"),
        ("[" * 100_000, r"^f\.jsonl, line 3: not JSON: nested too deep"),
        ('{"text": "A", "n": ' + "1" * 5000 + "}", r"^f\.jsonl, line 3: not JSON: a number of too many digits"),
        ('{"text": "A \\ud83d"}', r"^f\.jsonl, line 3: the field 'text' has half a character, \\ud83d"),
        ('{"txt": "A"}', r"^f\.jsonl, line 3: has no field 'text'\. Did you mean 'txt'\? It has: txt\."),
        ("{}", r"has no field 'text'\. It has: none"),
        ('{"text": null}', r"the field 'text' is not a string, but null"),
        ('{"text": "A", "translation": "B"}', r"has a field 'translation' already: .* --into"),
    ],
)
def test_bad_json_is_named(line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        JsonLines("text").text(line, "f.jsonl, line 3")


def test_a_translation_must_not_replace_its_source() -> None:
    with pytest.raises(ConfigError, match="cannot go into the field"):
        JsonLines("text", "text")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text().filter(lambda name: name not in ("text", "new")), json_values), st.text(), st.text())
def test_any_object_comes_out_with_one_field_more(values: dict[str, Any], source: str, target: str) -> None:
    line = json.dumps(values | {"text": source})
    layout = JsonLines("text", "new")
    assert layout.text(line, "here") == source
    [row] = layout.rows(line, 1, [translation(target)])
    assert json.loads(row) == values | {"text": source, "new": target}
    assert "\n" not in row


cells = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]))


@given(st.lists(cells, min_size=2), cells)
def test_any_row_comes_out_with_one_column_more(columns: list[str], target: str) -> None:
    line = "\t".join(columns)
    assert Columns(2).text(line, "here") == columns[1]
    assert list(Columns(2).rows(line, 1, [translation(target)])) == ["\t".join([*columns, target])]
    replaced = [columns[0], target, *columns[2:]]
    assert list(Columns(2, replace=True).rows(line, 1, [translation(target)])) == ["\t".join(replaced)]
