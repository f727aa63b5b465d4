"""A few of the hostile inputs that `benchmarks/fuzz.py` tries by the thousand."""

from pathlib import Path

import pytest

from fuzzed_options import option_cases
from fuzzed_runs import run_cases_of_damage
from fuzzing import Case, chosen, run_cases


def require_no_faults(cases: list[Case]) -> None:
    faults = [(each.arguments, each.faults, each.said[-500:]) for each in run_cases(cases) if each.faults]
    assert not faults


def test_hostile_options_and_values(tmp_path: Path) -> None:
    require_no_faults(chosen(option_cases(tmp_path), 120, seed=1))


@pytest.mark.slow
def test_damaged_run_folders(tmp_path: Path) -> None:
    require_no_faults(run_cases_of_damage(tmp_path, 9, seed=2))


def test_the_judge_sees_what_it_must(tmp_path: Path) -> None:
    """An exit code 0 that must not be, an error that names nothing, a check that fails, a traceback."""
    found = run_cases(
        [
            Case(["info", "tiny"], must_fail=True),
            Case(["info", "no-such-thing"], must_fail=True, named=("something else",)),
            Case(["info", "tiny"], check=lambda said: "wrong"),
            Case([4]),  # type: ignore[list-item]
            Case(["info", "tiny"]),
        ]
    )
    assert [each.faults for each in found[:3]] == [["exit code 0"], ["names none of something else"], ["wrong"]]
    assert "a traceback" in found[3].faults
    assert found[4].faults == []
