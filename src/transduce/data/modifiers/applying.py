"""The modifiers of text by their names, and what several make of pairs."""

from collections.abc import Callable, Sequence

from transduce.data.modifiers.aligned import Links, inline_tags, terms
from transduce.data.modifiers.case import title_case, upper_case
from transduce.data.modifiers.copying import copies, items, noise
from transduce.data.modifiers.draws import Draws
from transduce.data.modifiers.punctuation import punctuation
from transduce.data.modifiers.typos import typos

Modify = Callable[[str, str, Draws], tuple[str, str]]
ModifyAligned = Callable[[str, str, Draws, Links], tuple[str, str]]
Pair = tuple[str, str]
Chosen = Sequence[tuple[str, int]]  # the modifiers of a pair, in their order, each with its random number
FindLinks = Callable[[Sequence[Pair]], Sequence[Links]]  # of several pairs at once, which costs much less

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


def applied(pairs: Sequence[Pair], chosen: Sequence[Chosen], find_links: FindLinks) -> list[Pair]:
    """Returns each pair after the modifiers that are chosen for it."""
    found, waiting = [*pairs], dict(enumerate(chosen))
    while waiting:  # once, and again after each modifier that needs links
        for index, names in waiting.items():
            found[index], waiting[index] = _until_links(found[index], names)
        waiting = {index: names for index, names in waiting.items() if names}
        for index, links in zip(
            waiting, find_links([found[index] for index in waiting]) if waiting else (), strict=True
        ):
            (name, number), *waiting[index] = waiting[index]
            found[index] = ALIGNED[name](*found[index], Draws(number), links)
    return found


def _until_links(pair: Pair, chosen: Chosen) -> tuple[Pair, Chosen]:
    """Returns a pair after the modifiers up to one that needs links, and the others with that one."""
    for index, (name, number) in enumerate(chosen):
        if name in ALIGNED:
            return pair, chosen[index:]
        pair = FUNCTIONS[name](*pair, Draws(number))
        if name in _WHOLE:
            break
    return pair, ()
