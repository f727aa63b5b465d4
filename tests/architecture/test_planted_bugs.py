"""Each bug of the list can still be planted: `make test-bugs` takes hours, so a stale entry should show here."""

from pathlib import Path

from plant_bugs import read_bugs

_REPOSITORY = Path(__file__).resolve().parents[2]


def test_each_bug_stands_on_one_line_of_the_source() -> None:
    bugs = read_bugs(_REPOSITORY / "tests/planted_bugs.toml", _REPOSITORY)
    assert len(bugs) > 100
    assert len({bug.key for bug in bugs}) == len(bugs)


def test_the_tests_named_for_a_bug_exist() -> None:
    bugs = read_bugs(_REPOSITORY / "tests/planted_bugs.toml", _REPOSITORY)
    named = {test.partition("::")[0] for bug in bugs for test in bug.tests}
    assert [test for test in sorted(named) if not (_REPOSITORY / test).is_file()] == []
