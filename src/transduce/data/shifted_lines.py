"""Whether line i of one file translates line i of the other; if not, from which line on, and at which offset.

Windows of consecutive lines are sampled from each part of a corpus, evenly spread, at most `MAX_WINDOWS`. In each
window every source line is compared with every target line, which shows at which offset the window is aligned
(`alignment/line_scorer.py`).

If two neighbouring windows differ in their offsets, the lines between them are read again and sampled more densely,
until the windows touch. Then each line votes for one of the two offsets, and the place where the votes change is the
answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.line_scorer import MAX_OFFSET, UNRELATED, LineScorer, best_offset
from transduce.alignment.windows import WINDOW_LINES, WindowSampler
from transduce.data.corpus import Part, read_chunks

MIN_PAIRS = 4 * WINDOW_LINES  # of training text; with fewer there is no check
MAX_WINDOWS = 128  # of a part
_UNRELATED_SCORE = 0.2  # a part with a lower mean score has unrelated sides; 16 windows of them reached 0.15
_MIN_WINDOWS_UNRELATED = 16  # of such a part
_MIN_RUN_UNRELATED = 2  # unrelated windows in a row, in a part that is otherwise aligned
_ALIGNED_SCORE = 1.5  # median score of a part that is otherwise aligned
_MAX_RUNS = 3  # reported of one part


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
        sampler = WindowSampler(MAX_WINDOWS)
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
    before, after = (_ALIGNED_SCORE if offset == UNRELATED else float(means[MAX_OFFSET + offset]) for offset in offsets)
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
