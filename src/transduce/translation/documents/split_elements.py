"""Elements that a program has cut where a raised or lowered number is in a word.

LibreOffice puts each stretch of text into an element of its own. The number is then between two equal elements:

    <s>of H</s><sub>2</sub><s>O, and</s>    is read as    <s>of H(</s><sub>)2(</sub><s>)O, and</s>

What is in brackets are the two tags of one element, so the word is whole, and is not cut by the ends of the others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from transduce.translation.documents.segments import Entry, Tag, has_words

_MOST = 60  # characters of the number


def rejoined(entries: Iterable[Entry]) -> list[Entry]:
    """Returns the entries of a segment, with what was cut as one element."""
    found = list(entries)
    opened = {entry.item.number: entry for entry in found if isinstance(entry.item, Tag) and entry.item.kind == "open"}
    name: dict[int, int] = {}  # the numbers of elements that are now part of another
    joined: list[Entry] = []
    i = 0
    while i < len(found):
        entry = found[i]
        end = _end_of_number(found, i)
        if end and _is_in_word(found, i, end) and found[end].original == opened[_number(entry)].original:
            first = name.get(_number(entry), _number(entry))
            name[_number(found[end])] = first
            inner = found[i + 1 : end]
            inner[0] = replace(inner[0], original=(*entry.original, *inner[0].original))
            inner[-1] = replace(inner[-1], original=(*inner[-1].original, *found[end].original))
            joined += inner
            i = end + 1
            continue
        if isinstance(entry.item, Tag) and entry.item.kind == "close" and entry.item.number in name:
            entry = replace(entry, item=Tag("close", name[entry.item.number]))
        joined.append(entry)
        i += 1
    return joined


def _number(entry: Entry) -> int:
    assert isinstance(entry.item, Tag)
    return entry.item.number


def _end_of_number(entries: Sequence[Entry], start: int) -> int:
    """Returns where the next element begins after one without letters, between two others; 0 if there is none."""
    kinds = [entry.item.kind if isinstance(entry.item, Tag) else "text" for entry in entries[start : start + 8]]
    end = next((i for i, kind in enumerate(kinds) if i > 1 and kind != "text"), 0)
    if kinds[:2] != ["close", "open"] or kinds[end : end + 2] != ["close", "open"] or end < 3:
        return 0
    inner = entries[start + 1 : start + end + 1]
    text = "".join(entry.item for entry in inner if isinstance(entry.item, str))
    is_one = _number(inner[0]) == _number(inner[-1])
    is_plain = all(entry.alone is None and not entry.joined for entry in entries[start : start + end + 2])
    is_number = 0 < len(text) <= _MOST and text == text.strip() and not has_words(text)
    return start + end + 1 if is_one and is_plain and is_number else 0


def _is_in_word(entries: Sequence[Entry], start: int, end: int) -> bool:
    """Returns whether a letter or digit is right before or after."""
    before, after = entries[start - 1].item, entries[min(end + 1, len(entries) - 1)].item
    return (isinstance(before, str) and before[-1:].isalnum()) or (isinstance(after, str) and after[:1].isalnum())
