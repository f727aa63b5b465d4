"""Lines that are known, found again in a large text even if case, punctuation or one word of them was changed.

Two lines are the *same* if they have the same letters and digits in the same order. Case, punctuation, symbols, spaces
and the Unicode form (NFKC) do not count. Two lines are *near-copies* if they are the same once at most one word is left
out of each: a word was changed, added, dropped or moved. Both then have at least `MIN_NEAR_WORDS` words: in a shorter
line, one word is too much of the meaning. A line without letters and digits is the same as an equal line only.

The key of a line is the hash of its letters (`hashes.py`). The key of the line without one of its words costs a few
operations, however long the line is. Known lines become a sorted array of such keys. Other lines are compared in
blocks, so memory does not grow with their number.
"""

import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from transduce.text.hashes import NUM_CODES, UNSPACED_RANGES, Hashes, codes_of, mixed, powers

MIN_LEAK_BYTES = 16  # in UTF-8. Shorter lines, such as "Thank you.", occur everywhere: to know them proves nothing
MIN_NEAR_WORDS = 8
MAX_CHARACTERS = 10_000  # compared of a line, to bound memory

Keys = Hashes
Ints = NDArray[np.int64]

_BLOCK_LINES = 256
_MAX_BITS = 24  # of the first look at a key: 16 MB
_SEPARATOR, _LETTER, _UNSPACED, _LINE_END = 0, 1, 2, 3  # classes of characters
_IN_CONTEXT = 1  # instead of a folded character: it becomes several, or joins its neighbour
_JAMO = range(0x1100, 0x1200)  # parts of Korean syllables


@dataclass(frozen=True)
class Keyed:
    """The keys of several lines.

    Attributes:
        whole: the key of each line; 0 for an empty line.
        num_words: of each line.
        lines: for each word, the line that it is in.
        without: for each word, the key of its line without it.
    """

    whole: Keys
    num_words: Ints
    lines: Ints
    without: Keys

    def near(self) -> Iterator[tuple[Keys, Ints]]:
        """Yields the keys of long lines, without one word and whole, with the line that each belongs to."""
        long = np.flatnonzero((self.num_words >= MIN_NEAR_WORDS)[self.lines])
        yield self.without[long], self.lines[long]
        whole = np.flatnonzero(self.num_words >= MIN_NEAR_WORDS)
        yield self.whole[whole], whole


@dataclass(frozen=True)
class Matches:
    """What several lines are copies of.

    Attributes:
        known: for each line, the number of the known line, in the order in which they were added; -1 for none.
        same: for each line, whether the two are the same, and not only near-copies.
        keys: of each line.
    """

    known: Ints
    same: NDArray[np.bool_]
    keys: Keys


def is_long(line: str) -> bool:
    """Returns whether a line is long enough to be a leak by itself."""
    return len(line.strip().encode()) >= MIN_LEAK_BYTES


def line_keys(lines: Sequence[str]) -> Keys:
    """Returns the key of each line: lines that are the same have the same key."""
    return np.concatenate([np.zeros(0, dtype=np.uint64), *(keyed.whole for _, keyed in _blocks(lines))])


class KnownLines:
    """Lines that are recognised."""

    def __init__(self) -> None:
        self._num_lines = 0
        self._whole: list[tuple[Keys, Ints]] = []  # keys, and the lines that have them
        self._near: list[tuple[Keys, Ints]] = []  # those of long lines, also without one word
        self._tables: tuple[_Table, _Table] | None = None

    def add(self, lines: Sequence[str]) -> None:
        """Adds lines. Empty ones are counted, but never found."""
        for start, keyed in _blocks(lines):
            some = np.flatnonzero(keyed.whole)
            self._whole.append((keyed.whole[some], self._num_lines + start + some))
            self._near += [(keys, self._num_lines + start + numbers) for keys, numbers in keyed.near()]
        self._num_lines += len(lines)
        self._tables = None

    def find(self, lines: Sequence[str]) -> Matches:
        """Returns which of the lines are known. The same line counts more than a near-copy."""
        if self._tables is None:
            self._tables = _Table.of(self._whole), _Table.of(self._near)
        whole, near = self._tables
        matches = Matches(np.full(len(lines), -1), np.zeros(len(lines), dtype=bool), np.zeros(len(lines), np.uint64))
        for start, keyed in _blocks(lines):
            matches.keys[start : start + len(keyed.whole)] = keyed.whole
            for keys, numbers in keyed.near():
                found, positions = near.look_up(keys)
                matches.known[start + numbers[found]] = positions
            found, positions = whole.look_up(keyed.whole)
            matches.known[start + found] = positions
            matches.same[start + found] = True
        return matches


