"""Finds phrases as whole words of a text: "dog" is in "(dog)", and not in "dogs". In Chinese, any match counts."""

import functools
import itertools
import re
from collections.abc import Iterator

from transduce.text.signs import ACCENTS

KANA, HAN = r"\u3040-\u30FF", r"\u3400-\u9FFF\uF900-\uFAFF"  # of Japanese; of Chinese and Japanese
# Scripts without spaces between words: phrases in them match anywhere.
UNSPACED = rf"\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF{KANA}{HAN}"
# Scripts of India: vowel signs and the like are part of a word, but no `\w`. Two ranges compile fast, more do not.
INDIAN = r"\u0900-\u0963\u0966-\u0DFF"
_SPACED_WORD = re.compile(rf"[^\W{UNSPACED}]|[{INDIAN}{ACCENTS}]")
_INDIAN_CHARACTER = re.compile(rf"[{INDIAN}]")
# Scripts from Latin to those of India. A word of these ends where another script begins: "API" is in "用API接口". One
# of Europe's scripts ends before any other: prefixes and suffixes touch it, as in "الـAPI" and "APIக்கு".
_WESTERN = r"\0-\u0DFF\u1E00-\u1FFF"
_WESTERN_CHARACTER = re.compile(rf"[{_WESTERN}]")
EUROPEAN = r"\0-\u052f\u1d00-\u2bff"  # Latin, Greek, Cyrillic, and signs
_EUROPEAN_CHARACTER = re.compile(f"[{EUROPEAN}]")
HANGUL = r"\uAC00-\uD7A3"  # Korean has spaces, but its particles touch words of other scripts: "API를"
# The possible first token of a phrase.
WORD_OR_SIGN = re.compile(
    rf"[{UNSPACED}{HANGUL}]|[^\W\u0530-\u1cff\u2c00-\U0010ffff]+|[^\W{EUROPEAN}{UNSPACED}{HANGUL}]+|[^\w\s]"
)


def is_in_word(character: str) -> bool:
    """Returns whether a character next to a word makes it a longer word."""
    return _SPACED_WORD.match(character) is not None


@functools.lru_cache(maxsize=4096)
def phrase_pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern that finds the phrases, none of them empty, as whole words, with case and white space exact."""
    groups = itertools.groupby(phrases, _bounds)  # bounds are slow to compile
    return re.compile("|".join(f"{start}(?:{'|'.join(map(re.escape, group))}){end}" for (start, end), group in groups))


def is_whole(text: str, start: int, end: int) -> bool:
    """Returns whether `text[start:end]`, of one character or more, is no part of a longer word."""
    return not (
        (start and is_in_word(text[start]) and _part_of(text[start]).match(text, start - 1))
        or (is_in_word(text[end - 1]) and _part_of(text[end - 1]).match(text, end))
    )


def found_whole(phrase: str, text: str) -> Iterator[int]:
    """Yields where a phrase begins as whole words of a text."""
    start = text.find(phrase)
    while start >= 0:
        if is_whole(text, start, start + len(phrase)):
            yield start
        start = text.find(phrase, start + 1)


@functools.lru_cache(maxsize=4096)
def _part_of(neighbour: str) -> re.Pattern[str]:
    return re.compile(_part_of_word(neighbour))


def _bounds(phrase: str) -> tuple[str, str]:
    """Returns patterns that match before and after a phrase where it is no part of a longer word."""
    before = f"(?<!{_part_of_word(phrase[0])})" if is_in_word(phrase[0]) else ""
    after = f"(?!{_part_of_word(phrase[-1])})" if is_in_word(phrase[-1]) else ""
    return before, after


def _part_of_word(neighbour: str) -> str:
    """Returns a pattern of the characters that make a longer word of one that begins or ends with `neighbour`."""
    of_same_word = rf"[\w{INDIAN if _INDIAN_CHARACTER.match(neighbour) else ACCENTS}]"
    if _EUROPEAN_CHARACTER.match(neighbour):
        return rf"(?=[{EUROPEAN}]){of_same_word}"
    return rf"(?=[{_WESTERN}]){of_same_word}" if _WESTERN_CHARACTER.match(neighbour) else of_same_word


def with_translation(text: str, end: int, translation: str) -> str:
    """Returns a text with a translation beside the words that end at `end`: "A dog | Hund | runs.".

    The spaces give the translation the pieces that it has in a target, so that a model can copy them.
    """
    return f"{text[:end]} | {translation} |{text[end:]}"
