"""Word alignment: how much each word of a translation comes from each word of its source.

Words here are `atoms`. A matrix of weights has a row for each target atom and a column for each source atom, and rows
that sum to 1.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.sentences import Span
from transduce.translation.result import SpanPair
from transduce.translation.text_model import TextModel

_WIDTH = 0.1  # of the diagonal, as a share of the sentence, in the weights by order
_ORDER_WEIGHT = 0.05  # of order, beside attention
_SAME_WEIGHT = 2.0  # of a number, a name or a sign that occurs once on each side


class WordAligner:
    """Aligns texts with their translations; keeps the weights of all pairs that it has seen."""

    def __init__(self, model: TextModel) -> None:
        """Takes the model, whose engine aligns."""
        self._model = model
        self._weights: dict[tuple[str, str], np.ndarray] = {}

    def prepare(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Computes the weights of many texts and their translations together, which is faster than one by one."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._weights]
        if new:
            self._weights |= zip(new, _pair_weights(self._model, new), strict=True)

    def weights(self, source: str, target: str, spans: Sequence[SpanPair]) -> np.ndarray:
        """Returns the weights of all target atoms over all source atoms, for texts that were translated in parts.

        Args:
            source: a text.
            target: its translation.
            spans: of each part of the source, with that of its translation.
        """
        source_atoms, target_atoms = atoms(source), atoms(target)
        weights = np.zeros((len(target_atoms), len(source_atoms)))
        parts = [(source[slice(*of_source)], target[slice(*of_target)]) for of_source, of_target in spans]
        self.prepare(parts)
        for (of_source, of_target), part in zip(spans, parts, strict=True):
            rows, columns = _inside(target_atoms, of_target), _inside(source_atoms, of_source)
            if self._weights[part].shape == (len(rows), len(columns)):
                weights[np.ix_(rows, columns)] = self._weights[part]
        weights += 1e-6 * _order_weights(len(target_atoms), len(source_atoms))  # a row is never empty
        return _normalised(weights)

    def links(self, source: str, target: str) -> tuple[SpanPair, ...]:
        """Returns for each target atom the source atom with the greatest weight: (source span, target span)."""
        self.prepare([(source, target)])
        weights, source_atoms = self._weights[source, target], atoms(source)
        if not source_atoms:
            return ()
        best = weights.argmax(axis=-1).tolist()
        return tuple((source_atoms[i], span) for i, span in zip(best, atoms(target), strict=True))


def _inside(spans: Sequence[Span], outer: Span) -> list[int]:
    return [i for i, (start, end) in enumerate(spans) if outer[0] <= start and end <= outer[1]]


def _pair_weights(model: TextModel, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
    """Returns the weights of each pair: attention, with a little of the order, and much of words that are the same."""
    tokenizer, limit = model.tokenizer, model.engine.max_source_tokens
    source_ids, target_ids = (
        [ids[:limit] for ids in tokenizer.encode_batch(texts)] for texts in zip(*pairs, strict=True)
    )
    results = []
    aligned = model.engine.align(source_ids, target_ids)
    for (source, target), read, written, attention in zip(pairs, source_ids, target_ids, aligned, strict=True):
        source_atoms, target_atoms = atoms(source), atoms(target)
        from_source = _membership(tokenizer.piece_bytes(read), source, source_atoms)
        from_target = _normalised(_membership(tokenizer.piece_bytes(written), target, target_atoms))
        weights = from_target @ attention @ from_source.T
        weights += _ORDER_WEIGHT * _order_weights(len(target_atoms), len(source_atoms))
        results.append(weights + _SAME_WEIGHT * _same(source, target, source_atoms, target_atoms))
    return results


def _normalised(weights: np.ndarray) -> np.ndarray:
    """Returns weights whose rows sum to 1; a row of zeros stays one."""
    result: np.ndarray = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-12)
    return result


def _order_weights(num_target: int, num_source: int) -> np.ndarray:
    """Returns weights by relative position: a broad diagonal, rows that sum to 1."""
    rows = (np.arange(num_target)[:, None] + 0.5) / max(num_target, 1)
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
    sizes = [len(character.encode()) for character in text]
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]) + 1  # the first piece begins with a space
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    starts = ends - np.array([len(piece) for piece in pieces], dtype=np.int64)
    low = np.array([offsets[start] for start, _ in spans])[:, None]
    high = np.array([offsets[end] for _, end in spans])[:, None]
    shared = np.minimum(ends, high) - np.maximum(starts, low)
    result: np.ndarray = np.maximum(shared, 0) / np.maximum(ends - starts, 1)
    return result
