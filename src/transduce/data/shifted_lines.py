"""Whether line i of one file translates line i of the other; if not, from which line on, and at which offset.

Windows of consecutive lines are sampled from each part of a corpus, evenly spread, at most `_MAX_WINDOWS`. In each
window every source line is compared with every target line (`data/line_similarity.py`). The mean over pairs (i, i + d)
shows at which offset d the window is aligned:

    offset            -2    -1     0    +1    +2
    aligned          0.1   0.2   4.8   0.2   0.1
    one line missing 0.1   0.1   0.2   4.1   0.2
    shuffled         0.0  -0.1   0.1   0.0   0.0

If two neighbouring windows differ in their offsets, the lines between them are read again and sampled more densely,
until the windows touch. Then each line votes for one of the two offsets, and the place where the votes change is the
answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpus import Part, read_chunks
from transduce.data.line_similarity import (
    Dictionary,
    NumberedWindow,
    Scores,
    Vocabulary,
    Window,
    learn,
    number_tokens,
    similarity,
    spelling_weights,
    tokens,
)

WINDOW_LINES = 64
MIN_PAIRS = 4 * WINDOW_LINES  # of training text; with fewer there is no check
_MAX_WINDOWS = 128  # of a part
_LEARNED_WINDOWS = 48
_MAX_OFFSET = WINDOW_LINES // 2
_CLEAR = 1.0  # least mean score of an offset other than 0; chance reaches 0.5
_MARGIN = 0.75  # by which it must exceed the score of offset 0
_UNRELATED_SCORE = 0.15  # a part with a lower mean score has unrelated sides
_MIN_WINDOWS_UNRELATED = 16  # of such a part
_MIN_RUN_UNRELATED = 2  # unrelated windows in a row, in a part that is otherwise aligned
_ALIGNED_SCORE = 1.5  # median score of a part that is otherwise aligned
_MAX_RUNS = 3  # reported of one part

UNRELATED = 10**9
"""Instead of an offset: the lines are not translations of any lines near them."""


class WindowSampler:
    """Samples windows from a stream of pairs, evenly spread, although the length of the stream is unknown.

    Attributes:
        windows: by the index of their first pair.
        num_pairs: number of pairs so far.
        stride: distance of the first pairs of two windows; it doubles as the stream goes on.
    """

    def __init__(self, max_windows: int = _MAX_WINDOWS) -> None:
        self.windows: dict[int, Window] = {}
        self.num_pairs = 0
        self.stride = WINDOW_LINES
        self._max_windows = max_windows

    def add(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Adds the next pairs of the stream."""
        first, end = self.num_pairs, self.num_pairs + len(pairs)
        self.num_pairs = end
        start = first // self.stride * self.stride
        while start < end:
            inside = pairs[max(start, first) - first : max(0, start + WINDOW_LINES - first)]
            if inside:
                window = self.windows.setdefault(start, ([], []))
                window[0].extend(source for source, _ in inside)
                window[1].extend(target for _, target in inside)
            if len(self.windows) > self._max_windows:
                self.stride *= 2
                self.windows = {at: window for at, window in self.windows.items() if at % self.stride == 0}
            start = (start // self.stride + 1) * self.stride

    def complete(self) -> dict[int, Window]:
        """Returns the windows, without a last one that is too short."""
        return {at: window for at, window in self.windows.items() if len(window[0]) >= WINDOW_LINES // 2}


@dataclass(frozen=True)
class ShiftedLines:
    """Lines of a part that are not aligned.

    Attributes:
        start: index of the first pair.
        end: index after the last pair.
        offset: source line i belongs with target line i + offset; or `UNRELATED`.
        to_end: whether these lines reach the end of the part.
    """

    start: int
    end: int
    offset: int
    to_end: bool


@dataclass(frozen=True)
class LineScorer:
    """Scores pairs of lines, by what it learned from a corpus about words and spelling.

    Attributes:
        vocabularies: the tokens of each side.
        weights: the weight of each letter and trigram.
        dictionaries: learned from the even windows and from the odd ones. Each scores the windows of the other half.
    """

    vocabularies: tuple[Vocabulary, Vocabulary]
    weights: NDArray[np.float64]
    dictionaries: tuple[Dictionary, Dictionary]

    @classmethod
    def learn(cls, windows: Sequence[Window]) -> "LineScorer":
        """Learns from windows of training text. If they are not aligned, it finds the offsets that fit best."""
        even, odd = (_spread(windows[half::2], _LEARNED_WINDOWS // 2) for half in (0, 1))
        chosen = [*even, *odd]
        places = [*range(0, 2 * len(even), 2), *range(1, 2 * len(odd), 2)]  # in the order of the text
        source, target = (number_tokens(tokens(line) for window in chosen for line in window[side]) for side in (0, 1))
        vocabularies, weights = (source, target), spelling_weights(chosen)
        numbered = [_numbered(window, vocabularies) for window in chosen]
        scorer = cls(vocabularies, weights, _learn_halves(numbered, places, [0] * len(chosen), vocabularies))
        means = [scorer.means(window, place % 2) for window, place in zip(chosen, places, strict=True)]
        offsets = [best_offset(mean) for mean in means]
        if not any(offsets):
            return scorer
        if offsets.count(UNRELATED) > len(offsets) / 2:  # too little was learned: use the best offset over all windows
            common = _best_common_offset(means)
            offsets = [common if offset == UNRELATED else offset for offset in offsets]
        offsets = _without_changes(offsets, places)
        return replace(scorer, dictionaries=_learn_halves(numbered, places, offsets, vocabularies))

    def scores(self, window: Window, half: int = 0) -> Scores:
        """Returns the similarity of each source line and each target line of a window.

        Args:
            window: the lines.
            half: 1 if the window is one of the odd windows that were learned from.
        """
        return similarity(_numbered(window, self.vocabularies), self.dictionaries[1 - half], self.weights)

    def means(self, window: Window, half: int = 0) -> NDArray[np.float64]:
        """Returns the mean score of a window at each offset from -_MAX_OFFSET to _MAX_OFFSET.

        NaN if there are too few lines, or if all lines are alike.
        """
        scores = self.scores(window, half)
        if not scores.any():
            return np.full(2 * _MAX_OFFSET + 1, np.nan)
        return np.array([_mean(scores.diagonal(offset)) for offset in range(-_MAX_OFFSET, _MAX_OFFSET + 1)])


def _numbered(window: Window, vocabularies: tuple[Vocabulary, ...]) -> NumberedWindow:
    source, target = (
        [[vocabulary[token] for token in tokens(line) if token in vocabulary] for line in lines]
        for vocabulary, lines in zip(vocabularies, window, strict=True)
    )
    return NumberedWindow(window, source, target)


def _spread(windows: Sequence[Window], count: int) -> list[Window]:
    return [windows[i * len(windows) // count] for i in range(count)] if len(windows) > count else list(windows)


def _best_common_offset(means: Sequence[NDArray[np.float64]]) -> int:
    """Returns the offset with the greatest mean over the windows that are long enough for it."""
    known = ~np.isnan(means)
    if not known.any():
        return 0
    totals, counts = np.where(known, means, 0.0).sum(axis=0), known.sum(axis=0)
    return int(np.argmax(np.where(counts > 0, totals / np.maximum(1, counts), -np.inf))) - _MAX_OFFSET


def _without_changes(offsets: Sequence[int], places: Sequence[int]) -> list[int]:
    """Marks windows whose neighbour has another offset as unrelated: the offset may change within them."""
    at = dict(zip(places, offsets, strict=True))
    same = {place for place in at if at.get(place - 1, at[place]) == at[place] == at.get(place + 1, at[place])}
    return [offset if place in same else UNRELATED for place, offset in at.items()]


def _learn_halves(
    windows: Sequence[NumberedWindow],
    places: Sequence[int],
    offsets: Sequence[int],
    vocabularies: tuple[Vocabulary, Vocabulary],
) -> tuple[Dictionary, Dictionary]:
    """Learns a dictionary from the windows at even places, and one from those at odd places."""
    sizes = (len(vocabularies[0]), len(vocabularies[1]))
    halves: tuple[list[tuple[list[int], list[int]]], ...] = ([], [])
    for window, place, offset in zip(windows, places, offsets, strict=True):
        if offset != UNRELATED:
            pairs = zip(window.source[max(0, -offset) :], window.target[max(0, offset) :], strict=False)
            halves[place % 2].extend(pairs)
    return learn(halves[0], sizes), learn(halves[1], sizes)


def _mean(scores: NDArray[np.float64]) -> float:
    return float(scores.mean()) if len(scores) >= WINDOW_LINES // 4 else np.nan


def best_offset(means: NDArray[np.float64]) -> int:
    """Returns the offset at which a window is aligned, or `UNRELATED`; 0 if the means are NaN."""
    if np.isnan(means).all():
        return 0
    best = int(np.nanargmax(means)) - _MAX_OFFSET
    highest, unshifted = float(np.nanmax(means)), float(means[_MAX_OFFSET])
    if highest >= _CLEAR and highest - unshifted >= _MARGIN:
        return best
    return 0 if unshifted >= _MARGIN else UNRELATED


def find_shifted_lines(
    part: Part, sampler: WindowSampler, scorer: LineScorer, first_window: int, *, progress: bool
) -> list[ShiftedLines]:
    """Returns the lines of a part that are not aligned, in order.

    Args:
        part: the part, to read the lines between windows again.
        sampler: has sampled all pairs of the part.
        scorer: learned from the windows of all training parts in order.
        first_window: number of the part's first window among them; 0 if the scorer has not learned from this part.
        progress: whether to show progress bars.
    """
    windows = sampler.complete()
    means_at = {at: scorer.means(window, i % 2) for i, (at, window) in enumerate(windows.items(), start=first_window)}
    means_at = {at: means for at, means in means_at.items() if not np.isnan(means).all()}
    if not means_at:
        return []
    means = np.array(list(means_at.values()))
    if len(means_at) >= _MIN_WINDOWS_UNRELATED and float(np.nanmax(np.nanmean(means, axis=0))) < _UNRELATED_SCORE:
        return [ShiftedLines(0, sampler.num_pairs, UNRELATED, to_end=True)]
    runs = _runs([best_offset(mean) for mean in means], median=float(np.median(np.nanmax(means, axis=1))))
    starts = list(means_at)

    @cache
    def first_pair(number: int) -> int:
        """Returns the index of the first pair of a run; for the number of runs, that of all pairs."""
        if number in (0, len(runs)):
            return sampler.num_pairs if number else 0
        (before, _), (offset, window) = runs[number - 1 : number + 1]
        return _locate(part, (starts[window - 1], starts[window]), (before, offset), scorer, progress)

    shifted = [(number, offset) for number, (offset, _) in enumerate(runs) if offset]
    return [
        ShiftedLines(first_pair(number), first_pair(number + 1), offset, to_end=number + 1 == len(runs))
        for number, offset in shifted[:_MAX_RUNS]
    ]


def _runs(states: Sequence[int], median: float) -> list[tuple[int, int]]:
    """Returns (offset, first window) of each run of windows with the same best offset.

    Unrelated windows count to the run before them, unless there are several in a part that is otherwise aligned.
    """
    known: list[int] = []
    for offset, group in groupby(states):
        length = len(list(group))
        if offset == UNRELATED and (length < _MIN_RUN_UNRELATED or median < _ALIGNED_SCORE):
            offset = known[-1] if known else 0
        known += [offset] * length
    return [(offset, i) for i, offset in enumerate(known) if i == 0 or offset != known[i - 1]]


def _locate(part: Part, between: tuple[int, int], offsets: tuple[int, int], scorer: LineScorer, progress: bool) -> int:
    """Returns the index of the first pair that is aligned at the second of two offsets.

    Args:
        part: the part.
        between: index of the first pair of a window at the first offset, and of a window at the second.
        offsets: the two offsets.
        scorer: compares lines.
        progress: whether to show progress bars.
    """
    first, second = between
    while second - first > WINDOW_LINES:
        sampler = WindowSampler()
        for pairs in _read(part, first, second + WINDOW_LINES, progress):
            sampler.add(pairs)
        windows = sampler.complete()
        votes = [_difference(np.nan_to_num(scorer.means(window)), offsets) for window in windows.values()]
        change = min(max(1, _change(np.array(votes))), len(votes) - 1)
        starts = list(windows)
        first, second = first + starts[change - 1], first + starts[change]
    pairs = [pair for pairs in _read(part, first, second + WINDOW_LINES, progress) for pair in pairs]
    scores = scorer.scores(([source for source, _ in pairs], [target for _, target in pairs]))
    votes = []
    for i in range(len(pairs)):
        at_offsets = [scores[i, i + offset] if 0 <= i + offset < len(pairs) else _ALIGNED_SCORE for offset in offsets]
        votes.append(at_offsets[1] - at_offsets[0])
    return first + _change(np.array(votes))


def _difference(means: NDArray[np.float64], offsets: tuple[int, int]) -> float:
    before, after = (
        _ALIGNED_SCORE if offset == UNRELATED else float(means[_MAX_OFFSET + offset]) for offset in offsets
    )
    return after - before


def _change(votes: NDArray[np.float64]) -> int:
    """Returns where votes change from below zero to above: the index that agrees with most of them."""
    return int(np.argmin(np.concatenate([[0.0], np.cumsum(votes)])))


def _read(part: Part, start: int, end: int, progress: bool) -> Iterator[list[tuple[str, str]]]:
    for chunk in read_chunks([part], "looking for the line", progress=progress):
        first = chunk.line - 1
        if first >= end:
            break
        if inside := chunk.pairs[max(0, start - first) : end - first]:
            yield inside
