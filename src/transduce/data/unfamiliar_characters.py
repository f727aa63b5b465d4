"""Characters that held-out text often has and training text hardly ever: other apostrophes, quotes, spaces, accents.

A model writes the apostrophe that it learned. Where a test set has another one ("’" for "'"), each such word counts as
wrong, and in sources the model reads something that it does not know. Nothing else in a score shows the cause.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from transduce.data.corpus import Chunk
from transduce.text.languages import without_region

_MIN_LINES = 10  # of a set
_MIN_SHARE = 0.05  # of the lines of a set
_RATIO = 20  # a character is unfamiliar if its share of training lines as long is that many times smaller
_SHOWN = 3


@dataclass
class _Text:
    """The lines of one side: their number and length, how many have each character, and where the first of these is."""

    num_lines: int = 0
    length: int = 0  # of all lines, in characters
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, lines: Sequence[str]) -> None:
        self.num_lines += len(lines)
        self.length += sum(map(len, lines))
        self.counts.update(chain.from_iterable(map(set, lines)))


class CharacterCheck:
    """Compares the characters of held-out sets with those of the training text of the same language."""

    def __init__(self) -> None:
        self._training: dict[str, _Text] = {}  # by language, or side where that is not known
        self._held_out: dict[tuple[str, int, str], _Text] = {}  # by set, side, and language or side

    def add_training(self, chunk: Chunk, languages: Sequence[str]) -> None:
        """Adds pairs of a part of the training text with these languages."""
        for side, language in enumerate(languages):
            key = without_region(language) or str(side)
            self._training.setdefault(key, _Text()).add([pair[side] for pair in chunk.pairs])

    def add_held_out(self, name: str, chunk: Chunk, languages: Sequence[str]) -> None:
        """Adds pairs of the set `name`."""
        for side, language in enumerate(languages):
            text = self._held_out.setdefault((name, side, without_region(language) or str(side)), _Text())
            text.add([pair[side] for pair in chunk.pairs])
            for index, pair in enumerate(chunk.pairs):
                for character in set(pair[side]) - text.first.keys():
                    text.first[character] = chunk.location(index, side)

    def finish(self) -> Iterator[tuple[str, int, str]]:
        """Yields for each side of a set with such characters what they are, how many lines have one, and the first."""
        for (name, side, key), text in self._held_out.items():
            known = self._training.get(key, _Text())
            by_count = sorted(text.counts.items(), key=lambda each: (-each[1], each[0]))
            found = [each for each in by_count if _is_unfamiliar(*each, text, known)]
            if found:
                character, count = found[0]
                described = (
                    f"{name} with {_named(character)} in the {('source', 'target')[side]}; of training lines, "
                    f"{known.counts[character]:,} of {known.num_lines:,} have it"
                )
                if also := [_named(each) for each, _ in found[1:_SHOWN]]:
                    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
                    described += f"; likewise {', '.join(also)}{more}"
                yield described, count, text.first[character]


def _is_unfamiliar(character: str, count: int, text: _Text, known: _Text) -> bool:
    share = count / text.num_lines
    if count < _MIN_LINES or share < _MIN_SHARE or share * known.num_lines < _RATIO:  # or too little training text
        return False
    absent = 1 - known.counts[character] / known.num_lines
    times_as_long = text.length / text.num_lines * known.num_lines / max(1, known.length)  # as training lines
    usual: float = 1 - absent**times_as_long
    return usual * _RATIO < share


def _named(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, 'without a name').lower()}"
