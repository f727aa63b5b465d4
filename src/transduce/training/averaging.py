"""The mean of several checkpoints' weights (§6.1)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from transduce.config.tensors import read_weights
from transduce.errors import BundleError
from transduce.training.state import checkpoint_weights


def average(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Returns the mean of the checkpoints' weights, summed in float64, one checkpoint in memory at a time.

    Raises:
        BundleError: there is nothing to average, a weight is not finite, or the checkpoints are of different models.
    """
    if not paths:
        raise BundleError("There are no checkpoints to average.")
    total: dict[str, np.ndarray] = {}
    for path in paths:
        weights = read_weights(checkpoint_weights(path))
        if total and {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in total.items()}:
            raise BundleError(f"{path} is a checkpoint of another model than {paths[0]}.")
        for name, weight in weights.items():
            total[name] = total[name] + weight if name in total else weight.astype(np.float64)
    return {name: (weight / len(paths)).astype(np.float32) for name, weight in total.items()}
