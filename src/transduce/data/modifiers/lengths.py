"""About how many tokens lines will have once modified: what the plan of a long epoch needs to know before any line is.

Capitals are spelled in two to three times as many pieces, and added items and terms take some more. How many is counted
on a sample of the pairs, in whole numbers, so that all machines plan alike. Other modifiers change lengths too little.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from transduce.data.modifiers.applying import FindLinks, applied
from transduce.text import Tokenizer

_LONGER, _ADDED = ("upper_case", "title_case"), ("items", "terms")
_SAMPLE = 256  # pairs

Lengths = NDArray[np.int32]


class Growth:
    """How much longer modifiers make each side of a line."""

    def __init__(
        self,
        names: Sequence[str],
        pairs: Sequence[tuple[str, str]],
        tokenizers: Sequence[Tokenizer],
        find_links: FindLinks,
    ) -> None:
        """Counts the tokens of a sample of pairs before and after each of the modifiers `names`."""
        self._counts: dict[str, list[tuple[int, int]]] = {}
        before = _tokens(pairs, tokenizers)
        for name in names:
            if name in _LONGER + _ADDED:
                after = applied(pairs, [[(name, number)] for number in range(len(pairs))], find_links)
                self._counts[name] = list(zip(before, _tokens(after, tokenizers), strict=True))
        self._size = max(1, len(pairs))

    @property
    def names(self) -> list[str]:
        """The modifiers that make lines longer."""
        return [*self._counts]

    def planned(self, name: str, lengths: Lengths, side: int) -> Lengths:
        """Returns the tokens of lines of one side, 0 for the source, after a modifier, EOS counted."""
        before, after = self._counts[name][side]
        if name in _ADDED:
            return lengths + np.int32(max(0, after - before) // self._size + 1)
        return (lengths.astype(np.int64) * max(before, after) // before).astype(np.int32)


def sample_rows(count: int) -> NDArray[np.int64]:
    """Returns at most 256 rows of `count`, evenly spread."""
    size = min(count, _SAMPLE)
    return np.arange(size) * count // max(1, size)


def _tokens(pairs: Sequence[tuple[str, str]], tokenizers: Sequence[Tokenizer]) -> list[int]:
    """Returns the tokens of each side, EOS counted."""
    return [
        sum(len(ids) + 1 for ids in tokenizer.encode_batch([pair[side] for pair in pairs]))
        for side, tokenizer in enumerate(tokenizers)
    ]
