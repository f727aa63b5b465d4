"""Gradients of an update: their sum over processes, and their norm."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from transduce.training.distributed import Ranks
from transduce.training.trainable import TrainableModel


def _trained(model: TrainableModel) -> Iterator[nn.Parameter]:
    return (parameter for parameter in model.parameters() if parameter.requires_grad)


def sum_over_ranks(ranks: Ranks, model: TrainableModel, totals: Tensor) -> None:
    """Sums gradients and `totals` in place over all processes; none is missing then, on any number of them."""
    gradients = []
    for parameter in _trained(model):
        if parameter.grad is None:  # this process had no rows, or none that reach it: it belongs to another head
            parameter.grad = torch.zeros_like(parameter)
        gradients.append(parameter.grad)
    ranks.sum([totals, *gradients])


def clip_gradients(model: TrainableModel, max_norm: float) -> Tensor:
    """Returns the norm of all gradients, and clips them to `max_norm`, unless that is 0."""
    parameters = list(_trained(model))
    norm = torch.nn.utils.get_total_norm([each.grad for each in parameters if each.grad is not None])
    if max_norm:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return norm
