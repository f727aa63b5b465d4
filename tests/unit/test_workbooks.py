"""XLSX and YAML: texts change, and the owners of the formats read the rest as it was."""

import io
import zipfile

import pytest
import yaml

from made_documents import member, translated
from text_engine import same
from transduce.errors import DataError


def _workbook() -> bytes:
    """Returns a workbook with what may hold texts, of xlsxwriter."""
    xlsxwriter = pytest.importorskip("xlsxwriter", reason="xlsxwriter is not installed: pip install '.[dev]'")
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as made:
        sheet = made.add_worksheet("the sheet")
        sheet.write_row("A1", ["a dog & cat", 1.5, "yes", "open", "A-1x", " the end\nof it "])
        sheet.write_rich_string("A2", "A ", made.add_format({"bold": True}), "big dog", " runs")
        sheet.write_formula("A3", '=IF(C1="Yes",1,2)')
        sheet.write_formula("A4", '=COUNTIF(C:C,"<>Done")+SUMIF(C:C,"=late",B:B)')
        sheet.write_row("C3", ["done", "late"])
        sheet.write_formula("A7", '=COUNTIF(E:E,"ja*")&VLOOKUP("f?sh [~*]",E:F,2)')
        sheet.write_formula("B7", '=IF(1,"the c*")')  # only shows it
        sheet.write_row("C7", ["Jammed wheel", "fish [*]"])
        sheet.write_row("C8", ["a jam", "fish [x]", "the cat"])
        sheet.data_validation("D1", {"validate": "list", "source": ["open", "closed"]})
        heads = [{"header": "the name"}, {"header": "the size"}]
        sheet.add_table("A5:B6", {"columns": heads, "data": [["a cat", 2]]})
        sheet.write_row("A8", ["one\r\ntwo _x0041_", "kept"])
        made.define_name("choice", '=IF(1,"Kept")')
        sheet.write_comment("A1", "a note")
        sheet.insert_textbox("F3", "a text box")
        chart = made.add_chart({"type": "bar"})
        chart.add_series({"values": "='the sheet'!$B$6", "categories": "='the sheet'!$A$6", "name": "a series"})
        chart.set_title({"name": "a title"})
        sheet.insert_chart("F9", chart, {"description": "a picture of it"})
    return file.getvalue()


def test_only_texts_of_a_workbook_are_translated() -> None:
    given = _workbook()
    found = translated(given, "a.xlsx")
    strings = member(found, "xl/sharedStrings.xml")
    for text in ("A DOG &amp; CAT", " THE END\nOF IT ", "A CAT", " BIG DOG ", "ONE_x000D_\nTWO _X0041_"):
        assert f">{text}</t>" in strings
    for text in ("yes", "open", "done", "late", "A-1x", "the name", "the size", "kept"):  # named, or codes
        assert f">{text}</t>" in strings
    for text in ("Jammed wheel", "fish [*]", "A JAM", "FISH [X]", "THE CAT"):  # two are found by wildcards
        assert f">{text}</t>" in strings
    assert ">A NOTE</t>" in member(found, "xl/comments1.xml")
    chart = member(found, "xl/charts/chart1.xml")
    assert all(text in chart for text in (">A TITLE<", ">A SERIES<", ">A CAT<", "<c:v>2</c:v>", "'the sheet'!$B$6"))
    drawing = member(found, "xl/drawings/drawing1.xml")
    assert ">A TEXT BOX<" in drawing
    assert 'descr="A PICTURE OF IT"' in drawing
    for name in ("xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/tables/table1.xml", "xl/styles.xml"):
        assert member(found, name) == member(given, name)
    assert translated(given, "a.xlsx", same) == given
    longer = member(translated(given, "a.xlsx", lambda text: f"{text} end"), "xl/sharedStrings.xml")
    assert ">one end_x000D_\ntwo _x005F_x0041_ end</t>" in longer


