"""Misspelling, in nine ways: `typos`, of the source only, since a translation of misspelled text is spelled well.

Words of four letters or more are misspelled, and nothing else: no number, code, address, tag or placeholder.
"""

import re
from collections.abc import Callable
from functools import partial

from transduce.data.modifiers.draws import Draws

_EACH = 0.1  # the probability of each way in a line that has typos; at least one is used
_WORD = re.compile(r"(?<!\S)[\"'(“„«]?([^\W\d_]{4,})[\"')”“».,;:!?]*(?!\S)")
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "йцукенгшщзх", "фывапролджэ", "ячсмитьбю")
_ALIKE = {"a": "4", "b": "8", "e": "3", "g": "9", "i": "1l", "l": "1i", "o": "0", "s": "5", "t": "7", "z": "2"}
_NEIGHBOURS = {
    key: row[max(0, index - 1) : index] + row[index + 1 : index + 2] for row in _KEYS for index, key in enumerate(row)
}


def typos(source: str, target: str, draws: Draws) -> tuple[str, str]:
    """Returns the source misspelled, and the target."""
    for way in [way for way in WAYS if draws.chance(_EACH)] or [draws.choice([*WAYS])]:
        words = [found.span(1) for found in _WORD.finditer(source)]
        if not words:
            break
        start, end = draws.choice(words)
        source = source[:start] + WAYS[way](source[start:end], draws) + source[end:]
        if way == "lost space":
            source = _joined(source, start)
    return source, target


def _swapped(word: str, draws: Draws) -> str:
    at = draws.below(len(word) - 1)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _dropped(word: str, draws: Draws) -> str:
    at = draws.below(len(word))
    return word[:at] + word[at + 1 :]


def _doubled(word: str, draws: Draws) -> str:
    at = draws.below(len(word))
    return word[:at] + word[at] + word[at:]


def _undoubled(word: str, draws: Draws) -> str:
    twice = [at for at in range(1, len(word)) if word[at].lower() == word[at - 1].lower()]
    if not twice:
        return _dropped(word, draws)
    at = draws.choice(twice)
    return word[:at] + word[at + 1 :]


def _replaced(word: str, draws: Draws, keys: dict[str, str]) -> str:
    """Replaces a letter that has an entry; without any, two letters are swapped."""
    known = [at for at, letter in enumerate(word) if letter.lower() in keys]
    if not known:
        return _swapped(word, draws)
    at = draws.choice(known)
    other = draws.choice(keys[word[at].lower()])
    return word[:at] + (other.upper() if word[at].isupper() else other) + word[at + 1 :]


def _extra(word: str, draws: Draws) -> str:
    at = draws.below(len(word))
    return word[: at + 1] + draws.choice(_NEIGHBOURS.get(word[at].lower(), word[at])) + word[at + 1 :]


def _cut(word: str, draws: Draws) -> str:
    at = draws.between(1, len(word) - 1)
    return f"{word[:at]} {word[at:]}"


def _whole(word: str, draws: Draws) -> str:
    return word


def _joined(text: str, start: int) -> str:
    """Returns the text without the space before the word that begins at `start`, or after it if it is the first."""
    before = text.rfind(" ", 0, start)
    at = before if before >= 0 else text.find(" ", start)
    return text[:at] + text[at + 1 :] if at >= 0 else text


WAYS: dict[str, Callable[[str, Draws], str]] = {
    "swapped letters": _swapped,
    "dropped letter": _dropped,
    "doubled letter": _doubled,
    "double letter once": _undoubled,
    "neighbour key": partial(_replaced, keys=_NEIGHBOURS),
    "letter that looks alike": partial(_replaced, keys=_ALIKE),
    "extra letter": _extra,
    "extra space": _cut,
    "lost space": _whole,
}
