"""Greedy search with drafts: several tokens a pass, and the output of ordinary greedy search.

Something cheap proposes the next tokens of each sentence. One pass of the model reads them all, and says after each
what the model itself would have chosen (Stern, Shazeer, Uszkoreit 2018). The longest part that agrees is kept, and with
it one token more: the model's own after the last that agrees.

The output is that of greedy search for the sentence alone. A pass over several tokens rounds otherwise than one over a
single token (docs/decisions/0010). So where the two best tokens are closer than rounding can explain, the step is
computed again: by ordinary steps, over this sentence alone, from its beginning.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from transduce.config.special_ids import EOS, PAD
from transduce.decoding.candidates import log_probabilities_, top
from transduce.decoding.proposals import PREFIX, Chances, Drafter, Output, PassCosts, Proposal, numbered
from transduce.decoding.scores import Hypothesis, hypothesis

_SHRINK_SHARE = 1 / 8  # dropping finished sentences copies the caches of the others


class SpanState(Protocol):
    """What a decoder keeps of the tokens that count."""

    def accept(self, counts: Sequence[int]) -> Self:
        """Lets so many tokens of the last step count, for each sentence."""

    def keep(self, sentences: Sequence[int]) -> Self:
        """Keeps the given sentences only."""

    def newest(self, sentences: Sequence[int]) -> Tensor | None:
        """Returns what the decoder's last layer gave for the last token that counts, (B, D); None before any step."""


S = TypeVar("S", bound=SpanState)
SpanStep = Callable[[Tensor, S], tuple[Tensor, S]]  # (tokens_BK, state) → (logits_BKV, state)


@dataclass(slots=True)
class DraftCounts:
    """What drafts were worth.

    Attributes:
        passes: of the model over the open sentences.
        sentence_passes: the same, counted for each open sentence.
        tokens: that came out, EOS included.
        proposed: tokens that were proposed.
        repeated: steps that were computed again, for a sentence alone.
    """

    passes: int = 0
    sentence_passes: int = 0
    tokens: int = 0
    proposed: int = 0
    repeated: int = 0

    @property
    def tokens_a_pass(self) -> float:
        """Tokens of a sentence that one pass gives; 1 without drafts."""
        return self.tokens / max(1, self.sentence_passes)


@dataclass(frozen=True)
class DraftTask:
    """The sentences to decode, and the model as the search sees it.

    Attributes:
        step: the model.
        state: before the first step.
        alone: for a sentence, a function from all that the decoder has read to the logits of the next token, (1, V),
            computed by ordinary steps over this sentence only.
        outputs: the sentences, in which nothing is decoded yet.
        never: tokens that no output holds.
        most: proposals for a sentence in one pass.
        tolerance: greatest difference of two log-probabilities that rounding explains.
        length_penalty: of the score.
        device: of the tokens.
    """

    step: SpanStep[Any]
    state: Any
    alone: Callable[[int], Callable[[Sequence[int]], Tensor]]
    outputs: Sequence[Output]
    never: Sequence[int]
    most: int
    tolerance: float
    length_penalty: float
    device: torch.device


