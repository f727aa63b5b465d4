"""Word alignment: how much each word of a translation comes from each word of its source.

Words here are `atoms`. A matrix of weights has a row for each target atom and a column for each source atom, and rows
that sum to 1.
"""

from collections.abc import Sequence

import numpy as np

from transduce.decoding.alignment import alignment_scores, best_heads
from transduce.engines.interface import AttendingEngine, AttentionWeights
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.sentences import Span
from transduce.translation.text_model import TextModel

_WIDTH = 0.1  # of the diagonal, as a share of the sentence, in the weights by order
_ORDER_WEIGHT = 0.05  # of order, beside attention
_SAME_WEIGHT = 2.0  # of a number, a name or a sign that occurs once on each side


def aligned(model: TextModel, source: str, target: str, pairs: Sequence[tuple[Span, Span]]) -> np.ndarray:
    """Returns the weights of all target atoms over all source atoms, for texts that were translated in parts.

    Args:
        model: the weights follow the attention of its engine, if that can tell; else the order of the words.
        source: a text.
        target: its translation.
        pairs: spans of the source, each with the span of the target that it became.
    """
    source_atoms, target_atoms = atoms(source), atoms(target)
    weights = np.zeros((len(target_atoms), len(source_atoms)))
    for (source_start, source_end), (target_start, target_end) in pairs:
        columns = [i for i, (start, end) in enumerate(source_atoms) if source_start <= start and end <= source_end]
        rows = [i for i, (start, end) in enumerate(target_atoms) if target_start <= start and end <= target_end]
        if columns and rows:
            part = _part_weights(model, source[source_start:source_end], target[target_start:target_end])
            if part.shape == (len(rows), len(columns)):
                weights[np.ix_(rows, columns)] = part
    weights += 1e-6 * _order_weights(len(target_atoms), len(source_atoms))  # a row is never empty
    return _normalised(weights)


def _part_weights(model: TextModel, source: str, target: str) -> np.ndarray:
    source_atoms, target_atoms = atoms(source), atoms(target)
    weights = _order_weights(len(target_atoms), len(source_atoms))
    if isinstance(model.engine, AttendingEngine):
        weights = _ORDER_WEIGHT * weights + _attention(model, source, target, source_atoms, target_atoms)
    return weights + _SAME_WEIGHT * _same(source, target, source_atoms, target_atoms)


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
    column = {word: i for i, word in enumerate(words) if words.count(word) == 1}
    same = np.zeros((len(others), len(words)))
    for row, word in enumerate(others):
        if word in column and others.count(word) == 1:
            same[row, column[word]] = 1.0
    return same


def _attention(
    model: TextModel, source: str, target: str, source_atoms: Sequence[Span], target_atoms: Sequence[Span]
) -> np.ndarray:
    """Returns the mean weights of the heads that align best in this pair, summed over the pieces of source atoms."""
    engine, tokenizer = model.engine, model.tokenizer
    assert isinstance(engine, AttendingEngine)
    limit = engine.max_source_tokens
    source_ids, target_ids = tokenizer.encode(source)[:limit], tokenizer.encode(target)[:limit]
    found: AttentionWeights = engine.attend(source_ids, target_ids)
    from_source = _membership(tokenizer.piece_bytes(source_ids), source, source_atoms)
    from_target = _normalised(_membership(tokenizer.piece_bytes(target_ids), target, target_atoms))
    cross = found.cross[:, :, :-1, :-1].astype(np.float64)  # EOS is part of no atom
    weights = from_target @ cross @ from_source.T
    heads = best_heads(alignment_scores(weights))
    mean: np.ndarray = np.mean([weights[layer - 1, head - 1] for layer, head in heads], axis=0)
    return mean


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
