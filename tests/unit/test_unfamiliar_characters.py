"""Characters that held-out text has often and training text hardly ever, on corpora small enough to count by hand."""

from pathlib import Path

import pytest

from transduce.config import DataConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.data import corpus as corpus_module
from transduce.data.corpus import locate
from transduce.data.doctor import Finding, examine
from transduce.data.prepare_report import describe_findings, describe_lines

APOSTROPHE = "U+2019 right single quotation mark"


@pytest.fixture(autouse=True, params=[7, 4096])
def _chunk_pairs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings must not depend on how the corpus is cut into chunks."""
    monkeypatch.setattr(corpus_module, "CHUNK_PAIRS", request.param)


def check(folder: Path, training: list[str], **sets: list[str]) -> dict[str, Finding]:
    """Returns what is found with these targets, in files TRAINING and of each set; sources are numbers."""
    for first, (name, targets) in enumerate({"train": training, **sets}.items()):
        lines = (f"{first * 1000 + number}\t{target}\n" for number, target in enumerate(targets))
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    tests = tuple(HeldOutSetConfig(files=(f"{name}.tsv",), name=name) for name in sets)
    data = DataConfig(folder=str(folder), train=(("train.tsv",),), test_sets=tests)
    return examine(locate(data), data, progress=False).findings.unfamiliar_characters


def test_another_apostrophe_in_a_test_set_is_found(tmp_path: Path) -> None:
    """Of the training lines it is in 1 %, of the lines of the test set in 60 %."""
    found = check(tmp_path, ["l'eau"] * 396 + ["l’eau"] * 4, news=["eau"] * 8 + ["l’eau"] * 12)
    phrase = f"news with {APOSTROPHE} in the target; of training lines, 4 of 400 have it"
    assert found == {f"test.{phrase}": Finding(12, [f"{tmp_path / 'news.tsv'}:9"])}


@pytest.mark.parametrize(
    ("in_training", "in_test", "num_test"),
    [
        (12, 12, 20),  # 3 % are no less than a twentieth of 60 %, of lines of equal length
        (0, 9, 20),  # too few lines
        (0, 11, 240),  # less than 5 %
    ],
)
def test_a_character_that_is_not_that_rare_is_no_finding(
    tmp_path: Path, in_training: int, in_test: int, num_test: int
) -> None:
    training = ["l'eau"] * (400 - in_training) + ["l’eau"] * in_training
    assert not check(tmp_path, training, news=["l'eau"] * (num_test - in_test) + ["l’eau"] * in_test)


def test_training_text_that_is_empty_is_left_to_other_checks(tmp_path: Path) -> None:
    """All 400 lines lack the character."""
    found = check(tmp_path, [""] * 400, news=["’"] * 20)
    assert [(finding.count, name.partition(";")[0]) for name, finding in found.items()] == [
        (20, f"test.news with {APOSTROPHE} in the target")
    ]


@pytest.mark.parametrize(("in_training", "is_found"), [(4, True), (5, False)])
def test_longer_lines_may_have_more(tmp_path: Path, in_training: int, *, is_found: bool) -> None:
    """Each line of the test set is ten training lines long.

    Of ten such lines, one or more have the character in 1 - 0.996^10 = 3.9 % and 1 - 0.995^10 = 4.9 % of cases. The
    bound is a twentieth of the 85 % of the set, 4.25 %.
    """
    training = ["l'eau"] * (1000 - in_training) + ["l’eau"] * in_training
    documents = ["l'eau" * 10] * 3 + ["l’eau" + "l'eau" * 9] * 17
    assert bool(check(tmp_path, training, documents=documents)) == is_found


def test_shorter_lines_may_have_less(tmp_path: Path) -> None:
    """All long training lines have the letter, and all short ones of the set."""
    assert not check(tmp_path, ["l'eau" * 100] * 400, news=["l'eau"] * 20)


def test_the_least_share_is_a_twentieth(tmp_path: Path) -> None:
    assert check(tmp_path, ["l'eau"] * 400, news=["eau"] * 228 + ["l’eau"] * 12)


@pytest.mark.parametrize(("num_training", "is_found"), [(33, False), (34, True)])  # 60 % of them: 19.8 and 20.4
def test_a_small_training_text_says_nothing(tmp_path: Path, num_training: int, *, is_found: bool) -> None:
    assert bool(check(tmp_path, ["eau"] * num_training, news=["eau"] * 8 + ["l’eau"] * 12)) == is_found


def test_the_most_frequent_one_is_named_first_and_only_some_are_named(tmp_path: Path) -> None:
    """Accents in two parts, other spaces and quotes: 40, 30, 20 and 10 of 40 lines. Equals: in the order of Unicode."""
    targets = ["e\u0301"] * 10 + ["e\u0301\u00a0"] * 10 + ["e\u0301\u00a0“"] * 10 + ["e\u0301\u00a0“—"] * 10
    found = check(tmp_path, ["\u00e9 leau"] * 400, news=targets, law=["l’eau»«"] * 10)
    rest = "; of training lines, 0 of 400 have it"
    accent = f"test.news with U+0301 combining acute accent in the target{rest}"
    others = "U+00A0 no-break space, U+201C left double quotation mark and 1 more"
    assert [*found] == [
        f"{accent}; likewise {others}",
        f"test.law with U+00AB left-pointing double angle quotation mark in the target{rest}; likewise "
        f"U+00BB right-pointing double angle quotation mark, {APOSTROPHE}",
    ]


def test_text_is_compared_with_training_text_of_its_language(tmp_path: Path) -> None:
    """German is the source of one corpus and the target of the other; English, of any country, never has its letter."""
    for name, line, count in (("a", "die straße\tthe street", 100), ("b", "the road\tder weg", 100)):
        (tmp_path / f"{name}.tsv").write_text(f"{line}\n" * count, encoding="utf-8")
    (tmp_path / "t.tsv").write_text("the street ß\tdie straße\n" * 20, encoding="utf-8")
    corpora = (
        CorpusConfig(files=("a.tsv",), source_language="de", target_language="en"),
        CorpusConfig(files=("b.tsv",), source_language="en", target_language="de"),
    )
    test = HeldOutSetConfig(files=("t.tsv",), name="t", source_language="en-GB", target_language="de")
    data = DataConfig(folder=str(tmp_path), corpora=corpora, test_sets=(test,))
    found = examine(locate(data), data, progress=False).findings.unfamiliar_characters
    assert [*found] == [
        "test.t with U+00DF latin small letter sharp s in the source; of training lines, 0 of 200 have it"
    ]


def test_the_report_says_how_many_lines(tmp_path: Path) -> None:
    """Among the problems, with the first line."""
    data = DataConfig(folder=str(tmp_path), train=(("train.tsv",),), validation=("news.tsv",))
    check(tmp_path, ["l'eau"] * 400, news=["eau"] * 8 + ["l’eau"] * 12)
    findings = examine(locate(data), data, progress=False).findings
    lines = describe_lines(describe_findings(findings))
    rest = "; of training lines, 0 of 400 have it"
    assert f"    12 lines of validation with {APOSTROPHE} in the target{rest}" in lines
    assert lines[-1] == f"        {tmp_path / 'news.tsv'}:9"
