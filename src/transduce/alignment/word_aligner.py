"""Links between the words of a sentence and those of its translation, learned from a corpus, in numpy.

The *entries* are pairs of a source word e and a target word f that occur together more often than by chance, some for
each word, with t(f | e) and t(e | f). EM learns both directions together, by agreement (Liang, Taskar and Klein 2006,
"Alignment by Agreement"), with a preference d for words at similar places of their sentences, as in Dyer, Chahuneau and
Smith 2013, "A Simple, Fast, and Effective Reparameterization of IBM Model 2". Here d is a table that is learned, too.
With S source words and T target words,

    p(i | j) ∝ t(fⱼ | eᵢ) · d(i/S - j/T)        p(j | i) ∝ t(eᵢ | fⱼ) · d(i/S - j/T)

The expected count of an entry is the sum of p(i | j) · p(j | i). Words are linked where this product is large enough. A
word may have several links, or none.

The links are computed by products, quotients and sums in a fixed order, so every machine finds the same ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.words import Tokens, token_spans, tokens_of
from transduce.config.tensors import read_tensors, write_tensors
from transduce.errors import BundleError, DataError
from transduce.files import atomic_path

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Span = tuple[int, int]  # of characters

_MAX_WORDS = 50_000  # of a side
_LEARNED_CELLS = 40_000_000  # pairs of words of a line to learn from
_CANDIDATES = 16  # entries of a word
_ITERATIONS = 5
_NONE = 0.02  # weight of no counterpart, times the share of the word in the corpus
_SAME = 0.5  # probability of equal words that are no entry, such as rare names and numbers
_BUCKETS = 33  # of distances from -1 to 1
_MIN_PRODUCT = 0.2  # p(i | j) · p(j | i) of a link
_BLOCK_CELLS = 1 << 20  # pairs of words that are compared at a time
_SLOT_BITS = 22
# Tensors of a file, each with another one that has as many numbers.
_INTEGERS = {"source.words": "source.words", "target.words": "target.words", "keys": "keys"}
_FLOATS = {"source.shares": "source.words", "target.shares": "target.words", "forward": "keys", "backward": "keys"}


@dataclass(frozen=True, eq=False)
class _Cells:
    """Pairs of words of the same line that may be linked.

    Attributes:
        source: the index of the source word, over all lines.
        target: the index of the target word.
        entry: the number of the entry; -1 for equal words that are none.
        bucket: of the distance of their places.
        source_alone: for each source word, the weight of having no counterpart.
        target_alone: for each target word.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    entry: NDArray[np.int32]
    bucket: NDArray[np.int8]
    source_alone: Floats
    target_alone: Floats


