"""What stays where it is in HTML: words that tags cut, references, and text between tags that has no letters.

The model reads such a word without its tags. If it copies the word, the tags are put back into it. If it does not, the
text is translated again, with a point in place of the word.

    nas<i>@</i>debian.org has CO<sub>2</sub><sup>5</sup>  →  "nas@debian.org has CO2●", "● has ●●"
"""

import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from transduce.text.phrases import phrase_pattern
from transduce.translation.pipeline.found import Found
from transduce.translation.pipeline.items import SIGN_IN_URL, readable
from transduce.translation.pipeline.sentences import Span
from transduce.translation.pipeline.tags import partners

# In a `readable` line, whose letters are of scripts that have spaces between words.
_WORD = re.compile(
    rf"(?P<address>(?:https?://|ftp://|www\.){SIGN_IN_URL}{{1,2000}}(?<![.,;:!?…)\]}}»”’])"
    r"|[\w.+-]{1,256}@[\w-]++(?:\.[\w-]++)+)"
    r"|\w++(?:[.,:/]\d\w*+)*"
)
_UNITS = frozenset(("cm", "dm", "ft", "ha", "km", "mi", "mm", "nm", "yd"))
_FORMULA = re.compile(r"\w|(?:[A-Z][a-z]?){1,5}")  # what a number belongs to: m<sup>2</sup>, NaHCO<sub>3</sub>
_SIGNS = frozenset(".,;:!?…-–—/\"'()[]„“”‚‘’«»‹›¿¡")  # between words and sentences; others may be references
_OPENING = frozenset("([{„‚«‹¿¡-–—/#$€£¥&+=~<>@^_|\\")
_MOST = 60  # characters between tags
_MOST_WORDS = 50  # in a text, that differ: each is searched for in all of it


class Cell(NamedTuple):
    """A character of a text, a tag, a point between characters, or a break between words."""

    kind: Literal["text", "open", "close", "point", "break"]
    text: str  # the character, or the tag
    span: Span  # in the line


# word: read first as it is, then a point; point: a point; letters: read first without tags, then with them; first: an
# element around the first letter of the text.
Kind = Literal["word", "point", "letters", "first"]


class Group(NamedTuple):
    """Cells that belong together."""

    kind: Kind
    span: Span  # in the line
    text: str  # without tags
    letter: Span  # in the line: its first character


def found_words(words: Iterable[str], text: str) -> dict[Span, str]:
    """Returns the words that are in a text, by where they are."""
    pattern = phrase_pattern(tuple(sorted(set(words), key=len, reverse=True)))
    return {match.span(): match[0] for match in pattern.finditer(text)}


Words = tuple[tuple[str, str | None], ...]  # words in their order, and how each is written; None: as it is


class CutText(NamedTuple):
    """What is found in a text, where each word that tags cut is one."""

    found: Sequence[Found]
    has_words: bool = False  # whether there are words that may be read without their tags
    first: tuple[str, str] = ("", "")  # tags around the first letter, which is "text"


def cut_text(line: str, span: Span, found: Sequence[Found], *, reads_words: bool) -> CutText:
    """Returns what is found in a text between block tags of HTML, with its words that tags cut, and its references.

    Args:
        line: the line.
        span: of the text in it.
        found: what is in the text, in order.
        reads_words: whether words are text; else each is a point, but for words of letters alone, whose tags stay.
    """
    if not any(each.kind == "open" for each in found):
        return CutText(found)
    merged: list[Found] = []
    has_words, first = False, ("", "")
    rest = deque(found)
    for group in groups_of(list(_cells(line, span, found))):
        start, end = group.span
        has_words = has_words or group.kind in ("word", "letters")
        if group.kind == "letters" and not reads_words:
            continue
        while rest and rest[0].end <= start:
            merged.append(rest.popleft())
        inner: list[Found] = []
        while rest and rest[0].start < end:
            inner.append(rest.popleft())
        if inner[0].start < start or inner[-1].end > end:  # it has a part of an item
            rest.extendleft(reversed(inner))
            continue
        if group.kind == "first":
            first = line[start : group.letter[0]], line[group.letter[1] : end]
            merged.append(Found("text", start, end, group.text))
        elif group.kind != "point" and reads_words:
            merged.append(Found("word", start, end, group.text))
        else:
            merged.append(Found("point", start, end, line[start:end]))
    return CutText([*merged, *rest], has_words, first)


def _cells(line: str, span: Span, found: Iterable[Found]) -> Iterator[Cell]:
    position, end = span
    for each in (*found, Found("block", end, end, "")):
        yield from (Cell("text", line[i], (i, i + 1)) for i in range(position, each.start))
        position = each.end
        if each.kind in ("open", "close", "point"):
            yield Cell(each.kind, each.text, (each.start, each.end))
        elif each.kind in ("text", "space"):
            yield from (Cell("text", character, (each.start, each.end)) for character in each.text)
        elif "<" in each.text:
            yield Cell("break", each.text, (each.start, each.end))
        else:
            yield from (Cell("text", line[i], (i, i + 1)) for i in range(each.start, each.end))


def words_of(plain: str, written: Mapping[Span, str]) -> Words:
    """Returns all occurrences of the words of a text in their order: how each is written, or None if it had no tags.

    There are none if that is not certain.

    Args:
        plain: the text as the model reads it.
        written: how words that had tags are written, by where they are in it.
    """
    words = {plain[slice(*span)] for span in written}
    if not words or len(words) > _MOST_WORDS:
        return ()
    found = found_words(words, plain)
    return tuple((word, written.get(span)) for span, word in found.items()) if written.keys() <= found.keys() else ()


