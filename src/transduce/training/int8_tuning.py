"""Tuning for int8: the forward pass has the weights that int8 inference has; the optimiser's weights stay float32.

Each row w of a matrix becomes round(w s) / s with s = 127 / max |w|, as in `engines.ctranslate2_model.quantize` and
`model.inference_weights.QuantizedLinear`. CTranslate2 also rounds the embeddings that it looks up, and so does this;
the torch engine does not. Both engines round the inputs of products, too, which this does not.
"""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from transduce.config import TrainConfig
from transduce.training.trainable import TrainableModel

_LEVELS = 127  # steps from 0 to the greatest absolute value of a row
_TINY = 1e-36  # instead of the greatest value, for a row of zeros


@contextlib.contextmanager
def rounded_weights(model: TrainableModel) -> Iterator[None]:
    """Rounds the matrices of a model inside; afterwards they are what they were, bit for bit.

    Gradients that are computed inside pass straight through the rounding (Bengio et al. 2013): those of the rounded
    weights are applied to the weights themselves.

    DEVIATION: the paper rounds no weights.
    """
    kept = [(matrix, matrix.detach().clone()) for matrix in _matrices(model)]
    try:
        with torch.no_grad():
            for matrix, weights in kept:
                matrix.copy_(rounded(weights))
        yield
    finally:
        with torch.no_grad():
            for matrix, weights in kept:
                matrix.copy_(weights)


def rounded(weights_OI: Tensor) -> Tensor:
    """Returns the rows of a matrix, each rounded to 127 steps in each direction, up to its greatest absolute value."""
    scales_O1 = _LEVELS / weights_OI.abs().amax(dim=1, keepdim=True).clamp_min(_TINY)
    return (weights_OI * scales_O1).round_().div_(scales_O1)


def copied_bytes(model: TrainableModel, train: TrainConfig) -> int:
    """Returns the size of the weights that a tuned step keeps next to the rounded ones; 0 where no step is tuned."""
    return sum(matrix.nbytes for matrix in _matrices(model)) if train.int8_tuning_steps else 0


def _matrices(model: TrainableModel) -> list[nn.Parameter]:
    """Returns the embeddings and the weights of products, a shared one once; neither norms nor positions."""
    ends = (".weight", "embedding")
    return [each for name, each in model.named_parameters() if each.dim() == 2 and name.endswith(ends)]
