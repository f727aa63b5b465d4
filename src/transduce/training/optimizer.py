"""The optimiser and its state for each parameter. Another optimiser needs changes here and in the schema."""

import math
from collections.abc import Iterable
from typing import assert_never

import torch
from torch import Tensor

from transduce.config import TrainConfig

Shape = tuple[int, ...]


def make_optimizer(parameters: Iterable[Tensor], train: TrainConfig) -> torch.optim.Optimizer:
    """Returns the optimiser of the parameters that are trained: Adam as in §5.3, with PyTorch's fused kernel.

    Or gradient descent with Nesterov's momentum (Sutskever et al. 2013), for controls of the paper's claims.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    match train.optimizer:
        case "adam":
            betas = (train.adam_beta1, train.adam_beta2)
            return torch.optim.Adam(trained, lr=0.0, betas=betas, eps=train.adam_epsilon, fused=True)
        case "nesterov":
            return torch.optim.SGD(trained, lr=0.0, momentum=train.momentum, nesterov=True, fused=True)
        case other:
            assert_never(other)


def kept_shapes(train: TrainConfig, shape: Shape) -> dict[str, Shape]:
    """Returns the names and shapes of the state of a parameter of this shape: Adam's step count and moments, say."""
    match train.optimizer:
        case "adam":
            return {"step": (), "exp_avg": shape, "exp_avg_sq": shape}
        case "nesterov":
            return {"momentum_buffer": shape}
        case other:
            assert_never(other)


def kept_bytes(train: TrainConfig, parameter: Tensor) -> int:
    """Returns the size of the state of a parameter, without single numbers."""
    shapes = kept_shapes(train, tuple(parameter.shape)).values()
    return sum(parameter.element_size() * math.prod(shape) for shape in shapes if shape)