def rewritten(translation: str, words: Words) -> dict[Span, str] | None:
    """Returns how words of a translation are written that had tags, by where they are; None if any word is not there.

    The words are in the translation as often as in the source: the first of equal ones is the first there.
    """
    if not words:
        return {}
    found = found_words((word for word, _ in words), translation)
    if Counter(found.values()) != Counter(word for word, _ in words):
        return None
    choices = {word: iter([each for other, each in words if other == word]) for word, _ in words}
    return {span: text for span, word in found.items() if (text := next(choices[word])) is not None}


def groups_of(cells: Sequence[Cell]) -> list[Group]:
    """Returns the groups of a text, in order; those of all kinds but "letters" are read as they are only once."""
    # A break keeps the words before it from those after it.
    text = "".join({"text": cell.text, "break": "\n"}.get(cell.kind, "") for cell in cells)
    cell_of = [i for i, cell in enumerate(cells) if cell.kind in ("text", "break")]
    partner = partners((cell.kind, cell.text) for cell in cells)
    elements = [_element(start, end, cells, cell_of, text) for start, end in sorted(partner.items()) if start < end]
    bare = [each for each in elements if each.is_bare]
    in_bare = {i for each in bare for i in range(each.start, each.end + 1)}
    found: list[tuple[int, int, Kind]] = []
    if first := next((each for each in elements if each.is_first_letter), None):
        found.append((first.start, first.end + 1, "first"))
    for match in _WORD.finditer(readable(text)):
        word = text[slice(*match.span())]
        start, last = cell_of[match.start()], cell_of[match.end() - 1]
        if last - start < len(word) or (found and start < found[-1][1]):
            continue
        span = _balanced(start, last + 1, cells, partner, widens=bool(match["address"]))
        if span is None:
            continue
        if match["address"] or not _has_letters(word):
            found.append((*span, "word"))
        elif any(character.isdigit() for character in word):
            outside = (cells[i].text for i in range(start, last + 1) if cells[i].kind == "text" and i not in in_bare)
            stem = "".join(outside).rstrip(".,:/")
            if not _has_reference(word, stem):
                found.append((*span, "word"))
            elif word.startswith(stem) and (end := cell_of[match.start() + len(stem) - 1]) - start >= len(stem):
                inner = _balanced(start, end + 1, cells, partner, widens=False)
                if inner is not None:
                    found.append((*inner, "letters"))
        else:
            found.append((*span, "letters"))
    words, ends = list(found), [end for _, end, _ in found]
    latest = 0
    for each in bare:
        i = bisect_right(ends, each.start)
        if each.start < latest or (i < len(words) and words[i][0] <= each.end):
            continue
        latest = each.end + 1
        found.append((each.start, latest, each.kind))
    return [_group(cells[start:end], kind) for start, end, kind in sorted(found)]


def _group(cells: Sequence[Cell], kind: Kind) -> Group:
    characters = [cell for cell in cells if cell.kind == "text"]
    text = "".join(cell.text for cell in characters)
    return Group(kind, (cells[0].span[0], cells[-1].span[1]), text, characters[0].span)


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)


class _Element(NamedTuple):
    """An element of a text: cells [start, end]."""

    start: int
    end: int
    is_bare: bool  # whether it has text, and no letter or white space at its ends
    is_first_letter: bool  # whether it holds the first letter of the text, and the word goes on after it
    kind: Kind  # how it is read: as a point where it is a reference, after a word


def _element(start: int, end: int, cells: Sequence[Cell], cell_of: Sequence[int], text: str) -> _Element:
    first, last = bisect_right(cell_of, start), bisect_right(cell_of, end)
    content = text[first:last] if last - first <= _MOST else ""
    before, after = text[max(0, first - 1) : first], text[last : last + 1]
    is_bare = content.strip() == content != "" and not _has_letters(content) and end - start <= 10 * _MOST
    is_bare = is_bare and all(cell.kind in ("text", "open", "close") for cell in cells[start:end])
    begins = first <= _MOST and not text[:first].strip()
    is_first_letter = begins and len(content) == 1 and content.isalpha() and after.isalpha()
    glued = before.strip() and before not in _OPENING
    return _Element(start, end, is_bare, is_first_letter, "point" if glued and not set(content) <= _SIGNS else "word")


def _has_reference(word: str, stem: str) -> bool:
    """Returns whether a word without the elements that have no letters is a word, and no part of a formula or unit."""
    is_end = word.startswith(stem) or word.endswith(stem)
    return is_end and readable(stem).isalpha() and stem != word and not (_FORMULA.fullmatch(stem) or stem in _UNITS)


def _balanced(start: int, end: int, cells: Sequence[Cell], partner: dict[int, int], *, widens: bool) -> Span | None:
    """Returns the cells with the other tags of the elements in them, and what is between.

    Returns None if that has text, unless `widens`.
    """
    low, high = start, end
    new = [range(start, end)]
    while True:
        others = [partner.get(i, i) for i in chain(*new)]
        wider = min([low, *others]), max([high, *(other + 1 for other in others)])
        if wider == (low, high):
            return low, high
        new = [range(high, wider[1]), range(wider[0], low)]
        if not widens and any(cells[i].kind == "text" for i in chain(*new)):
            return None
        low, high = wider
