"""Atoms: runs of letters and digits with their marks, single signs, single characters of scripts without spaces."""

import re
import unicodedata

from transduce.text.phrases import UNSPACED
from transduce.translation.pipeline.sentences import Span

_ATOM = re.compile(rf"[{UNSPACED}]|(?P<word>[^\W{UNSPACED}]+)|[^\w\s]")
_JOINERS = "\u200c\u200d"  # zero-width: part of the character before
_FIRST_MARK = "\u0300"  # of the characters that may be part of the one before


def atoms(text: str) -> list[Span]:
    """Returns the atoms of `text`, as spans of characters; white space is part of none."""
    found: list[Span] = []
    in_word = False
    for match in _ATOM.finditer(text):
        start, end = span = match.span()
        is_word = match.lastgroup == "word"
        is_mark = text[start] >= _FIRST_MARK and _continues(text[start])
        # Two runs of letters that touch have a mark between them: "हिन्दी".
        if found and found[-1][1] == start and (is_mark or (is_word and in_word)):
            found[-1] = (found[-1][0], end)
        else:
            found.append(span)
            in_word = is_word
    return found


def _continues(character: str) -> bool:
    return unicodedata.category(character).startswith("M") or character in _JOINERS
