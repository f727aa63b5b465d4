"""What the trainer needs of a model: any module that has this can be trained; and a new one."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from transduce.config import Config
from transduce.model import Transformer
from transduce.model.block_heads import BlockHeads
from transduce.model.flops import BatchSizes
from transduce.training.device import Compute


class TrainableModel(Protocol):
    """A `torch.nn.Module` that maps padded sources and targets to a state for each real target token.

    Logits are states times `output_embedding`, transposed, plus `output_bias`; `transduce.model.Transformer` is one.
    """

    training: bool
    checkpointing: bool  # whether to keep only the input of each layer for the backward pass, if it can
    rounded_shapes: bool  # whether batches come in few sizes
    block_heads: BlockHeads | None  # what predicts later tokens, if anything does
    __call__: Callable[..., Any]  # of `Batch.inputs`: states (N, D), sentence after sentence

    @property
    def max_positions(self) -> int | None:
        """The longest sequence; None: any."""

    @property
    def output_embedding(self) -> Tensor:
        """The (V, D) matrix of the output projection."""

    @property
    def output_bias(self) -> Tensor | None:
        """The (V,) bias of the logits, if there is one."""

    @property
    def num_parameters(self) -> int:
        """The number of trained numbers."""

    def logits(self, states: Tensor) -> Tensor:
        """Projects states (…, D) to logits (…, V), float32."""

    def training_flops(self, sizes: BatchSizes) -> int:
        """Returns the operations of the matrix products of a training step on a batch; 0 where they are not known."""

    def weights(self) -> dict[str, Tensor]:
        """Returns each parameter once, by name: what a checkpoint holds."""

    def require_shapes(self, found: Mapping[str, tuple[int, ...]], where: str) -> None:
        """Raises BundleError unless `found` are the names and shapes of the weights; `where` names their file."""

    def load_weights(self, weights: Mapping[str, np.ndarray | Tensor], where: str) -> None:
        """Copies `weights` in; raises BundleError where they do not fit."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """As of `torch.nn.Module`, and so are those below."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Returns each parameter once."""

    def train(self, mode: bool = True) -> Any:
        """Switches dropout on."""

    def eval(self) -> Any:
        """Switches dropout off."""

    def compile(self, **options: Any) -> None:
        """Compiles the forward pass."""


@contextlib.contextmanager
def evaluating(model: TrainableModel) -> Iterator[None]:
    """Puts a model into evaluation mode, and afterwards into the mode in which it was."""
    was_training = model.training
    model.eval()
    yield
    model.train(was_training)


def new_model(config: Config, compute: Compute) -> Transformer:
    """Returns an untrained model, whose weights are drawn from `train.seed`."""
    torch.manual_seed(config.train.seed)
    return Transformer(config.model).to(compute.device)
