"""Which lines look like those of the other side."""

import itertools
import math
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data import wrong_language
from transduce.data.wrong_language import SideLanguages

WORDS = ["bada", "kelo", "mani", "popu", "rigo"], ["stren", "vliks", "ompf", "zwirn", "acht"]


def lines(side: int, count: int, seed: int = 1) -> list[str]:
    random = Random(f"{side} {seed}")
    return [" ".join(random.choices(WORDS[side], k=8)) for _ in range(count)]


@pytest.fixture(scope="module")
def sides() -> SideLanguages:
    learned = SideLanguages.learn(zip(lines(0, 600), lines(1, 600), strict=True))
    assert learned is not None
    return learned


def test_typical_odds_have_the_sign_of_their_side(sides: SideLanguages) -> None:
    assert sides.typical[0] > 0.5
    assert sides.typical[1] < -0.5


def test_lines_of_the_other_side_are_found(sides: SideLanguages) -> None:
    ours, theirs = lines(0, 20, seed=2), lines(1, 20, seed=2)
    assert sides.misplaced(ours, 0) == sides.misplaced(theirs, 1) == []
    assert sides.misplaced(theirs, 0) == sides.misplaced(ours, 1) == list(range(20))
    mixed = [*ours[:3], theirs[0], *ours[3:6], theirs[1]]
    assert sides.misplaced(mixed, 0) == [3, 7]


def test_short_lines_and_lines_without_words_are_skipped(sides: SideLanguages) -> None:
    short = "stren vliks ompf zwirn"  # of the other side, and 22 letters
    neither = ["", " ", "\t", short, "1234567 " * 9, "?!" * 40, "\x00" * 50, "\ud800" * 30, "ξένη γλώσσα " * 9]
    assert sides.misplaced(neither, 0) == sides.misplaced(neither, 1) == []
    assert sides.misplaced([short + " acht", "STREN VLIKS OMPF ZWIRN ACHT"], 0) == [0, 1]
    assert sides.misplaced([], 0) == []


def test_a_line_of_both_languages_is_not_misplaced(sides: SideLanguages) -> None:
    half = [f"{ours} {theirs}" for ours, theirs in zip(lines(0, 9, seed=3), lines(1, 9, seed=3), strict=True)]
    assert sides.misplaced(half, 0) == sides.misplaced(half, 1) == []


@given(st.lists(st.text(st.characters(exclude_characters="\n")), max_size=12))
def test_the_odds_of_a_line_do_not_depend_on_other_lines(texts: list[str]) -> None:
    """Compared with the obvious way: counting the trigrams of one line at a time."""
    learned = SideLanguages(_random_odds(), (1.0, -1.0))
    together = learned.mean_odds(texts)
    assert len(together) == len(texts)
    for text, mean in zip(texts, together, strict=True):
        expected = _mean_odds_reference(text, learned)
        assert (math.isnan(mean) and math.isnan(expected)) or mean == pytest.approx(expected, abs=1e-5)


def _random_odds() -> np.ndarray:
    return np.random.default_rng(0).normal(size=1 << wrong_language._TABLE_BITS).astype(np.float32)


def _mean_odds_reference(text: str, learned: SideLanguages) -> float:
    letters = f"\n{text}\n".lower().encode(errors="replace").translate(wrong_language._LETTERS_ONLY)
    counts = Counter(letters[i : i + 3] for i in range(len(letters) - 2))
    counts.pop(b"   ", None)
    if counts.total() < wrong_language._MIN_TRIGRAMS:
        return math.nan
    places = {t: (int.from_bytes(t) * 2654435761 % 2**32) >> (32 - wrong_language._TABLE_BITS) for t in counts}
    return sum(float(learned.odds[places[t]]) * n for t, n in counts.items()) / counts.total()


@pytest.mark.parametrize("swapped", [0.0, 0.04])
def test_learning_tolerates_noise(swapped: float) -> None:
    random = Random(5)
    pairs = list(zip(lines(0, 1000), lines(1, 1000), strict=True))
    wrong = [i for i in range(len(pairs)) if random.random() < swapped]
    for i in wrong:
        pairs[i] = pairs[i][::-1]
    learned = SideLanguages.learn(pairs)
    assert learned is not None
    assert learned.misplaced([src for src, _ in pairs], 0) == learned.misplaced([tgt for _, tgt in pairs], 1) == wrong


def test_no_result_for_too_little_text_or_equal_sides() -> None:
    assert SideLanguages.learn([]) is None
    assert SideLanguages.learn(zip(lines(0, 150), lines(1, 150), strict=True)) is None
    assert SideLanguages.learn(zip(lines(0, 900), lines(0, 900, seed=2), strict=True)) is None
    copies = lines(0, 900)
    assert SideLanguages.learn(zip(copies, copies, strict=True)) is None


@pytest.mark.parametrize("side", [0, 1])
def test_no_result_where_one_side_has_lines_of_both_languages(side: int) -> None:
    """One line in ten is in the other side's language, which is more than one in twenty."""
    sides = [lines(0, 1000), lines(1, 1000)]
    sides[side] = [
        other if i % 10 < 2 and i // 10 % 2 else own
        for i, (own, other) in enumerate(zip(sides[side], sides[1 - side][::-1], strict=True))
    ]
    assert SideLanguages.learn(zip(*sides, strict=True)) is None


@pytest.mark.parametrize(
    ("num_wrong", "num_lines", "most"),
    [(7, 7, False), (8, 8, True), (7, 8, False), (19, 19, True), (18, 19, False), (12, 20, False), (13, 20, True)],
)
def test_most_of_few_lines_are_all_of_them(num_wrong: int, num_lines: int, most: bool) -> None:
    wrong = np.arange(num_lines + 5) < num_wrong  # five lines are too short to be judged
    assert wrong_language._are_most(wrong, num_lines) == most


def test_exchanged_sides(sides: SideLanguages) -> None:
    ours, theirs, exchanged = lines(0, 20, seed=2), lines(1, 20, seed=2), sides.exchanged()
    assert exchanged.misplaced(theirs, 0) == exchanged.misplaced(ours, 1) == []
    assert exchanged.misplaced(ours, 0) == exchanged.misplaced(theirs, 1) == list(range(20))
    right, wrong = list(zip(ours, theirs, strict=True)), list(zip(theirs, theirs, strict=True))
    assert (sides.wrong_sides(right), sides.wrong_sides(wrong)) == ((False, False), (True, False))
    assert (exchanged.wrong_sides(right), exchanged.wrong_sides(wrong)) == ((True, True), (False, True))


def test_short_lines_at_the_beginning_are_skipped() -> None:
    """Some corpora are sorted by length."""
    pairs = [*[("popu", "acht")] * 30_000, *zip(lines(0, 600), lines(1, 600), strict=True)]
    assert SideLanguages.learn(pairs) is not None


def test_no_more_is_read_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_language, "SAMPLE_PAIRS", 400)
    taken = 0

    def pairs() -> Iterator[tuple[str, str]]:
        nonlocal taken
        for pair in itertools.cycle(zip(lines(0, 50), lines(1, 50), strict=True)):
            taken += 1
            yield pair

    assert SideLanguages.learn(pairs()) is not None
    assert taken == 400


def test_long_lines_cost_no_memory(sides: SideLanguages) -> None:
    long = [" ".join(lines(1, 20_000))] * 20
    tracemalloc.start()
    assert sides.misplaced(long, 0) == list(range(20))
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
