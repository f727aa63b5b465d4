"""The pairs of an epoch as training reads them: each a pure function of seed, epoch and line.

A hash says which modifiers apply to which lines, for all lines of a batch at once. The ids of these lines are decoded,
their text is modified and encoded again; tags in front of a side stay. All other lines are read from the store as ever.
"""

import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.word_aligner import WordAligner
from transduce.config import Config
from transduce.config.choices import longest_sequence
from transduce.config.modifiers import MODIFIERS
from transduce.config.special_ids import UNK
from transduce.data.batching import BatchPlan, Indices, random_numbers_at
from transduce.data.modifiers.aligned import Links
from transduce.data.modifiers.applying import ALIGNED, NAMES, FindLinks, Pair, applied
from transduce.data.modifiers.lengths import Growth, sample_rows
from transduce.data.modifiers.lines import Lines, merged_lines, single_lines
from transduce.data.modifiers.packed import PackedIds
from transduce.data.modifiers.workers import Workers
from transduce.data.prepared import TOKENIZER, require_aligner
from transduce.data.store import Ids, Lengths, ParallelStore, plan_lengths
from transduce.data.word_links import links_of_pairs
from transduce.errors import DataError
from transduce.text import Tokenizer, load_tokenizer

MERGE = "merge"
_EXACT_LINES = 500_000  # of an epoch: with more, counting all tokens before its first batch would take too long
_BLOCK_LINES = 4096
_KEPT_BATCHES = 4  # of a long epoch: micro-batches read parts of the same batch again


@dataclass(frozen=True)
class ModifiedText:
    """A line before and after, for those who want to see it."""

    line: int
    modifiers: tuple[str, ...]
    before: tuple[str, str]
    after: tuple[str, str]


def _unlinked(pairs: Sequence[Pair]) -> list[Links]:
    return [()] * len(pairs)


