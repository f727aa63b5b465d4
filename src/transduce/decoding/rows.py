"""Searches with independent rows: each row continues with one token a step, to EOS or its limit.

Shapes: R rows = B sentences × K outputs of each, sentence by sentence; T tokens so far, V vocabulary.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.scores import Hypothesis, hypothesis
from transduce.decoding.search import HostRecord, Search, SearchTask
from transduce.decoding.step import S
from transduce.decoding.transfer import rows_on_host


class RowSearch(Search[S]):
    """A search that draws or takes one token for each row."""

    finished: "FinishedRows"

    def __init__(self, task: SearchTask[S], options: DecodeConfig, num_outputs: int = 1) -> None:
        """Each sentence gets `num_outputs` outputs; what only a beam has of the options is not used."""
        super().__init__(task, options, len(task.limits) * num_outputs)
        self._num_outputs = num_outputs
        self.finished = FinishedRows(task.limits, num_outputs, options.length_penalty)

    @abstractmethod
    def pick(self, gains_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the token of each row and its log-probability; may overwrite the log-probabilities."""

    def choose(self, logits_RV: Tensor, state: S) -> tuple[Tensor, Tensor]:
        """Returns the token of each row and its log-probability."""
        self._last_tokens_R, gains_R = self.pick(self._gains(logits_RV, self._num_outputs))
        if self._output_RT is not None:
            self._output_RT[:, self._num_tokens] = self._last_tokens_R
        return self._last_tokens_R, gains_R

    def continue_state(self, state: S) -> S:
        """Returns the state with a row for each output."""
        return state.expand(self._num_outputs) if self._num_tokens == 1 and self._num_outputs > 1 else state

    def results(self) -> list[list[Hypothesis]]:
        """Returns the outputs of each sentence."""
        found = [result for result in self.finished.results if result is not None]
        return [found[first : first + self._num_outputs] for first in range(0, len(found), self._num_outputs)]


class FinishedRows(HostRecord):
    """The outputs of a `RowSearch`, kept on the host; a group is one row."""

    def __init__(self, limits: Sequence[int], num_outputs: int, length_penalty: float) -> None:
        super().__init__(limits, num_outputs, length_penalty)
        num_rows = len(limits) * num_outputs
        self.results: list[Hypothesis | None] = [None] * num_rows
        self._tokens = np.zeros((num_rows, max(limits, default=0) + 1), np.int64)
        self._totals = np.zeros(num_rows, np.float32)

    def update(self, steps: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Takes account of steps, in order: each row's token and its log-probability, -inf where there was none."""
        for tokens_R, gains_R in rows_on_host(steps):
            stuck_R = ~(gains_R > -np.inf)
            eos_R = (tokens_R == EOS) & ~stuck_R
            last_R = (self._limits[self.active] <= self._num_tokens) | stuck_R
            for index in np.flatnonzero((eos_R | last_R) & ~self.done[self.active]):
                row, finished = self.active[index], bool(eos_R[index])
                total = self._totals[row] + gains_R[index] if finished else self._totals[row]
                ids = self._tokens[row, : self._num_tokens].tolist()
                self.results[row] = hypothesis(ids, float(total), finished, self._alpha)
                self.done[row] = True
            self._totals[self.active] += gains_R
            self._tokens[self.active, self._num_tokens] = tokens_R
            self._num_tokens += 1
