"""Phrases as whole words of a text: "dog" stands in "(dog)", and not in "dogs"; in Chinese, anywhere."""

import functools
import re

# Scripts that are written without spaces between words: a phrase in one of them is looked for anywhere.
_UNSPACED = r"\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u9FFF\uF900-\uFAFF"
_SPACED_WORD = re.compile(rf"[^\W{_UNSPACED}]")
WORD_OR_SIGN = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")  # what a phrase may begin with


def is_in_word(character: str) -> bool:
    """Returns whether a character makes a longer word of one that it stands beside."""
    return _SPACED_WORD.match(character) is not None


@functools.lru_cache(maxsize=4096)
def phrase_pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Returns what finds the phrases as whole words, capitals and white space as they stand; none is empty."""
    return re.compile("|".join(bounded(phrase, re.escape(phrase)) for phrase in phrases))


def bounded(phrase: str, pattern: str) -> str:
    """Returns `pattern`, which finds `phrase`, such that it finds it as whole words."""
    before = r"(?<!\w)" if is_in_word(phrase[0]) else ""
    after = r"(?!\w)" if is_in_word(phrase[-1]) else ""
    return before + pattern + after
