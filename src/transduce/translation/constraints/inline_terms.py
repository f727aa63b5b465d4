"""Terms marked in the text itself: `The <term to="Köter|Köters">dog</term> runs.`

The mark is taken away before translation, and what it says must appear: one of the alternatives, as with a glossary
and for this line alone.
"""

import html
import re

from transduce.errors import DataError
from transduce.translation.constraints.terms import Choice, choices_of

_TAG = re.compile(r"""</term\s*>|<term(?=[\s>/])(?:"[^"]*"|'[^']*'|[^>"'])*>""", re.IGNORECASE)
_OPENING = re.compile(r"""<term\s+to\s*=\s*("[^"]*"|'[^']*')\s*>""", re.IGNORECASE)
_CLOSING = "</term>"
_SHAPE = '<term to="TRANSLATION">words</term>'


def read_inline_terms(text: str, place: str = "the text") -> tuple[str, tuple[Choice, ...]]:
    """Returns the text without its marks, and for each different mark the terms of which one must appear.

    In `to`, "|" separates alternatives, and HTML's entities stand for characters (`&quot;`). What is no mark stays,
    other tags too.

    Args:
        text: a line.
        place: what to call it in errors.

    Raises:
        DataError: a mark is not closed, inside another, around nothing, or says no term.
    """
    plain: list[str] = []
    asked: list[list[str]] = []
    done, opened = 0, ""
    for tag in _TAG.finditer(text):
        between = text[done : tag.start()]
        plain.append(between)
        done = tag.end()
        if tag[0].startswith("</"):
            if not opened:
                raise DataError(f"{place}: {_CLOSING} closes nothing: write {_SHAPE}.")
            if not between.strip():
                raise DataError(f"{place}: {opened} marks nothing: write {_SHAPE}.")
            opened = ""
            continue
        if opened:
            raise DataError(f"{place}: {opened} is not closed before {tag[0]}: write {_SHAPE}.")
        opened = tag[0]
        said = _OPENING.fullmatch(opened)
        terms = [html.unescape(term).strip() for term in said[1][1:-1].split("|")] if said else []
        if not terms or not all(terms):
            raise DataError(
                f"{place}: {opened} does not say what must appear, in quotes and nothing else: write {_SHAPE}."
            )
        asked.append(terms)
    if opened:
        raise DataError(f"{place}: {opened} is never closed: write {_SHAPE}.")
    return "".join(plain) + text[done:], tuple(dict.fromkeys(choices_of(asked)))
