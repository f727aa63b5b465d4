"""The parts of the search for shifted lines, by figures worked out by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.alignment.dictionary import WordDictionary, WordLines
from transduce.alignment.line_scorer import (
    UNRELATED,
    _best_common_offset,
    _mean,
    _spread,
    _without_changes,
    best_offset,
)
from transduce.alignment.line_similarity import similarity, spelling_weights
from transduce.alignment.windows import WindowSampler
from transduce.data import shifted_lines as module
from transduce.data.corpus import Chunk, Part
from transduce.data.misalignment import AlignmentCheck
from transduce.data.readers import PairReader
from transduce.data.shifted_lines import ShiftedLines, _change, _difference, _runs, find_shifted_lines
from transduce.data.swapped_sides import Sides

LARGEST = 32  # half a window of 64 lines


def means_of(scores: dict[int, float], others: float = 0.0) -> np.ndarray:
    """Returns the mean score of each offset."""
    means = np.full(2 * LARGEST + 1, others)
    for offset, score in scores.items():
        means[LARGEST + offset] = score
    return means


@pytest.mark.parametrize(
    ("offsets", "difference"),
    [((0, 3), 30), ((3, 0), -30), ((-2, 0), 20), ((-2, 5), 70), ((0, UNRELATED), 1.5), ((UNRELATED, -1), -11.5)],
)
def test_a_window_votes_for_one_of_two_offsets(offsets: tuple[int, int], difference: float) -> None:
    """The mean score at offset d is 10 d; the score of unrelated lines is taken to be 1.5."""
    means = 10.0 * np.arange(-LARGEST, LARGEST + 1)
    assert _difference(means, offsets) == difference


@pytest.mark.parametrize(
    ("scores", "offset"),
    [
        ({3: 1.0, 0: 0.25}, 3),  # clear, and three quarters above offset 0
        ({-32: 1.0}, -32),
        ({3: 1.0, 0: 0.26}, UNRELATED),
        ({3: 0.99}, UNRELATED),
        ({3: 1.4, 0: 0.75}, 0),
        ({3: 1.4, 0: 0.74}, UNRELATED),
        ({0: 0.75}, 0),
        ({}, UNRELATED),
    ],
)
def test_the_best_offset_of_a_window(scores: dict[int, float], offset: int) -> None:
    assert best_offset(means_of(scores)) == offset
    assert best_offset(means_of({0: 0.0} | scores, np.nan)) == offset


def test_a_window_of_which_nothing_is_known_counts_as_aligned() -> None:
    assert best_offset(means_of({}, np.nan)) == 0


@pytest.mark.parametrize(
    ("states", "median", "runs"),
    [
        ([0, 0, 0], 2.0, [(0, 0)]),
        ([0, 1, 1, 0], 2.0, [(0, 0), (1, 1), (0, 3)]),
        ([0, UNRELATED, 0], 2.0, [(0, 0)]),  # a single one counts to the run before
        ([1, 1, UNRELATED, 1], 2.0, [(1, 0)]),
        ([1, UNRELATED, 0], 2.0, [(1, 0), (0, 2)]),
        ([UNRELATED, 1], 2.0, [(0, 0), (1, 1)]),
        ([0, UNRELATED, UNRELATED, 0], 1.5, [(0, 0), (UNRELATED, 1), (0, 3)]),
        ([0, UNRELATED, UNRELATED, 0], 1.49, [(0, 0)]),  # the part is not aligned otherwise
        ([2, UNRELATED, UNRELATED], 1.49, [(2, 0)]),
    ],
)
def test_runs_of_windows(states: list[int], median: float, runs: list[tuple[int, int]]) -> None:
    assert _runs(states, median) == runs


@pytest.mark.parametrize(
    ("offsets", "places", "expected"),
    [
        ([0, 0, 1, 1], [0, 1, 2, 3], [0, UNRELATED, UNRELATED, 1]),
        ([0, 0, 1, 1], [0, 1, 5, 6], [0, 0, 1, 1]),  # others lie between
        ([0, 1, 0], [0, 2, 1], [0, UNRELATED, UNRELATED]),
        ([0, 0, 0], [0, 2, 1], [0, 0, 0]),
    ],
)
def test_windows_beside_a_change_teach_nothing(offsets: list[int], places: list[int], expected: list[int]) -> None:
    assert _without_changes(offsets, places) == expected


def test_small_figures() -> None:
    assert [_change(np.array(votes)) for votes in ([-1, -1, 2, 3], [1, 1], [-1.0], [-1, 1, -1, 1])] == [2, 0, 1, 1]
    windows: list[Any] = list(range(10))
    assert (_spread(windows, 4), _spread(windows, 10), _spread(windows, 99)) == ([0, 2, 5, 7], windows, windows)
    unknown = means_of({}, np.nan)
    first, second = unknown.copy(), unknown.copy()
    first[[LARGEST - 1, LARGEST]] = 1.0, 0.0
    second[[LARGEST - 1, LARGEST + 5]] = 1.5, 1.3
    assert _best_common_offset([first, second, unknown]) == 5  # 1.3 in one window, against 1.25 in two
    assert _best_common_offset([unknown]) == 0
    assert np.isnan(_mean(np.ones(15)))
    assert _mean(np.arange(16.0)) == 7.5


@pytest.mark.parametrize("chunk", [7, 64, 1000])
def test_windows_are_spread_evenly_however_long_the_text_is(chunk: int) -> None:
    pairs = [(f"s{i}", f"t{i}") for i in range(64 * 9 + 31)]
    sampler = WindowSampler(4)
    for start in range(0, len(pairs), chunk):
        sampler.add(pairs[start : start + chunk])
    assert (sampler.num_pairs, sampler.stride) == (607, 256)
    assert sampler.windows == {
        at: ([f"s{i}" for i in range(at, at + 64)], [f"t{i}" for i in range(at, at + 64)]) for at in (0, 256, 512)
    }
    for more, whole in ((31, False), (32, True)):
        short = WindowSampler(128)
        short.add(pairs[: 64 + more])
        assert [*short.windows] == [0, 64]
        assert [*short.complete()] == [0, 64][: 1 + whole]


class Scorer:
    """Finds the offset that the first source line of a window names."""

    def __init__(self) -> None:
        self.halves: list[int] = []

    def means(self, window: tuple[list[str], list[str]], half: int = 0) -> np.ndarray:
        self.halves.append(half)
        name = window[0][0]
        return means_of({}, 0.1) if name == "?" else means_of({int(name): 4.0})


def shifted(states: list[str], first_window: int = 0) -> tuple[list[ShiftedLines], list[int]]:
    sampler, scorer = WindowSampler(128), Scorer()
    for state in states:
        sampler.add([(state, "x")] * 64)
    scores: Any = scorer
    found = find_shifted_lines(Part((Path("a"),)), sampler, scores, first_window, progress=False)
    return found, scorer.halves


def test_the_first_three_runs_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Any] = []

    def locate(part: Part, between: tuple[int, int], offsets: tuple[int, int], *_: object) -> int:
        places.append((between, offsets))
        return between[1] - 10

    monkeypatch.setattr(module, "_locate", locate)
    found, halves = shifted(["0", "0", "2", "2", "0", "-1", "5", "7"], first_window=3)
    assert found == [
        ShiftedLines(118, 246, 2, to_end=False),
        ShiftedLines(310, 374, -1, to_end=False),
        ShiftedLines(374, 438, 5, to_end=False),
    ]
    assert places == [
        ((64, 128), (0, 2)),
        ((192, 256), (2, 0)),
        ((256, 320), (0, -1)),
        ((320, 384), (-1, 5)),
        ((384, 448), (5, 7)),
    ]
    assert halves == [1, 0] * 4
    assert shifted(["3", "3"])[0] == [ShiftedLines(0, 128, 3, to_end=True)]
    assert shifted(["0", "4"])[0] == [ShiftedLines(54, 128, 4, to_end=True)]
    assert shifted([])[0] == []


def test_sixteen_windows_without_any_offset_are_unrelated() -> None:
    assert shifted(["?"] * 16)[0] == [ShiftedLines(0, 1024, UNRELATED, to_end=True)]
    assert shifted(["?"] * 15)[0] == []


def test_a_part_is_sampled_once_and_treebanks_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.touch()
    check = AlignmentCheck(Sides(None, {}))
    part, trees = Part((path,)), Part((path,), trees=True)
    for number, line in ((2, 1), (3, 3), (2, 1), (1, 6)):
        for each in (part, trees):
            check.add(each, Chunk(PairReader([path]), 0, 0, line, [("a", "b")] * number))
    assert {each: sampler.num_pairs for each, sampler in check._samplers.items()} == {part: 6}


# --- the likeness of two lines ----------------------------------------------------------------------------------------


def test_seven_lines_say_nothing_and_eight_say_which_belong_together() -> None:
    """Source word i always comes with target word i; the spelling of the two says nothing."""
    one_each = WordLines(np.tile(np.arange(8), 4), starts=np.arange(33))
    dictionary = WordDictionary.learn(one_each, one_each, (8, 8))
    sources, targets = [chr(97 + i) * 3 for i in range(8)], [chr(1072 + i) * 3 for i in range(8)]
    weights = spelling_weights([(sources, targets)])
    for count in (7, 8):
        text = ([*sources[:count], " "], [*targets[:count], "x"])
        words = WordLines(np.arange(count), starts=np.array([*range(count + 1), count]))
        scores = similarity(text, dictionary.forward_scores(words, words), weights)
        assert scores.shape == (count + 1, count + 1)
        if count == 7:
            assert not scores.any()
            continue
        assert scores[:8].argmax(axis=1).tolist() == list(range(8))
        assert not scores[8].any()  # no text
        usable = scores[:8]
        assert usable.std() == pytest.approx(1)
        assert usable.mean(axis=0) == pytest.approx(0)
