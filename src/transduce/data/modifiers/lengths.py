"""About how many tokens lines will have once modified: what the plan of a long epoch needs to know before any line is.

A line that is longer than planned pads all of its batch, one that is shorter only itself. So where the length is not
known nearly, it is planned as what few lines exceed. All is counted in whole numbers, so that all machines plan alike.

    upper_case, title_case   each piece has as many tokens as its text in capitals, or with one
    items                    what the item adds to another text
    others                   what 9 of 10 pairs of a sample get at most, with a like first choice: it decides the most
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from transduce.data.batching import Indices
from transduce.data.modifiers.applying import NAMES, Chosen, FindLinks, Pair, applied
from transduce.data.modifiers.case import titled
from transduce.data.modifiers.draws import Draws
from transduce.text import Tokenizer

_SAMPLE = 1024  # pairs
_MOST = (9, 10)  # of the pairs of the sample have at most the tokens that are planned
_CHOICES = 6  # kinds of first choices: one of two or three is known by that
_ITEMS = "items"

Lengths = NDArray[np.int64]


class Growth:
    """How many tokens modifiers add to each side of a line."""

    def __init__(
        self, names: Sequence[str], pairs: Sequence[Pair], tokenizers: Sequence[Tokenizer], find_links: FindLinks
    ) -> None:
        """Takes the modifiers, a sample of pairs, the tokenizers of both sides, and what links words."""
        self._tokenizers, self._find_links = tokenizers, find_links
        self.names = [name for name in names if name in NAMES]
        self._pieces, self._most = {}, {}
        for name in self.names:
            if name in _CASES:
                self._pieces[name] = [_piece_growth(each, _CASES[name]) for each in tokenizers]
            elif name != _ITEMS:
                self._most[name] = self._most_added(name, pairs)

    def added(self, name: str, numbers: Sequence[int], sides: Sequence[Sequence[Indices]]) -> tuple[Lengths, Lengths]:
        """Returns how many tokens a modifier adds to each side of lines, or fewer than none.

        Args:
            name: of the modifier.
            numbers: of each line, from which its random choices follow.
            sides: ids of the sources and of the targets.
        """
        if name in _CASES:
            source, target = (
                np.array([int(growth[ids].sum()) for ids in side], np.int64)
                for side, growth in zip(sides, self._pieces[name], strict=True)
            )
            return source, target
        if name == _ITEMS:
            return self._added([("a", "a")] * len(numbers), [[(name, number)] for number in numbers])
        first = _first_choices(numbers)
        source, target = (most[first] for most in self._most[name])
        return source, target

    def _most_added(self, name: str, pairs: Sequence[Pair]) -> list[Lengths]:
        """Returns what a modifier adds at most to each side of most pairs, by the first choice."""
        numbers = range(len(pairs))
        first, most = _first_choices(numbers), []
        for added in self._added(pairs, [[(name, number)] for number in numbers]):
            groups = [np.sort(added[first == choice]) for choice in range(_CHOICES)]
            most.append(
                np.array([group[(len(group) - 1) * _MOST[0] // _MOST[1]] if len(group) else 0 for group in groups])
            )
        return most

    def _added(self, pairs: Sequence[Pair], chosen: Sequence[Chosen]) -> tuple[Lengths, Lengths]:
        """Returns by counting how many tokens modifiers add to each side."""
        before, after = (self._tokens(each) for each in (pairs, applied(pairs, chosen, self._find_links)))
        return after[0] - before[0], after[1] - before[1]

    def _tokens(self, pairs: Sequence[Pair]) -> list[Lengths]:
        return [
            np.array([len(ids) for ids in tokenizer.encode_batch([pair[side] for pair in pairs])], np.int64)
            for side, tokenizer in enumerate(self._tokenizers)
        ]


def _first_choices(numbers: Sequence[int]) -> Indices:
    """Returns of which kind the first random choice is that follows from each number."""
    return np.array([Draws(number).below(_CHOICES) for number in numbers], np.int64)


def sample_rows(count: int) -> NDArray[np.int64]:
    """Returns at most 1024 rows of `count`, evenly spread."""
    size = min(count, _SAMPLE)
    return np.arange(size) * count // max(1, size)


def _titled(piece: str) -> str:
    return titled(piece) if piece.startswith(" ") else piece  # one that begins no word keeps its small letters


_CASES: dict[str, Callable[[str], str]] = {"upper_case": str.upper, "title_case": _titled}


def _piece_growth(tokenizer: Tokenizer, change: Callable[[str], str]) -> Lengths:
    """Returns for each piece of a vocabulary how many more tokens its changed text has."""
    pieces = [piece.decode(errors="replace") for piece in tokenizer.piece_bytes(range(tokenizer.vocab_size))]
    changed = [i for i, piece in enumerate(pieces) if piece != change(piece)]
    growth = np.zeros(len(pieces), np.int64)
    for i, ids in zip(changed, tokenizer.encode_batch([change(pieces[i]).strip() for i in changed]), strict=True):
        growth[i] = len(ids) - 1
    return growth