class DraftSearch:
    """Finds what `GreedySearch` finds for each sentence alone, where no phrase is required."""

    def __init__(
        self, task: DraftTask, drafter: Drafter, costs: PassCosts, chances: Chances, counts: DraftCounts
    ) -> None:
        """Takes the task, what proposes tokens, and what was learned about its cost and its chances before."""
        self._task, self._drafter, self._costs, self._chances, self._counts = task, drafter, costs, chances, counts
        self._open = list(task.outputs)
        self._alone: dict[int, Callable[[Sequence[int]], Tensor]] = {}
        self._results: dict[int, Hypothesis] = {}

    def run(self) -> list[list[Hypothesis]]:
        """Returns each sentence's hypothesis."""
        state, unread = self._task.state, [list(output.read) for output in self._open]
        while self._open:
            proposals = self._proposals(state)
            given = [[*new, *(each.token for each in drafts)] for new, drafts in zip(unread, proposals, strict=True)]
            widest = max(map(len, given))
            tokens_BK = torch.tensor([[*row, *[PAD] * (widest - len(row))] for row in given], device=self._task.device)
            logits_BKV, state = self._task.step(tokens_BK, state)
            choices = _Choices(logits_BKV, self._task.never)
            self._counts.passes += 1
            counts = []
            for row, (output, drafts) in enumerate(zip(self._open, proposals, strict=True)):
                num_right = self._extend(output, drafts, choices, row * widest + len(unread[row]) - 1)
                counts.append(0 if output.sentence in self._results else len(unread[row]) + num_right)
                unread[row] = output.read[-1:]
            state = state.accept(counts)
            state, unread = self._drop_ended(state, unread)
        return [[self._results[output.sentence]] for output in self._task.outputs]

    def _proposals(self, state: SpanState) -> list[list[Proposal]]:
        """Returns the proposals for each open sentence: what is certain, or else as many as are worth their time."""
        proposals = [[] if output.sentence in self._results else output.rest_of_prefix() for output in self._open]
        rows = [
            row for row, output in enumerate(self._open) if not (proposals[row] or output.sentence in self._results)
        ]
        gains = [len(rows) * gain for gain in self._chances.gains(self._task.most)]
        most = self._costs.worthwhile(len(self._open), gains, self._drafter.seconds(len(rows)))
        if not most:
            return proposals
        found = self._drafter.propose([self._open[row] for row in rows], most, partial(state.newest, rows))
        gains = [float(len(rows)), *[0.0] * most]
        for drafts in found:
            chance = 1.0
            for number, each in enumerate(drafts, start=1):
                chance *= self._chances[each.kind]
                gains[number] += chance
        most = self._costs.worthwhile(len(self._open), gains)
        for row, drafts in zip(rows, found, strict=True):
            output = self._open[row]
            proposals[row] = drafts[: min(most, max(0, output.limit - len(output.ids)))]
        return proposals

    def _extend(self, output: Output, drafts: Sequence[Proposal], choices: "_Choices", first: int) -> int:
        """Extends an output by the proposals that are right, and one token more; returns how many were right.

        `first` is the row of `choices` after the last token that counts; those after the proposals follow it.
        """
        if output.sentence in self._results:
            return 0
        self._counts.sentence_passes += 1
        self._counts.proposed += len(drafts)
        certain = bool(drafts) and drafts[0].kind == PREFIX
        for number in range(len(drafts) + 1):
            token, gain, margin = choices.after(first + number, output)
            if not margin > self._task.tolerance:
                token, gain = self._repeated(output)
            self._counts.tokens += 1
            stuck = gain == -math.inf
            finished = token == EOS and not stuck
            if finished or stuck or len(output.ids) == output.limit:
                total = output.log_probability + (gain if finished else 0.0)
                self._results[output.sentence] = hypothesis(output.ids, total, finished, self._task.length_penalty)
                self._drafter.learn(output)
                return number
            output.read.append(token)
            output.log_probability += gain
            if number < len(drafts):
                right = drafts[number].token == token
                if not certain:
                    self._chances.note(drafts[number].kind, right)
                    self._chances.note(numbered(number), right)
                if not right:
                    output.guesses = choices.tokens(first + number + 1, first + len(drafts) + 1)
                    return number
        output.guesses = []
        return len(drafts)

    def _repeated(self, output: Output) -> tuple[int, float]:
        """Returns the next token and its log-probability, by ordinary steps over the sentence alone.

        Of equally good tokens, it takes the one that `GreedySearch` takes.
        """
        self._counts.repeated += 1
        if output.sentence not in self._alone:
            self._alone[output.sentence] = self._task.alone(output.sentence)
        gains_1V = log_probabilities_(self._alone[output.sentence](output.read), self._task.never)
        output.apply_bans_(gains_1V)
        gain, token = top(gains_1V, 1)
        return int(token), float(gain)

    def _drop_ended(self, state: Any, unread: list[list[int]]) -> tuple[Any, list[list[int]]]:
        """Drops the sentences that have ended, where that pays."""
        kept = [row for row, output in enumerate(self._open) if output.sentence not in self._results]
        num_ended = len(self._open) - len(kept)
        if not kept or num_ended == 0 or num_ended < len(self._open) * _SHRINK_SHARE:
            if not kept:
                self._open = []
            return state, unread
        self._open = [self._open[row] for row in kept]
        return state.keep(kept), [unread[row] for row in kept]


class _Choices:
    """What a pass says comes next, after each token of each sentence, (R,)."""

    def __init__(self, logits_BKV: Tensor, never: Sequence[int]) -> None:
        """Takes the logits, which are overwritten."""
        self._gains_RV = log_probabilities_(logits_BKV.flatten(0, 1), never)
        self._found = _two_best(self._gains_RV)

    def after(self, row: int, output: Output) -> tuple[int, float, float]:
        """Returns the best next token of an output, its log-probability, and how far the second best is."""
        if output.ban_ is None:
            return self._found[row]
        gains_1V = self._gains_RV[row : row + 1]
        output.apply_bans_(gains_1V)
        [found] = _two_best(gains_1V)
        return found

    def tokens(self, first: int, end: int) -> list[int]:
        """Returns the best tokens of some rows, were nothing banned."""
        return [token for token, _, _ in self._found[first:end]]


def _two_best(gains_RV: Tensor) -> list[tuple[int, float, float]]:
    gains_RC, tokens_RC = top(gains_RV, 2)
    found = zip(tokens_RC.tolist(), gains_RC.tolist(), strict=True)
    return [(token, best, best - second) for (token, _), (best, second) in found]
