"""Which earlier pairs a pair is compared with, and what of its text counts."""

import numpy as np

from transduce.alignment.words import Tokens, tokens_of
from transduce.augmentation.filtering.near_duplicates import NearDuplicates, band_keys


def near(
    pairs: list[tuple[str, str]], min_similarity: float, kept: list[bool] | None = None
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
