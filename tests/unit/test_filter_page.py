"""The page of the corpus filter: each figure in its place, and text as it is."""

import html
import re
from dataclasses import replace

import pytest

from transduce.augmentation.filtering.page import report_page
from transduce.augmentation.filtering.report import Distribution, FilterReport
from transduce.augmentation.filtering.writing import Dropped
from transduce.config.filter_options import RULES

REPORT = FilterReport(
    files=[["a&b.en", "a.de"], ["c.tsv"]],
    num_pairs=12_000,
    num_kept=9_000,
    dropped={
        "length": 2_000,
        "copy": 1_000,
        "near-duplicate": 0,
        "junk": 0,
        "cross-entropy": 0,
        "alignment": 0,
        "ratio": 0,
    },
    settings={
        "off": ["numbers", "junk"],
        "max_words": 2_500,
        "max_ratio": 3.5,
        "max_copied": 0.75,
        "min_alignment": 0.25,
        "max_cross_entropy": 7.125,
        "min_similarity": 0.8,
    },
    notes=["a <note>"],
    part_sizes=[10_000, 2_000],
    part_kept=[8_500, 500],
    distributions=[Distribution("ratio <x>", [0.5, 1.0, 2.0], [7_000, 5_000], [5_000, 4_000])],
    examples={
        "copy": [
            Dropped("a&b.en:7", "copy", "has <b>", "<i>one</i>", ""),
            Dropped("c.tsv:9", "copy", "", "x" * 600, "y" * 601),
        ]
    },
)


def text_of(part: str) -> str:
    """Returns the text of HTML with one space between its parts."""
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", part).split()))


def rows_of(table: str) -> list[list[str]]:
    """Returns the texts of the cells of each row, without the header."""
    rows = (re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr"))
    return [[text_of(cell) for cell in row] for row in rows if row]


@pytest.fixture
def page() -> str:
    return report_page(REPORT)


def test_the_figures(page: str) -> None:
    figures = text_of(page.partition('<ul class="figures">')[2].partition("</ul>")[0])
    assert figures == "12,000 pairs read 9,000 kept, 75.00% 3,000 dropped, 25.00%"
    assert "<title>Filtered: a&amp;b.en, c.tsv</title>" in page
    assert "Note: a &lt;note&gt;." in page


def test_each_rule_with_its_setting_its_number_and_its_share(page: str) -> None:
    table = page.partition('<table class="rules">')[2].partition("</table>")[0]
    rows = [row[:5] for row in rows_of(table)]
    assert rows == [
        ["length", RULES["length"], "at most 2,500 words", "2,000", "16.67%"],
        ["copy", RULES["copy"], "less than 75% of the words", "1,000", "8.33%"],
        ["near-duplicate", RULES["near-duplicate"], "less than 80% of the words", "0", "0.00%"],
        ["junk", RULES["junk"], "", "0", "0.00%"],
        ["cross-entropy", RULES["cross-entropy"], "at most 7.12", "0", "0.00%"],
        ["alignment", RULES["alignment"], "probability at least 0.25", "0", "0.00%"],
        ["ratio", RULES["ratio"], "at most 3.5 times the usual ratio", "0", "0.00%"],
    ]
    assert "Not applied: numbers, junk." in page
    assert '<a href="#copy">copy</a>' in page  # it has examples
    assert '<a href="#length">' not in page
    assert table.count('class="none"') == 5


def test_examples_are_shown_as_they_are_and_long_ones_are_cut(page: str) -> None:
    assert "<code>a&amp;b.en:7</code> has &lt;b&gt;</p>" in page
    assert '<p dir="auto">&lt;i&gt;one&lt;/i&gt;</p><p dir="auto">—</p>' in page
    assert f'<p dir="auto">{"x" * 600}</p><p dir="auto">{"y" * 600}…</p>' in page
    assert text_of(page.partition("<summary>")[2].partition("</summary>")[0]) == f"copy {RULES['copy']}; 1,000"


def test_files_are_told_apart_where_there_are_several(page: str) -> None:
    table = page.partition("<h2>By file</h2>")[2].partition("</table>")[0]
    assert rows_of(table) == [["a&b.en + a.de", "10,000", "8,500", "85.00%"], ["c.tsv", "2,000", "500", "25.00%"]]
    assert "By file" not in report_page(replace(REPORT, files=REPORT.files[:1], part_sizes=[1], part_kept=[1]))


def test_pictures_say_what_they_show(page: str) -> None:
    assert "Histogram of the ratio &lt;x&gt;: 12,000 pairs before, 9,000 after." in page
    assert "<figcaption>ratio &lt;x&gt;</figcaption>" in page
