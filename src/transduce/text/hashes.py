"""Hashes of runs of characters, in numpy.

A hash is a polynomial of the characters c₀ c₁ … modulo 2⁶⁴, Σ cₖ Pᵏ. With prefix sums over the characters of a text,
the hash of any run of them costs one subtraction and one multiplication by a power of 1/P.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

NUM_CODES = 0x32000  # code points from here on are planes without letters
# First and last code points of scripts without spaces between words: each of their characters counts as a word.
UNSPACED_RANGES = (
    (0x0E00, 0x0FFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x3400, 0x9FFF),
    (0x20000, 0x31FFF),
)

_BASE, _MIX = 0x9E3779B97F4A7C15, np.uint64(0xD6E8FEB86659FD93)  # odd, so that the first has an inverse modulo 2⁶⁴


def codes_of(text: str) -> NDArray[np.uint32]:
    """Returns the code point of each character, which is `NUM_CODES` - 1 for those from there on."""
    return np.asarray(np.minimum(np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4"), NUM_CODES - 1))


def powers(count: int) -> tuple[Hashes, Hashes]:
    """Returns P⁰ P¹ … and P⁰ P⁻¹ …, modulo 2⁶⁴, `count` of each."""
    rising, falling = _power_tables(1 << count.bit_length())
    return rising[:count], falling[:count]


@cache
def _power_tables(size: int) -> tuple[Hashes, Hashes]:
    factors = np.full((2, size), np.array([[_BASE], [pow(_BASE, -1, 1 << 64)]], dtype=np.uint64))
    factors[:, 0] = 1
    rising, falling = np.cumprod(factors, axis=1, dtype=np.uint64)
    return rising, falling


def mixed(hashes: Hashes) -> Hashes:
    """Returns hashes whose upper bits depend on all bits."""
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _MIX
    return hashes ^ (hashes >> np.uint64(29))
