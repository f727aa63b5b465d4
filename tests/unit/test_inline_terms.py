"""Marks in a line that say what must appear for some of its words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import DataError
from transduce.translation.constraints.inline_terms import read_inline_terms


@pytest.mark.parametrize(
    ("text", "plain", "terms"),
    [
        ("A dog runs.", "A dog runs.", ()),
        ('A <term to="Köter">dog</term> runs.', "A dog runs.", (("Köter",),)),
        ("A <term to='Köter | Köters'>dog</term>", "A dog", (("Köter", "Köters"),)),
        ('<term to="a">x</term><term  to = "b c">y z</term>', "xy z", (("a",), ("b c",))),
        ('<b>A</b> <term to="&quot;Hund&quot; &amp; Co">dog</term>', "<b>A</b> dog", (('"Hund" & Co',),)),
        ("in terms of <terms>", "in terms of <terms>", ()),
        ("a <term-list> of <term.x> and <term:y>", "a <term-list> of <term.x> and <term:y>", ()),
        ('<TERM To="a">x</Term>', "x", (("a",),)),
        ('<term to="a > b">x</term >', "x", (("a > b",),)),
        ('<term to="a">x</term> or <term to="a">y</term>', "x or y", (("a",),)),
    ],
)
def test_marks_are_removed_and_returned(text: str, plain: str, terms: tuple[tuple[str, ...], ...]) -> None:
    assert read_inline_terms(text) == (plain, terms)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('A <term to="Hund">dog', '<term to="Hund"> is never closed'),
        ("A dog</term>", "</term> closes nothing"),
        ('<term to="a">x <term to="b">y</term></term>', '<term to="a"> is not closed before <term to="b">'),
        ('<term to="a"> </term>', '<term to="a"> marks nothing'),
        ("<term>dog</term>", "<term> must name the required term"),
        ('<term to="">dog</term>', "must name the required term"),
        ('<term to="a||b">dog</term>', "must name the required term"),
        ("<term to=Hund>dog</term>", "must name the required term"),
        ('A <term to="Hund"', 'the mark "<term to="Hund"" has no ">"'),
        ('A <term to="Hund>dog</term> runs.', 'the mark "<term to="Hund>dog</term> runs" has no ">"'),
        pytest.param(
            "<term " * 20_000, 'the mark "<term <term <term <term <term " has no ">"', id="many without an end"
        ),
        pytest.param(f'<term to="&#{"1" * 4301};">dog</term>', "must name the required term", id="too many digits"),
    ],
)
def test_a_wrong_mark_is_named_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(DataError, match=re.escape(complaint)) as caught:
        read_inline_terms(text, "in.txt, line 7")
    assert str(caught.value).startswith("in.txt, line 7: ")


@given(st.text())
def test_text_without_marks_stays(text: str) -> None:
    if "term" not in text:
        assert read_inline_terms(text) == (text, ())
