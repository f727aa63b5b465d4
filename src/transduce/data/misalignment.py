"""Misaligned parts of a corpus: swapped sides, a side in the wrong language, or lines shifted against each other."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from transduce.alignment.line_scorer import UNRELATED, LineScorer
from transduce.alignment.windows import WindowSampler
from transduce.data.corpus import Chunk, CorpusFiles, Part, Reader
from transduce.data.progress import elapsed_time
from transduce.data.shifted_lines import MAX_WINDOWS, MIN_PAIRS, ShiftedLines, find_shifted_lines
from transduce.data.swapped_sides import Sides, side_names
from transduce.reporting.tables import counted


@dataclass
class AlignmentCheck:
    """Collects samples of all parts while they are read, and then finds the pairs that are misaligned."""

    sides: Sides
    _samplers: dict[Part, WindowSampler] = field(default_factory=dict)
    _readers: dict[Part, Reader] = field(default_factory=dict)

    def add(self, part: Part, chunk: Chunk) -> None:
        """Samples the next pairs of a part. Treebanks are left out: brackets are no translation.

        A part that is read twice, such as one that is both training and validation set, is sampled once.
        """
        if part.trees:
            return
        sampler = self._samplers.setdefault(part, WindowSampler(MAX_WINDOWS))
        self._readers.setdefault(part, chunk.reader)
        if chunk.line == sampler.num_pairs + 1:
            sampler.add(chunk.pairs)

    def finish(self, files: CorpusFiles, *, progress: bool) -> Iterator[tuple[str, int, str]]:
        """Yields each problem in words, its number of pairs, and `file:line` of the first; training parts first."""
        for part, fault in self.sides.faults.items():
            if part in self._samplers:
                yield fault, self._samplers[part].num_pairs, self._readers[part].location(1).shown(0)
        samplers = {part: sampler for part, sampler in self._samplers.items() if part not in self.sides.faults}
        training = [part for part in dict.fromkeys(files.train) if part in samplers]
        if sum(samplers[part].num_pairs for part in training) < MIN_PAIRS:
            return
        windows = {part: list(samplers[part].complete().values()) for part in training}
        with elapsed_time("comparing lines", shown=progress):
            scorer = LineScorer.learn([window for part in training for window in windows[part]])
        first_window = 0
        for part in [*training, *(part for part in samplers if part not in training)]:
            for lines in find_shifted_lines(part, samplers[part], scorer, first_window, progress=progress):
                reader = self._readers[part]
                location = reader.location(lines.start + 1).shown(0)
                yield _describe(part, reader, lines), lines.end - lines.start, location
            first_window += len(windows.get(part, ()))


def _describe(part: Part, reader: Reader, lines: ShiftedLines) -> str:
    source, target = side_names(part)
    if lines.offset == UNRELATED and lines.start == 0 and lines.to_end:
        return f"{source} and {target} do not belong together: a line matches its neighbour no better than other lines"
    first, last = reader.location(lines.start + 1), reader.location(lines.end)
    start = f"from about {first.unit} {first.number}" if lines.start else f"from the first {first.unit}"
    extent = f"{start} to the end" if lines.to_end else f"{start} to about {last.unit} {last.number}"
    if lines.offset == UNRELATED:
        return f"{source} and {target} do not belong together {extent}"
    direction = "after" if lines.offset > 0 else "before"
    distance = abs(lines.offset)
    match = f"the line {direction} it" if distance == 1 else f"the line {distance} lines {direction} it"
    short, long = (source, target) if lines.offset > 0 else (target, source)
    return (
        f"{extent}, each line of {source} belongs with {match} in {target}: "
        f"{short} lacks {counted(distance, 'line')} there, or {long} has {counted(distance, 'extra line')}"
    )