class Modifiers:
    """The modifiers of a training."""

    def __init__(
        self, config: Config, store: ParallelStore, tokenizer: Tokenizer, find_links: FindLinks = _unlinked
    ) -> None:
        """Takes the training's configuration and pairs, the tokenizer that made them, and what links their words."""
        self.config, self.store, self.seed, self.find_links = config, store, config.train.seed, find_links
        self.tokenizer, self.tokenizers = tokenizer, (tokenizer, tokenizer.target)
        self.tags = [np.array([*each.tags.values()], np.int64) for each in self.tokenizers]
        given = {each.name: each.probability for each in config.train.modifiers}
        self.probabilities = {name: given[name] for name in MODIFIERS if name in given}
        self.names = [name for name in self.probabilities if name in NAMES]
        longest, most = longest_sequence(config.model), config.data.max_tokens + 1  # EOS
        self.most_tokens = most if longest is None else min(most, longest)

    @cached_property
    def growth(self) -> Growth:
        """How many tokens the modifiers add, which only a long epoch needs to know."""
        sides = self.store.pairs(sample_rows(len(self.store)))
        texts = (
            each.decode_batch([ids.tolist() for ids in side]) for each, side in zip(self.tokenizers, sides, strict=True)
        )
        return Growth([*self.probabilities], list(zip(*texts, strict=True)), self.tokenizers, self.find_links)

    @classmethod
    def of(cls, config: Config, store: ParallelStore) -> "Modifiers":
        """Returns the modifiers of a training on a prepared folder, with the tokenizer that is in it.

        Raises:
            DataError: the tokenizer of the pairs is not in their folder, or no aligner is where one is needed.
        """
        path = store.path.with_name(TOKENIZER)
        tokenizer = load_tokenizer(path) if path.is_file() else None
        if tokenizer is None or tokenizer.fingerprint != store.tokenizer_fingerprint:
            problem = "is not the tokenizer of" if tokenizer else "is missing, the tokenizer of"
            raise DataError(f"{path}: {problem} {store.path.name}, which train.modifiers need. Prepare the data again.")
        if not any(each.name in ALIGNED for each in config.train.modifiers):
            return cls(config, store, tokenizer)
        aligner = WordAligner.load(require_aligner(store.path.parent))
        return cls(config, store, tokenizer, partial(links_of_pairs, aligner))

    def epoch(self, epoch: int, rows: Indices | None = None, workers: Workers | None = None) -> "ModifiedPairs":
        """Returns the pairs of an epoch: of all rows of the store, or of `rows`, some perhaps several times."""
        workers = workers or Workers(self)
        lines, lengths = workers.submit(Modifiers.lines, epoch, rows, _EXACT_LINES)()
        return ModifiedPairs(self, epoch, lines, lengths, workers)

    def lines(self, epoch: int, rows: Indices | None, exact_lines: int) -> tuple[Lines, tuple[Lengths, Lengths]]:
        """Returns the lines of an epoch, and the tokens of their sources and targets, EOS counted.

        Those of more than `exact_lines` are estimates where modifiers apply, and those of fewer lines leave out what
        modifiers add.
        """
        store = self.store
        lines = single_lines(rows, len(store))
        if MERGE in self.probabilities:
            lines = merged_lines(
                lines,
                [*accumulate(corpus.num_pairs for corpus in store.corpora)] or [len(store)],
                (store.source_lengths, store.target_lengths),
                probability=self.probabilities[MERGE],
                most_tokens=self.most_tokens,
                seed=self.seed,
                epoch=epoch,
            )
        lengths = lines.lengths(store.source_lengths), lines.lengths(store.target_lengths)
        if len(lines) > exact_lines:
            self._add_growth(epoch, lines, lengths)
        return lines, lengths

    def _add_growth(self, epoch: int, lines: Lines, lengths: tuple[Lengths, Lengths]) -> None:
        """Adds to the lengths about what modifiers add; a line that would be too long stays as it is."""
        for name in self.growth.names:
            for block in _blocks(np.flatnonzero(self.applies(name, self.numbers(name, lines.keys, epoch)))):
                numbers = self.numbers(name, lines.keys[block], epoch).tolist()
                added = self.growth.added(name, numbers, self.stored(lines.select(block)))
                for of_side, each in zip(lengths, added, strict=True):
                    planned = np.minimum(of_side[block] + each, self.most_tokens).astype(np.int32)
                    of_side[block] = np.maximum(planned, of_side[block])

    def plan(self, epoch: int, source_lengths: Lengths, target_lengths: Lengths) -> BatchPlan:
        """Returns the batches of an epoch of lines."""
        return plan_lengths((source_lengths, target_lengths), self.config.train, epoch)

    def numbers(self, name: str, keys: Indices, epoch: int) -> NDArray[np.uint64]:
        """Returns a random number for each line, which says whether a modifier applies to it, and how."""
        return random_numbers_at(keys, self.seed, epoch, salt=zlib.crc32(name.encode()))

    def applies(self, name: str, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Returns to which lines a modifier applies, given their numbers."""
        return numbers.astype(np.float64) < self.probabilities[name] * 2.0**64

    def chosen(self, epoch: int, keys: Indices) -> dict[int, list[tuple[str, int]]]:
        """Returns by position in `keys` the modifiers that apply to lines, each with its random number."""
        found: dict[int, list[tuple[str, int]]] = {}
        for name in self.names:
            numbers = self.numbers(name, keys, epoch)
            for position in np.flatnonzero(self.applies(name, numbers)).tolist():
                found.setdefault(position, []).append((name, int(numbers[position])))
        return found

    def stored(self, lines: Lines) -> tuple[list[Ids], list[Ids]]:
        """Returns the ids of lines as they are stored.

        Several pairs are one text: each begins with a space, and only the tags of the first stay.
        """
        sides = self.store.pairs(lines.rows[lines.starts[:-1]])
        for position in np.flatnonzero(np.diff(lines.starts) > 1).tolist():
            others = self.store.pairs(np.array(lines.of(position)[1:]))
            for side, parts, tags in zip(sides, others, self.tags, strict=True):
                side[position] = np.concatenate([side[position], *(each[_num_tags(each, tags) :] for each in parts)])
        return sides

    def make(self, epoch: int, lines: Lines) -> tuple[PackedIds, PackedIds]:
        """Returns the sources and the targets of lines once they are modified, without EOS."""
        sides = self.stored(lines)
        sequences: list[list[Any]] = [list(side) for side in sides]
        for position, ids in self._changed(sides, self.chosen(epoch, lines.keys)).items():
            for side, of_side in zip(sequences, ids, strict=True):
                side[position] = of_side
        source, target = (PackedIds.of(side, self.store.vocab_size) for side in sequences)
        return source, target

    def _changed(
        self, sides: tuple[list[Ids], list[Ids]], chosen: dict[int, list[tuple[str, int]]]
    ) -> dict[int, tuple[list[int], list[int]]]:
        """Returns the new ids of the lines that modifiers change, by their position."""
        heads, texts = [], []
        for side, tokenizer, tags in zip(sides, self.tokenizers, self.tags, strict=True):
            heads.append({position: side[position][: _num_tags(side[position], tags)].tolist() for position in chosen})
            texts.append(tokenizer.decode_batch([side[position].tolist() for position in chosen]))
        before: list[Pair] = list(zip(*texts, strict=True))
        after = applied(before, [*chosen.values()], self.find_links)
        modified = {position: new for position, old, new in zip(chosen, before, after, strict=True) if new != old}
        encoded = [
            tokenizer.encode_batch([pair[side] for pair in modified.values()])
            for side, tokenizer in enumerate(self.tokenizers)
        ]
        changed: dict[int, tuple[list[int], list[int]]] = {}
        for position, source, target in zip(modified, *encoded, strict=True):
            ids = heads[0][position] + source, heads[1][position] + target
            if not source or not target or max(map(len, ids)) >= self.most_tokens:
                continue
            # An imported vocabulary may lack a character: nothing could be copied then.
            if any(UNK in new and UNK not in side[position] for new, side in zip((source, target), sides, strict=True)):
                continue
            changed[position] = ids
        return changed


class ModifiedPairs:
    """The pairs of one epoch, in the form of a `ParallelStore`; an index is that of a line.

    Attributes:
        source_lengths: tokens of each source, EOS counted; in a long epoch about, where modifiers apply.
        target_lengths: the same of each target.
    """

    def __init__(
        self, modifiers: Modifiers, epoch: int, lines: Lines, lengths: tuple[Lengths, Lengths], workers: Workers
    ) -> None:
        self._modifiers, self._epoch, self._lines, self._workers = modifiers, epoch, lines, workers
        self.source_lengths, self.target_lengths = lengths
        self.is_long = len(lines) > _EXACT_LINES
        self.num_ahead = 2 * workers.count + 1 if self.is_long and workers.count else 0  # batches that workers make
        # Modified lines: those of a short epoch in one part, or those of the batches before and after this one.
        self._made: deque[_Made] = deque(maxlen=self.num_ahead + _KEPT_BATCHES)
        if not self.is_long:
            self._make_all()

    def _make_all(self) -> None:
        """Makes all lines that modifiers apply to, for the plan to have their real lengths, and keeps them."""
        lines = np.flatnonzero(self._are_modified(np.arange(len(self))))
        parts = [self._begin(block) for block in _blocks(lines) or [lines]]
        source, target = (PackedIds.joined(side) for side in zip(*(part.sides for part in parts), strict=True))
        self._made.append(_Made(lines, lambda: (source, target)))
        self.source_lengths[lines], self.target_lengths[lines] = source.lengths + 1, target.lengths + 1

    def _begin(self, lines: Indices) -> "_Made":
        return _Made(lines, self._workers.submit(Modifiers.make, self._epoch, self._lines.select(lines)))

    def make_ahead(self, indices: Indices) -> None:
        """Has workers make the lines of a batch, before it is time for it."""
        self._made.append(self._begin(np.unique(indices[self._are_modified(indices)])))

    def __len__(self) -> int:
        return len(self._lines)

    def store_rows(self, indices: Indices) -> Indices:
        """Returns the row of the store that each line is, or begins with."""
        return self._lines.rows[self._lines.starts[indices]]

    def lines_with(self, name: str) -> Indices:
        """Returns the lines that a modifier applies to; it may find nothing in them to change."""
        if name == MERGE:
            return np.flatnonzero(np.diff(self._lines.starts) > 1)
        numbers = self._modifiers.numbers(name, self._lines.keys, self._epoch)
        return np.flatnonzero(self._modifiers.applies(name, numbers))

    def pairs(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Returns the sources and the targets of lines, without EOS, in the order of `indices`."""
        sides = self._modifiers.stored(self._lines.select(indices))
        for position, ids in self._modified(indices).items():
            for side, of_side in zip(sides, ids, strict=True):
                side[position] = of_side
        return sides

    def lengths(self, indices: Indices) -> tuple[Lengths, Lengths]:
        """Returns the real numbers of tokens of the sources and of the targets of lines, EOS counted."""
        found = self.source_lengths[indices], self.target_lengths[indices]
        if self.is_long:
            for position, ids in self._modified(indices).items():
                for lengths, of_side in zip(found, ids, strict=True):
                    lengths[position] = len(of_side) + 1
        return found

    def _modified(self, indices: Indices) -> dict[int, tuple[Ids, Ids]]:
        """Returns by their position in `indices` the lines that modifiers apply to: source and target of each."""
        positions = np.flatnonzero(self._are_modified(indices))
        found: dict[int, tuple[Ids, Ids]] = {}
        for made in self._made:
            if len(found) < len(positions):
                found |= made.find(indices, positions)
        if len(found) < len(positions):
            missing = [position for position in positions.tolist() if position not in found]
            self._made.append(self._begin(np.unique(indices[missing])))
            found |= self._made[-1].find(indices, positions)
        return found

    def _are_modified(self, indices: Indices) -> NDArray[np.bool_]:
        modifiers, keys = self._modifiers, self._lines.keys[indices]
        found = np.zeros(len(indices), np.bool_)
        for name in modifiers.names:
            found |= modifiers.applies(name, modifiers.numbers(name, keys, self._epoch))
        return found

    def texts(self, indices: Indices) -> list[ModifiedText]:
        """Returns the text of those lines that are modified, before and after."""
        lines = self._lines.select(indices)
        before, after = self._modifiers.stored(lines), self.pairs(indices)
        chosen = self._modifiers.chosen(self._epoch, lines.keys)
        tokenizer, texts = self._modifiers.tokenizer, []
        for position, index in enumerate(indices.tolist()):
            (old, new) = (
                (tokenizer.decode(each[0][position].tolist()), tokenizer.target.decode(each[1][position].tolist()))
                for each in (before, after)
            )
            names = [MERGE] if len(lines.of(position)) > 1 else []
            names += [name for name, _ in chosen.get(position, ())] if old != new else []
            if names:
                texts.append(ModifiedText(index, tuple(names), old, new))
        return texts


@dataclass(frozen=True)
class _Made:
    """Modified lines, in rising order, and what waits for their sources and targets."""

    lines: Indices
    wait: Callable[[], tuple[PackedIds, PackedIds]]

    @cached_property
    def sides(self) -> tuple[PackedIds, PackedIds]:
        return self.wait()

    def find(self, indices: Indices, positions: Indices) -> dict[int, tuple[Ids, Ids]]:
        """Returns those of the lines at `positions` of `indices` that are here, by their position."""
        at = np.searchsorted(self.lines, indices[positions])
        here = np.flatnonzero(np.append(self.lines, -1)[at] == indices[positions])
        return {
            position: (self.sides[0][number], self.sides[1][number])
            for position, number in zip(positions[here].tolist(), at[here].tolist(), strict=True)
        }


def _blocks(lines: Indices) -> list[Indices]:
    return [lines[start : start + _BLOCK_LINES] for start in range(0, len(lines), _BLOCK_LINES)]


def _num_tags(ids: Ids, tags: NDArray[np.int64]) -> int:
    """Returns the number of tags in front of ids."""
    return int(np.argmin(np.append(np.isin(ids, tags), False))) if len(tags) else 0
