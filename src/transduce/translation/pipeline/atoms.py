"""Atoms: runs of letters and digits, single signs, single characters of scripts without spaces."""

import re
import unicodedata

from transduce.translation.pipeline.sentences import Span

_ATOM = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\w+|[^\w\s]")
_JOINERS = "\u200c\u200d"  # zero-width: part of the character before


def atoms(text: str) -> list[Span]:
    """Returns the atoms of `text`, as spans of characters; white space is part of none."""
    found: list[Span] = []
    for match in _ATOM.finditer(text):
        character = match[0][0]
        continues = unicodedata.category(character).startswith("M") or character in _JOINERS
        if continues and found and found[-1][1] == match.start():
            found[-1] = (found[-1][0], match.end())
        else:
            found.append(match.span())
    return found
