"""What is said about lines that are not aligned, and by which words swapped sides are told."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.alignment.line_scorer import UNRELATED
from transduce.data import swapped_sides
from transduce.data.corpus import Part
from transduce.data.misalignment import _describe
from transduce.data.readers import Location
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
    paths = (Path("a.en"), Path("a.de"))
    reader: Any = SimpleNamespace(location=lambda number: Location(paths, number))
    assert _describe(Part(paths), reader, lines) == said


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


def test_short_lines_of_a_sample_are_joined_until_both_sides_have_48_letters(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    rows = [("a" * 47, "b" * 50), ("c", "d"), ("e" * 48, "f" * 48), ("g" * 99, "h" * 47), ("last", "one")]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    assert swapped_sides._sample(Part((path,))) == [
        (rows[0][0] + "\n" + rows[1][0], rows[0][1] + "\n" + rows[1][1]),
        rows[2],
        (rows[3][0] + "\n" + rows[4][0], rows[3][1] + "\n" + rows[4][1]),
    ]
    path.write_text("".join(f"{'a' * 48}{i}\t{'b' * 48}{i}\n" for i in range(2001)))
    assert len(swapped_sides._sample(Part((path,)))) == 2000
