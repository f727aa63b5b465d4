"""Parts of a corpus whose two sides do not belong together: swapped, in the wrong language, or lines astray."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from transduce.data.corpus import Chunk, CorpusFiles, Part
from transduce.data.progress import elapsed_time
from transduce.data.shifted_lines import (
    MIN_PAIRS,
    UNRELATED,
    LineScorer,
    ShiftedLines,
    WindowSampler,
    find_shifted_lines,
)
from transduce.data.swapped_sides import Sides, side_names


@dataclass(frozen=True)
class Misalignment:
    """Pairs of a part that do not belong together.

    Attributes:
        fault: what is wrong, in words.
        count: how many pairs.
        place: `file:line` of the first.
    """

    fault: str
    count: int
    place: str


@dataclass
class AlignmentCheck:
    """Sees the pairs of a corpus go by, and says at the end which of them do not belong together."""

    sides: Sides
    _samplers: dict[Part, WindowSampler] = field(default_factory=dict)

    def add(self, part: Part, chunk: Chunk) -> None:
        """Takes the next pairs of a part; those of treebanks are no translations.

        A part that is read twice, as one that is training and validation set, is taken once.
        """
        if part.trees:
            return
        sampler = self._samplers.setdefault(part, WindowSampler())
        if chunk.line == sampler.num_pairs + 1:
            sampler.add(chunk.pairs)

    def finish(self, files: CorpusFiles, *, progress: bool) -> Iterator[Misalignment]:
        """Yields what is wrong, training parts first."""
        for part, fault in self.sides.faults.items():
            if part in self._samplers:
                yield Misalignment(fault, self._samplers[part].num_pairs, f"{part.paths[0]}:1")
        judged = {part: sampler for part, sampler in self._samplers.items() if part not in self.sides.faults}
        training = [part for part in dict.fromkeys(files.train) if part in judged]
        if sum(judged[part].num_pairs for part in training) < MIN_PAIRS:
            return
        windows = {part: list(judged[part].complete().values()) for part in training}
        with elapsed_time("comparing lines", shown=progress):
            judge = LineScorer.learn([window for part in training for window in windows[part]])
        first_window = 0
        for part in [*training, *(part for part in judged if part not in training)]:
            for slip in find_shifted_lines(part, judged[part], judge, first_window, progress=progress):
                yield Misalignment(_describe(part, slip), slip.end - slip.start, f"{part.paths[0]}:{slip.start + 1}")
            first_window += len(windows.get(part, ()))


def _describe(part: Part, slip: ShiftedLines) -> str:
    source, target = side_names(part)
    if slip.offset == UNRELATED and slip.start == 0 and slip.to_end:
        return f"{source} and {target} do not belong together: a line fits its neighbour no better than any other line"
    until = "to the end" if slip.to_end else f"to about line {slip.end}"
    since = f"from about line {slip.start + 1} {until}" if slip.start else f"from the first line {until}"
    if slip.offset == UNRELATED:
        return f"{source} and {target} do not belong together {since}"
    by = "line" if abs(slip.offset) == 1 else f"{abs(slip.offset)} lines"
    way = "after" if slip.offset > 0 else "before"
    where = f"the {by} {way} it" if abs(slip.offset) == 1 else f"what stands {by} {way} it"
    short, long = (source, target) if slip.offset > 0 else (target, source)
    return (
        f"{since}, each line of {source} belongs with {where} in {target}: "
        f"{short} lacks a line there, or {long} has one too many"
    )
