"""The experiment on restricted attention: lines joined into documents, and which windows are as good as full."""

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest

_FOLDER = Path(__file__).resolve().parents[2] / "experiments/2026-11-26-restricted-attention"


def script(name: str) -> ModuleType:
    """Returns a script of the experiment as a module."""
    spec = importlib.util.spec_from_file_location(f"restricted_{name}", _FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


JOIN, COLLECT = script("join_lines"), script("collect")


def joined(lengths: list[tuple[int, int]], limits: list[int]) -> list[str]:
    """Returns the documents of lines named a, b, …"""
    names = [(chr(ord("a") + number), "") for number in range(len(lengths))]
    return ["".join(name for name, _ in lines) for lines in JOIN.documents(names, lengths, limits)]


def test_a_document_has_the_lines_that_fit_with_the_end_mark_on_both_sides() -> None:
    assert joined([(4, 1), (5, 1), (1, 1)], [10]) == ["ab", "c"]  # 4 + 5 + the end mark = 10
    assert joined([(4, 1), (5, 1), (1, 1)], [11]) == ["abc"]
    assert joined([(1, 4), (1, 6), (1, 1)], [10]) == ["a", "bc"]  # the target decides: 4 + 6 + 1 > 10


def test_a_line_is_alone_with_the_limit_1_and_where_it_is_longer_than_the_limit() -> None:
    assert joined([(3, 3), (2, 2), (1, 1)], [1]) == ["a", "b", "c"]
    assert joined([(30, 30), (2, 2), (3, 3)], [10]) == ["a", "bc"]


def test_limits_take_equal_shares_of_the_text() -> None:
    """A line (5), a document (5 + 5 + 5 = 15), then lines until they have 15 too: equal, so a line, and a document."""
    lengths = [(5, 5)] * 10
    assert joined(lengths, [1, 16]) == ["a", "bcd", "e", "f", "g", "hij"]


def test_the_interval_pools_the_spread_of_seeds_over_rows() -> None:
    """Variances 0.02 and 0.08, one degree of freedom each: σ² = 0.05; 2 √(0.05 × 2 / 2)."""
    values = {"window-0": [1.0, 1.2], "window-8": [1.5, 1.9]}
    assert COLLECT.half_width(values) == pytest.approx(2 * math.sqrt(0.05))
    assert COLLECT.half_width({"window-0": [1.0], "window-8": [1.5]}) is None


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((0.5, 0.4, 0.1, 0.0), "r = 32"),
        ((0.1, 0.4, 0.1, 0.0), "r = 32"),  # 8 is within by chance: 16 is not
        ((0.1, 0.0, -0.5, 0.1), "r = 8"),  # better than full counts as within
        ((0.5, 0.4, 0.4, 0.4), "none of these"),
    ],
)
def test_the_verdict_is_the_least_window_from_which_on_none_is_worse(losses: tuple[float, ...], expected: str) -> None:
    """Seeds ± 0.1 around a mean: variance 0.02, half-width 2 √0.02 = 0.28."""
    means = dict(zip(COLLECT.WINDOWS, (2.0, *(2.0 + loss for loss in losses)), strict=True))
    seeds = {row: [mean - 0.1, mean + 0.1] for row, mean in means.items()}
    assert COLLECT.least_window(COLLECT.compare(seeds, -1.0)) == expected
    mirrored = {row: [-value for value in values] for row, values in seeds.items()}
    assert COLLECT.least_window(COLLECT.compare(mirrored, 1.0)) == expected


def test_there_is_no_verdict_with_one_seed_or_without_all_windows() -> None:
    one = {row: [2.0] for row in COLLECT.WINDOWS}
    assert COLLECT.least_window(COLLECT.compare(one, -1.0)).startswith("undecided: one seed")
    some = {row: [2.0, 2.1] if row != "window-64" else [] for row in COLLECT.WINDOWS}
    assert COLLECT.least_window(COLLECT.compare(some, -1.0)).startswith("undecided: windows")
