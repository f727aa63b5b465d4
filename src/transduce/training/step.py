"""The parts of an update: the loss of a batch, the optimiser, the learning rate, and what an update reports."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transduce.config import Config
from transduce.config.choices import learns_positions, longest_sequence
from transduce.data.store import ParallelStore
from transduce.errors import DataError
from transduce.model.device import send
from transduce.training.batch import Batch
from transduce.training.block_heads import states_of_head
from transduce.training.device import Compute
from transduce.training.guidance import Guidance
from transduce.training.loss import Smoothing, projected_loss
from transduce.training.trainable import TrainableModel


@dataclass(frozen=True)
class StepResult:
    """What one update did; losses are sums over `target_tokens`, in nats. `loss` includes that of a guidance."""

    loss: float
    negative_log_likelihood: float
    target_tokens: int
    source_tokens: int
    gradient_norm: float
    learning_rate: float
    flops: int = 0  # of matrix products, over all processes

    @property
    def finite(self) -> bool:
        """Whether the update was made.

        DEVIATION: one whose loss or gradient is not finite is left out; the paper is silent.
        """
        return math.isfinite(self.gradient_norm) and math.isfinite(self.loss)


class StepSums:
    """What an update adds up over micro-batches and processes: one tensor on the device, for one collective and wait.

    Its numbers are the loss and the -log p, summed over target tokens; the number of processes whose memory ran out, so
    that their batches are split from now on; the operations of matrix products; and the source and target tokens.
    """

    def __init__(self, device: torch.device) -> None:
        self.tensor = torch.zeros(6, dtype=torch.float64, device=device)
        self._counts = [0, 0, 0]

    def add(self, loss: Tensor, nll: Tensor, batch: Batch, flops: int) -> None:
        """Adds the losses and the sizes of a micro-batch."""
        self.tensor[:2] += torch.stack([loss.detach(), nll])
        sizes = (flops, batch.num_source_tokens, batch.num_target_tokens)
        self._counts = [count + size for count, size in zip(self._counts, sizes, strict=True)]

    def finish(self, *, lowered: bool) -> None:
        """Enters the counts of this process, once all its micro-batches are added."""
        self.tensor[2:] = send(torch.tensor([lowered, *self._counts], dtype=torch.float64), self.tensor.device)

    def rescale(self, gradients: Iterable[Tensor], planned: int) -> None:
        """Makes gradients of a sum divided by `planned` target tokens those of the sum divided by the real number."""
        factor = planned / self.tensor[5].clamp(min=1)
        for gradient in gradients:
            gradient *= factor.to(gradient.dtype)

    def read(self, norm: Tensor) -> list[float]:
        """Returns the norm of the gradient, and then the six sums; waits for the device, once."""
        numbers: list[float] = torch.cat([norm.double()[None], self.tensor]).tolist()
        return numbers


def seed_dropout(seed: int, step: int, rank: int) -> None:
    """Makes the dropout of a step depend on these three alone: no random state outlives the step."""
    number = int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)
    if torch.accelerator.is_available():
        torch.manual_seed(number)
    else:  # without the stack traces that `torch.manual_seed` keeps for devices that are not initialised
        torch.default_generator.manual_seed(number)


def batch_loss(
    model: TrainableModel, batch: Batch, smoothing: Smoothing, compute: Compute, guidance: Guidance | None = None
) -> tuple[Tensor, Tensor]:
    """Returns the summed smoothed loss, with that of a guidance, and the summed -log p of a batch's target tokens."""
    with compute.autocast():
        states_ND = model(*batch.inputs)
    return states_loss(states_ND.to(compute.dtype), model, batch, smoothing, guidance)


def states_loss(
    states_ND: Tensor, model: TrainableModel, batch: Batch, smoothing: Smoothing, guidance: Guidance | None = None
) -> tuple[Tensor, Tensor]:
    """Returns the same as `batch_loss`, from the output of `model` for the batch."""
    states_ND = states_of_head(states_ND, model, batch)
    loss, nll = projected_loss(*with_bias(states_ND, model), batch.targets_N, smoothing)
    if guidance is not None:
        loss = loss + guidance.loss(guidance.scores_LBTS, batch)
    return loss, nll


def with_bias(states_ND: Tensor, model: TrainableModel) -> tuple[Tensor, Tensor]:
    """Returns states and the matrix of the output projection; a bias is its last column, for a last state of 1."""
    if model.output_bias is None:
        return states_ND, model.output_embedding
    matrix = torch.cat([model.output_embedding, model.output_bias[:, None]], dim=1)
    return torch.cat([states_ND, torch.ones_like(states_ND[:, :1])], dim=1), matrix


def require_positions(config: Config, store: ParallelStore) -> None:
    """Raises DataError if a text is longer than the model's positions: its batch would end the training later."""
    longest = int(max(store.source_lengths.max(initial=0), store.target_lengths.max(initial=0)))
    if (limit := longest_sequence(config.model)) is not None and longest > limit:
        key = "model.max_positions" if learns_positions(config.model) else "model.max_length"
        advice = "Its ancestor has no more: shorten" if config.init.model else f"Raise {key}, or shorten"
        raise DataError(
            f"{store.path}: its longest side has {longest} tokens, the end mark counted, and the model has "
            f"positions for {limit}. {advice} the text: data.max_tokens drops training pairs, and "
            "never validation pairs."
        )
