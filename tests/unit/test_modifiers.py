"""What each modifier makes of a pair, worked out by hand: the random choices are given."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from transduce.config.modifiers import MODIFIERS
from transduce.data.batching import mix, random_numbers, random_numbers_at
from transduce.data.modifiers.aligned import Links
from transduce.data.modifiers.applying import ALIGNED, NAMES, applied
from transduce.data.modifiers.case import title_case, upper_case
from transduce.data.modifiers.copying import copies, items, noise
from transduce.data.modifiers.draws import Draws
from transduce.data.modifiers.punctuation import punctuation
from transduce.data.modifiers.typos import WAYS, typos


class Given(Draws):
    """Draws that are given: each is the number that `below` returns."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(0)
        self.numbers = [*numbers]

    def below(self, count: int) -> int:
        number = self.numbers.pop(0)
        assert number < count
        return number


NO, YES = 2**53 - 1, 0  # of `chance`


def test_draws_follow_from_their_number_alone() -> None:
    """The first two numbers of the published SplitMix64 with the seed 0."""
    draws = Draws(0)
    assert [draws.below(2**64), draws.below(2**64)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    assert Draws(7).text("ab", 20, 20) == Draws(7).text("ab", 20, 20) != Draws(8).text("ab", 20, 20)


def test_draws_are_spread_evenly() -> None:
    draws = Draws(3)
    counts = Counter(draws.between(4, 6) for _ in range(3000))
    assert sorted(counts) == [4, 5, 6]
    assert min(counts.values()) > 900
    assert 350 < sum(draws.chance(0.1) for _ in range(4000)) < 450


def test_random_numbers_of_some_indices_are_those_of_all() -> None:
    every = random_numbers(50, 3, 4, salt=5)
    some = every[[49, 0, 7, 7]]
    assert random_numbers_at(np.array([49, 0, 7, 7]), 3, 4, salt=5).tolist() == some.tolist()
    assert mix(0) == 0


def test_the_functions_are_those_that_a_recipe_may_name() -> None:
    assert {"merge", *NAMES} == {*MODIFIERS}
    assert {*ALIGNED} == {name for name, kind in MODIFIERS.items() if kind.aligned}
    assert all(0 < kind.usual <= 0.2 and kind.effect for kind in MODIFIERS.values())


# --- capitals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("modify", "source", "target", "expected"),
    [
        (upper_case, "A dog runs.", "Ein großer Hund.", ("A DOG RUNS.", "EIN GROSSER HUND.")),
        (upper_case, "A dog.", "一只狗。", ("A DOG.", "一只狗。")),
        (upper_case, "一只狗。", "A dog.", ("一只狗。", "A dog.")),  # the source's script has no capitals
        (upper_case, "用API接口。", "Use the API.", ("用API接口。", "Use the API.")),  # nor has it with a Latin name
        (title_case, "في Linux", "in Linux and so on", ("في Linux", "in Linux and so on")),
        (title_case, "a dog don't run", "ein hund läuft", ("A Dog Don't Run", "Ein Hund Läuft")),
        (title_case, "öl und 2nd-hand", "x", ("Öl Und 2nd-Hand", "X")),
        (title_case, "A DOG", "ein hund", ("A DOG", "ein hund")),  # is in capitals already
        (title_case, "一只狗", "a dog", ("一只狗", "a dog")),
        # A word goes on after an accent of its own, and after a soft hyphen.
        (
            title_case,
            "e\u0301cole",
            "ẹ\u0300kọ\u0301 zu\u00adsammen",
            ("E\u0301cole", "Ẹ\u0300kọ\u0301 Zu\u00adsammen"),
        ),
        (title_case, "the dog", "დიდი ძაღლი", ("The Dog", "დიდი ძაღლი")),  # Georgian has capitals for whole words only
    ],
)
def test_capitals(modify: Any, source: str, target: str, expected: tuple[str, str]) -> None:
    assert modify(source, target, Given()) == expected


# --- typos -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "choices", "expected"),
    [
        ("swapped letters", [1, 1], "A dog runs, hoppeing"),
        ("dropped letter", [1, 2], "A dog runs, hoping"),
        ("doubled letter", [1, 0], "A dog runs, hhopping"),
        ("double letter once", [1, 0], "A dog runs, hoping"),
        ("neighbour key", [0, 1, 0], "A dog ryns, hopping"),
        ("letter that looks alike", [1, 0, 0], "A dog runs, h0pping"),
        ("extra letter", [0, 3, 1], "A dog runsd, hopping"),
        ("extra space", [1, 2], "A dog runs, hop ping"),
        ("lost space", [1], "A dog runs,hopping"),
    ],
)
def test_each_way_of_misspelling(way: str, choices: Sequence[int], expected: str) -> None:
    """Words of four letters are "runs" and "hopping"; the first choice is the word, the second the place in it."""
    if way == "swapped letters":
        expected = "A dog runs, hpoping"
    drawn = [YES if each == way else NO for each in WAYS]
    draws = Given(*drawn, *choices)
    assert typos("A dog runs, hopping", "Ein Hund", draws) == (expected, "Ein Hund")
    assert draws.numbers == []


def test_a_line_that_draws_no_way_of_misspelling_gets_one() -> None:
    draws = Given(*[NO] * 9, 1, 0, 0)
    assert typos("A dog runs.", "x", draws) == ("A dog uns.", "x")


@pytest.mark.parametrize("source", ["A cat is in it.", "www.example.org {placeholder} <bold>text</bold> AB12CD 12345"])
def test_nothing_but_words_of_four_letters_is_misspelled(source: str) -> None:
    assert {typos(source, "x", Draws(number)) for number in range(300)} == {(source, "x")}


