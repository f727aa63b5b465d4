"""Our bracket scores against those of EVALB, on the sample that comes with it."""

from pathlib import Path

import pytest

from transduce.treebank import COLLINS, read_bracket_parameters, score_brackets
from transduce.treebank.bracket_report import sentence_table, summary_text
from transduce.treebank.brackets import BracketEvaluation


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


@pytest.fixture(scope="module")
def sample(shared: Path) -> Path:
    return shared / "conformance/evalb"


@pytest.fixture(scope="module")
def evaluation(sample: Path) -> BracketEvaluation:
    parameters = read_bracket_parameters(sample / "sample.prm")
    return score_brackets(read(sample / "sample.gld"), read(sample / "sample.tst"), parameters)


def test_the_built_in_parameters_are_those_of_the_file(sample: Path) -> None:
    assert read_bracket_parameters(sample / "COLLINS.prm") == COLLINS


@pytest.mark.parametrize("name", ["new.prm", "nk.prm"])
def test_other_parameter_files_read(sample: Path, name: str) -> None:
    parameters = read_bracket_parameters(sample / name)
    assert {"S1", "?", "!"} | COLLINS.deleted_labels == parameters.deleted_labels
    assert {"POS", "NN", "``"} < parameters.quote_labels


def test_every_sentence(sample: Path, evaluation: BracketEvaluation) -> None:
    """All columns; but the sample has the words of sentences that cannot be compared, where newer builds have 0."""
    expected = [line for line in read(sample / "sample.rsl")[3:] if line[:4].strip().isdecimal()]
    ours = sentence_table(evaluation).split("\n")[3:-2]
    assert len(expected) == len(ours) == 24
    for theirs, row in zip(expected, ours, strict=True):
        columns = theirs.split()
        if columns[2] != "0":
            columns[9] = "0"
        assert row.split() == columns
    assert sum(row.split()[2] != "0" for row in ours) == 7


def test_sums(sample: Path, evaluation: BracketEvaluation) -> None:
    """All sums but that of crossing brackets: the sample has 16, and 0.06 as their average over 17 sentences."""
    lines = read(sample / "sample.rsl")
    theirs = lines[lines.index("=== Summary ===") - 1].split()
    ours = sentence_table(evaluation).split("\n")[-1].split()
    assert ours[:5] + ours[6:] == theirs[:5] + theirs[6:]
    assert ours[5] == "1"


def test_summary(sample: Path, evaluation: BracketEvaluation) -> None:
    lines = read(sample / "sample.rsl")
    theirs = "\n".join(lines[lines.index("=== Summary ===") :])
    ours = [line for line in summary_text(evaluation).split("\n") if not line.startswith("Bracketing FMeasure")]
    assert "\n".join(ours) == theirs.rstrip()
    assert round(evaluation.summary().f1, 2) == 89.12
