"""A few of the hostile inputs that `benchmarks/fuzz.py` tries by the hundred, and the judge of what comes of them."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz import KINDS
from fuzzing.damage import ANY_DAMAGES, MODEL_DAMAGES
from fuzzing.runner import Case, Outcome, Runner, faults_of
from fuzzing.texts import LINES, expected, make_text, wrong_output
from text_engine import text_translator
from transduce.errors import DataError
from transduce.translation.streams import FileJob, translate_file
from transduce.translation.translator import Translator

forks = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="cases are forked, and /proc watched")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[train]'")
    with Runner(tmp_path_factory.mktemp("fuzz")) as made:
        yield made


@pytest.fixture
def runner(started: Runner, tmp_path: Path) -> Runner:
    """Returns the runner, which starts once, in a new folder."""
    started.folder = tmp_path
    return started


@forks
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "cases", "seed"),
    [
        ("folders", 2 * len(MODEL_DAMAGES), 11),  # each damage twice; this seed also damages weights that are then read
        ("runs", 2 * len(ANY_DAMAGES), 2),
        ("imports", 8 * len(ANY_DAMAGES), 3),  # each damage of each kind of model
        ("options", 60, 1),
        ("texts", 8, 2),
    ],
)
def test_hostile_input_gives_the_right_result_or_one_line(runner: Runner, kind: str, cases: int, seed: int) -> None:
    results = list(runner.results(KINDS[kind](runner, cases, seed)))
    assert len(results) >= cases
    faults = [(each.case.arguments, each.prepared, each.faults, each.outcome.stderr[-500:]) for each in results]
    assert not [fault for fault in faults if fault[2]]
    assert len({each.outcome.exit_code for each in results}) > 1  # some succeed, some are refused


@forks
def test_the_runner_sees_all_that_a_command_does(runner: Runner) -> None:
    results = runner.results(
        [
            Case(["info", "tiny"]),
            Case(["info", "tiny"], must_fail=True),
            Case(["info", "no-such-thing"], named=("something else",)),
            Case(["info", "tiny"], check=lambda outcome: f"{len(outcome.stdout) > 100}"),
            Case([4]),  # type: ignore[list-item]
        ]
    )
    sound, *wrong, crash = (each.faults for each in results)
    assert sound == []
    assert wrong == [["exit code 0, and no result can be right"], ["names none of something else"], ["True"]]
    assert crash == ["a traceback", "exit code 70"]


def made(**changes: object) -> Outcome:
    sound = {"exit_code": 0, "stdout": "ja\n", "stderr": "", "seconds": 1.0, "peak_bytes": 10**8}
    return Outcome(**sound | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "faults"),
    [
        (made(), []),
        (made(stdout="\n"), ["another result"]),
        (made(exit_code=4, stderr="transduce: error: a/config.json: damaged\n"), []),
        (made(exit_code=2, stderr="transduce translate: error: a/config.json: damaged\n"), []),
        (made(exit_code=4, stderr="damaged\n"), ["0 lines of error"]),
        (made(exit_code=4, stderr="transduce: error: a/\n" * 2), ["2 lines of error"]),
        (made(exit_code=4, stderr="transduce: error: damaged\n"), ["names none of a/"]),
        (made(exit_code=70, stderr="Traceback (most recent call last):\n"), ["a traceback", "exit code 70"]),
        (made(exit_code=-9), ["exit code -9"]),
        (made(stderr="Traceback (most recent call last):\n"), ["a traceback"]),
        (made(seconds=11.0), ["11.0 seconds"]),
        (made(peak_bytes=3 * 10**9), ["3000 MB"]),
    ],
    ids=str,
)
def test_what_counts_as_a_fault(outcome: Outcome, faults: list[str]) -> None:
    case = Case([], named=("a/",), check=lambda found: "" if found.stdout == "ja\n" else "another result")
    assert faults_of(case, outcome) == faults


def test_what_must_fail_may_not_succeed() -> None:
    assert faults_of(Case([], must_fail=True), made()) == ["exit code 0, and no result can be right"]


def translated(translator: Translator, data: bytes, folder: Path) -> str:
    """Translates a text in this process; returns what is wrong with what came of it, or ""."""
    source, output = folder / "in.txt", folder / "out.txt"
    source.write_bytes(data)
    output.unlink(missing_ok=True)
    try:
        translate_file(translator, source, output, FileJob(warn=lambda _: None))
    except DataError as error:
        refused = f"{source}, line {expected(data)[1]}:" in str(error) and not output.exists()
        return "" if refused else str(error)
    return wrong_output(data, output.read_bytes())


def test_whatever_a_model_says_lines_stay_lines(tmp_path: Path) -> None:
    """With an engine that says what it read."""
    translator, chance = text_translator(str), random.Random(3)
    for kind, data in (make_text(chance) for _ in range(60)):
        assert translated(translator, data, tmp_path) == "", kind


@pytest.mark.parametrize("kind", LINES)
def test_every_kind_of_line_alone(kind: str, tmp_path: Path) -> None:
    data = "\n".join(LINES[kind](random.Random(i)) for i in range(3)).encode() + b"\n"
    assert translated(text_translator(str), data, tmp_path) == ""
    assert expected(data + b"\xff") == (4, 4)
    assert translated(text_translator(str), data + b"\xff", tmp_path) == ""
