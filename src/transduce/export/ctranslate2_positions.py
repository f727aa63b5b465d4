"""Which vectors of positions a table of CTranslate2 holds: one of our sinusoids, Marian's, or learned ones.

    interleaved     sin₀ cos₀ sin₁ cos₁ …: the paper, OpenNMT-py
    concatenated    sin₀ sin₁ … cos₀ cos₁ …, from other frequencies: tensor2tensor, OpenNMT-tf, fairseq
    Marian's        the sines and cosines of the first, in the order of the second

A model of Marian becomes one of the first: its dimensions are put into another order. Without a table, CTranslate2
computes the second, and gives the first token the position 1. A table in float16 or bfloat16 was rounded before the
original computes with it. It stays as it is, like a learned one.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from transduce.config import ModelConfig
from transduce.engines.sinusoids import sinusoids
from transduce.export.ctranslate2_binary import Variables
from transduce.export.ctranslate2_settings import STACKS
from transduce.export.huggingface_weights import dimension_order

_FIRST_POSITIONS = (0, 1, 2)  # fairseq keeps two for padding
# How far stored sinusoids may be off: where they were computed in float32, by the rounding of each angle.
_ROUNDING, _ANGLE = 1e-5, 3e-7


@dataclass(frozen=True)
class PositionTables:
    """The vectors of positions of a model.

    Attributes:
        layout: of sinusoids, as `model.sinusoid_layout` has it; "" for learned ones.
        first_position: of sinusoids.
        num_positions: rows of the shorter table; 0 for no limit.
        permuted: whether the dimensions have Marian's order.
        added: what is added to each of the encoder's vectors, (D,); None for nothing.
        learned: the tables of encoder and decoder, as many rows each; none for sinusoids.
    """

    layout: Literal["interleaved", "concatenated", ""]
    first_position: int = 0
    num_positions: int = 0
    permuted: bool = False
    added: np.ndarray | None = None
    learned: tuple[np.ndarray, ...] = ()


def read_positions(variables: Variables, d_model: int) -> PositionTables:
    """Returns what kind of positions a model has.

    Raises:
        BundleError: a table is missing, or has a wrong shape or numbers that are not finite.
    """
    names = [f"{stack}/position_encodings/encodings" for stack in STACKS]
    if not any(name in variables for name in names):
        return PositionTables("concatenated", first_position=1)
    tables = [variables.numbers(name) for name in names]
    for name, table in zip(names, tables, strict=True):
        if table.ndim != 2 or table.shape[1] != d_model or not len(table):
            raise variables.damaged(f"{name} has shape {table.shape}, but (positions, {d_model}) is expected")
    num_positions = min(map(len, tables))
    if d_model % 2 == 0:
        for candidate in _candidates(num_positions):
            encoder, decoder = (_difference(table, candidate, d_model) for table in tables)
            if encoder is not None and decoder is not None and not decoder.any():
                return PositionTables(
                    candidate.layout,
                    candidate.first_position,
                    num_positions,
                    candidate.permuted,
                    encoder if encoder.any() else None,
                )
    return PositionTables("", num_positions=num_positions, learned=tuple(table[:num_positions] for table in tables))


def _candidates(num_positions: int) -> list[PositionTables]:
    kinds: tuple[tuple[Literal["interleaved", "concatenated"], bool], ...]
    kinds = (("interleaved", False), ("interleaved", True), ("concatenated", False))
    return [
        PositionTables(layout, first, num_positions, permuted)
        for layout, permuted in kinds
        for first in _FIRST_POSITIONS
    ]


def _difference(table: np.ndarray, candidate: PositionTables, d_model: int) -> np.ndarray | None:
    """Returns what is added to all sinusoids of a kind, zeros for nothing, (D,); None where it is another kind."""
    assert candidate.layout
    config = ModelConfig(d_model=d_model, sinusoid_layout=candidate.layout, first_position=candidate.first_position)
    expected = sinusoids(len(table), config)
    if candidate.permuted:
        expected = expected[:, dimension_order(d_model)]
    bound = _ROUNDING + _ANGLE * np.arange(len(table))[:, None]
    if (np.abs(table - expected) <= bound).all():
        return np.zeros(d_model, np.float32)
    added: np.ndarray = (table[:1] - expected[:1])[0]
    return added if len(table) > 1 and (np.abs(table - expected - added) <= 2 * bound).all() else None
