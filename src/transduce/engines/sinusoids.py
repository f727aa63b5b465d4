"""The sinusoids of `model.positions` without torch, for formats that store them."""

import numpy as np

from transduce.config import ModelConfig
from transduce.config.choices import interleaves_sinusoids


def sinusoids(num_positions: int, config: ModelConfig) -> np.ndarray:
    """Returns the vectors of a sequence's first tokens, as `model.positions.Positions` does, shape (T, D), float32."""
    half = config.d_model // 2
    pairs = np.arange(half, dtype=np.float64)
    interleaved = interleaves_sinusoids(config)
    exponent = pairs / (config.d_model / 2) if interleaved else pairs / max(half - 1, 1)
    positions = config.first_position + np.arange(num_positions)
    angle = positions[:, None] * np.exp(-np.log(10000.0) * exponent)
    both = np.sin(angle), np.cos(angle)
    table = np.stack(both, axis=-1).reshape(num_positions, -1) if interleaved else np.concatenate(both, axis=-1)
    return table.astype(np.float32)
