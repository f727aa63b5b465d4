"""The modifiers of text by their names, and what several make of one pair."""

from collections.abc import Callable, Sequence

from transduce.data.modifiers.case import title_case, upper_case
from transduce.data.modifiers.copying import copies, items, noise
from transduce.data.modifiers.draws import Draws
from transduce.data.modifiers.punctuation import punctuation
from transduce.data.modifiers.typos import typos

Modify = Callable[[str, str, Draws], tuple[str, str]]

# In the order of `transduce.config.modifiers.MODIFIERS`, without "merge", which joins pairs: see `lines`.
FUNCTIONS: dict[str, Modify] = {
    "copies": copies,
    "noise": noise,
    "upper_case": upper_case,
    "title_case": title_case,
    "items": items,
    "punctuation": punctuation,
    "typos": typos,
}
_WHOLE = ("copies", "noise")  # after one of these, no other is applied to the pair


def applied(pair: tuple[str, str], chosen: Sequence[tuple[str, int]]) -> tuple[str, str]:
    """Returns a pair after the modifiers with these names and random numbers, in their order."""
    for name, number in chosen:
        pair = FUNCTIONS[name](*pair, Draws(number))
        if name in _WHOLE:
            break
    return pair
