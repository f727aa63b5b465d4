"""Where one of two files lacks lines: what is said, and which lines are evidence of it."""

import math
from random import Random

import numpy as np
import pytest

from transduce.data.missing_lines import _features, describe_missing_lines


def translations(count: int) -> tuple[list[str], list[str]]:
    """Returns lines that share only their numbers, which come in another order, or only their last sign."""
    random = Random(7)
    source, target = [], []
    for i in range(count):
        first, second = random.randrange(10_000), random.randrange(10_000)
        end = random.choice(".?!:")
        if i % 2:
            source.append(f"from {first} to {second}")
            target.append(f"bis {second} von {first}")
        else:
            source.append(f"words{end}")
            target.append(f"Wörter{end}")
    return source, target


def said(source: list[str], target: list[str]) -> str:
    return describe_missing_lines(source, target, (len(source), len(target)), ("a.en", "a.de"))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("first", "num_missing", "expected"),
    [
        (120, 1, " They probably differ from near line 121 on, where {} has 1 extra line."),
        (300, 3, " They probably differ from near line 301 on, where {} has 3 extra lines."),
        (0, 2, " They probably differ from near line 1 on, where {} has 2 extra lines."),
        (392, 8, " They seem to be aligned up to line 392; {} then has 8 extra lines."),
        (385, 8, " They seem to be aligned up to line 392; {} then has 8 extra lines."),  # 7 lines prove nothing
    ],
)
def test_the_place_and_the_longer_file_are_named(first: int, num_missing: int, expected: str, swapped: bool) -> None:
    source, target = translations(400)
    del target[first : first + num_missing]
    found = said(target, source) if swapped else said(source, target)
    start, _, rest = expected.format("a.de" if swapped else "a.en").partition(" on,")
    if "near line" not in start:
        assert found == expected.format("a.de" if swapped else "a.en")
        return
    line = int(found.partition(" on,")[0].rsplit(" ", 1)[1])
    assert abs(line - (first + 1)) <= 2
    assert found.partition(" on,")[2] == rest


@pytest.mark.parametrize("num_lines", [(9, 8), (9, 7)])
def test_a_few_lines_are_enough_and_fewer_say_nothing(num_lines: tuple[int, int]) -> None:
    source = [f"line {i}" for i in range(num_lines[0])]
    found = said(source, source[: num_lines[1]])
    wanted = " They seem to be aligned up to line 8; a.en then has 1 extra line." if num_lines[1] == 8 else ""
    assert found == wanted


def test_nothing_is_said_where_lines_are_alike_or_lack_in_several_places() -> None:
    assert said(["the same line."] * 400, ["dieselbe Zeile."] * 399) == ""
    source, target = translations(400)
    Random(1).shuffle(target)
    assert said(source, target[:-1]) == ""


def test_what_is_compared_of_a_line() -> None:
    """Lengths by their logs, five added; numbers whatever their order; the last sign, in any script."""
    lines = ["12 dogs, 7 cats.", "7 Katzen, 12 Hunde. ", "12, 77", "x。", "x？", "x?", "x", "", "x…", "x:", "x："]
    lengths, numbers, endings = _features(lines)
    assert lengths.tolist() == pytest.approx([math.log(len(line) + 5) for line in lines])
    assert numbers[0] == numbers[1] != numbers[2]
    assert (numbers == 0).tolist() == [False] * 3 + [True] * 8
    groups = [[0, 1, 3, 8], [4, 5], [2, 6, 7], [9, 10]]
    assert [np.unique(endings[group]).size for group in groups] == [1] * 4
    assert len({int(endings[group[0]]) for group in groups}) == 4
    assert endings[6] == 0
