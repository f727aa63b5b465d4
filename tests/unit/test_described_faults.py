"""What is said about lines that are not aligned, and by which words swapped sides are told."""

from pathlib import Path

import pytest

from transduce.alignment.line_scorer import UNRELATED
from transduce.data.corpus import Part
from transduce.data.misalignment import _describe
from transduce.data.shifted_lines import ShiftedLines
from transduce.data.swapped_sides import _frequent_words_say_swapped

TO_END = "from about line 11 to the end, each line of a.en belongs with "


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ShiftedLines(10, 50, 1, to_end=True),
            f"{TO_END}the line after it in a.de: a.en lacks 1 line there, or a.de has 1 extra line",
        ),
        (
            ShiftedLines(10, 50, -2, to_end=True),
            f"{TO_END}the line 2 lines before it in a.de: a.de lacks 2 lines there, or a.en has 2 extra lines",
        ),
        (
            ShiftedLines(0, 50, -1, to_end=False),
            "from the first line to about line 50, each line of a.en belongs with the line before it in a.de: a.de "
            "lacks 1 line there, or a.en has 1 extra line",
        ),
        (
            ShiftedLines(0, 50, UNRELATED, to_end=True),
            "a.en and a.de do not belong together: a line matches its neighbour no better than other lines",
        ),
        (
            ShiftedLines(10, 50, UNRELATED, to_end=False),
            "a.en and a.de do not belong together from about line 11 to about line 50",
        ),
        (
            ShiftedLines(0, 50, UNRELATED, to_end=False),
            "a.en and a.de do not belong together from the first line to about line 50",
        ),
    ],
)
def test_lines_that_are_not_aligned(lines: ShiftedLines, said: str) -> None:
    assert _describe(Part((Path("a.en"), Path("a.de"))), lines) == said


GERMAN, ENGLISH = "Der Hund ist nicht die Katze", "the dog is that of the cat"  # 4 frequent words, and 4


@pytest.mark.parametrize(
    ("names", "languages", "pairs", "is_swapped"),
    [
        ("a.en a.de", ("", ""), [(GERMAN, ENGLISH)], True),
        ("a.en a.de", ("", ""), [(ENGLISH, GERMAN)], False),
        ("a.en.gz a.de.zst", ("", ""), [(GERMAN, ENGLISH)], True),
        ("a.en a.de", ("de", "en"), [(GERMAN, ENGLISH)], False),  # the configuration comes before the names
        ("a.x a.y", ("en-GB", "DE"), [(GERMAN, ENGLISH)], True),
        ("a.tsv", ("en", "de"), [(GERMAN, ENGLISH)], True),
        ("a.en a.de", ("", ""), [(GERMAN, ENGLISH)] * 2 + [(ENGLISH, GERMAN)], False),  # 2 to 1 is not clear
        ("a.en a.de", ("", ""), [(GERMAN, ENGLISH)] * 3 + [(ENGLISH, GERMAN)], True),
        ("a.x a.y", ("", ""), [(GERMAN, ENGLISH)], False),  # nothing is known
        ("a.en b.en", ("", ""), [(GERMAN, ENGLISH)], False),
    ],
)
def test_frequent_words_tell_swapped_sides(
    names: str, languages: tuple[str, str], pairs: list[tuple[str, str]], is_swapped: bool
) -> None:
    part = Part(tuple(map(Path, names.split())), languages=languages)
    assert _frequent_words_say_swapped([part], {part: pairs}) == is_swapped
