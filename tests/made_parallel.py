"""A parallel corpus of invented languages that differ in their syllables, large enough for the filter to learn from."""

import random
from itertools import product

Pair = tuple[str, str]

_ONSETS = ("bdfgkl", "mnrstv", "cjpqwz")
_VOWELS = ("aei", "ou", "yéà")
_NUM_WORDS = 400


def words(language: int) -> list[str]:
    """Returns the words of a language (0 source, 1 target, 2 a third); word i of one translates word i of another."""
    syllables = ["".join(pair) for pair in product(_ONSETS[language], _VOWELS[language])]
    found = ["".join(each) for length in (2, 3) for each in product(syllables, repeat=length)]
    return random.Random(language).sample(found, min(_NUM_WORDS, len(found)))


def pairs(count: int, seed: int = 1, languages: tuple[int, int] = (0, 1)) -> list[Pair]:
    """Returns pairs of sentences; frequent words are much more frequent than rare ones, as in real text."""
    chance = random.Random(seed)
    vocabularies = [words(language) for language in languages]
    size = min(map(len, vocabularies))
    weights = [1 / (rank + 5) for rank in range(size)]
    made = []
    for _ in range(count):
        chosen = chance.choices(range(size), weights, k=chance.randint(6, 18))
        moved = sorted(range(len(chosen)), key=lambda place: place + chance.uniform(0, 2))
        sides = [vocabularies[0][i] for i in chosen], [vocabularies[1][chosen[place]] for place in moved]
        made.append((" ".join(sides[0]).capitalize() + ".", " ".join(sides[1]).capitalize() + "."))
    return made
