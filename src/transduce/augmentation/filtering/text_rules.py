"""The rules that look at one pair alone, in the order in which they are applied.

Each yields the pairs that break it, by their index, and why; of several reasons, the first counts. A pair's outcome
does not depend on its neighbours, so the dropped pairs can be looked at again to say why.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.line_pairs import Side
from transduce.alignment.words import MAX_CHARACTERS, NUMBER, SIGN, WORD, Tokens
from transduce.augmentation.filtering.damaged_text import (
    differing_numbers,
    ends_open,
    is_invisible,
    repeated_phrases,
)
from transduce.augmentation.filtering.profile import LENGTH_SLACK, CorpusProfile, side_of
from transduce.augmentation.filtering.unfamiliar_words import single_words
from transduce.config.filter_options import FilterOptions
from transduce.data.doctor import HIDDEN_BREAKS
from transduce.data.swapped_sides import FUNCTION_WORDS
from transduce.reporting.tables import counted
from transduce.text.phrases import HAN, KANA, UNSPACED

Pair = tuple[str, str]
Broken = Iterator[tuple[int, str]]  # the index of a pair, and why it is dropped

SIDE_NAMES = ("source", "target")

_MIN_COPIED_WORDS = 4  # of a target that is not quite its source
# U+FFFD and control characters; UTF-8 that was read as Latin-1 or Windows-1252 ("Ã©", "â€™").
_FAULTS = re.compile(
    f"(?P<character>[\ufffd\x00-\x08\x0e-\x1b\x7f-\x9f{HIDDEN_BREAKS}])"
    "|(?P<mojibake>[ÂÃÐÑ][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€|ï¿½)"
)
# "?" in place of letters: "fran?ais", "?tre", "??? ?????". In addresses ("x.php?id=1") a sign comes before the word.
# In text without spaces, a question may end before a Latin word.
_LOST = re.compile(
    rf"(?P<lost>(?<![^\s'’\"«(-])(?:[^\W\d_{UNSPACED}]+\?[a-zß-öø-ÿ]+|\?[a-zß-öø-ÿ]{{2,}}|\?{{2,}}\s+\?{{2,}}))"
)
_MARKUP = re.compile(
    r"(?P<tag></?[a-z][\w:-]*(?:\s[^<>]*)?/?>|<!--)|(?P<entity>&(?:amp|quot|lt|gt|nbsp|apos|#\d{1,6}|#x[0-9a-f]{1,5});)",
    re.IGNORECASE,
)
# Without spaces, two characters of Chinese or Japanese count as a word, and five of Thai, Lao, Burmese or Khmer.
_UNSPACED = re.compile(f"[{UNSPACED}]")
_UNSPACED_WORD = re.compile(rf"[{KANA}{HAN}]{{1,2}}|[{UNSPACED}]{{1,5}}")
_FAULT_NAMES = {
    "mojibake": "text in a wrong encoding",
    "lost": "a question mark in place of a letter",
    "tag": "a tag",
    "entity": "an HTML entity",
}
_MAX_CUT = math.log(0.75)  # of the usual length ratio, for a side whose end is missing
_LETTERS = re.compile(r"[^\W\d_]+")
_MIN_FUNCTION_WORDS = 2  # of a line, to name its language


@dataclass(frozen=True, eq=False)
class PairBlock:
    """Consecutive pairs, and what several rules need of them.

    Attributes:
        pairs: source and target.
        profile: of the whole corpus.
    """

    pairs: Sequence[Pair]
    profile: CorpusProfile

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """The words of each side."""
        source, target = (side_of([pair[side] for pair in self.pairs]) for side in (0, 1))
        return source, target

    @cached_property
    def single(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which tokens of each side are words that the same line of the other side does not have."""
        return single_words(self.sides[0].tokens, self.sides[1].tokens)

    @cached_property
    def ratios(self) -> NDArray[np.float64]:
        """The log of target length / source length, against what is usual."""
        source, target = (side.lengths + LENGTH_SLACK for side in self.sides)
        return np.asarray(np.log(target / source / self.profile.usual_ratio))

    @cached_property
    def foreign(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which sources and which targets have words that their side hardly ever uses."""
        if self.profile.unfamiliar is None:
            return (np.zeros(len(self.pairs), dtype=bool),) * 2
        source, target = (words.find(self._single_words(side)) for side, words in enumerate(self.profile.unfamiliar))
        return source, target

    @cached_property
    def misplaced(self) -> tuple[set[int], set[int]]:
        """Which sources and which targets are in the language of the other side."""
        found: tuple[set[int], set[int]] = (set(), set())
        for side in (0, 1):
            if self.profile.languages is not None:
                found[side].update(self.profile.languages.misplaced([pair[side] for pair in self.pairs], side))
            if self.profile.unfamiliar is not None:  # letters say too little of a short line, but words may say enough
                fits = self.profile.unfamiliar[1 - side].fits(self._single_words(side))
                found[side].update(np.flatnonzero(self.foreign[side] & fits).tolist())
        return found

    def _single_words(self, side: int) -> Tokens:
        return self.sides[side].tokens.where(self.single[side])


def check_text(block: PairBlock, options: FilterOptions) -> dict[int, tuple[str, str]]:
    """Returns for each pair that breaks a rule the first such rule, and why."""
    found: dict[int, tuple[str, str]] = {}
    for rule, check in _CHECKS.items():
        if options.applies(rule):
            for index, reason in check(block, options):
                found.setdefault(index, (rule, reason))
    return found


def _empty(block: PairBlock, options: FilterOptions) -> Broken:
    for i, pair in enumerate(block.pairs):
        for line, name in zip(pair, SIDE_NAMES, strict=True):
            if is_invisible(line):
                yield i, f"the {name} is empty"


def _encoding(block: PairBlock, options: FilterOptions) -> Broken:
    yield from _matching(block, _LOST, "?")
    yield from _matching(block, _FAULTS)


def _markup(block: PairBlock, options: FilterOptions) -> Broken:
    return _matching(block, _MARKUP, "<&")


def _matching(block: PairBlock, faults: re.Pattern[str], signs: str = "") -> Broken:
    """Yields the pairs with a fault; if `signs` are given, each fault has one of them: a fast first test."""
    for side, name in enumerate(SIDE_NAMES):
        lines = [pair[side] for pair in block.pairs]
        if not signs and not faults.search("\n".join(lines)):  # far faster than one search a line
            continue
        for i, line in enumerate(lines):
            if (not signs or any(sign in line for sign in signs)) and (fault := faults.search(line)):
                yield i, f"the {name} has {_fault_name(fault)}"


def _fault_name(fault: re.Match[str]) -> str:
    text = fault[0]
    if fault.lastgroup == "character":
        name = "bytes that are not UTF-8" if text == "\ufffd" else unicodedata.name(text, "a control character").lower()
        return f"U+{ord(text):04X}, {name}"
    return f"{_FAULT_NAMES[fault.lastgroup or '']}: {text}"


def _length(block: PairBlock, options: FilterOptions) -> Broken:
    for index, (side, name) in enumerate(zip(block.sides, SIDE_NAMES, strict=True)):
        # Only the beginning of a line is split into words. A line that is longer has at least as many words.
        counts = side.tokens.counts_of(side.tokens.kinds != SIGN)
        cut = side.lengths > MAX_CHARACTERS
        counts = np.where(cut, counts * side.lengths // MAX_CHARACTERS, counts)
        for i in np.flatnonzero(counts > options.max_words).tolist():
            line = block.pairs[i][index]
            num_characters = len(_UNSPACED.findall(line))  # each of them is a token
            count = counts[i] - num_characters + len(_UNSPACED_WORD.findall(line))
            if count > options.max_words:
                yield i, f"the {name} has {'about ' if cut[i] or num_characters else ''}{count:,} words"


def _junk(block: PairBlock, options: FilterOptions) -> Broken:
    has_words = [side.tokens.counts_of(side.tokens.kinds != SIGN) > 0 for side in block.sides]
    for side, name in enumerate(SIDE_NAMES):
        for i in np.flatnonzero(~has_words[side] & has_words[1 - side]).tolist():
            yield i, f"the {name} has no words"
        if block.profile.unfamiliar is None or block.profile.letters is None:
            continue
        tokens = block.sides[side].tokens
        unknown = block.single[side] & (block.profile.unfamiliar[side].vocabulary.ids(tokens.hashes) < 0)
        num_unknown, num_words = tokens.counts_of(unknown), tokens.counts_of(tokens.kinds == WORD)
        for i in np.flatnonzero((num_unknown > 0) & (2 * num_unknown >= num_words)).tolist():
            if block.profile.letters[side].is_random(block.pairs[i][side]):
                yield i, f"the {name} has letters in an order that its language hardly ever uses"


def _repetition(block: PairBlock, options: FilterOptions) -> Broken:
    repeated = [repeated_phrases(side.tokens) for side in block.sides]
    for side, name in enumerate(SIDE_NAMES):
        for i, count in repeated[side].items():
            if i not in repeated[1 - side]:
                yield i, f"the {name} repeats {counted(count, 'word')} at once, the {SIDE_NAMES[1 - side]} does not"


def _ratio(block: PairBlock, options: FilterOptions) -> Broken:
    ratios = block.ratios
    for i in np.flatnonzero(np.abs(ratios) > math.log(options.max_ratio)).tolist():
        kind = "long" if ratios[i] > 0 else "short"
        yield i, f"the target is {math.exp(abs(ratios[i])):.1f} times as {kind} as usual"


def _copy(block: PairBlock, options: FilterOptions) -> Broken:
    target = block.sides[1].tokens
    words, own = target.counts_of(target.kinds == WORD), target.counts_of(block.single[1])
    shares = 1 - own / np.maximum(1, words)
    for i in np.flatnonzero((words > 0) & (shares >= options.max_copied)).tolist():
        source, translation = block.pairs[i]
        if source.strip() == translation.strip():
            yield i, "source and target are the same"
        elif words[i] >= _MIN_COPIED_WORDS:
            yield i, f"{shares[i]:.0%} of the target's words are also in the source"


def _swapped(block: PairBlock, options: FilterOptions) -> Broken:
    for i in block.misplaced[0] & block.misplaced[1]:
        yield i, "each side is in the language of the other"


def _language(block: PairBlock, options: FilterOptions) -> Broken:
    for side, name in enumerate(SIDE_NAMES):
        for i in block.misplaced[side]:
            yield i, f"the {name} is in the language of the {SIDE_NAMES[1 - side]}"
        for i in np.flatnonzero(block.foreign[side]).tolist():
            own = block.profile.codes[side]
            yield i, f"the {name} is in another language{_named(block.pairs[i][side], own)}"


def _named(line: str, own: str) -> str:
    """Returns the language of a line in brackets, if its frequent words show one and it is not the expected one."""
    words = _LETTERS.findall(line.lower())
    counts = {code: sum(word in known.split() for word in words) for code, known in FUNCTION_WORDS.items()}
    best, second = sorted(counts.values(), reverse=True)[:2]
    code = max(counts, key=lambda code: counts[code])
    return f" (probably {code})" if best >= _MIN_FUNCTION_WORDS and best > second and code != own else ""


def _truncated(block: PairBlock, options: FilterOptions) -> Broken:
    ends = [ends_open([pair[side] for pair in block.pairs]) for side in (0, 1)]
    for side, name in enumerate(SIDE_NAMES):
        short = block.ratios < _MAX_CUT if side else block.ratios > -_MAX_CUT
        if block.profile.closes[side]:
            for i in np.flatnonzero(short & (ends[side] == 1) & (ends[1 - side] == -1)).tolist():
                yield i, f"the {name} is short, and ends within a sentence"


def _numbers(block: PairBlock, options: FilterOptions) -> Broken:
    counts = [side.tokens.counts_of(side.tokens.kinds == NUMBER) for side in block.sides]
    for i in np.flatnonzero((counts[0] > 0) & (counts[1] > 0)).tolist():
        if found := differing_numbers(*block.pairs[i]):
            yield i, f"the source has {found[0]}, the target {found[1]}"


_Check = Callable[[PairBlock, FilterOptions], Broken]
_CHECKS: dict[str, _Check] = {
    "empty": _empty,
    "encoding": _encoding,
    "markup": _markup,
    "length": _length,
    "junk": _junk,
    "repetition": _repetition,
    "ratio": _ratio,
    "copy": _copy,
    "swapped": _swapped,
    "language": _language,
    "truncated": _truncated,
    "numbers": _numbers,
}
