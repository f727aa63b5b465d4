"""The random choices of one modifier on one line: a pure function of a number.

The number is a hash of seed, epoch, line and modifier (`data/batching.py`). All choices follow from it by the same
integer hash, so that they are the same on any machine, on any rank, and after a resume.
"""

from collections.abc import Sequence
from typing import TypeVar

from transduce.data.batching import HASH_STEP, mix

T = TypeVar("T")

_ALL_BITS = 2**64 - 1


class Draws:
    """Random choices, one after the other, that follow from `number` alone."""

    def __init__(self, number: int) -> None:
        self._number = number

    def below(self, count: int) -> int:
        """Returns a number from 0 to `count` - 1."""
        self._number = (self._number + HASH_STEP) & _ALL_BITS
        return (mix(self._number) * count) >> 64

    def between(self, least: int, most: int) -> int:
        """Returns a number from `least` to `most`."""
        return least + self.below(most - least + 1)

    def chance(self, probability: float) -> bool:
        """Returns whether something happens that has this probability."""
        return self.below(2**53) < probability * 2**53

    def choice(self, among: Sequence[T]) -> T:
        """Returns one of several."""
        return among[self.below(len(among))]

    def text(self, characters: str, least: int, most: int) -> str:
        """Returns `least` to `most` of these characters in random order; a character may come several times."""
        return "".join(self.choice(characters) for _ in range(self.between(least, most)))
