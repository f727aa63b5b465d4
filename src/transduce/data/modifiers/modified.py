"""The pairs of an epoch as training reads them: each a pure function of seed, epoch and line.

A hash says which modifiers apply to which lines, for all lines of a batch at once. The ids of these lines are decoded,
their text is modified and encoded again; tags in front of a side stay. All other lines are read from the store as ever.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.word_aligner import WordAligner
from transduce.config import Config
from transduce.config.choices import longest_sequence
from transduce.config.modifiers import MODIFIERS
from transduce.config.special_ids import UNK
from transduce.data.batching import Indices, random_numbers_at
from transduce.data.modifiers.aligned import Links
from transduce.data.modifiers.applying import ALIGNED, NAMES, FindLinks, Pair, applied
from transduce.data.modifiers.lengths import Growth, sample_rows
from transduce.data.modifiers.lines import Lines, merged_lines, single_lines
from transduce.data.prepared import TOKENIZER, require_aligner
from transduce.data.store import Ids, ParallelStore
from transduce.data.word_links import links_of_pairs
from transduce.errors import DataError
from transduce.text import Tokenizer, load_tokenizer

MERGE = "merge"
_EXACT_LINES = 500_000  # of an epoch: with more, counting all tokens before its first batch would take too long
_BLOCK_LINES = 4096


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
        self.store, self.seed, self.find_links = store, config.train.seed, find_links
        self.tokenizer, self.tokenizers = tokenizer, (tokenizer, tokenizer.target)
        self.tags = [np.array([*each.tags.values()], np.int64) for each in self.tokenizers]
        given = {each.name: each.probability for each in config.train.modifiers}
        self.probabilities = {name: given[name] for name in MODIFIERS if name in given}
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

    def epoch(self, epoch: int, rows: Indices | None = None) -> "ModifiedPairs":
        """Returns the pairs of an epoch: of all rows of the store, or of `rows`, some perhaps several times."""
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
        return ModifiedPairs(self, epoch, lines)

    def numbers(self, name: str, keys: Indices, epoch: int) -> NDArray[np.uint64]:
        """Returns a random number for each line, which says whether a modifier applies to it, and how."""
        return random_numbers_at(keys, self.seed, epoch, salt=zlib.crc32(name.encode()))

    def applies(self, name: str, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Returns to which lines a modifier applies, given their numbers."""
        return numbers.astype(np.float64) < self.probabilities[name] * 2.0**64


