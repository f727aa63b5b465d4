"""The modifiers of text by their names, and what several make of one pair."""

from collections.abc import Callable, Sequence

from transduce.data.modifiers.aligned import Links, inline_tags, terms
from transduce.data.modifiers.case import title_case, upper_case
from transduce.data.modifiers.copying import copies, items, noise
from transduce.data.modifiers.draws import Draws
from transduce.data.modifiers.punctuation import punctuation
from transduce.data.modifiers.typos import typos

Modify = Callable[[str, str, Draws], tuple[str, str]]
ModifyAligned = Callable[[str, str, Draws, Links], tuple[str, str]]
FindLinks = Callable[[str, str], Links]

ALIGNED: dict[str, ModifyAligned] = {"terms": terms, "inline_tags": inline_tags}
FUNCTIONS: dict[str, Modify] = {
    "copies": copies,
    "noise": noise,
    "upper_case": upper_case,
    "title_case": title_case,
    "items": items,
    "punctuation": punctuation,
    "typos": typos,
}
NAMES = (*FUNCTIONS, *ALIGNED)  # all but "merge", which joins pairs: see `lines`
_WHOLE = ("copies", "noise")  # after one of these, no other is applied to the pair


def applied(pair: tuple[str, str], chosen: Sequence[tuple[str, int]], find_links: FindLinks) -> tuple[str, str]:
    """Returns a pair after the modifiers with these names and random numbers, in their order."""
    for name, number in chosen:
        draws = Draws(number)
        pair = ALIGNED[name](*pair, draws, find_links(*pair)) if name in ALIGNED else FUNCTIONS[name](*pair, draws)
        if name in _WHOLE:
            break
    return pair
