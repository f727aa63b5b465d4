"""Which earlier pairs a pair is compared with, and what of its text counts."""

import random

import numpy as np

import made_parallel
from transduce.alignment.words import Tokens, tokens_of
from transduce.augmentation.filtering.near_duplicates import NearDuplicates, band_keys


def near(
    pairs: list[tuple[str, str]], min_similarity: float = 0.8, kept: list[bool] | None = None
) -> list[tuple[int, int, float]]:
    """Returns the near-duplicates of a list of pairs, each with the pair that it repeats and their similarity."""
    sides = [tokens_of([pair[side] for pair in pairs]) for side in (0, 1)]
    mask = np.array(kept or [True] * len(pairs))
    found = NearDuplicates.among(band_keys(*sides), mask, min_similarity)
    chosen = found.needed(0, len(pairs))
    needed: list[Tokens] = [tokens_of([pairs[i][side] for i in chosen]) for side in (0, 1)]
    return [*found.find(chosen, *needed)]


PAIR = ("on 3 May a dog runs", "am 3. Mai rennt ein Hund")
SIGNS = ("On 14 may, a DOG runs!", "(am 99 Mai: rennt ein Hund?)")
WORD = ("on 3 May a dog runs", "am 3. Mai rennt ein Fuchs")  # of 12 words 11 are the same, of 13 in all


def test_signs_case_and_numbers_do_not_count_and_words_do() -> None:
    assert near([PAIR, SIGNS], 1.0) == [(1, 0, 1.0)]
    assert near([PAIR, WORD], 0.8) == [(1, 0, 11 / 13)]
    assert near([PAIR, WORD], 0.85) == []


def test_a_pair_that_was_dropped_before_repeats_nothing_and_is_not_repeated() -> None:
    assert near([PAIR, SIGNS, SIGNS], 0.8, [False, True, True]) == [(2, 1, 1.0)]
    assert near([PAIR, SIGNS, SIGNS], 0.8, [True, False, True]) == [(2, 0, 1.0)]
    assert near([PAIR, SIGNS], 0.8, [True, False]) == []


def test_pairs_that_differ_in_case_signs_numbers_or_a_word_are_near_duplicates() -> None:
    source, target = (
        "On 3 May the house will vote on this good report again",
        "Am 3. Mai stimmt das Haus wieder darüber ab",
    )
    others = made_parallel.pairs(50)
    changed = [
        (source.upper(), target.lower()),
        (source + " !!", f"({target})"),
        (source.replace("3", "14"), target.replace("3", "14")),
        (source.replace("good ", ""), target),
        (source, target.replace("wieder", "wiedr")),
    ]
    found = near([(source, target), *others, *changed])
    assert [each[:2] for each in found] == [(51 + i, 0) for i in range(5)]


def test_too_few_words_in_common_make_no_near_duplicate() -> None:
    pair = ("one two three four five", "eins zwei drei vier sechs")
    longer = (f"{pair[0]} x", f"{pair[1]} y z")  # has all ten words of the pair, and thirteen in all
    assert near([pair, longer], 0.77) == []
    assert near([pair, longer], 0.76) == near([longer, pair], 0.76) == [(1, 0, 10 / 13)]
    assert near([("a dog runs", "ein Hund rennt"), ("a cat runs", "eine Katze rennt"), ("!", "?"), ("...", "!")]) == []


def test_sides_that_change_places_are_no_near_duplicate() -> None:
    source, target = "one two three four five six", "eins zwei drei vier sechs sieben"
    assert near([(source, target), (target, source)]) == []
    assert near([(source, target), (source, target)]) == [(1, 0, 1.0)]


def test_candidates_are_those_that_a_comparison_of_all_pairs_finds() -> None:
    chance = random.Random(3)
    pairs = made_parallel.pairs(300)
    for i in chance.sample(range(300), 100):
        words = pairs[chance.randrange(300)][0].split()
        words[chance.randrange(len(words))] = chance.choice(["x", "y"])
        pairs[i] = (" ".join(words), pairs[i][1])
    sets = [{(side, word) for side in (0, 1) for word in pair[side].lower().replace(".", "").split()} for pair in pairs]
    wanted = {i for i in range(300) if any(len(sets[i] & sets[j]) / len(sets[i] | sets[j]) >= 0.8 for j in range(i))}
    found = {pair for pair, *_ in near(pairs)}
    assert found <= wanted
    assert len(found) >= 0.9 * len(wanted)