class ModifiedPairs:
    """The pairs of one epoch, in the form of a `ParallelStore`; an index is that of a line.

    Attributes:
        source_lengths: tokens of each source, EOS counted; in a long epoch about, where modifiers apply.
        target_lengths: the same of each target.
    """

    def __init__(self, modifiers: Modifiers, epoch: int, lines: Lines) -> None:
        self._modifiers, self._epoch, self._lines = modifiers, epoch, lines
        # The pairs of the last two batches: the micro-batches of a batch read parts of the same pairs again.
        self._made: dict[int, tuple[Ids, Ids]] = {}
        self._before: dict[int, tuple[Ids, Ids]] = {}
        self.source_lengths = lines.lengths(modifiers.store.source_lengths)
        self.target_lengths = lines.lengths(modifiers.store.target_lengths)
        if len(lines) <= _EXACT_LINES:
            self._count_tokens()
        else:
            self._estimate_tokens()

    def _count_tokens(self) -> None:
        """Makes all lines that modifiers apply to, once, to know their lengths."""
        names = (name for name in self._modifiers.probabilities if name in NAMES)
        lines = np.unique(np.concatenate([np.zeros(0, np.int64), *map(self.lines_with, names)]))
        for block in _blocks(lines):
            self.source_lengths[block], self.target_lengths[block] = self.lengths(block)
        self._made, self._before = {}, {}

    def _estimate_tokens(self) -> None:
        """Adds to the lengths about what modifiers add; a line that would be too long stays as it is."""
        modifiers, keys = self._modifiers, self._lines.keys
        for name in modifiers.growth.names:
            for block in _blocks(self.lines_with(name)):
                numbers = modifiers.numbers(name, keys[block], self._epoch).tolist()
                added = modifiers.growth.added(name, numbers, self._stored(block))
                for lengths, each in zip((self.source_lengths, self.target_lengths), added, strict=True):
                    planned = np.minimum(lengths[block] + each, modifiers.most_tokens).astype(np.int32)
                    lengths[block] = np.maximum(planned, lengths[block])

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
        known, lines = self._before | self._made, indices.tolist()
        if unknown := [line for line in dict.fromkeys(lines) if line not in known]:
            made = dict(zip(unknown, zip(*self._make(np.array(unknown)), strict=True), strict=True))
            known |= made
            self._before, self._made = self._made, made
        return [known[line][0] for line in lines], [known[line][1] for line in lines]

    def lengths(self, indices: Indices) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the real numbers of tokens of the sources and of the targets of lines, EOS counted."""
        source, target = (np.array([len(ids) + 1 for ids in side], np.int32) for side in self.pairs(indices))
        return source, target

    def _make(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Makes the sources and the targets of lines."""
        sides = self._stored(indices)
        for place, ids in self._changed(sides, self._chosen(indices)).items():
            for side, of_side in zip(sides, ids, strict=True):
                side[place] = np.array(of_side)
        return sides

    def texts(self, indices: Indices) -> list[ModifiedText]:
        """Returns the text of those lines that are modified, before and after."""
        before, chosen, after = self._stored(indices), self._chosen(indices), self.pairs(indices)
        tokenizer, texts = self._modifiers.tokenizer, []
        for place, index in enumerate(indices.tolist()):
            (old, new) = (
                (tokenizer.decode(each[0][place].tolist()), tokenizer.target.decode(each[1][place].tolist()))
                for each in (before, after)
            )
            names = [MERGE] if len(self._lines.of(index)) > 1 else []
            names += [name for name, _ in chosen.get(place, ())] if old != new else []
            if names:
                texts.append(ModifiedText(index, tuple(names), old, new))
        return texts

    def _stored(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Returns the ids of lines as they are stored; those of several pairs are joined."""
        lines = [self._lines.of(index) for index in indices.tolist()]
        stored = self._modifiers.store.pairs(np.array([row for line in lines for row in line], np.int64))
        starts = [0, *accumulate(map(len, lines))]
        sources, targets = (
            [_joined(side[start:end], tags) for start, end in pairwise(starts)]
            for side, tags in zip(stored, self._modifiers.tags, strict=True)
        )
        return sources, targets

    def _chosen(self, indices: Indices) -> dict[int, list[tuple[str, int]]]:
        """Returns by place in `indices` the modifiers that apply, each with its random number."""
        keys, modifiers = self._lines.keys[indices], self._modifiers
        found: dict[int, list[tuple[str, int]]] = {}
        for name in (name for name in modifiers.probabilities if name in NAMES):
            numbers = modifiers.numbers(name, keys, self._epoch)
            for place in np.flatnonzero(modifiers.applies(name, numbers)).tolist():
                found.setdefault(place, []).append((name, int(numbers[place])))
        return found

    def _changed(
        self, sides: tuple[list[Ids], list[Ids]], chosen: dict[int, list[tuple[str, int]]]
    ) -> dict[int, tuple[list[int], list[int]]]:
        """Returns the new ids of the lines that modifiers change, by their place."""
        tokenizers, all_tags, most = self._modifiers.tokenizers, self._modifiers.tags, self._modifiers.most_tokens
        heads, texts = [], []
        for side, tokenizer, tags in zip(sides, tokenizers, all_tags, strict=True):
            heads.append({place: side[place][: _num_tags(side[place], tags)].tolist() for place in chosen})
            texts.append(tokenizer.decode_batch([side[place].tolist() for place in chosen]))
        before: list[Pair] = list(zip(*texts, strict=True))
        after = applied(before, [*chosen.values()], self._modifiers.find_links)
        modified = {place: new for place, old, new in zip(chosen, before, after, strict=True) if new != old}
        encoded = [
            tokenizer.encode_batch([pair[side] for pair in modified.values()])
            for side, tokenizer in enumerate(tokenizers)
        ]
        return {
            place: (heads[0][place] + source, heads[1][place] + target)
            for place, source, target in zip(modified, *encoded, strict=True)
            if source and target and max(len(heads[0][place] + source), len(heads[1][place] + target)) < most
            # An imported vocabulary may lack a character: nothing could be copied then.
            if not any(UNK in new and UNK not in side[place] for new, side in zip((source, target), sides, strict=True))
        }


def _blocks(lines: Indices) -> list[Indices]:
    return [lines[start : start + _BLOCK_LINES] for start in range(0, len(lines), _BLOCK_LINES)]


def _joined(parts: Sequence[Ids], tags: NDArray[np.int64]) -> Ids:
    """Returns the ids of several texts as those of one: each begins with a space, and the tags of the first stay."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([parts[0], *(each[_num_tags(each, tags) :] for each in parts[1:])])


def _num_tags(ids: Ids, tags: NDArray[np.int64]) -> int:
    """Returns the number of tags in front of ids."""
    return int(np.argmin(np.append(np.isin(ids, tags), False))) if len(tags) else 0
