"""Capitals: `upper_case` and `title_case`, both of both sides.

A translator writes capitals for capitals. So the target gets them too, and a text whose script has none is left alone,
even with a Latin name in it.
"""

import re

from transduce.data.modifiers.draws import Draws
from transduce.text.signs import ACCENTS, is_caseless

_FIRST_LETTER = re.compile(rf"(?<![\w'’\u00ad{ACCENTS}])[^\W\d_]")  # a soft hyphen is within a word


def has_case(text: str) -> bool:
    """Returns whether a text has letters with capital and small forms, and none without, as "用API接口" has."""
    return text.upper() != text.lower() and not any(map(is_caseless, text))


def upper_case(source: str, target: str, draws: Draws) -> tuple[str, str]:
    """Returns both sides in capitals."""
    return (source.upper(), target.upper()) if has_case(source) else (source, target)


def title_case(source: str, target: str, draws: Draws) -> tuple[str, str]:
    """Returns both sides with a capital at the beginning of each word; a source in capitals stays."""
    return (titled(source), titled(target)) if has_case(source) and not source.isupper() else (source, target)


def titled(text: str) -> str:
    """Returns a text with a capital at the beginning of each word: "don't stop" becomes "Don't Stop"."""
    return _FIRST_LETTER.sub(lambda letter: letter[0].title(), text)
