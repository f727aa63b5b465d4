"""A new model."""

import torch

from transduce.config import Config
from transduce.model import Transformer
from transduce.training.device import Compute


def new_model(config: Config, compute: Compute) -> Transformer:
    """Returns an untrained model, whose weights are drawn from `train.seed`."""
    torch.manual_seed(config.train.seed)
    return Transformer(config.model).to(compute.device)