def test_all_ways_of_misspelling_keep_the_case_of_a_letter() -> None:
    drawn = [YES if each == "neighbour key" else NO for each in WAYS]
    assert typos("HOUSES", "x", Given(*drawn, 0, 0, 1))[0] == "JOUSES"


def test_typos_change_one_to_a_few_letters() -> None:
    source = "Several children are playing outside between houses."
    made = [typos(source, "x", Draws(number))[0] for number in range(500)]
    assert all(abs(len(each) - len(source)) <= 5 for each in made)
    assert made.count(source) < 20  # two equal letters were swapped
    assert len(set(made)) > 250


# --- punctuation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "choices", "expected"),
    [
        ("A dog.", "Ein Hund.", [YES], ("A dog", "Ein Hund")),
        ("Really?! ", "Wirklich?", [YES], ("Really", "Wirklich")),
        ("你好。", "Hello.", [YES], ("你好", "Hello")),
        ("A dog.", "Ein Hund", [YES, 0, 0, 0], ("A  dog.", "Ein Hund")),  # the target has none: only the source changes
        ("...", "...", [YES], ("...", "...")),  # nothing would be left
        ('He "said" it', "x", [NO, 0, 2], ("He „said“ it", "x")),
        ("It's Ann’s", "x", [NO, 0, 1], ("It’s Ann’s", "x")),
        ("one - two", "x", [NO, 0, 2], ("one — two", "x")),
        ("one two", "x", [NO, 0, 0, 1], ("one\u00a0two", "x")),
        ("one two", "x", [NO, 0, 0, 2], ("one two ", "x")),
        ("one", "x", [NO], ("one", "x")),
    ],
)
def test_punctuation(source: str, target: str, choices: Sequence[int], expected: tuple[str, str]) -> None:
    draws = Given(*choices)
    assert punctuation(source, target, draws) == expected
    assert draws.numbers == []


# --- what is copied --------------------------------------------------------------------------------------------------


def test_copies_have_the_target_on_both_sides() -> None:
    assert copies("A dog.", "Ein Hund.", Given()) == ("Ein Hund.", "Ein Hund.")


def test_noise_is_the_same_on_both_sides() -> None:
    made = [noise("A dog.", "Ein Hund.", Draws(number)) for number in range(200)]
    assert all(source == target and 1 <= len(source.split(" ")) <= 4 for source, target in made)
    assert len(set(made)) > 190
    assert any(re.search(r"[а-я]", source) for source, _ in made)


def test_items_are_added_to_both_sides_alike() -> None:
    made = [items("A dog.", "Ein Hund.", Draws(number)) for number in range(1000)]
    alone = [source for source, target in made if source == target]
    added = [pair for pair in made if pair[0] != pair[1]]
    assert 60 < len(alone) < 140
    assert {(source.replace("A dog.", "_"), target.replace("Ein Hund.", "_")) for source, target in added} == {
        (source.replace("A dog.", "_"),) * 2 for source, _ in added
    }
    assert all("A dog." in source for source, _ in added)
    patterns = (
        r"[1-9]\d*(\.\d+|%|-\d+)?",
        r"[A-Za-z0-9]{1,4}([-_/.:,+ ]?[A-Za-z0-9]{2,6}){1,3}",
        r"[a-z]+[._-][a-z]+@[a-z]+\.[a-z.]+",
        r"(https?://)?(www\.)?[a-z]+\.[a-z.]+(/[a-z0-9]+)*(\?[a-z]+=[a-z0-9]+)?",
        r"[^\w\s]+",
    )
    kinds = Counter(
        next((number for number, each in enumerate(patterns) if re.fullmatch(each, item)), -1) for item in alone
    )
    assert sorted(kinds) == [0, 1, 2, 3, 4]


def test_a_random_string_repeats_one_of_its_last_three_characters_now_and_then() -> None:
    letters_from_a_to_z, one_word, five_letters = 0, 0, 4
    a, e, i = 0, 4, 8
    chosen = (letters_from_a_to_z, one_word, five_letters, a, NO, e, YES, 1, NO, i, YES, 0)
    expected = "aeeie"  # again: the second of "ae", and the first of "eei"
    assert noise("A dog.", "Ein Hund.", Given(*chosen)) == (expected, expected)


def test_modifiers_are_applied_one_after_the_other_and_none_after_a_copy() -> None:
    pair = ("A dog.", "Ein Hund.")

    calls = []

    def linked(pairs: Sequence[tuple[str, str]]) -> list[Links]:
        calls.append([*pairs])
        return [[((6, 10), (7, 12))] if source.startswith("LARGE") else [] for source, _ in pairs]

    chosen = [[("upper_case", 5), ("title_case", 5)], [("copies", 5), ("upper_case", 5)], [("terms", 5)], []]
    expected = [("A DOG.", "EIN HUND."), ("Ein Hund.", "Ein Hund."), pair, pair]
    assert applied([pair] * 4, chosen, linked) == expected
    assert calls == [[pair]]
    large = ("Large dogs.", "Große Hunde.")
    chosen = [[("upper_case", 5), ("terms", 7), ("inline_tags", 5)], [("terms", 5), ("typos", 5)]]
    made = applied([large, pair], chosen, linked)
    assert made[0][0].endswith(" | HUNDE |.")
    assert made[0][0] != "LARGE DOGS | HUNDE |."  # it has a tag, too
    assert made[1] == pair
    # Links are those of the text as it is by then.
    assert calls[1:] == [[("LARGE DOGS.", "GROSSE HUNDE."), pair], [("LARGE DOGS | HUNDE |.", "GROSSE HUNDE.")]]
