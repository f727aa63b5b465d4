"""The loop that greedy search, sampling and beam search share.

A search has two parts, so that a GPU seldom has to be waited for. The device chooses the tokens that rows continue
with, and never synchronises with the host in between. The host is handed the choices of several steps at once, and
keeps account of what has finished (`decoding.finished`). What the device computes beyond a sentence's end is ignored,
so that the result does not depend on how often the two synchronise.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
import torch
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.config.special_ids import BOS
from transduce.decoding.banned_tokens import banned_tokens
from transduce.decoding.candidates import log_probabilities_
from transduce.decoding.constraints import TokenConstraints
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis
from transduce.decoding.step import S, Step

_STEPS_ON_A_GPU = 8
# Dropping finished sentences copies the caches of the others: it waits until this share of the batch is done.
_SHRINK_SHARE = 1 / 8


@dataclass(frozen=True)
class SearchTask(Generic[S]):
    """The sentences to decode, and the model as a search sees it."""

    step: Step[S]
    state: S  # one row a sentence, nothing decoded yet
    limits: Sequence[int]  # for each sentence, the greatest number of tokens of its output; EOS is not counted
    constraints: Sequence[TokenConstraints] = ()  # of each sentence, or none at all
    device: torch.device | str = "cpu"  # where `step` works
    never: Sequence[int] = NEVER_GENERATED  # tokens that no output holds
    first_tokens_B: Tensor | None = None  # what the first step reads; None: BOS

    @property
    def max_tokens(self) -> int:
        """The greatest limit."""
        return max(self.limits, default=0)


def sync_steps(device: torch.device | str) -> int:
    """Returns after how many steps the host receives the device's choices: each on a CPU, every eighth on a GPU."""
    return 1 if torch.device(device).type == "cpu" else _STEPS_ON_A_GPU


def first_tokens(num_sentences: int, device: torch.device | str) -> Tensor:
    """Returns what the first step of a decoder reads: BOS for each sentence."""
    return torch.full((num_sentences,), BOS, device=device)


class HostRecord(ABC):
    """The state of a search on the host: which groups are done, and which are still in the batch.

    A group is what ends by itself: a group of beams, or a single row. Each sentence has equally many. They are
    numbered as the batch began.
    """

    def __init__(self, limits: Sequence[int], groups_per_sentence: int, length_penalty: float) -> None:
        self._limits = np.repeat(np.array(limits, dtype=int), groups_per_sentence)
        self.active = np.arange(len(self._limits))  # those still in the batch
        self.done = np.zeros(len(self._limits), bool)  # those that cannot get a better result
        self._groups_per_sentence, self._alpha = groups_per_sentence, length_penalty
        self._num_tokens = 0  # of every row, so far

    @abstractmethod
    def update(self, steps: Sequence[Any]) -> None:
        """Takes account of steps, in order; the sentences in the batch are the same in all of them."""

    def drop_done(self) -> list[int] | None:
        """Drops sentences whose groups are all done, where that pays; returns those that stay, None where all do.

        They are numbered as they have been in the batch until now.
        """
        by_sentence = self.active.reshape(-1, self._groups_per_sentence)
        open_sentences = ~self.done[by_sentence].all(axis=1)
        num_done = int((~open_sentences).sum())
        if num_done == 0 or num_done < len(by_sentence) * _SHRINK_SHARE:
            return None
        self.active = by_sentence[open_sentences].flatten()
        return np.flatnonzero(open_sentences).tolist()


class Search(ABC, Generic[S]):
    """A search over a batch of sentences. Subclasses define how tokens are chosen."""

    finished: HostRecord

    def __init__(self, task: SearchTask[S], options: DecodeConfig, num_rows: int) -> None:
        """Prepares the first step; where anything is banned or required, the tokens of `num_rows` rows are kept."""
        self._step, self._state, self._device = task.step, task.state, task.device
        self._options, self._never, self._num_sentences = options, task.never, len(task.limits)
        self._banned = banned_tokens(options, task.constraints, task.limits, task.device)
        self._num_tokens = 0  # of every row, so far
        first_B = task.first_tokens_B
        self._last_tokens_R = first_tokens(self._num_sentences, task.device) if first_B is None else first_B
        self._sync_steps, self._last_step = sync_steps(task.device), task.max_tokens
        self._output_RT: Tensor | None = None  # the argument of bans and required phrases
        if self._banned is not None or any(each.required for each in task.constraints):
            self._output_RT = torch.zeros(num_rows, task.max_tokens + 1, device=task.device, dtype=torch.long)

    def run(self) -> list[list[Hypothesis]]:
        """Returns each sentence's hypotheses."""
        state, pending = self._state, []
        for step_number in itertools.count() if self._num_sentences else ():
            logits_RV, state = self._step(self._last_tokens_R, state)
            pending.append(self.choose(logits_RV, state))
            self._num_tokens += 1
            if step_number % self._sync_steps == 0 or step_number >= self._last_step:
                self.finished.update(pending)
                pending.clear()
                if self.finished.done.all():
                    break
                if (kept := self.finished.drop_done()) is not None:
                    kept_B = torch.tensor(kept, device=self._device)
                    self.keep(kept_B)
                    state = state.keep(kept_B)
            state = self.continue_state(state)
        return self.results()

    @abstractmethod
    def choose(self, logits_RV: Tensor, state: S) -> Any:
        """Sets the tokens that rows continue with, and returns the argument of `finished`; may overwrite the logits.

        `state` is that after the step which gave the logits.
        """

    @abstractmethod
    def continue_state(self, state: S) -> S:
        """Returns the state of the rows that were chosen."""

    @abstractmethod
    def results(self) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each sentence."""

    def _gains(self, logits_RV: Tensor, copies: int) -> Tensor:
        """Returns the log-probabilities of what may be next; in the first step for `copies` of each row.

        Overwrites the logits.
        """
        gains_RV = log_probabilities_(logits_RV, self._never)
        if copies > 1 and self._num_tokens == 0:
            gains_RV = gains_RV.repeat_interleave(copies, dim=0)
        if self._banned is not None and self._output_RT is not None:
            self._banned.apply_(gains_RV, self._output_RT[:, : self._num_tokens])
        return gains_RV

    def keep(self, kept_B: Tensor) -> None:
        """Drops all sentences but these."""
        if self._banned is not None:
            self._banned = self._banned.keep(kept_B)
        if self._output_RT is not None:
            self._output_RT = self._rows_of(self._output_RT, kept_B)
        self._last_tokens_R = self._rows_of(self._last_tokens_R, kept_B)
        self._num_sentences = kept_B.numel()

    def _rows_of(self, rows: Tensor, kept_B: Tensor) -> Tensor:
        """Returns the given sentences' rows of a tensor whose first dimension has equally many for each sentence."""
        kept: Tensor = rows.unflatten(0, (self._num_sentences, -1))[kept_B]
        return kept.flatten(0, 1)