@dataclass(frozen=True)
class _Table:
    """Keys in rising order, the first line that has each, and which upper bits occur."""

    keys: Keys
    lines: Ints
    occurs: NDArray[np.bool_]

    @classmethod
    def of(cls, parts: Sequence[tuple[Keys, Ints]]) -> "_Table":
        keys = np.concatenate([np.zeros(0, dtype=np.uint64), *(part[0] for part in parts)])
        lines = np.concatenate([np.zeros(0, dtype=np.int64), *(part[1] for part in parts)])
        keys, first = np.unique(keys, return_index=True)
        occurs = np.zeros(1 << min(_MAX_BITS, len(keys).bit_length() + 5), dtype=bool)
        occurs[_upper(keys, len(occurs))] = True
        return cls(keys, lines[first], occurs)

    def look_up(self, keys: Keys) -> tuple[Ints, Ints]:
        """Returns the indices of the keys that occur, and the lines that have them."""
        some = np.flatnonzero(self.occurs[_upper(keys, len(self.occurs))])
        positions = np.minimum(np.searchsorted(self.keys, keys[some]), len(self.keys) - 1)
        found = self.keys[positions] == keys[some]
        return some[found], self.lines[positions[found]]


def _upper(keys: Keys, size: int) -> Keys:
    """Returns the upper bits of keys, as indices into an array of `size`, a power of two."""
    return keys >> np.uint64(65 - size.bit_length())


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, Keyed]]:
    """Yields the keys of some lines at a time, with the number of the first line."""
    for start in range(0, len(lines), _BLOCK_LINES):
        yield start, _keyed(lines[start : start + _BLOCK_LINES])


def _keyed(lines: Sequence[str]) -> Keyed:
    """Returns the keys of a block of lines."""
    codes, classes = _folded("".join([line[:MAX_CHARACTERS].replace("\n", " ") + "\n" for line in lines]))
    is_letter = (classes == _LETTER) | (classes == _UNSPACED)
    begins = is_letter.copy()
    begins[1:] &= ~is_letter[:-1] | (classes[1:] == _UNSPACED) | (classes[:-1] == _UNSPACED)
    before = np.concatenate([[0], np.cumsum(is_letter)])  # number of letters before each character
    letters = codes[is_letter].astype(np.uint64)
    rising, inverses = powers(len(letters) + 1)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(letters * rising[:-1], dtype=np.uint64)])
    ends = before[np.flatnonzero(classes == _LINE_END)]  # of each line, in letters
    starts = np.concatenate([[0], ends[:-1]])
    word_starts = before[np.flatnonzero(begins)]
    word_ends = np.concatenate([word_starts[1:], [len(letters)]])[: len(word_starts)]
    num_words = np.diff(np.searchsorted(word_starts, np.concatenate([starts, ends[-1:]])))
    of_word = np.repeat(np.arange(len(lines)), num_words)
    first, last = starts[of_word], ends[of_word]
    rest = (sums[last] - sums[word_ends]) * inverses[word_ends - word_starts]
    without = (sums[word_starts] - sums[first] + rest) * inverses[first]
    whole = mixed((sums[ends] - sums[starts]) * inverses[starts])
    for line in np.flatnonzero(num_words == 0).tolist():
        whole[line] = zlib.crc32(lines[line].strip().encode(errors="replace"))  # 0 of an empty line
    return Keyed(whole, num_words, of_word, mixed(without))


def _folded(text: str) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Returns the characters of a text without case and in their Unicode form NFKC, and the class of each."""
    folded_of, classes_of = _characters()
    codes = codes_of(text.replace("ß", "ss"))  # else every German text would take the slow way
    folded = folded_of[codes]
    if (folded == _IN_CONTEXT).any():
        spaced = np.where(classes_of[codes] == _SEPARATOR, np.uint32(ord(" ")), codes)
        codes = codes_of(unicodedata.normalize("NFKC", spaced.tobytes().decode("utf-32-le").casefold()))
        folded = np.where(folded_of[codes] == _IN_CONTEXT, codes, folded_of[codes])
    return folded, classes_of[folded]


@cache
def _characters() -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Returns for each code point its folded form, or `_IN_CONTEXT`, and its class."""
    folded, classes = np.arange(NUM_CODES, dtype=np.uint32), np.zeros(NUM_CODES, dtype=np.uint8)
    letters, changed = list[int](), dict[int, int]()
    for code in range(NUM_CODES - 1):
        character = chr(code)
        kind = unicodedata.category(character)[0]
        if kind in "LMN":
            letters.append(code)
            form = unicodedata.normalize("NFKC", character.casefold()).casefold()  # "ℝ" has no case, and becomes "R"
            joins = kind == "M" or code in _JAMO
            if form != character:  # few are: none of the many of Chinese, for example
                joins |= any(unicodedata.category(each)[0] == "M" or ord(each) in _JAMO for each in form)
                changed[code] = ord(form) if len(form) == 1 else _IN_CONTEXT
            if joins:
                changed[code] = _IN_CONTEXT
    classes[letters] = _LETTER
    folded[list(changed)] = list(changed.values())
    for first, last in UNSPACED_RANGES:
        inside = classes[first : last + 1]
        inside[inside == _LETTER] = _UNSPACED
    classes[ord("\n")] = _LINE_END
    return folded, classes
