"""Whether the lines of two files that are read side by side mean the same; if not, from which line on.

Of each part of a corpus, windows of neighbouring lines are kept, evenly spread, at most `_MAX_WINDOWS` whatever its
size. In each window every source line is compared with every target line (`data/line_similarity.py`), and the mean over
pairs (i, i + d) shows at which offset d the window is aligned:

    offset            -2    -1     0    +1    +2
    aligned          0.1   0.2   4.8   0.2   0.1
    one line astray  0.1   0.1   0.2   4.1   0.2
    shuffled         0.0  -0.1   0.1   0.0   0.0

Where two neighbouring windows differ, the lines between them are read again and sampled more closely, until the
windows touch; then the line is where the votes of the single lines turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

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
    similarity,
    spelling_weights,
    tokens,
)

WINDOW_LINES = 64
MIN_PAIRS = 4 * WINDOW_LINES  # of training text; of less nothing is said
_MAX_WINDOWS = 128  # of a part
_LEARNED_WINDOWS = 48
_MAX_OFFSET = WINDOW_LINES // 2
_CLEAR = 1.0  # mean score of an offset other than 0; chance reaches 0.5
_MARGIN = 0.75  # by which it must beat offset 0
_ANY = 0.15  # mean score over a part below which its sides have nothing to do with each other
_MIN_WINDOWS_UNRELATED = 16  # so many lines must show it
_MIN_RUN_UNRELATED = 2  # windows in a row, in a part that is otherwise aligned
_USUAL = 1.5  # median score of such a part
_MAX_PLACES = 3  # runs of shifted lines in one part that are described

UNRELATED = 10**9
"""In place of an offset: no line has anything to do with its neighbours on the other side."""


class WindowSampler:
    """Keeps windows of a stream of pairs, evenly spread: the stream's length need not be known.

    Attributes:
        windows: by the number of their first pair, from 0.
    """

    def __init__(self) -> None:
        self.windows: dict[int, Window] = {}
        self.num_pairs = 0
        self._stride = WINDOW_LINES

    def add(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Takes the next pairs of the stream."""
        first, end = self.num_pairs, self.num_pairs + len(pairs)
        self.num_pairs = end
        start = first // self._stride * self._stride
        while start < end:
            inside = pairs[max(start, first) - first : max(0, start + WINDOW_LINES - first)]
            if inside:
                window = self.windows.setdefault(start, ([], []))
                window[0].extend(source for source, _ in inside)
                window[1].extend(target for _, target in inside)
            if len(self.windows) > _MAX_WINDOWS:
                self._stride *= 2
                self.windows = {at: window for at, window in self.windows.items() if at % self._stride == 0}
            start = (start // self._stride + 1) * self._stride

    def complete(self) -> dict[int, Window]:
        """Returns the windows but for a last one that is cut short."""
        return {at: window for at, window in self.windows.items() if len(window[0]) >= WINDOW_LINES // 2}


@dataclass(frozen=True)
class ShiftedLines:
    """Lines of a part that are not aligned.

    Attributes:
        start: the first pair, from 0.
        end: the pair after the last.
        offset: source line i belongs with target line i + offset; `UNRELATED`: with none near it.
        to_end: whether it lasts to the end of the part.
    """

    start: int
    end: int
    offset: int
    to_end: bool


@dataclass(frozen=True)
class LineScorer:
    """What a corpus says about which words translate which, and how its words are spelled.

    Attributes:
        dictionaries: one learned from the even windows, and one from the odd: none judges what it was learned from.
    """

    vocabularies: tuple[Vocabulary, Vocabulary]
    weights: NDArray[np.float64]
    dictionaries: tuple[Dictionary, Dictionary]

    @classmethod
    def learn(cls, windows: Sequence[Window]) -> "LineScorer":
        """Learns from windows of training text, which need not be aligned: offsets that fit better are found."""
        halves = [_spread(windows[half::2], _LEARNED_WINDOWS // 2) for half in (0, 1)]
        lines: tuple[list[list[str]], list[list[str]]] = ([], [])
        for window in chain(*halves):
            for side in (0, 1):
                lines[side].extend(tokens(line) for line in window[side])
        vocabularies = (Vocabulary(lines[0]), Vocabulary(lines[1]))
        weights = spelling_weights(list(chain(*halves)))
        numbered = [[_numbered(window, vocabularies) for window in half] for half in halves]
        aligned = [[0] * len(half) for half in halves]
        judge = cls(vocabularies, weights, _learn_halves(numbered, aligned, vocabularies))
        means = [[judge.means(window, half=half) for window in windows] for half, windows in enumerate(halves)]
        offsets = [[best_offset(mean) for mean in half] for half in means]
        flat = [offset for half in offsets for offset in half]
        if not any(flat):
            return judge
        if flat.count(UNRELATED) > len(flat) / 2:  # too little was learned: go by what all windows say together
            usual = _usual_offset([mean for half in means for mean in half])
            offsets = [[usual if offset == UNRELATED else offset for offset in half] for half in offsets]
        return replace(judge, dictionaries=_learn_halves(numbered, _away_from_turns(offsets), vocabularies))

    def scores(self, window: Window, half: int = 0) -> Scores:
        """Returns how each source line and each target line of a window stand out as a pair.

        Args:
            window: the lines.
            half: 1 if the window is one of the odd ones that were learned from.
        """
        return similarity(_numbered(window, self.vocabularies), self.dictionaries[1 - half], self.weights)

    def means(self, window: Window, half: int = 0) -> NDArray[np.float64]:
        """Returns the mean score of a window at each offset from -_MAX_OFFSET to _MAX_OFFSET.

        Too few lines make it NaN, and so do lines that are all alike.
        """
        scores = self.scores(window, half)
        if not scores.any():
            return np.full(2 * _MAX_OFFSET + 1, np.nan)
        return np.array([_mean(scores.diagonal(offset)) for offset in range(-_MAX_OFFSET, _MAX_OFFSET + 1)])


def _numbered(window: Window, vocabularies: tuple[Vocabulary, ...]) -> NumberedWindow:
    source, target = (
        [vocabulary.numbers(tokens(line)) for line in lines]
        for vocabulary, lines in zip(vocabularies, window, strict=True)
    )
    return NumberedWindow(window, source, target)


def _spread(windows: Sequence[Window], count: int) -> list[Window]:
    return [windows[i * len(windows) // count] for i in range(count)] if len(windows) > count else list(windows)


def _usual_offset(means: Sequence[NDArray[np.float64]]) -> int:
    """Returns the offset of the greatest mean over windows; one that no window is long enough for is none."""
    known = ~np.isnan(means)
    if not known.any():
        return 0
    totals, counts = np.where(known, means, 0.0).sum(axis=0), known.sum(axis=0)
    return int(np.argmax(np.where(counts > 0, totals / np.maximum(1, counts), -np.inf))) - _MAX_OFFSET


def _away_from_turns(offsets: list[list[int]]) -> list[list[int]]:
    """Marks windows whose neighbour has another offset: they may be aligned in two ways, and must not be learned."""
    in_order = [offsets[i % 2][i // 2] for i in range(sum(map(len, offsets)))]
    same = [len(set(in_order[max(0, i - 1) : i + 2])) == 1 for i in range(len(in_order))]
    marked = [offset if clear else UNRELATED for offset, clear in zip(in_order, same, strict=True)]
    return [marked[0::2], marked[1::2]]


def _learn_halves(
    halves: Sequence[Sequence[NumberedWindow]],
    offsets: Sequence[Sequence[int]],
    vocabularies: tuple[Vocabulary, Vocabulary],
) -> tuple[Dictionary, Dictionary]:
    sizes = (len(vocabularies[0]), len(vocabularies[1]))
    learned = []
    for windows, shifts in zip(halves, offsets, strict=True):
        pairs: list[tuple[list[int], list[int]]] = []
        for window, offset in zip(windows, shifts, strict=True):
            if offset != UNRELATED:
                pairs += zip(window.source[max(0, -offset) :], window.target[max(0, offset) :], strict=False)
        learned.append(learn(pairs, sizes))
    return learned[0], learned[1]


def _mean(scores: NDArray[np.float64]) -> float:
    return float(scores.mean()) if len(scores) >= WINDOW_LINES // 4 else np.nan


def best_offset(means: NDArray[np.float64]) -> int:
    """Returns the offset at which a window is aligned, or `UNRELATED`; 0 if its lines say nothing."""
    if np.isnan(means).all():
        return 0
    best = int(np.nanargmax(means)) - _MAX_OFFSET
    highest, as_it_stands = float(np.nanmax(means)), float(means[_MAX_OFFSET])
    if highest >= _CLEAR and highest - as_it_stands >= _MARGIN:
        return best
    return 0 if as_it_stands >= _MARGIN else UNRELATED


def find_shifted_lines(
    part: Part, sampler: WindowSampler, judge: LineScorer, first_window: int, *, progress: bool
) -> list[ShiftedLines]:
    """Returns where the sides of a part do not belong together, in order.

    Args:
        part: where lines between the windows are read from.
        sampler: what the part's pairs have gone through.
        judge: learned from the windows of all training parts in order, of which the part's begin at `first_window`.
        first_window: 0 if the judge has not learned from this part.
        progress: whether to show how far the reading is.
    """
    windows = sampler.complete()
    judged = {at: judge.means(window, i % 2) for i, (at, window) in enumerate(windows.items(), start=first_window)}
    judged = {at: means for at, means in judged.items() if not np.isnan(means).all()}
    if not judged:
        return []
    means = np.array(list(judged.values()))
    if len(judged) >= _MIN_WINDOWS_UNRELATED and float(np.nanmax(np.nanmean(means, axis=0))) < _ANY:
        return [ShiftedLines(0, sampler.num_pairs, UNRELATED, to_end=True)]
    runs = _runs([best_offset(mean) for mean in means], usual=float(np.median(np.nanmax(means, axis=1))))
    starts = list(judged)
    shifted_lines = []
    for number, (offset, first, end) in enumerate(runs):
        if offset:
            start_pair, end_pair = 0, sampler.num_pairs
            if number:
                start_pair = _locate(
                    part, (starts[first - 1], starts[first]), (runs[number - 1][0], offset), judge, progress
                )
            if end < len(starts):
                end_pair = _locate(part, (starts[end - 1], starts[end]), (offset, runs[number + 1][0]), judge, progress)
            shifted_lines.append(ShiftedLines(start_pair, end_pair, offset, to_end=end == len(starts)))
        if len(shifted_lines) == _MAX_PLACES:
            break
    return shifted_lines


def _runs(states: Sequence[int], usual: float) -> list[tuple[int, int, int]]:
    """Returns (offset, first window, window after the last) of each run of windows with the same best offset.

    Windows that nothing can be said of belong to the run before them, unless they stand out in a part that is clear.
    """
    known: list[int] = []
    for offset, group in groupby(states):
        length = len(list(group))
        if offset == UNRELATED and (length < _MIN_RUN_UNRELATED or usual < _USUAL):
            offset = known[-1] if known else 0
        known += [offset] * length
    runs, first = [], 0
    for offset, group in groupby(known):
        length = len(list(group))
        runs.append((offset, first, first + length))
        first += length
    return runs


def _locate(part: Part, between: tuple[int, int], offsets: tuple[int, int], judge: LineScorer, progress: bool) -> int:
    """Returns the first pair aligned at the second of two offsets; it lies in or after a window at the first.

    Args:
        part: the part.
        between: where a window at the first offset and one at the second begin.
        offsets: the two.
        judge: what compares lines.
        progress: whether to show how far the reading is.
    """
    first, second = between
    while second - first > WINDOW_LINES:
        sampler = WindowSampler()
        for pairs in _read(part, first, second + WINDOW_LINES, progress):
            sampler.add(pairs)
        windows = sampler.complete()
        votes = [_difference(np.nan_to_num(judge.means(window)), offsets) for window in windows.values()]
        turn = min(max(1, _turn(np.array(votes))), len(votes) - 1)
        starts = list(windows)
        first, second = first + starts[turn - 1], first + starts[turn]
    pairs = [pair for pairs in _read(part, first, second + WINDOW_LINES, progress) for pair in pairs]
    scores = judge.scores(([source for source, _ in pairs], [target for _, target in pairs]))
    lines = []
    for i in range(len(pairs)):
        of_line = [scores[i, i + offset] if 0 <= i + offset < len(pairs) else _USUAL for offset in offsets]
        lines.append(of_line[1] - of_line[0])
    return first + _turn(np.array(lines))


def _difference(means: NDArray[np.float64], offsets: tuple[int, int]) -> float:
    before, after = (_USUAL if offset == UNRELATED else float(means[_MAX_OFFSET + offset]) for offset in offsets)
    return after - before


def _turn(votes: NDArray[np.float64]) -> int:
    """Returns where votes turn from below zero to above: the place that most of them agree with."""
    return int(np.argmin(np.concatenate([[0.0], np.cumsum(votes)])))


def _read(part: Part, start: int, end: int, progress: bool) -> Iterator[list[tuple[str, str]]]:
    for chunk in read_chunks([part], "looking for the line", progress=progress):
        first = chunk.line - 1
        if first >= end:
            break
        if inside := chunk.pairs[max(0, start - first) : end - first]:
            yield inside