def test_words_in_an_element_that_the_format_does_not_have_stay() -> None:
    given = _workbook()
    string = b'<t xml:space="preserve"> the end\nof it </t>'
    file, changed = zipfile.ZipFile(io.BytesIO(given)), io.BytesIO()
    with zipfile.ZipFile(changed, "w") as odd:
        for item in file.infolist():
            data = file.read(item)
            assert (item.filename == "xl/sharedStrings.xml") == (string in data)
            odd.writestr(item, data.replace(string, b"<x>" + string + b"</x>"))
    strings = member(translated(changed.getvalue(), "a.xlsx"), "xl/sharedStrings.xml")
    assert "<x>" + string.decode() + "</x>" in strings
    assert ">A DOG &amp; CAT</t>" in strings


YAML = {
    "plain": ("a: Hi, {name} 😀 it # c\nb: [one, 'two, x', 3]\n", "a: HI, {name} 😀 IT # c\nb: [ONE, 'TWO, X', 3]\n"),
    "no texts": ("a: yes\nb: 2026-11-26\nc: !x foo\n? d e\n: 1\n", "a: yes\nb: 2026-11-26\nc: !x foo\n? d e\n: 1\n"),
    "anchors": ("a: &x a dog\nb: *x\nc: !!str a cat\n", "a: &x A DOG\nb: *x\nc: !!str A CAT\n"),
    "quotation marks": ("a: 'don''t'\nb: \"a\\u00e9 \\\"x\\\"\\n\"\n", "a: 'DON''T'\nb: \"AÉ \\\"X\\\"\\n\"\n"),
    "literal": ("a: |\n  one:\n\n    two\n\nb: x\n", "a: |\n  ONE:\n\n    TWO\n\nb: X\n"),
    "folded": ("a: >-\n  one\n  two\n\n  three\n", "a: >-\n  ONE TWO\n\n  THREE\n"),
    "indented by hand": ("- |2+\n    a\n   b\n\n", "- |2+\n    A\n   B\n\n"),
    "white space at the end": ("a: |\n  one  \nb: |\n  two\n   \nc: d\n", "a: |\n  ONE  \nb: |\n  TWO\n   \nc: D\n"),
    "lines that returns end": ("a: |\r  one\r  two\rb: c\r", "a: |\r  ONE\r  TWO\rb: C\r"),
    "several lines": ("a: one\n  two\nb: c\n", "a: ONE TWO\nb: C\n"),
}


@pytest.mark.parametrize("case", YAML)
def test_only_values_of_yaml_are_translated(case: str) -> None:
    given, expected = YAML[case]
    found = translated(given.encode(), "a.yml").decode()
    assert found == expected
    assert translated(given.encode(), "a.yaml", same).decode() == given


@pytest.mark.parametrize(
    "text", ["a: b", "# b", "yes", "5", "- a", "a\nb", " a", "a ", "'a'", '"', "@a", "é 😀", "a [b, c]"]
)
@pytest.mark.parametrize(
    "given", ["k: dog\n", "k: [dog]\n", "k: 'dog'\n", 'k: "dog"\n', "k: |-\n  dog\n", "k: >-\n  dog\n"]
)
def test_any_translation_is_read_as_it_is(given: str, text: str) -> None:
    found = yaml.safe_load(translated(given.encode(), "a.yaml", lambda _: f"dog {text}"))
    expected = " ".join(f"dog {text}".split())
    assert " ".join("".join(found["k"]).split()) == expected


@pytest.mark.parametrize("sign", ["\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize(
    ("given", "end"),
    [
        ("k: |\n  dog\nl: 1\n", "\n"),
        ("k: >-\n  dog\n\nl: 1\n", ""),
        ("k: |+\n  dog\n\nl: 1\n", "\n\n"),
        ("k: dog\nl: 1\n", ""),
    ],
)
def test_line_ends_of_yaml_alone_are_escaped(given: str, end: str, sign: str) -> None:
    """Signs that YAML 1.1 reads as line ends, and other programs do not: "\\N", "\\L" and "\\P" in quotation marks."""
    found = translated(given.encode(), "a.yaml", lambda _: f"dog a{sign}b").decode()
    assert sign not in found
    assert yaml.safe_load(found) == {"k": f"dog a{sign}b{end}", "l": 1}


def test_damaged_yaml_is_refused() -> None:
    with pytest.raises(DataError, match=r"a.yaml: line 2: is not YAML: did not find"):
        translated(b"a: [b\n", "a.yaml")
