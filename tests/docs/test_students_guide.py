"""The guide to students has the figures of the experiment, and no better ones."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_GUIDE = (_REPOSITORY / "docs/guides/students.md").read_text(encoding="utf-8")
_EXPERIMENT = _REPOSITORY / "experiments/2026-11-23-student"
_SHAPES = json.loads((_REPOSITORY / "benchmarks/results/2026-11-23-student-shapes-busy.json").read_text("utf-8"))


def cells(label: str) -> list[list[str]]:
    """Returns the cells of each row that begins with a label."""
    return [
        [cell.strip() for cell in rest.split("|")]
        for rest in re.findall(rf"^\| {re.escape(label)} \|(.+)\|$", _GUIDE, re.M)
    ]


@pytest.mark.parametrize(
    ("label", "file"),
    [
        ("`student-6-2`", "student-6-2"),
        ("`student-6-2`, tuned", "student-6-2-tuned"),
        ("`--from-teacher`, 6 and 2 layers", "from-teacher"),
    ],
)
def test_shares_and_speeds_are_those_of_the_reports(label: str, file: str) -> None:
    report = json.loads((_EXPERIMENT / f"{file}.json").read_text(encoding="utf-8"))
    beam = report["teachers"][0]
    for student in report["students"]:
        share = 100 * student["bleu"]["value"] / beam["bleu"]["value"]
        speed = fmean(theirs / ours for theirs, ours in zip(beam["seconds"], student["seconds"], strict=True))
        search, by_hand = student["name"].removeprefix("student, "), "yes" if "tuned" in file else "no"
        assert [search, f"{share:.1f} %", f"{speed:.1f}", by_hand] in cells(label)


def test_the_first_sentence_is_about_what_the_command_does() -> None:
    [(share, speed)] = re.findall(
        r"a student with ([\d.]+ %) of its teacher's BLEU at ([\d.]+) times its speed", _GUIDE
    )
    assert ["beam 2", share, speed, "no"] in cells("`student-6-2`")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("`student-6-2`", "student-6-2"),
        ("`student-6-1`", "student-6-1"),
        ("`student-tiny`", "student-tiny"),
        ("`student-6-2`, as wide as the teacher, 4 heads", "student-6-2:d_model=256,d_ff=1024,num_heads=4"),
        ("`student-6-1`, as wide as the teacher, 4 heads", "student-6-1:d_model=256,d_ff=1024,num_heads=4"),
    ],
)
def test_shapes_are_compared_as_they_were_measured(label: str, name: str) -> None:
    beam, greedy, ours = (min(_SHAPES["seconds"][each][1:]) for each in ("teacher, beam 4", "teacher, greedy", name))
    assert [f"{beam / ours:.1f}", f"{greedy / ours:.1f}"] in cells(label)
