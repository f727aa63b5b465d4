"""The optimiser and its state for each parameter. Another optimiser needs changes here and in the schema."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from transduce.config import TrainConfig

Shape = tuple[int, ...]


def make_optimizer(parameters: Iterable[Tensor], train: TrainConfig) -> torch.optim.Optimizer:
    """Returns Adam as in §5.3, with PyTorch's fused kernel, for the parameters that are trained."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    betas = (train.adam_beta1, train.adam_beta2)
    return torch.optim.Adam(trained, lr=0.0, betas=betas, eps=train.adam_epsilon, fused=True)


def kept_shapes(train: TrainConfig, shape: Shape) -> dict[str, Shape]:
    """Returns the names and shapes of the state of a parameter of this shape: Adam's step count and moments.

    `train` will say which optimiser it is when there are several, so that a second one touches no other file.
    """
    return {"step": (), "exp_avg": shape, "exp_avg_sq": shape}


def kept_bytes(train: TrainConfig, parameter: Tensor) -> int:
    """Returns the size of the state of a parameter, without single numbers."""
    shapes = kept_shapes(train, tuple(parameter.shape)).values()
    return sum(parameter.element_size() * math.prod(shape) for shape in shapes if shape)
