"""What stays where it is in a text: words that tags cut, references, and text between tags that has no letters.

The model reads such a word without its tags. If it copies the word, the tags are put back into it. If it does not, the
text is translated again, with a point in place of the word.

    nas<x1>@</x1>debian.org has CO<x2>2</x2><x3>5</x3>  →  "nas@debian.org has CO2<x4/>", "<x5/> has <x6/><x4/>"
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from transduce.translation.documents.segments import Item, Tag, has_words, markup_of

# Letters and digits of scripts that have spaces between words.
_LETTER = r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
_WORD = re.compile(
    r"(?P<address>(?:https?://|ftp://|www\.)[^\s<>\"'`]{0,2000}[^\s<>\"'`.,;:!?…)\]}»”’]|[\w.+-]{1,256}@[\w-]++(?:\.[\w-]++)+)"
    rf"|{_LETTER}++(?:[.,:/]\d{_LETTER}*+)*"
)
_UNITS = frozenset(("cm", "dm", "ft", "ha", "km", "mi", "mm", "nm", "yd"))
_FORMULA = re.compile(r"\w|(?:[A-Z][a-z]?){1,5}")  # what a number belongs to: m<sup>2</sup>, NaHCO<sub>3</sub>
_SIGNS = frozenset(".,;:!?…-–—/\"'()[]„“”‚‘’«»‹›¿¡")  # between words and sentences; others may be references
_OPENING = frozenset("([{„‚«‹¿¡-–—/#$€£¥&+=~<>@^_|\\")
_MARK = re.compile(r"&#?\w+;|<[^<>]*>")
_MOST = 60  # characters between tags
_MOST_WORDS = 50  # in a text, that differ: each is searched for in all of it

# word: read first as it is, then a point; point: a point; letters: read first without tags, then with them; first: an
# element around the first letter of the text.
Kind = Literal["word", "point", "letters", "first"]


@dataclass(frozen=True, slots=True)
class _Group:
    """Items that belong together: cells [start, end) of a text."""

    start: int
    end: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Reading:
    """How a text is read, and how its translation gets back what was set aside."""

    texts: tuple[str, ...]  # what the model reads, in the order of the attempts: one, or two
    points: dict[str, str]  # what is written for each point
    words: tuple[
        tuple[str, str | None], ...
    ] = ()  # in the first text: each word, and how it is written; None: as it is
    first: tuple[str, str] = ("", "")  # what is written around the first letter

    def restored(self, translation: str, attempt: int) -> str | None:
        """Returns the translation of a text with all tags; None if words that had tags are not in it."""
        if self.words and attempt == 0:
            written = _Words(dict.fromkeys(word for word, _ in self.words))
            if Counter(written.of(translation)) != Counter(word for word, _ in self.words):
                return None
            choices = {word: iter([each for other, each in self.words if other == word]) for word, _ in self.words}
            translation = written.replaced(translation, choices)
        for point, original in self.points.items():
            translation = translation.replace(point, original)
        return _with_first(translation, *self.first)


class _Words:
    """Finds words between the tags of a text."""

    def __init__(self, words: dict[str, None]) -> None:
        longest_first = sorted(words, key=len, reverse=True)
        parts = [
            (r"(?<!\w)" if word[0].isalnum() else "") + re.escape(word) + (r"(?!\w)" if word[-1].isalnum() else "")
            for word in longest_first
        ]
        self._pattern = re.compile(rf"(?P<word>{'|'.join(parts)})|{_MARK.pattern}")

    def of(self, text: str) -> Iterator[str]:
        """Yields the words that are found."""
        return (match["word"] for match in self._pattern.finditer(text) if match["word"])

    def at(self, text: str) -> dict[int, str]:
        """Returns the words that are found by where they begin."""
        return {match.start(): match["word"] for match in self._pattern.finditer(text) if match["word"]}

    def replaced(self, text: str, choices: dict[str, Iterator[str | None]]) -> str:
        """Returns the text with each word as the next choice for it says; None leaves it."""

        def written(match: re.Match[str]) -> str:
            return (next(choices[match["word"]]) or match[0]) if match["word"] else match[0]

        return self._pattern.sub(written, text)


def _with_first(text: str, before: str, after: str) -> str:
    if not before:
        return text
    position = 0
    while match := _MARK.match(text, position) or re.match(r"\W", text[position : position + 1]):
        position += match.end() - match.start()
    return f"{text[:position]}{before}{text[position : position + 1]}{after}{text[position + 1 :]}"


def reading_of(items: Sequence[Item]) -> Reading:
    """Returns how a text with tags is read."""
    whole = markup_of(items)
    if not any(isinstance(item, Tag) and item.kind != "break" for item in items):
        return Reading((whole,), {})
    cells = [cell for item in items for cell in ([item] if isinstance(item, Tag) else item)]
    groups = _groups(cells)
    if not groups:
        return Reading((whole,), {})
    number = max((cell.number for cell in cells if isinstance(cell, Tag)), default=0)
    texts: list[list[str]] = [[], []]
    points: dict[str, str] = {}
    written: dict[int, str] = {}  # words that had tags, by where they begin in the first text
    plains: dict[str, None] = {}
    first = ("", "")
    position = 0
    for group in groups:
        between, content = markup_of(cells[position : group.start]), markup_of(cells[group.start : group.end])
        plain = markup_of(cell for cell in cells[group.start : group.end] if isinstance(cell, str))
        position = group.end
        number += 1
        point = markup_of([Tag("point", number)])
        if group.kind == "first":
            first = _ends(cells[group.start : group.end])
        elif group.kind in ("word", "letters"):
            written[sum(map(len, texts[0])) + len(between)] = content
            plains[plain] = None
        if group.kind in ("word", "point"):
            points[point] = content
        texts[0] += [between, point if group.kind == "point" else plain]
        texts[1] += [between, {"letters": content, "first": plain}.get(group.kind, point)]
    readable, strict = ("".join([*text, markup_of(cells[position:])]) for text in texts)
    if not plains or len(plains) > _MOST_WORDS:
        return Reading((strict,), points, (), first)
    found = _Words(plains).at(readable)
    if not written.keys() <= found.keys():
        return Reading((strict,), points, (), first)
    return Reading((readable, strict), points, tuple((word, written.get(at)) for at, word in found.items()), first)


def _ends(cells: Sequence[Item]) -> tuple[str, str]:
    """Returns the tags before and after the first letter."""
    letter = next(i for i, cell in enumerate(cells) if isinstance(cell, str))
    return markup_of(cells[:letter]), markup_of(cells[letter + 1 :])


def _groups(cells: Sequence[Item]) -> list[_Group]:
    # A break keeps the words before it from those after it.
    text = "".join(cell if isinstance(cell, str) else "\n" * (cell.kind == "break") for cell in cells)
    cell_of = [i for i, cell in enumerate(cells) if isinstance(cell, str) or cell.kind == "break"]
    partner = _partners(cells)
    elements = [_Element(start, end, cells, cell_of, text) for start, end in sorted(partner.items()) if start < end]
    bare = [each for each in elements if each.is_bare]
    found: list[_Group] = []
    if elements and elements[0].is_first_letter:
        found.append(_Group(0, elements[0].end + 1, "first"))
    for match in _WORD.finditer(text):
        first, last = cell_of[match.start()], cell_of[match.end() - 1]
        if last - first < match.end() - match.start() or (found and first < found[-1].end):
            continue
        span = _balanced(first, last + 1, cells, partner, widens=bool(match["address"]))
        if span is None:
            continue
        if match["address"] or not has_words(match[0]):
            found.append(_Group(*span, "word"))
        elif any(character.isdigit() for character in match[0]):
            outside = (i for i in range(first, last + 1) if not any(each.start <= i <= each.end for each in bare))
            stem = "".join(str(cells[i]) for i in outside if isinstance(cells[i], str)).rstrip(".,:/")
            if not _has_reference(match[0], stem):
                found.append(_Group(*span, "word"))
            elif match[0].startswith(stem) and (end := cell_of[match.start() + len(stem) - 1]) - first >= len(stem):
                inner = _balanced(first, end + 1, cells, partner, widens=False)
                found += [_Group(*inner, "letters")] if inner is not None else []
        else:
            found.append(_Group(*span, "letters"))
    words, ends = list(found), [group.end for group in found]
    latest = 0
    for each in bare:
        i = bisect_right(ends, each.start)
        if each.start < latest or (i < len(words) and words[i].start <= each.end):
            continue
        latest = each.end + 1
        found.append(_Group(each.start, latest, each.kind))
    return sorted(found, key=lambda group: group.start)


class _Element:
    """An element of a text: cells [start, end]."""

    def __init__(self, start: int, end: int, cells: Sequence[Item], cell_of: Sequence[int], text: str) -> None:
        self.start, self.end = start, end
        first, last = bisect_right(cell_of, start), bisect_right(cell_of, end)
        self.content = text[first:last]
        self._left, self._right = text[max(0, first - 2) : first], text[last : last + 1]
        self._holds = [cell for cell in cells[start:end] if isinstance(cell, Tag)] if last - first <= _MOST else None

    @property
    def is_bare(self) -> bool:
        """Whether it has text, and no letter or white space at its ends."""
        content = self.content
        return (
            self._holds is not None
            and bool(content.strip())
            and content == content.strip()
            and not has_words(content)
            and all(tag.kind in ("open", "close") for tag in self._holds)
        )

    @property
    def is_first_letter(self) -> bool:
        """Whether it holds the first letter of the text, and the word goes on after it."""
        return self.start == 0 and len(self.content) == 1 and self.content.isalpha() and self._right.isalpha()

    @property
    def kind(self) -> Kind:
        """How it is read: as a point where it is a reference, behind a word."""
        glued = self._left[-1:].strip() and self._left[-1] not in _OPENING
        return "point" if glued and not set(self.content) <= _SIGNS else "word"


def _has_reference(word: str, stem: str) -> bool:
    """Returns whether a word without the elements that have no letters is a word, and no part of a formula or unit."""
    is_end = word.startswith(stem) or word.endswith(stem)
    return is_end and stem.isalpha() and stem != word and not (_FORMULA.fullmatch(stem) or stem in _UNITS)


def _partners(cells: Sequence[Item]) -> dict[int, int]:
    """Returns for each tag of an element where its other tag is."""
    opened: dict[int, int] = {}
    partner: dict[int, int] = {}
    for i, cell in enumerate(cells):
        if isinstance(cell, Tag) and cell.kind == "open":
            opened[cell.number] = i
        elif isinstance(cell, Tag) and cell.kind == "close" and cell.number in opened:
            partner[i] = opened[cell.number]
            partner[opened[cell.number]] = i
    return partner


def _balanced(
    start: int, end: int, cells: Sequence[Item], partner: dict[int, int], *, widens: bool
) -> tuple[int, int] | None:
    """Returns the cells with the other tags of the elements in them, and what is between.

    Returns None if that has text, unless `widens`.
    """
    low, high = start, end
    while True:
        others = [partner.get(i, i) for i in range(low, high) if isinstance(cells[i], Tag)]
        wider = min([low, *others]), max([high, *(other + 1 for other in others)])
        if wider == (low, high):
            break
        low, high = wider
    outer = [*cells[low:start], *cells[end:high]]
    return None if not widens and any(isinstance(cell, str) for cell in outer) else (low, high)
