"""Writes the kept pairs and logs the dropped ones in one pass over the corpus."""

import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

from transduce.alignment.words import tokens_of
from transduce.augmentation.filtering.judgement import RULE_NUMBERS, Judgement
from transduce.augmentation.filtering.near_duplicates import NearDuplicates
from transduce.augmentation.filtering.profile import CorpusProfile
from transduce.augmentation.filtering.text_rules import PairBlock, check_text
from transduce.config.filter_options import RULES, FilterOptions
from transduce.data.compression import zstd
from transduce.data.corpus import Chunk, Part, read_chunks
from transduce.data.dropped import LOG_NAME, Dropped, ignore, open_log
from transduce.data.readers import LineReader
from transduce.data.tmx import is_tmx
from transduce.errors import DataError

_RULE_NAMES = ["", *RULES]
_NUM_EXAMPLES = 6  # of each rule
_ZSTD_LEVEL = 3
_TMX_ENDING = re.compile(r"\.tmx(?=(\.gz|\.zst)?$)", re.IGNORECASE)


@dataclass
class Examples:
    """A few dropped pairs of each rule: a sample that depends on their positions only, not a run of neighbours."""

    _by_rule: dict[str, list[tuple[int, Dropped]]] = field(default_factory=dict)

    def add(self, pair: int, dropped: Dropped) -> None:
        """Adds a pair by its index in the corpus."""
        found = [*self._by_rule.get(dropped.rule, ()), (zlib.crc32(pair.to_bytes(8, "little")), dropped)]
        self._by_rule[dropped.rule] = sorted(found, key=itemgetter(0))[:_NUM_EXAMPLES]

    def of(self, rule: str) -> list[Dropped]:
        """Returns the examples of a rule."""
        return [dropped for _, dropped in self._by_rule.get(rule, ())]


@dataclass(eq=False)
class Writer:
    """Decides about near-duplicates, explains what is dropped, and writes the rest.

    Attributes:
        parts: of the corpus.
        profile: what was learned about it.
        options: of the filter.
        judgement: what was decided before; near-duplicates are added to it.
    """

    parts: Sequence[Part]
    profile: CorpusProfile
    options: FilterOptions
    judgement: Judgement

    def run(self, folder: Path | None, *, corpus: bool, progress: bool) -> Examples:
        """Reads the corpus once more, and returns examples of dropped pairs.

        Args:
            folder: where to write the log and, if `corpus` is set, the clean files; None: nothing is written.
            corpus: whether to write the corpus.
            progress: whether to show a progress bar.
        """
        similarity = self.options.min_similarity
        near = NearDuplicates.among(self.judgement.keys, self.judgement.kept, similarity)
        examples = Examples()
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(open_log(folder / LOG_NAME)) if folder else ignore
            outputs: list[list[IO[str]]] = []
            if folder and corpus:
                outputs = [
                    [stack.enter_context(_open(folder / name)) for name in written_names(part)] for part in self.parts
                ]
            rows: list[Iterator[str]] = []
            for chunk in read_chunks(self.parts, "writing", progress=progress):
                part = self.parts[chunk.part]
                if outputs and chunk.line == 1:
                    is_table = len(part.paths) == 1 and not is_tmx(part.paths[0])
                    rows = [iter(LineReader(part.paths[0], replace_invalid=part.replace_invalid))] if is_table else []
                for pair, dropped in self._dropped(chunk, near):
                    examples.add(pair, dropped)
                    log(dropped)
                if outputs:
                    self._write(chunk, outputs[chunk.part], rows)
        return examples

    def _dropped(self, chunk: Chunk, near: NearDuplicates) -> Iterator[tuple[int, Dropped]]:
        """Yields index and explanation of each dropped pair of the chunk; marks the near-duplicates."""
        reasons = self._near_duplicates(chunk, near)
        rules = self.judgement.rules[chunk.start : chunk.start + len(chunk.pairs)]
        indices = rules.nonzero()[0].tolist()
        broken = check_text(PairBlock([chunk.pairs[i] for i in indices], self.profile), self.options)
        for number, i in enumerate(indices):
            pair, rule = chunk.start + i, _RULE_NAMES[rules[i]]
            if rule == "alignment":
                reason = self.judgement.alignment_reason(pair)
            elif rule == "duplicate":
                reason = f"repeats {self.judgement.location(self.judgement.original(pair))}"
            elif rule == "cross-entropy":
                reason = f"dual conditional cross-entropy {float(self.judgement.cross_entropy[pair]):.2f}"
            else:
                reason = reasons[i] if rule == "near-duplicate" else broken[number][1]
            yield pair, Dropped(self.judgement.location(pair), rule, reason, *chunk.pairs[i])

    def _near_duplicates(self, chunk: Chunk, near: NearDuplicates) -> dict[int, str]:
        """Marks the near-duplicates of the chunk, and returns why each is one."""
        pairs = near.needed(chunk.start, len(chunk.pairs))
        sides = [tokens_of([chunk.pairs[pair - chunk.start][side] for pair in pairs]) for side in (0, 1)]
        reasons = {}
        for pair, earlier, similarity in near.find(pairs, *sides):
            self.judgement.rules[pair] = RULE_NUMBERS["near-duplicate"]
            where = self.judgement.location(earlier)
            reasons[pair - chunk.start] = f"{similarity:.0%} of its words are those of {where}"
        return reasons

    def _write(self, chunk: Chunk, outputs: Sequence[IO[str]], rows: Sequence[Iterator[str]]) -> None:
        kept = self.judgement.kept[chunk.start : chunk.start + len(chunk.pairs)].tolist()
        if rows:  # a TSV file: all of its columns
            lines = list(islice(rows[0], len(chunk.pairs)))
            outputs[0].writelines(f"{line}\n" for line, keep in zip(lines, kept, strict=True) if keep)
            return
        if len(outputs) == 1:  # of a translation memory
            kept_pairs = (pair for pair, keep in zip(chunk.pairs, kept, strict=True) if keep)
            outputs[0].writelines(f"{source}\t{target}\n" for source, target in kept_pairs)
            return
        for side, output in enumerate(outputs):
            output.writelines(f"{pair[side]}\n" for pair, keep in zip(chunk.pairs, kept, strict=True) if keep)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    """Opens a text file for writing, compressed as its name says. The bytes do not depend on the time."""
    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(path.open("wb"))
        if path.suffix == ".gz":
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        elif path.suffix == ".zst":
            file = stack.enter_context(zstd.ZstdFile(file, "w", level=_ZSTD_LEVEL))
        text = stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline="\n"))
        yield text


def written_names(part: Part) -> list[str]:
    """Returns the names of the files that are written for a part: its own, but TSV for a translation memory."""
    return [_TMX_ENDING.sub(".tsv", path.name) for path in part.paths]


def require_distinct_names(parts: Sequence[Part], reports: Sequence[str]) -> None:
    """Checks that the files of a corpus can be written into one folder under their names.

    Raises:
        DataError: two have the same name, or one has the name of one of the `reports` in that folder.
    """
    names: dict[str, Path] = {}
    for path, name in (each for part in parts for each in zip(part.paths, written_names(part), strict=True)):
        if name in reports:
            raise DataError(f"{path}: has the name of a report that is written to the same folder. Rename it.")
        if name in names:
            raise DataError(
                f"{path} and {names[name]} have the same name, and would be written to the same file. Rename one, "
                "or filter them separately."
            )
        names[name] = path
