"""The lines of validation and test sets, and which training pairs leak them.

A training pair leaks if one of its sides is a held-out line, outer white space ignored. Sources are compared with
held-out sources, and targets with held-out targets, whatever the languages. Where a corpus translates *into* a language
that a held-out set translates *from*, or the other way round, the sides change places: a model of both directions sees
the sentences of a test set in the training data of the other direction.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from transduce.data.corpus import Chunk
from transduce.text.languages import without_region

MIN_LEAK_BYTES = 16  # in UTF-8: five Chinese characters say as much as sixteen English letters

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
    """

    sources: list[int]
    targets: list[int]
    pairs: list[int]
    certain: list[int]
    short: list[int]


class HeldOutLines:
    """The lines of held-out sets."""

    def __init__(self) -> None:
        self.sources: set[str] = set()
        self.targets: set[str] = set()
        self._pairs: set[tuple[str, str]] = set()
        self._sides: dict[Pair, tuple[set[str], set[str]]] = {}  # by languages, where both are known and differ
        self._compared: dict[Pair, tuple[Set[str], Set[str]]] = {}  # with what, by the languages of a part

    def add(self, pairs: Iterable[tuple[str, str]], languages: Pair, *, targets: bool) -> None:
        """Adds the pairs of a set, without outer white space; `targets`: whether their targets count by themselves."""
        pairs, languages = [*pairs], (without_region(languages[0]), without_region(languages[1]))
        self._compared.clear()
        sources, written = {source for source, _ in pairs if source}, {target for _, target in pairs if target}
        self.sources |= sources
        self.targets |= written if targets else set()
        self._pairs.update(pairs)
        if _crosses(languages):
            known_sources, known_targets = self._sides.setdefault(languages, (set(), set()))
            known_sources |= sources
            known_targets |= written

    def leaks(self, chunk: Chunk, languages: Pair) -> Leaks:
        """Returns the pairs of a chunk of the training corpus that leak; `languages` are those of its part."""
        found = Leaks([], [], [], [], [])
        if not self._pairs:
            return found
        languages = without_region(languages[0]), without_region(languages[1])
        if languages not in self._compared:
            self._compared[languages] = self._lines_for(languages)
        sources, targets = self._compared[languages]
        reversible = (languages[1], languages[0]) in self._sides
        for index, pair in enumerate(chunk.pairs):
            source, target = pair[0].strip(), pair[1].strip()
            leaked = [line for line, lines in ((source, sources), (target, targets)) if line in lines]
            if not leaked:
                continue
            whole = (source, target) in self._pairs or (reversible and (target, source) in self._pairs)
            found.sources += [index] * (source in sources)
            found.targets += [index] * (target in targets)
            found.pairs += [index] * whole
            long_enough = any(len(line.encode()) >= MIN_LEAK_BYTES for line in leaked)
            (found.certain if whole or long_enough else found.short).append(index)
        return found

    def _lines_for(self, languages: Pair) -> tuple[Set[str], Set[str]]:
        """Returns what sources and targets in these languages are compared with."""
        if not _crosses(languages):
            return self.sources, self.targets
        from_targets = [written for (_, target), (_, written) in self._sides.items() if target == languages[0]]
        from_sources = [read for (source, _), (read, _) in self._sides.items() if source == languages[1]]
        return (
            self.sources.union(*from_targets) if from_targets else self.sources,
            self.targets.union(*from_sources) if from_sources else self.targets,
        )


def _crosses(languages: Pair) -> bool:
    """Whether it is known which side is in which language, so that sides may change places."""
    return all(languages) and languages[0] != languages[1]
