"""At which offset the lines of a window are aligned, by scores of all pairs of its lines.

    offset            -2    -1     0    +1    +2
    aligned          0.1   0.2   4.8   0.2   0.1
    one line missing 0.1   0.1   0.2   4.1   0.2
    shuffled         0.0  -0.1   0.1   0.0   0.0

Each figure is the mean score of the pairs (i, i + offset).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.dictionary import WordDictionary, WordLines
from transduce.alignment.line_similarity import MAX_CHARACTERS, Scores, similarity, spelling_weights
from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.windows import WINDOW_LINES, Window
from transduce.alignment.words import Tokens, joined, tokens_of

MAX_OFFSET = WINDOW_LINES // 2
UNRELATED = 10**9
"""Instead of an offset: the lines are not translations of any lines near them."""

_LEARNED_WINDOWS = 48
_CLEAR = 1.0  # least mean score of an offset other than 0; chance reaches 0.5
_MARGIN = 0.75  # by which it must exceed the score of offset 0


@dataclass(frozen=True)
class LineScorer:
    """Scores pairs of lines, by what it learned from a corpus about words and spelling.

    Attributes:
        vocabularies: the words of each side.
        weights: the weight of each letter and trigram.
        dictionaries: learned from the even windows and from the odd ones. Each scores the windows of the other half.
    """

    vocabularies: tuple[Vocabulary, Vocabulary]
    weights: NDArray[np.float64]
    dictionaries: tuple[WordDictionary, WordDictionary]

    @classmethod
    def learn(cls, windows: Sequence[Window]) -> "LineScorer":
        """Learns from windows of training text. If they are not aligned, it finds the offsets that fit best."""
        even, odd = (_spread(windows[half::2], _LEARNED_WINDOWS // 2) for half in (0, 1))
        chosen = [*even, *odd]
        positions = [*range(0, 2 * len(even), 2), *range(1, 2 * len(odd), 2)]  # in the order of the text
        words = [_words(window) for window in chosen]
        source, target = (Vocabulary.of(joined([window[side] for window in words])) for side in (0, 1))
        vocabularies = (source, target)
        dictionaries = _learn_halves(words, positions, [0] * len(chosen), vocabularies)
        scorer = cls(vocabularies, spelling_weights(chosen), dictionaries)
        means = [scorer.means(window, position % 2) for window, position in zip(chosen, positions, strict=True)]
        offsets = [best_offset(mean) for mean in means]
        if not any(offsets):
            return scorer
        known = _without_changes(offsets, positions)
        if known.count(UNRELATED) > len(known) / 2:  # too little was learned: use the best offset over all windows
            common = _best_common_offset(means)
            known = _without_changes([common if offset == UNRELATED else offset for offset in offsets], positions)
        return replace(scorer, dictionaries=_learn_halves(words, positions, known, vocabularies))

    def scores(self, window: Window, half: int = 0) -> Scores:
        """Returns the similarity of each source line and each target line of a window.

        Args:
            window: the lines.
            half: 1 if the window is one of the odd windows that were learned from.
        """
        source, target = (
            WordLines.of(words, vocabulary) for words, vocabulary in zip(_words(window), self.vocabularies, strict=True)
        )
        return similarity(window, self.dictionaries[1 - half].forward_scores(source, target), self.weights)

    def means(self, window: Window, half: int = 0) -> NDArray[np.float64]:
        """Returns the mean score of a window at each offset from -MAX_OFFSET to MAX_OFFSET.

        NaN if there are too few lines, or if all lines are alike.
        """
        scores = self.scores(window, half)
        if not scores.any():
            return np.full(2 * MAX_OFFSET + 1, np.nan)
        return np.array([_mean(scores.diagonal(offset)) for offset in range(-MAX_OFFSET, MAX_OFFSET + 1)])


def _words(window: Window) -> tuple[Tokens, Tokens]:
    """Returns the words of each side, of the beginnings of the lines."""
    source, target = (tokens_of([line[:MAX_CHARACTERS] for line in lines]) for lines in window)
    return source, target


def _spread(windows: Sequence[Window], count: int) -> list[Window]:
    return [windows[i * len(windows) // count] for i in range(count)] if len(windows) > count else list(windows)


def _best_common_offset(means: Sequence[NDArray[np.float64]]) -> int:
    """Returns the offset with the greatest mean over the windows that are long enough for it."""
    known = ~np.isnan(means)
    if not known.any():
        return 0
    totals, counts = np.where(known, means, 0.0).sum(axis=0), known.sum(axis=0)
    return int(np.argmax(np.where(counts > 0, totals / np.maximum(1, counts), -np.inf))) - MAX_OFFSET


def _without_changes(offsets: Sequence[int], positions: Sequence[int]) -> list[int]:
    """Marks windows whose neighbour has another offset as unrelated: the offset may change within them."""
    at = dict(zip(positions, offsets, strict=True))
    same = {
        position
        for position in at
        if at.get(position - 1, at[position]) == at[position] == at.get(position + 1, at[position])
    }
    return [offset if position in same else UNRELATED for position, offset in at.items()]


def _learn_halves(
    windows: Sequence[tuple[Tokens, Tokens]],
    positions: Sequence[int],
    offsets: Sequence[int],
    vocabularies: tuple[Vocabulary, Vocabulary],
) -> tuple[WordDictionary, WordDictionary]:
    """Learns a dictionary from the windows at even positions, and one from those at odd positions."""
    halves: tuple[list[tuple[Tokens, Tokens]], ...] = ([], [])
    for (source, target), position, offset in zip(windows, positions, offsets, strict=True):
        if offset != UNRELATED:
            lines = np.arange(max(0, -offset), min(len(source.counts), len(target.counts) - offset))
            halves[position % 2].append((source.of_lines(lines), target.of_lines(lines + offset)))
    even, odd = (WordDictionary.of_windows(half, vocabularies) for half in halves)
    return even, odd


def _mean(scores: NDArray[np.float64]) -> float:
    return float(scores.mean()) if len(scores) >= WINDOW_LINES // 4 else np.nan


def best_offset(means: NDArray[np.float64]) -> int:
    """Returns the offset at which a window is aligned, or `UNRELATED`; 0 if the means are NaN."""
    if np.isnan(means).all():
        return 0
    best = int(np.nanargmax(means)) - MAX_OFFSET
    highest, unshifted = float(np.nanmax(means)), float(means[MAX_OFFSET])
    if highest >= _CLEAR and highest - unshifted >= _MARGIN:
        return best
    return 0 if unshifted >= _MARGIN else UNRELATED
