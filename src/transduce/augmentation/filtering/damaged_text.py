"""Damage within a line: random letters, a phrase that is repeated, an end that is missing, numbers that differ.

No rule knows a language. What is usual is learned from the corpus, or is what the other side of the pair has.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.words import SIGN, Tokens, line_keys

_ALPHABET = 63  # letters of a side that are known, from the most frequent on
_MIN_TRIGRAMS = 6  # of a line's words
_RARE_SHARE = 2e-5  # of the trigrams of a side
_MAX_RARE = 0.5  # of the trigrams of a line
_PHRASE = 3  # words, from which on a phrase may not be repeated at once

# A number with groups of three digits, or digits. Other signs between digits (decimals, dates, times) separate.
_NUMBER = re.compile(r"\d{1,3}(?:[.,'’ \u00a0\u2009\u202f]\d{3})+(?!\d)|\d+")
_MONTH = re.compile(r"(?<!\d)\d{1,2}\s?[月월]")  # of Chinese, Japanese, Korean, where other languages write a name
_DIGITS = 1000  # read of a number: Python refuses 4300
_HOURS, _CENTURY = 12, 100
_FIRST_YEAR, _CALENDARS = 1800, (543, 1911, 1925, 1988, 2018)  # the Thai calendar; Minguo, Shōwa, Heisei, Reiwa

_CLOSING = "\"'”’»› "
_FINAL = frozenset(".!?…。！？؟।")


@dataclass(frozen=True, eq=False)
class LetterOrder:
    """Which trigrams of letters a side uses.

    Attributes:
        numbers: the number of each known letter, from 1 on; 0 is any other character.
        rare: whether each trigram, as a number of base 64, is rare.
    """

    numbers: dict[int, int]
    rare: NDArray[np.bool_]

    @classmethod
    def learn(cls, lines: Sequence[str]) -> "LetterOrder":
        """Learns from lines of the side."""
        codes = np.frombuffer("\n".join(lines).lower().encode("utf-32-le", "replace"), dtype="<u4")
        counts = np.bincount(codes)
        frequent = [code for code in np.argsort(-counts)[: 4 * _ALPHABET].tolist() if counts[code]]
        letters = [code for code in frequent if chr(code).isalpha()][:_ALPHABET]
        numbers = {code: number for number, code in enumerate(letters, start=1)}
        table = np.zeros(len(counts), dtype=np.int64)
        table[letters] = np.arange(1, len(letters) + 1)
        trigrams = np.bincount(_trigrams(table[codes]), minlength=1 << 18)
        return cls(numbers, trigrams < _RARE_SHARE * trigrams.sum())

    def is_random(self, line: str) -> bool:
        """Returns whether most trigrams of the line's words are rare. Words with unknown letters do not count."""
        found = _trigrams(np.array([self.numbers.get(ord(letter), 0) for letter in line.lower()], dtype=np.int64))
        return len(found) >= _MIN_TRIGRAMS and float(self.rare[found].mean()) > _MAX_RARE


def _trigrams(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    known = numbers > 0
    chosen = known[:-2] & known[1:-1] & known[2:]
    return np.asarray((numbers[:-2] << 12 | numbers[1:-1] << 6 | numbers[2:])[chosen])


def repeated_phrases(tokens: Tokens) -> dict[int, int]:
    """Returns the lines that repeat a phrase at once, with its number of words.

    A phrase of one or two words must be repeated until at least three words in a row occur twice.
    """
    words = tokens.where(tokens.kinds != SIGN)
    hashes, lines = words.hashes, words.lines
    mixed = hashes[:-2] * np.uint64(3) ^ hashes[1:-1] * np.uint64(0x9E3779B97F4A7C15) ^ hashes[2:]
    keys = line_keys(mixed * np.uint64(0xD6E8FEB86659FD93), lines[:-2])
    keys = np.where(lines[:-2] == lines[2:], keys, -1 - np.arange(len(keys)))
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    first, second = order[same], order[same + 1]
    size = second - first
    inside = np.minimum(second + size, len(hashes)) <= words.starts[lines[first] + 1]
    long = (size < _PHRASE) | (inside & (hashes[np.minimum(second + size, len(hashes)) - 1] == hashes[second - 1]))
    found: dict[int, int] = {}
    for begin, count in zip(first[long].tolist(), size[long].tolist(), strict=True):
        if np.array_equal(hashes[begin : begin + count], hashes[begin + count : begin + 2 * count]):
            found.setdefault(int(lines[begin]), count)
    return found


def differing_numbers(source: str, target: str) -> tuple[str, str] | None:
    """Returns a number of each side that the other does not have; None if only one side has such a number.

    A number that only one side writes in digits may be a word on the other. 8 equals 20 (hours), 90 equals 1990,
    2023 equals 2566 (Thai years), and 1.5 equals 1 500 000.
    """
    sides = [list(dict.fromkeys(_numbers(line))) for line in (source, target)]
    single = [[number for number in own if number not in other] for own, other in (sides, sides[::-1])]
    for number in list(single[0]):
        for other in single[1]:
            if _alike(number, other):
                single[0].remove(number)
                single[1].remove(other)
                break
    if not (single[0] and single[1]):
        return None
    digits = ["".join(map(str, own)).replace("0", "") for own in single]
    return None if digits[0] == digits[1] else (str(single[0][0]), str(single[1][0]))


def _numbers(line: str) -> Iterator[int]:
    for match in _NUMBER.findall(_MONTH.sub(" ", line)):
        if number := int("".join(filter(str.isdecimal, match))[:_DIGITS]):
            yield number


def _alike(first: int, second: int) -> bool:
    low, high = sorted((first, second))
    if high > _FIRST_YEAR and high - low in _CALENDARS:
        return True
    return (low < _HOURS and high - low == _HOURS) or (low < _CENTURY < high // 10 and high % _CENTURY == low)


def ends_open(lines: Sequence[str]) -> NDArray[np.int8]:
    """Returns for each line 1 if it ends with a letter or digit, -1 if with the end of a sentence, else 0."""
    ends = [line.rstrip(_CLOSING)[-1:] for line in lines]
    return np.fromiter((-1 if end in _FINAL else int(end.isalnum()) for end in ends), dtype=np.int8, count=len(ends))


def is_invisible(line: str) -> bool:
    """Returns whether a line has spaces, format characters and blank letters only."""
    return all(
        character in "\u115f\u1160\u2800\u3164\uffa0" or unicodedata.category(character)[0] in "ZC"
        for character in line
    )