@dataclass(frozen=True, eq=False)
class WordAligner:
    """Links words, by what it learned from a corpus.

    Attributes:
        vocabularies: the words of the source and of the target.
        keys: of each entry, in rising order: number of the source word · words of the target + number of the target
            word.
        forward: t(f | e) of each entry.
        backward: t(e | f) of each entry.
        distances: d of each bucket.
    """

    vocabularies: tuple[Vocabulary, Vocabulary]
    keys: Ints
    forward: Floats
    backward: Floats
    distances: Floats

    @classmethod
    def learn(cls, sources: Sequence[str], targets: Sequence[str]) -> "WordAligner":
        """Learns from aligned lines, on one core. It takes a minute at most: of many lines, it samples some."""
        source, target = tokens_of(sources), tokens_of(targets)
        lines = _sample(source, target)
        source, target = source.of_lines(lines), target.of_lines(lines)
        vocabularies = Vocabulary.of(source, _MAX_WORDS), Vocabulary.of(target, _MAX_WORDS)
        aligner = cls(vocabularies, *_entries(source, target, vocabularies), np.ones(_BUCKETS))
        cells, num_of_bucket = aligner._learned_cells(source, target)
        source_word, target_word = np.divmod(aligner.keys, max(1, len(vocabularies[1])))
        forward, backward, distances = aligner.forward, aligner.backward, aligner.distances
        for _ in range(_ITERATIONS):
            products = cls(vocabularies, aligner.keys, forward, backward, distances)._products(cells)
            counts = np.bincount(cells.entry, products, minlength=len(aligner.keys))
            forward = counts / np.maximum(np.bincount(source_word, counts), 1e-9)[source_word]
            backward = counts / np.maximum(np.bincount(target_word, counts), 1e-9)[target_word]
            of_bucket = np.bincount(cells.bucket, products, minlength=_BUCKETS).astype(np.float64)
            distances = _distances(of_bucket, num_of_bucket)
        stored = (values.astype(np.float32).astype(np.float64) for values in (forward, backward, distances))
        return cls(vocabularies, aligner.keys, *stored)

    def links(self, source: str, target: str) -> list[tuple[Span, Span]]:
        """Returns the linked words of a pair of lines: (span in the source, span in the target), in order.

        A word is a run of letters and digits, a sign, or a character of a script without spaces.
        """
        [of_source], [of_target] = ([token_spans([line]).tolist()] for line in (source, target))
        found = self.token_links(tokens_of([source]), tokens_of([target]))
        return [
            ((of_source[i][0], of_source[i][1]), (of_target[j][0], of_target[j][1]))
            for i, j in zip(*found, strict=True)
        ]

    def token_links(self, sources: Tokens, targets: Tokens) -> tuple[list[int], list[int]]:
        """Returns the links of aligned lines: indices of source tokens and of target tokens, over all lines.

        They are in the order of the source tokens.
        """
        found: tuple[list[int], list[int]] = ([], [])
        for first, last in _blocks(sources, targets):
            lines = np.arange(first, last)
            cells, _ = self._cells(sources.of_lines(lines), targets.of_lines(lines), is_learning=False)
            linked = np.flatnonzero(self._products(cells) > _MIN_PRODUCT)
            linked = linked[np.argsort(cells.source[linked], kind="stable")]
            for side, of_cells, starts in zip(found, (cells.source, cells.target), (sources, targets), strict=True):
                side.extend((of_cells[linked] + starts.starts[first]).tolist())
        return found

    # --- what may be linked -----------------------------------------------------------------------------------------

    def _learned_cells(self, sources: Tokens, targets: Tokens) -> tuple[_Cells, Ints]:
        """Returns the cells of all lines, and how many pairs of words of each bucket there are."""
        parts, num_of_bucket = [], np.zeros(_BUCKETS, dtype=np.int64)
        for first, last in _blocks(sources, targets):
            lines = np.arange(first, last)
            cells, in_block = self._cells(sources.of_lines(lines), targets.of_lines(lines), is_learning=True)
            cells.source[:] += sources.starts[first]
            cells.target[:] += targets.starts[first]
            parts.append(cells)
            num_of_bucket += in_block
        if not parts:
            parts = [self._cells(sources, targets, is_learning=True)[0]]
        return _Cells(
            *(np.concatenate([getattr(each, f.name) for each in parts]) for f in fields(_Cells))
        ), num_of_bucket

    def _cells(self, sources: Tokens, targets: Tokens, *, is_learning: bool) -> tuple[_Cells, Ints]:
        """Returns the cells of some lines, and how many pairs of words of each bucket there are."""
        i, j, bucket = _grid(sources, targets, 0, len(sources))
        source_ids, target_ids = (
            vocabulary.ids(tokens.hashes)
            for vocabulary, tokens in zip(self.vocabularies, (sources, targets), strict=True)
        )
        entry = self._entries_of(source_ids[i], target_ids[j])
        possible = entry >= 0
        if not is_learning:
            possible |= sources.hashes[i] == targets.hashes[j]
        alone = [
            _NONE * np.where(ids >= 0, np.append(vocabulary.shares, 0)[ids], 1e-6) * others[tokens.lines]
            for ids, vocabulary, tokens, others in (
                (source_ids, self.vocabularies[0], sources, targets.counts),
                (target_ids, self.vocabularies[1], targets, sources.counts),
            )
        ]
        source, target, number = (values[possible].astype(np.int32) for values in (i, j, entry))
        cells = _Cells(
            source, target, number, bucket[possible].astype(np.int8), source_alone=alone[0], target_alone=alone[1]
        )
        return cells, np.bincount(bucket, minlength=_BUCKETS)

    def _entries_of(self, source_ids: Ints, target_ids: Ints) -> Ints:
        """Returns the number of the entry of each pair of words; -1 where there is none."""
        found = np.full(len(source_ids), -1, dtype=np.int64)
        if len(self.keys):
            keys = np.where(
                (source_ids >= 0) & (target_ids >= 0), source_ids * len(self.vocabularies[1]) + target_ids, -1
            )
            for table, slots in zip(self._tables, _slots(keys), strict=True):
                candidates = table[slots].astype(np.int64)
                found = np.where((candidates >= 0) & (self.keys[candidates] == keys), candidates, found)
        return found

    @cached_property
    def _tables(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Two tables from slots to entries: the second has the entries that lost their slot in the first."""
        first, second = (np.full(1 << _SLOT_BITS, -1, dtype=np.int32) for _ in range(2))
        numbers = np.arange(len(self.keys), dtype=np.int32)
        in_first, in_second = _slots(self.keys)
        first[in_first[::-1]] = numbers[::-1]  # of several in one slot, the one of the most frequent words
        lost = numbers[first[in_first] != numbers]
        second[in_second[lost[::-1]]] = lost[::-1]
        return first, second

    # --- how probable it is -----------------------------------------------------------------------------------------

    def _products(self, cells: _Cells) -> Floats:
        """Returns p(i | j) · p(j | i) of each cell."""
        near, is_same = self.distances[cells.bucket], cells.entry < 0
        product = np.ones(len(near))
        for table, words, alone in (
            (self.forward, cells.target, cells.target_alone),
            (self.backward, cells.source, cells.source_alone),
        ):
            weights = np.where(is_same, _SAME, np.append(table, 0)[cells.entry]) * near
            totals = np.bincount(words, weights, minlength=len(alone)) + alone
            product *= weights / totals[words]
        return product

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Writes the aligner to a file of tensors; words are hashes in it."""
        tensors: dict[str, NDArray[np.generic]] = {"keys": self.keys}
        for name, vocabulary in zip(("source", "target"), self.vocabularies, strict=True):
            tensors[f"{name}.words"] = vocabulary.words.view(np.int64)
            tensors[f"{name}.shares"] = vocabulary.shares
        for name in ("forward", "backward", "distances"):
            tensors[name] = getattr(self, name).astype(np.float32)
        with atomic_path(Path(path)) as temporary:
            write_tensors(temporary, tensors, lambda: None)

    @classmethod
    def load(cls, path: str | Path) -> "WordAligner":
        """Reads the aligner that `save` wrote.

        Raises:
            DataError: the file cannot be read, or its tensors are not those of an aligner.
        """
        try:
            tensors, _ = read_tensors(Path(path))
            _require_consistent(tensors)
            vocabularies = [
                Vocabulary(tensors[f"{name}.words"].view(np.uint64), tensors[f"{name}.shares"])
                for name in ("source", "target")
            ]
            floats = [tensors[name].astype(np.float64) for name in ("forward", "backward", "distances")]
            return cls((vocabularies[0], vocabularies[1]), tensors["keys"], *floats)
        except (BundleError, ValueError) as error:
            reason = str(error).removeprefix(f"{path}: ")
            raise DataError(f"{path}: {reason} Run 'transduce prepare' again with --overwrite.") from None


def _require_consistent(tensors: Mapping[str, NDArray[Any]]) -> None:
    """Raises ValueError unless tensors are those that `save` wrote, as far as their types, sizes and keys tell."""
    for name, counted in (_INTEGERS | _FLOATS | {"distances": ""}).items():
        if name not in tensors:
            raise ValueError(f"has no tensor {name!r}. It is damaged, or no file of word alignments.")
        found, kind = tensors[name], "i" if name in _INTEGERS else "f"
        size = tensors[counted].size if counted else _BUCKETS
        if found.dtype.kind != kind or found.shape != (size,) or (kind == "i" and found.itemsize != 8):
            expected = f"{size:,} {'64-bit integers' if kind == 'i' else 'floating-point numbers'}"
            raise ValueError(
                f"{name}: has {found.dtype} numbers of shape {found.shape}, not {expected}. It is damaged."
            )
    keys, num_pairs = tensors["keys"], tensors["source.words"].size * tensors["target.words"].size
    if keys.size and (keys[0] < 0 or keys[-1] >= num_pairs or (keys[1:] <= keys[:-1]).any()):
        raise ValueError(f"keys: are not rising numbers below {num_pairs:,}. It is damaged.")


def _distances(counts: Floats, num_of_bucket: Ints) -> Floats:
    """Returns how much more probable links are at each distance than at any: 1 where nothing is known."""
    mean = (counts.sum() + 1) / (num_of_bucket.sum() + 1)
    return np.asarray((counts + mean) / (num_of_bucket + 1) / mean)


def _slots(keys: Ints) -> tuple[Ints, Ints]:
    """Returns the slots of keys in both tables."""
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # an odd number without pattern
    mixed = mixed ^ (mixed >> np.uint64(29))
    mask = np.uint64((1 << _SLOT_BITS) - 1)
    return (mixed >> np.uint64(64 - _SLOT_BITS)).astype(np.int64), (mixed & mask).astype(np.int64)


def _blocks(sources: Tokens, targets: Tokens) -> Iterator[tuple[int, int]]:
    """Yields ranges of lines that have about `_BLOCK_CELLS` pairs of words each."""
    before = np.concatenate([[0], np.cumsum(sources.counts * targets.counts)])
    first = 0
    while first < len(sources):
        last = max(first + 1, int(np.searchsorted(before, before[first] + _BLOCK_CELLS, side="right")) - 1)
        yield first, last
        first = last


def _sample(sources: Tokens, targets: Tokens) -> Ints:
    """Returns lines with at most `_LEARNED_CELLS` pairs of words, evenly spread."""
    total = int((sources.counts * targets.counts).sum())
    return np.arange(0, len(sources), max(1, -(-total // _LEARNED_CELLS)))


def _entries(
    sources: Tokens, targets: Tokens, vocabularies: tuple[Vocabulary, Vocabulary]
) -> tuple[Ints, Floats, Floats]:
    """Returns the keys of all entries, and first values of t(f | e) and t(e | f).

    Entries are the pairs of words that are the `_CANDIDATES` best of either word, by how much more often they occur
    together than by chance.
    """
    ids = [vocabulary.ids(tokens.hashes) for vocabulary, tokens in zip(vocabularies, (sources, targets), strict=True)]
    num_target = max(1, len(vocabularies[1]))
    blocks = [np.zeros(0, np.int64)]
    for first, last in _blocks(sources, targets):
        i, j, _ = _grid(sources, targets, first, last)
        known = (ids[0][i] >= 0) & (ids[1][j] >= 0)
        blocks.append(ids[0][i[known]] * num_target + ids[1][j[known]])
    cells = np.sort(np.concatenate(blocks))
    starts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1])) if len(cells) else np.zeros(0, np.int64)
    keys, together = cells[starts], np.diff(np.append(starts, len(cells))).astype(np.float64)
    words = np.divmod(keys, num_target)
    totals = [np.bincount(word, together) for word in words]
    excess = together - totals[0][words[0]] * totals[1][words[1]] / max(1, len(cells))
    kept = np.zeros(len(keys), dtype=np.bool_)
    for word in words:
        order = np.argsort((word << 32) - np.clip(excess * 64, 0, 1 << 31).astype(np.int64), kind="stable")
        of_word = word[order]
        rank = np.arange(len(order)) - np.searchsorted(of_word, of_word)
        kept[order[rank < _CANDIDATES]] = True
    kept &= excess > 0
    forward, backward = ((excess / totals[side][words[side]])[kept] for side in (0, 1))
    return keys[kept], forward, backward


def _grid(sources: Tokens, targets: Tokens, first: int, last: int) -> tuple[Ints, Ints, Ints]:
    """Returns all pairs of words of some lines: the indices of both, over all lines, and the buckets."""
    num_source, num_target = sources.counts[first:last], targets.counts[first:last]
    sizes = num_source * num_target
    lines = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(lines)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    width, height = num_source[lines], num_target[lines]
    j, i = np.divmod(within, width)
    # (i + ½)/S - (j + ½)/T = rise / 2ST, computed in whole numbers
    rise = (2 * i + 1) * height - (2 * j + 1) * width
    bucket = (rise + 2 * width * height) * _BUCKETS // (4 * width * height)
    return i + sources.starts[first:last][lines], j + targets.starts[first:last][lines], bucket
