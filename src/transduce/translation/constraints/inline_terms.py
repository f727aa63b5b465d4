"""Terms marked in the text itself: `The <term to="Köter|Köters">dog</term> runs.`

The mark is removed before translation. The translation must hold one of the alternatives, as with a glossary, but for
this line only.
"""

import html
import re

from transduce.errors import DataError
from transduce.translation.constraints.required_terms import Choice, choices_of

# Also where the ">" is missing: it is then searched for once, however many tags there are.
_TAG = re.compile(r"""</term\s*+>|<term(?=[\s>/])(?:"[^"]*+"|'[^']*+'|[^>"'])*+>?""", re.IGNORECASE)
_OPENING = re.compile(r"""<term\s+to\s*=\s*("[^"]*"|'[^']*')\s*>""", re.IGNORECASE)
_SHAPE = '<term to="TRANSLATION">words</term>'


def read_inline_terms(text: str, name: str = "the text") -> tuple[str, tuple[Choice, ...]]:
    """Returns the text without its marks, and for each different mark the terms of which one must appear.

    In `to`, "|" separates alternatives, and HTML entities are characters (`&quot;`). Other tags stay in the text.

    Args:
        text: a line.
        name: of the line, for errors.

    Raises:
        DataError: a mark has no end, is not closed, inside another, around nothing, or without a term.
    """
    plain: list[str] = []
    required: list[list[str]] = []
    done, opened = 0, ""
    for tag in _TAG.finditer(text):
        between = text[done : tag.start()]
        plain.append(between)
        done = tag.end()
        if tag[0].startswith("</"):
            if not opened:
                raise DataError(f"{name}: </term> closes nothing: write {_SHAPE}.")
            if not between.strip():
                raise DataError(f"{name}: {opened} marks nothing: write {_SHAPE}.")
            opened = ""
            continue
        if not tag[0].endswith(">"):
            begin = text[tag.start() : tag.start() + 30]
            raise DataError(f'{name}: the mark "{begin}" has no ">" outside quotes: write {_SHAPE}.')
        if opened:
            raise DataError(f"{name}: {opened} is not closed before {tag[0]}: write {_SHAPE}.")
        opened = tag[0]
        said = _OPENING.fullmatch(opened)
        try:
            terms = [html.unescape(term).strip() for term in said[1][1:-1].split("|")] if said else []
        except ValueError:  # the number of a character has more than 4300 digits, which Python refuses to read
            terms = []
        if not terms or not all(terms):
            raise DataError(f"{name}: {opened} must name the required term in its only attribute, to: write {_SHAPE}.")
        required.append(terms)
    if opened:
        raise DataError(f"{name}: {opened} is never closed: write {_SHAPE}.")
    return "".join(plain) + text[done:], tuple(dict.fromkeys(choices_of(required)))
