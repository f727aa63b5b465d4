"""The report of teacher and student: ratios, intervals, and the way to JSON and back."""

import json
from dataclasses import replace

import pytest

from transduce.augmentation.student_measurement import Comparison, Measure, SystemFigures, mean_of


def system(name: str, seconds: tuple[float, ...], bleu: float, size: int) -> SystemFigures:
    rate = mean_of([100 / each for each in seconds])
    return SystemFigures(
        name=name,
        parameters=1000 * size,
        bytes=size,
        bleu=Measure(bleu, 1.0),
        chrf=Measure(60.0, 1.0),
        lines_per_second=rate,
        cold_start=Measure(0.5, 0.01),
        seconds=seconds,
    )


COMPARISON = Comparison(
    num_lines=3000,
    num_timed=1000,
    signatures=("tok:13a", "nc:6"),
    teachers=(
        system("teacher, beam 4", (8.0, 10.0, 12.0), 40.0, 20_000_000),
        system("teacher, greedy", (5.0, 5.0, 5.0), 38.0, 20_000_000),
    ),
    students=(
        system("student, greedy", (2.0, 2.0, 2.0), 39.0, 5_000_000),
        system("student, beam 2", (4.0, 4.0, 4.0), 39.6, 5_000_000),
    ),
)


def test_an_interval_by_hand() -> None:
    found = mean_of([8.0, 10.0, 12.0])  # standard deviation 2, Student's t 4.303 for two degrees of freedom
    assert found.value == pytest.approx(10)
    assert found.half_width == pytest.approx(4.303 * 2 / 3**0.5)
    assert mean_of([3.0] * 5) == Measure(3.0, 0.0)


def test_the_ratio_is_the_mean_of_the_rounds() -> None:
    (beam, greedy), (student, _) = COMPARISON.teachers, COMPARISON.students
    assert COMPARISON.speed_ratio(beam, student).value == pytest.approx((4 + 5 + 6) / 3)
    assert COMPARISON.speed_ratio(beam, student).half_width == pytest.approx(4.303 / 3**0.5)
    assert COMPARISON.speed_ratio(greedy, student) == Measure(2.5, 0.0)


def test_the_report() -> None:
    report = COMPARISON.to_markdown()
    assert "| student, greedy | 39.00 ± 1.00 | 60.00 ± 1.00 | 50.00 ± 0.00 | 5.0 MB | 0.50 ± 0.01 s |" in report
    assert "| student, greedy, against teacher, greedy | 2.50 ± 0.00 | 102.6 % | +1.00 | 4.00 |" in report
    assert "| student, greedy, against teacher, beam 4 | 5.00 ± 2.48 | 97.5 % | -1.00 | 4.00 |" in report
    assert "| student, beam 2, against teacher, beam 4 | 2.50 ± 1.24 | 99.0 % | -0.40 | 4.00 |" in report
    assert "3,000 lines" in report
    nothing = replace(COMPARISON.teachers[0], bleu=Measure(0.0, 0.0))
    assert "| – |" in replace(COMPARISON, teachers=(nothing,)).to_markdown()


def test_the_comparison_comes_back_from_json() -> None:
    assert Comparison.from_dict(json.loads(json.dumps(COMPARISON.to_dict()))) == COMPARISON
