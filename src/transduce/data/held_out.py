"""The lines of validation and test sets, and which training pairs leak them.

A training pair leaks if one of its sides is the same as a held-out line, but for case, punctuation, spaces and Unicode
form, or a near-copy of one (`text/known_lines.py`). Sources are compared with held-out sources, and targets with
held-out targets, in any language. Where a corpus translates *into* a language that a held-out set translates
*from*, or the other way round, the sides are exchanged: a model of both directions sees the sentences of a test set in
the training data of the other direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from transduce.data.corpus import Chunk
from transduce.text.known_lines import KnownLines, is_long, line_keys
from transduce.text.languages import without_region

Pair = tuple[str, str]  # the languages of a part


@dataclass
class Leaks:
    """The pairs of a chunk that leak, by their numbers in it.

    Attributes:
        sources: whose source is held out.
        targets: whose target is held out.
        pairs: that are held out as a whole.
        certain: those in `pairs`, and those with a held-out side of at least `MIN_LEAK_BYTES` bytes.
        short: the others.
        near: that are none of these, but have a side that is a near-copy of a held-out line.
        copies: for each pair, `file:line` of the held-out line; that of its source, if both sides are held out.
    """

    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    pairs: list[int] = field(default_factory=list)
    certain: list[int] = field(default_factory=list)
    short: list[int] = field(default_factory=list)
    near: list[int] = field(default_factory=list)
    copies: dict[int, str] = field(default_factory=dict)


@dataclass
class HeldOutSide:
    """The held-out lines that one side of a corpus is compared with, and `file:line` of each."""

    known: KnownLines = field(default_factory=KnownLines)
    lines: list[str] = field(default_factory=list)
    locations: list[str] = field(default_factory=list)

    def add(self, lines: Sequence[str], locations: Sequence[str]) -> None:
        """Adds lines, and `file:line` of each."""
        self.known.add(lines)
        self.lines += lines
        self.locations += locations

    def joined(self, others: Sequence["HeldOutSide"]) -> "HeldOutSide":
        """Returns the lines of this side and of others."""
        if not others:
            return self
        joined = HeldOutSide()
        for side in (self, *others):
            joined.add(side.lines, side.locations)
        return joined


class HeldOutLines:
    """The lines of held-out sets."""

    def __init__(self) -> None:
        self.sources, self.targets = HeldOutSide(), HeldOutSide()
        self._pairs: set[tuple[int, int]] = set()  # the keys of source and target
        self._sides: dict[Pair, tuple[HeldOutSide, HeldOutSide]] = {}  # by languages, where both are known and differ
        self._compared: dict[Pair, tuple[HeldOutSide, HeldOutSide]] = {}  # with what, by the languages of a part

    def add(self, chunk: Chunk, languages: Pair, *, targets: bool) -> None:
        """Adds pairs of a set; `targets`: whether their targets count by themselves."""
        languages = without_region(languages[0]), without_region(languages[1])
        self._compared.clear()
        sides = _sides(chunk)
        locations = [chunk.locations(range(len(chunk.pairs)), side) for side in (0, 1)]
        self.sources.add(sides[0], locations[0])
        if targets:
            self.targets.add(sides[1], locations[1])
        self._pairs.update(zip(*(line_keys(lines).tolist() for lines in sides), strict=True))
        if _crosses(languages):
            known = self._sides.setdefault(languages, (HeldOutSide(), HeldOutSide()))
            for side in (0, 1):
                known[side].add(sides[side], locations[side])

    def overlaps(self, chunk: Chunk) -> list[int]:
        """Returns the pairs of another held-out set that have a side in these."""
        sources, targets = _sides(chunk)
        either = self.sources.known.find(sources).same | self.targets.known.find(targets).same
        return [index for index, is_same in enumerate(either) if is_same]

    def leaks(self, chunk: Chunk, languages: Pair) -> Leaks:
        """Returns the pairs of a chunk of the training corpus that leak; `languages` are those of its part."""
        leaks = Leaks()
        if not self._pairs:
            return leaks
        languages = without_region(languages[0]), without_region(languages[1])
        if languages not in self._compared:
            self._compared[languages] = self._lines_for(languages)
        sides = self._compared[languages]
        found = [side.known.find(lines) for side, lines in zip(sides, _sides(chunk), strict=True)]
        reversible = (languages[1], languages[0]) in self._sides
        for index in np.flatnonzero((found[0].known >= 0) | (found[1].known >= 0)).tolist():
            matches = [
                (bool(each.same[index]), side, int(each.known[index]))
                for side, each in zip(sides, found, strict=True)
                if each.known[index] >= 0
            ]
            _, held_out, number = max(matches, key=itemgetter(0))  # of equals, the source
            leaks.copies[index] = held_out.locations[number]
            source, target = (int(each.keys[index]) for each in found)
            whole = (source, target) in self._pairs or (reversible and (target, source) in self._pairs)
            if found[0].same[index]:
                leaks.sources.append(index)
            if found[1].same[index]:
                leaks.targets.append(index)
            if whole:
                leaks.pairs.append(index)
            if whole or any(same and is_long(side.lines[number]) for same, side, number in matches):
                leaks.certain.append(index)
            elif all(same for same, _, _ in matches):
                leaks.short.append(index)
            else:
                leaks.near.append(index)
        return leaks

    def _lines_for(self, languages: Pair) -> tuple[HeldOutSide, HeldOutSide]:
        """Returns what sources and targets in these languages are compared with."""
        if not _crosses(languages):
            return self.sources, self.targets
        from_targets = [written for (_, target), (_, written) in self._sides.items() if target == languages[0]]
        from_sources = [read for (source, _), (read, _) in self._sides.items() if source == languages[1]]
        return self.sources.joined(from_targets), self.targets.joined(from_sources)


def _sides(chunk: Chunk) -> tuple[list[str], list[str]]:
    return [source for source, _ in chunk.pairs], [target for _, target in chunk.pairs]


def _crosses(languages: Pair) -> bool:
    """Whether it is known which side is in which language, so that sides may be exchanged."""
    return all(languages) and languages[0] != languages[1]
