"""An ensemble as one step function, whose probabilities are the mean of the models'. Every search works with it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Self

import torch
from torch import Tensor

from transduce.decoding.step import S, Step


@dataclass(frozen=True)
class EnsembleState(Generic[S]):
    """The state of each model; all have the same rows."""

    members: tuple[S, ...]

    def expand(self, num_beams: int) -> Self:
        """Goes from one row to `num_beams` equal rows a sentence."""
        return type(self)(tuple(member.expand(num_beams) for member in self.members))

    def reorder(self, rows_R: Tensor) -> Self:
        """Makes row r the continuation of the old row `rows_R[r]`."""
        return type(self)(tuple(member.reorder(rows_R) for member in self.members))

    def keep(self, sentences_B: Tensor) -> Self:
        """Keeps all rows of the given sentences only."""
        return type(self)(tuple(member.keep(sentences_B) for member in self.members))


def ensemble_step(steps: Sequence[Step[S]]) -> Step[EnsembleState[S]]:
    """Returns the step function of an ensemble; its logits are log-probabilities: see `mean_log_probabilities`."""

    def step(tokens_R: Tensor, state: EnsembleState[S]) -> tuple[Tensor, EnsembleState[S]]:
        results = [each(tokens_R, member) for each, member in zip(steps, state.members, strict=True)]
        gains_NRV = torch.stack([logits_RV.log_softmax(dim=-1) for logits_RV, _ in results])
        return mean_log_probabilities(gains_NRV), EnsembleState(tuple(member for _, member in results))

    return step


def mean_log_probabilities(gains_N: Tensor) -> Tensor:
    """Returns the logarithms of the mean of probabilities, given their logarithms along the first dimension."""
    return torch.logsumexp(gains_N, dim=0) - math.log(gains_N.size(0))
