"""White space next to items that a model copied: the source decides."""

import re
from collections.abc import Collection

from transduce.text.phrases import EUROPEAN
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.found import Found
from transduce.translation.pipeline.markup import next_to, scan
from transduce.translation.pipeline.sentences import Span
from transduce.translation.pipeline.text_options import Markup

_EUROPEAN = re.compile(f"[{EUROPEAN}]")


def spaced_as(source: str, text: str, kept: Collection[str], markup: Markup) -> str:
    """Returns a translation with the white space next to its items as it is in the source.

    A space is added between an item and a word that touches it in the translation only: "%sden Hund". Words of other
    scripts than Latin, Greek and Cyrillic may: "%s을", "ב%s". White space is removed where the same word or sign
    touches the item in the source: `" %s "`.

    Args:
        source: what the model read.
        text: the translation, which has the same items.
        kept: the items.
        markup: that of the source.
    """
    if not kept:
        return text
    of_source: dict[str, list[Found]] = {}
    for found in scan(source, markup):
        of_source.setdefault(found.text, []).append(found)
    changes: dict[Span, str] = {}
    items = [found for found in scan(text, markup) if found.text in kept]
    starts, ends = {item.start for item in items}, {item.end for item in items}
    for item in items:
        same = of_source[item.text]
        before, after = next_to(source, same.pop(0) if len(same) > 1 else same[0])
        touches_before, touches_after = next_to(text, item)
        if not before and (_is_word(touches_before[-1:]) or item.start in ends):
            changes[item.start, item.start] = " "
        if not after and (_is_word(touches_after[:1]) or item.end in starts):
            changes[item.end, item.end] = " "
        left, right = text[: item.start].rstrip(), text[item.end :].lstrip()
        if before and not touches_before and _last(left[-len(before) - 1 :]) == before:
            changes[len(left), item.start] = ""
        if after and not touches_after and _first(right[: len(after) + 1]) == after:
            changes[item.end, len(text) - len(right)] = ""
    written, end = "", 0
    for (start, stop), put in sorted(changes.items()):
        written, end = written + text[end:start] + put, stop
    return written + text[end:]


def _is_word(character: str) -> bool:
    return character.isalnum() and _EUROPEAN.match(character) is not None


def _first(text: str) -> str:
    return text[slice(*next(iter(atoms(text)), (0, 0)))]


def _last(text: str) -> str:
    return text[slice(*next(reversed(atoms(text)), (0, 0)))]
