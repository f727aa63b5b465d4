"""Short, sloppy input: `punctuation`.

A final sign is left out on both sides, where both have one: a heading has none in either language, and a full stop that
nobody wrote would be an error. Quotes, dashes and spaces change in the source only: a translation has the usual ones.
"""

import re
from collections.abc import Callable

from transduce.data.modifiers.draws import Draws

_FINAL = re.compile(r"[.!?…。！？।؟]+\s*$")
_QUOTES = re.compile(r"[\"“”„«»]")
_PAIRS = ('""', "“”", "„“", "«»", "''")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_DASH = re.compile(r"(?<=\s)[-–—](?=\s)")
_SPACE = re.compile(r"(?<=\S) (?=\S)")


def punctuation(source: str, target: str, draws: Draws) -> tuple[str, str]:
    """Returns both sides without their final signs, or the source with other quotes, dashes or spaces."""
    if draws.chance(0.5):
        shorter = without_final_sign(source), without_final_sign(target)
        if source not in shorter and target not in shorter and all(shorter):
            return shorter
    possible = [change for pattern, change in _CHANGES if pattern.search(source)]
    return (draws.choice(possible)(source, draws) if possible else source), target


def without_final_sign(text: str) -> str:
    """Returns a text without the full stop, question mark or exclamation mark at its end."""
    return _FINAL.sub("", text)


def _other_quotes(text: str, draws: Draws) -> str:
    pair, parts = draws.choice(_PAIRS), _QUOTES.split(text)
    signs = [pair[index % 2] for index in range(len(parts) - 1)]
    return "".join(part + sign for part, sign in zip(parts, [*signs, ""], strict=True))


def _other_apostrophes(text: str, draws: Draws) -> str:
    return _APOSTROPHE.sub(draws.choice("'’`´"), text)


def _other_dashes(text: str, draws: Draws) -> str:
    return _DASH.sub(draws.choice(("-", "–", "—", "--")), text)


def _other_space(text: str, draws: Draws) -> str:
    """Doubles one space, makes it a no-break space, or adds one at an end."""
    spaces = [found.start() for found in _SPACE.finditer(text)]
    at = draws.choice(spaces)
    return draws.choice(
        (f"{text[:at]} {text[at:]}", f"{text[:at]}\u00a0{text[at + 1 :]}", f"{text} ", f" {text}"),
    )


_CHANGES: tuple[tuple[re.Pattern[str], Callable[[str, Draws], str]], ...] = (
    (_QUOTES, _other_quotes),
    (_APOSTROPHE, _other_apostrophes),
    (_DASH, _other_dashes),
    (_SPACE, _other_space),
)
