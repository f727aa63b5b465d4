"""A measured figure names a result file or an experiment that exists, or says that none was kept."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_DOCS = _REPOSITORY / "docs"
_GUIDES = ("documents-and-files", "export", "shortlist", "students")
_MARK = "\n*No result file was kept.*\n"
_SOURCE = re.compile(r"\b20\d\d-\d\d-\d\d-[\w.*-]+")
_COLUMN_OF_FIGURES = re.compile(r"^\|[-:| ]*-:[-:| ]*\|$", re.MULTILINE)


def sections(text: str, level: str) -> Iterator[tuple[str, str]]:
    """Yields the heading and the text of each section whose heading begins like `level`, a regular expression."""
    outside = re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    starts = [match.start() for match in re.finditer(r"^#+ ", outside, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(outside)], strict=True):
        heading, _, body = outside[start:end].partition("\n")
        if re.match(level, heading):
            yield heading, f"\n{body}"


def sources(body: str) -> list[str]:
    """Returns the files and folders that a text names by their date."""
    return [name.rstrip(".-") for name in _SOURCE.findall(body)]


def exists(name: str) -> bool:
    """Whether there is a result or an experiment of that name; `*` stands for anything."""
    return any(any((_REPOSITORY / folder).glob(name)) for folder in ("benchmarks/results", "experiments"))


TRAINS_NOTHING = {"2026-11-21-table1", "2026-11-22-reading-the-source"}
TRAINED = sorted(
    page for page in (_REPOSITORY / "experiments").glob("*/README.md") if page.parent.name not in TRAINS_NOTHING
)
ENTRIES = list(sections((_DOCS / "lab-log.md").read_text(encoding="utf-8"), "### "))
SECTIONS = [
    (f"{guide}: {heading}", body)
    for guide in _GUIDES
    for heading, body in sections((_DOCS / f"guides/{guide}.md").read_text(encoding="utf-8"), "## |### ")
    if _COLUMN_OF_FIGURES.search(body)
]


def test_there_are_figures_to_look_at() -> None:
    assert len(ENTRIES) > 40
    assert {name.partition(":")[0] for name, _ in SECTIONS} >= {
        "documents-and-files",
        "export",
        "shortlist",
        "students",
    }


@pytest.mark.parametrize(("heading", "body"), ENTRIES, ids=[heading for heading, _ in ENTRIES])
def test_an_entry_of_the_lab_log_has_a_source_or_the_mark(heading: str, body: str) -> None:
    assert sources(body) or body.startswith(f"\n{_MARK}"), "name a result, or write the mark below the heading"


@pytest.mark.parametrize(("numbers", "file"), [("float32", "fp32"), ("int8", "int8")])
def test_the_lab_log_compares_with_ctranslate2_as_was_measured(numbers: str, file: str) -> None:
    text = (_DOCS / "lab-log.md").read_text(encoding="utf-8")
    table = text.partition(f"| {numbers}, CTranslate2 on two threads |")[2].partition("\n\n")[0]
    result = _REPOSITORY / f"benchmarks/results/2026-11-22-decode-ctranslate2-{file}.json"
    measured = json.loads(result.read_text(encoding="utf-8"))["ours_over_ctranslate2"]
    for label, key in (("by the clock", "tokens_per_second"), ("by processor time", "cpu_time")):
        cells = " | ".join(f"{measured[key][case]:.2f}" for case in ("4x32", "4x1", "1x32", "1x1"))
        assert f"\n| {label} | {cells} |" in table


@pytest.mark.parametrize(("heading", "body"), SECTIONS, ids=[heading for heading, _ in SECTIONS])
def test_a_table_of_figures_has_a_source_or_says_that_none_was_kept(heading: str, body: str) -> None:
    assert sources(body) or re.search(r"no\s+result\s+file\s+was\s+kept", body, re.IGNORECASE)


@pytest.mark.parametrize("page", TRAINED, ids=lambda page: page.parent.name)
def test_an_experiment_says_of_how_many_seeds_it_is(page: Path) -> None:
    assert re.search(r"\bseeds?\b|\bone training of each\b", page.read_text(encoding="utf-8"), re.IGNORECASE)


PAGES = sorted([*_DOCS.rglob("*.md"), *(_REPOSITORY / "experiments").glob("*/README.md"), _REPOSITORY / "CHANGELOG.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(_REPOSITORY)))
def test_each_source_exists(page: Path) -> None:
    named = re.findall(r"benchmarks/results/([\w.*-]+\w)", page.read_text(encoding="utf-8"))
    named += sources(page.read_text(encoding="utf-8")) if page.name == "lab-log.md" else []
    assert not [name for name in named if not exists(name)]
