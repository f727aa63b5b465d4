"""Versions of a test set that a robust translator survives: with typos, in capitals, with codes to copy, …

Typos, signs, alphabets and items are of other kinds than those that training may add (`applying`), so that a model is
not measured on what it was shown. A version is a pure function of the set: the same on any machine.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from transduce.data.batching import random_numbers
from transduce.data.modifiers.case import has_case, titled
from transduce.data.modifiers.draws import Draws
from transduce.data.modifiers.punctuation import without_final_sign

_SEED = 1
_TYPOS = 0.15  # of the words of four letters or more
_WORD = re.compile(r"[^\W\d_]{4,}")
_AZERTY = ("azertyuiop", "qsdfghjklm", "wxcvbn")
_BELOW = {key: below for row, lower in pairwise(_AZERTY) for key, below in zip(row, lower, strict=False)}
_OTHER_SPACES = "\u2009\u202f\t"
_ALPHABETS = (
    "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ",
    "աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ",
    "กขคงจฉชซญดตถทธนบปผพฟภมยรลวศสหอฮ",
)
_HEXADECIMAL, _DIGITS, _LETTERS = "0123456789abcdef", "0123456789", "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Line:
    """A line of a test set in one version.

    Attributes:
        source: what is translated.
        references: what its translation is compared with.
        kept: what a translation must hold to the letter; "" for nothing.
    """

    source: str
    references: tuple[str, ...]
    kept: str = ""


@dataclass(frozen=True)
class Version:
    """A test set in one version; `whole` says that a translation must be what it must hold, and no more."""

    name: str
    lines: Sequence[Line]
    whole: bool = False


def versions(sources: Sequence[str], references: Sequence[Sequence[str]]) -> list[Version]:
    """Returns the clean version of a test set, and all others.

    Args:
        sources: the lines of the set.
        references: one or more translations of the set, each with as many lines.
    """
    clean = [Line(source, each) for source, each in zip(sources, zip(*references, strict=True), strict=True)]
    found = [Version("clean", clean)]
    for name, change in _CHANGES.items():
        numbers = random_numbers(len(clean), _SEED, 0, salt=zlib.crc32(name.encode())).tolist()
        changed = [change(line, Draws(number)) for line, number in zip(clean, numbers, strict=True)]
        found.append(Version(name, changed, whole=name in _WHOLE))
    two_in_one = [_joined(*pair) for pair in zip(clean, clean[1:] + clean[:1], strict=True)]
    return [*found, Version("two lines in one", two_in_one)]


def _upper(line: Line, draws: Draws) -> Line:
    if not has_case(line.source):
        return line
    return Line(line.source.upper(), tuple(each.upper() for each in line.references), line.kept)


def _titled(line: Line, draws: Draws) -> Line:
    if not has_case(line.source):
        return line
    return Line(titled(line.source), tuple(titled(each) for each in line.references), line.kept)


def _misspelled(line: Line, draws: Draws) -> Line:
    def changed(found: re.Match[str]) -> str:
        return _typo(found[0], draws) if draws.chance(_TYPOS) else found[0]

    return Line(_WORD.sub(changed, line.source), line.references, line.kept)


def _typo(word: str, draws: Draws) -> str:
    """Returns a word without a vowel, with its ends swapped, or with a key of the row below on a French keyboard."""
    at = draws.below(len(word))
    match draws.below(3):
        case 0:
            vowel = re.search(r"(?<=.)[aeiouyаеиоу]", word)
            return word[: vowel.start()] + word[vowel.end() :] if vowel else word[:at] + word[at + 1 :]
        case 1:
            return word[:-2] + word[-1] + word[-2]
        case _:
            return word[:at] + _BELOW.get(word[at].lower(), word[at] * 2) + word[at + 1 :]


def _without_final_sign(line: Line, draws: Draws) -> Line:
    return Line(without_final_sign(line.source), tuple(map(without_final_sign, line.references)), line.kept)


def _other_signs(line: Line, draws: Draws) -> Line:
    text = re.sub(r"[\"“”„«»]", lambda _: draws.choice("‹›〟″"), line.source)
    text = re.sub(r"(?<=\w)['’](?=\w)", "ʼ", text)
    text = re.sub(r"(?<=\s)[-–—](?=\s)", "―", text)
    text = re.sub(" ", lambda space: draws.choice(_OTHER_SPACES) if draws.chance(0.2) else space[0], text)
    return Line(text, line.references, line.kept)


def _noise(line: Line, draws: Draws) -> Line:
    alphabet = draws.choice(_ALPHABETS)
    text = " ".join(draws.text(alphabet, 2, 6) for _ in range(draws.between(1, 3)))
    return Line(text, (text,), text)


def _with_item(line: Line, draws: Draws) -> Line:
    item = _ITEMS[draws.below(len(_ITEMS))](draws)
    where = draws.choice(("{item} – {text}", "{text} [{item}]", "{text} {item}"))
    source, *references = (where.format(item=item, text=text) for text in (line.source, *line.references))
    return Line(source, tuple(references), item)


def _mixed(line: Line, draws: Draws) -> Line:
    for change in (_misspelled, _without_final_sign, draws.choice((_upper, _titled)), _with_item):
        if draws.chance(0.5):
            line = change(line, draws)
    return line


def _translated(line: Line, draws: Draws) -> Line:
    return Line(line.references[0], line.references[:1], line.references[0])


def _joined(line: Line, following: Line) -> Line:
    references = (f"{one} {other}" for one, other in zip(line.references, following.references, strict=True))
    return Line(f"{line.source} {following.source}", tuple(references))


_ITEMS: tuple[Callable[[Draws], str], ...] = (
    lambda draws: f"{draws.text('ABCDEFGHJKLMNPRSTUVWXYZ', 2, 2)}{draws.text(_DIGITS, 12, 18)}",  # a bank account
    lambda draws: f"#{draws.text(_HEXADECIMAL, 6, 8)}",
    lambda draws: f"+{draws.text('123456789', 2, 2)} ({draws.text(_DIGITS, 2, 3)}) {draws.text(_DIGITS, 5, 7)}",
    lambda draws: f"ftp://{draws.text(_LETTERS, 3, 6)}.example/~{draws.text(_LETTERS, 2, 5)}",
    lambda draws: f"{draws.text(_LETTERS, 2, 6)}+{draws.text(_DIGITS, 1, 3)}@{draws.text(_LETTERS, 3, 6)}.example",
    lambda draws: f"{draws.between(1900, 2099)}-{draws.between(10, 12)}-{draws.between(10, 28)}T10:00",
    lambda draws: f"1{draws.text(_DIGITS, 2, 2)}.{draws.text(_DIGITS, 3, 3)},{draws.text(_DIGITS, 2, 2)}",
    lambda draws: draws.text("🦊🐙🌵🎷🧩🛶🪁🥨🦉🧭", 1, 2),
)
_CHANGES: dict[str, Callable[[Line, Draws], Line]] = {
    "upper case": _upper,
    "title case": _titled,
    "typos": _misspelled,
    "no final sign": _without_final_sign,
    "other signs": _other_signs,
    "noise": _noise,
    "item added": _with_item,
    "mixed": _mixed,
    "already translated": _translated,
}
_WHOLE = ("noise", "already translated")
