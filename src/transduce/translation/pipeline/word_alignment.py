"""Word alignment: how much each word of a translation comes from each word of its source.

Words here are `atoms`. A matrix of weights has a row for each target atom and a column for each source atom, and rows
that sum to 1.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.sentences import Span
from transduce.translation.result import SpanPair
from transduce.translation.text_model import TextModel

_WIDTH = 0.1  # of the diagonal, as a share of the sentence, in the weights by order
_ORDER_WEIGHT = 0.05  # of order, in addition to attention
_SAME_WEIGHT = 2.0  # of a number, a name or a sign that occurs once on each side

# Tables of long texts are large, and many texts may be aligned at a time. So an aligner keeps no more than 32 MB of
# weights, and of all tables for whole texts that have more than 8 MB, there is one at a time.
_MAX_KEPT_CELLS = 4_000_000
_GROUP_CELLS = 1_000_000  # of pairs whose weights are computed together
_LARGE_CELLS = 1_000_000
_LARGE_TABLE = threading.Lock()
_BLOCK_ROWS = 256  # rows that are computed together, where a second table of all rows is not needed

Pair = tuple[str, str]  # a text and its translation
T = TypeVar("T")


class Table(NamedTuple):
    """The weights of all target atoms over all source atoms."""

    weights: np.ndarray  # (target atoms, source atoms), rows that sum to 1
    by_order: np.ndarray  # (source atoms,): what each column would sum to if order alone had aligned the parts
    bounds: Sequence[int]  # the source atoms at which parts begin, in order, and the number of all


class WordAligner:
    """Aligns texts with their translations; keeps the weights of the pairs that it has seen last."""

    def __init__(self, model: TextModel) -> None:
        """Takes the model, whose engine aligns."""
        self._model = model
        self._weights: dict[Pair, np.ndarray] = {}
        self._num_cells = 0  # of all of them

    def prepared(self, items: Iterable[T], pairs_of: Callable[[T], Sequence[Pair]]) -> Iterator[T]:
        """Yields the items. The weights of many items' pairs are computed together, which is faster than one by one.

        Args:
            items: objects that have pairs.
            pairs_of: returns the pairs of an item.
        """
        group: list[T] = []
        sizes: dict[Pair, int] = {}
        num_cells = 0
        for item in items:
            own = {pair: _num_cells(pair) for pair in pairs_of(item)}
            num_own_cells = sum(own.values())
            if group and num_cells + num_own_cells > _GROUP_CELLS:
                self._prepare(sizes)
                yield from group
                group, sizes, num_cells = [], {}, 0
            group.append(item)
            sizes |= own
            num_cells += num_own_cells
        self._prepare(sizes)
        yield from group

    def _prepare(self, sizes: Mapping[Pair, int]) -> None:
        """Computes the weights of pairs, whose cells are given; those that are too large to be kept are left out."""
        new = {pair: size for pair, size in sizes.items() if pair not in self._weights}
        if self._num_cells + sum(new.values()) > _MAX_KEPT_CELLS:
            self._weights, self._num_cells = {}, 0
        fitting: list[Pair] = []
        for pair, size in new.items():
            if not fitting or self._num_cells + size <= _MAX_KEPT_CELLS:
                fitting.append(pair)
                self._num_cells += size
        if fitting:
            self._weights |= zip(fitting, _pair_weights(self._model, fitting), strict=True)

    def _of(self, pair: Pair) -> np.ndarray:
        """Returns the weights of a pair."""
        if pair not in self._weights:
            self._prepare({pair: _num_cells(pair)})
        return self._weights[pair]

    @contextlib.contextmanager
    def table(
        self,
        source: str,
        target: str,
        spans: Sequence[SpanPair],
        is_marked: Callable[[Span], bool] = lambda _: True,
    ) -> Iterator[Table]:
        """Lends the weights of all target atoms over all source atoms, for texts that were translated in parts.

        Args:
            source: a text.
            target: its translation.
            spans: of each part of the source, with that of its translation.
            is_marked: whether the words of a part of the source matter; other parts are aligned by order alone.
        """
        source_atoms, target_atoms = atoms(source), atoms(target)
        parts = [(source[slice(*of_source)], target[slice(*of_target)]) for of_source, of_target in spans]
        is_large = len(source_atoms) * len(target_atoms) > _LARGE_CELLS
        with _LARGE_TABLE if is_large else contextlib.nullcontext():
            weights = np.zeros((len(target_atoms), len(source_atoms)))
            of_whole, by_order = np.zeros(len(source_atoms)), np.zeros(len(source_atoms))
            bounds = {0, len(source_atoms)}
            for (of_source, of_target), part in zip(spans, parts, strict=True):
                rows, columns = _inside(target_atoms, of_target), _inside(source_atoms, of_source)
                of_part = self._of(part) if is_marked(of_source) else _order_weights(len(rows), len(columns))
                if of_part.shape == (len(rows), len(columns)):
                    weights[np.ix_(rows, columns)] = of_part
                    for block in row_blocks(len(rows)):
                        by_order[columns] += _order_weights(len(rows), len(columns), block).sum(0)
                    bounds.update(columns[:1])
            for block in row_blocks(len(weights)):  # a row is never empty
                of_block = _order_weights(len(target_atoms), len(source_atoms), block)
                of_whole += of_block.sum(0)
                weights[block] = _normalised(weights[block] + 1e-6 * of_block)
            yield Table(weights, np.where(by_order > 0, by_order, of_whole), sorted(bounds))

    def links(self, source: str, target: str) -> tuple[SpanPair, ...]:
        """Returns for each target atom the source atom with the greatest weight: (source span, target span)."""
        weights, source_atoms = self._of((source, target)), atoms(source)
        if not source_atoms:
            return ()
        best = weights.argmax(axis=-1).tolist()
        return tuple((source_atoms[i], span) for i, span in zip(best, atoms(target), strict=True))


def row_blocks(num_rows: int) -> Iterator[slice]:
    """Yields blocks of rows, in order: what is computed for each of them needs little memory."""
    for start in range(0, num_rows, _BLOCK_ROWS):
        yield slice(start, min(start + _BLOCK_ROWS, num_rows))


def _num_cells(pair: Pair) -> int:
    source, target = pair
    return len(atoms(source)) * len(atoms(target))


def _inside(spans: Sequence[Span], outer: Span) -> list[int]:
    return [i for i, (start, end) in enumerate(spans) if outer[0] <= start and end <= outer[1]]


def _pair_weights(model: TextModel, pairs: Sequence[Pair]) -> list[np.ndarray]:
    """Returns the weights of each pair: attention, with a little of the order, and much of words that are the same."""
    limit, sides = model.engine.max_source_tokens, (model.tokenizer, model.tokenizer.target)
    source_ids, target_ids = (
        [ids[:limit] for ids in tokenizer.encode_batch(texts)]
        for tokenizer, texts in zip(sides, zip(*pairs, strict=True), strict=True)
    )
    results = []
    aligned = model.engine.align(source_ids, target_ids)
    for (source, target), read, written, attention in zip(pairs, source_ids, target_ids, aligned, strict=True):
        source_atoms, target_atoms = atoms(source), atoms(target)
        from_source = _membership(sides[0].covered(source, read), source, source_atoms)
        from_target = _normalised(_membership(sides[1].covered(target, written), target, target_atoms))
        weights = from_target @ attention @ from_source.T
        weights += _ORDER_WEIGHT * _order_weights(len(target_atoms), len(source_atoms))
        results.append(weights + _SAME_WEIGHT * _same(source, target, source_atoms, target_atoms))
    return results


def _normalised(weights: np.ndarray) -> np.ndarray:
    """Returns weights whose rows sum to 1; a row of zeros stays one."""
    result: np.ndarray = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-12)
    return result


def _order_weights(num_target: int, num_source: int, block: slice = slice(None)) -> np.ndarray:
    """Returns weights by relative position, in a block of the rows: a broad diagonal, rows that sum to 1."""
    rows = (np.arange(num_target)[block, None] + 0.5) / max(num_target, 1)
    columns = (np.arange(num_source)[None] + 0.5) / max(num_source, 1)
    return _normalised(np.exp(-0.5 * ((rows - columns) / _WIDTH) ** 2))


def _same(source: str, target: str, source_atoms: Sequence[Span], target_atoms: Sequence[Span]) -> np.ndarray:
    """Returns 1 for equal atoms that occur once on each side, else 0."""
    words = [source[start:end].casefold() for start, end in source_atoms]
    others = [target[start:end].casefold() for start, end in target_atoms]
    in_source, in_target = Counter(words), Counter(others)
    column = {word: i for i, word in enumerate(words) if in_source[word] == 1}
    same = np.zeros((len(others), len(words)))
    for row, word in enumerate(others):
        if word in column and in_target[word] == 1:
            same[row, column[word]] = 1.0
    return same


def _membership(pieces: Sequence[bytes], text: str, spans: Sequence[Span]) -> np.ndarray:
    """Returns which share of each piece's bytes is part of each atom: (atoms, pieces)."""
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    bounds = np.array(spans, dtype=np.int64).reshape(-1, 2)
    if not text.isascii():
        lengths = [len(character.encode()) for character in text]
        bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[bounds]
    low, high = bounds.T[:, :, None] + 1  # the first piece begins with a space
    shared = np.minimum(ends, high) - np.maximum(starts, low)
    result: np.ndarray = np.maximum(shared, 0) / np.maximum(sizes, 1)
    return result
