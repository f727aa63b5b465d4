"""Beam search (§6.1): 2 × beam candidates a step, GNMT's length penalty, a provably safe end.

Shapes: B sentences still in the batch, K open beams each, C candidates (2 × K), T tokens so far, V vocabulary.
In diverse beam search a sentence has G groups of beams: B below then counts groups, and K the beams of a group.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.candidates import best_candidates
from transduce.decoding.diverse import diverse_candidates, merged
from transduce.decoding.finished import FinishedBeams
from transduce.decoding.required import required_candidates, required_phrases
from transduce.decoding.scores import Hypothesis
from transduce.decoding.search import Search, SearchTask
from transduce.decoding.step import S
from transduce.decoding.transfer import BeamStep


class BeamSearch(Search[S]):
    """Finds the `n_best` finished hypotheses of each sentence, best first, or fewer where fewer exist.

    Each step takes the best 2K continuations of a sentence's K open beams. Those that end in EOS are finished
    hypotheses; the best K of the others are the next open beams. At most K of 2K can end, so there are always K others,
    and a finished hypothesis is only ever replaced by a better finished one. Where nothing has finished within the
    limit, the open beams are returned, marked as unfinished.

    A sentence is done before its limit when its worst kept hypothesis scores at least as well as anything that can
    still come. That is safe: let g be the greatest log-probability among its open beams. Every hypothesis yet to finish
    extends an open beam, and a token's log-probability is at most 0, so its own is at most g ≤ 0. Its length is at most
    limit + 1 (with EOS), and for α ≥ 0 the penalty ((5 + length) / 6)^α grows with length. So its score is at most
    g / ((5 + limit + 1) / 6)^α for any continuation. Only the best `n_best` are kept, so that is what "worst" means;
    asking for more never changes the best.

    Bans only remove continuations, and a bonus is at most 0: neither lifts a score over that bound. A group's bound is
    that of its own open beams. As they steer the groups after it, a group continues until all groups of its sentence
    are done, but nothing that it finishes is kept any more. Where bans leave a sentence no continuation before its
    limit and nothing has finished, the beams that were open before are its result.

    A beam that lacks a required phrase does not end: that removes one more continuation, and the bound holds. Where no
    beam has all phrases within the limit, the open beams are returned, those first that have most.

    A beam of 1 takes one candidate a step, and so is greedy search: it ends where EOS is the best continuation.
    """

    finished: FinishedBeams

    def __init__(
        self,
        task: SearchTask[S],
        options: DecodeConfig,
        n_best: int = 1,
        bonus: Callable[[S], Tensor] | None = None,
    ) -> None:
        """Prepares the search.

        Args:
            task: the sentences and the model; see `require_plain_beam` for what required phrases need.
            options: widths and penalties; `temperature` and what belongs to it are not used.
            n_best: hypotheses of each sentence, at most as many as the beam is wide.
            bonus: what is added to a hypothesis's score, given the state after its last step; for each row, at most 0.
        """
        num_groups = len(task.limits) * options.diversity_groups
        super().__init__(task, options, num_groups)
        self._n_best, self._bonus = n_best, bonus
        self._required = required_phrases(task.constraints, task.device)
        self._group_size = options.beam_size // options.diversity_groups
        self.finished = FinishedBeams(task.limits, options, n_best, task.constraints)
        self._scores_BK = torch.zeros(num_groups, 1, device=task.device)  # log-probabilities, in any order
        self._parents_BK = torch.zeros(num_groups, 1, device=task.device, dtype=torch.long)

    def choose(self, logits_RV: Tensor, state: S) -> BeamStep:
        """Opens the next beams; returns the candidates and the beams that were kept."""
        num_groups = self._options.diversity_groups
        bonus_R = None if self._bonus is None else self._bonus(state)
        if bonus_R is not None and self._num_tokens == 0:  # all groups start from the one row of their sentence
            bonus_R = bonus_R.repeat_interleave(num_groups)
        bonus_BK = None if bonus_R is None else bonus_R.view_as(self._scores_BK)
        candidates = self._candidates(logits_RV)
        scores_BK, parents_BK, tokens_BK = (x[:, : self._group_size] for x in self._open_first(*candidates))
        self._last_tokens_R = tokens_BK.flatten()
        if self._output_RT is not None:
            self._output_RT = self._output_RT[self._rows_continued(parents_BK, self._scores_BK.size(1))]
            self._output_RT[:, self._num_tokens] = self._last_tokens_R
        self._scores_BK, self._parents_BK = scores_BK, parents_BK
        return BeamStep(*candidates, scores_BK, parents_BK, tokens_BK, bonus_BK)

    def _candidates(self, logits_RV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the best continuations, as (scores, beams, tokens), each (B, C). Overwrites the logits."""
        options = self._options
        gains_RV = self._gains(logits_RV, options.diversity_groups)
        if self._required is not None and self._output_RT is not None:
            past_BKT = self._output_RT[:, : self._num_tokens].unflatten(0, self._scores_BK.shape)
            return required_candidates(gains_RV, self._scores_BK, past_BKT, self._required, options.beam_size)
        # A single beam must stop where EOS is best, and so has one candidate.
        num_candidates = 2 * self._group_size if self._group_size > 1 else 1
        if options.diversity_groups == 1:
            return best_candidates(gains_RV, self._scores_BK, num_candidates)
        groups, penalty = options.diversity_groups, options.diversity_penalty
        return diverse_candidates(gains_RV, self._scores_BK, num_candidates, groups, penalty)

    def _open_first(self, scores_BC: Tensor, beams_BC: Tensor, tokens_BC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the candidates with those that do not end in front, in their order: at least K of 2K do not."""
        ends_BC = tokens_BC == EOS
        if self._sync_steps == 1 and not bool(ends_BC.any()):
            return scores_BC, beams_BC, tokens_BC
        # Stable sorting by "ends" moves the others after them.
        order_BC = ends_BC.byte().sort(dim=1, stable=True).indices
        scores_BC = scores_BC.masked_fill(ends_BC, -torch.inf).gather(1, order_BC)
        return scores_BC, beams_BC.gather(1, order_BC), tokens_BC.gather(1, order_BC)

    def continue_state(self, state: S) -> S:
        """Returns the state of the open beams."""
        if self._num_tokens == 1:
            return state.expand(self._options.beam_size)
        return state.reorder(self._rows_continued(self._parents_BK, self._parents_BK.size(1)))

    def _rows_continued(self, parents_BK: Tensor, num_beams: int) -> Tensor:
        """Returns the rows that are continued, of `num_beams` of each group."""
        starts_B = torch.arange(parents_BK.size(0), device=self._device) * num_beams
        return (starts_B[:, None] + parents_BK).flatten()

    def keep(self, kept_B: Tensor) -> None:
        """Drops all sentences but these."""
        if self._required is not None:
            self._required = self._required.keep(kept_B)
        self._scores_BK, self._parents_BK = (self._rows_of(x, kept_B) for x in (self._scores_BK, self._parents_BK))
        super().keep(kept_B)

    def results(self) -> list[list[Hypothesis]]:
        """Returns the best hypotheses of each sentence, of all its groups."""
        found, num_groups = self.finished.results, self._options.diversity_groups
        if num_groups == 1:
            return found
        groups = [found[first : first + num_groups] for first in range(0, len(found), num_groups)]
        return [merged(each, self._n_best) for each in groups]
