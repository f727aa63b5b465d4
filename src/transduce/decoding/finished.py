"""What has finished in a beam search: kept on the host, which is handed the steps of the device (`decoding.search`).

Shapes: B groups of beams still in the batch (one a sentence, except in diverse beam search), K open beams each,
C candidates, T tokens so far.
"""

from collections.abc import Sequence

import numpy as np

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.constraints import TokenConstraints
from transduce.decoding.scores import Hypothesis, gnmt_penalty, hypothesis
from transduce.decoding.search import HostRecord
from transduce.decoding.transfer import BeamStep, beams_on_host


class FinishedBeams(HostRecord):
    """The finished hypotheses of a beam search, and the score that others have to beat."""

    stops_early = True  # tests compare with a search that continues to each limit, whose result is the same

    def __init__(
        self, limits: Sequence[int], options: DecodeConfig, n_best: int, constraints: Sequence[TokenConstraints]
    ) -> None:
        """See `BeamSearch`."""
        per_sentence, alpha = options.diversity_groups, options.length_penalty
        num_groups, group_size = len(limits) * per_sentence, options.beam_size // per_sentence
        super().__init__(limits, per_sentence, alpha)
        self.results: list[list[Hypothesis]] = [[] for _ in range(num_groups)]
        self._n_best, self._constraints = n_best, constraints
        # The best score that a hypothesis of log-probability g can reach is g over this; double, as scores are.
        self._final_penalties = np.array([gnmt_penalty(limit + 1, alpha) for limit in self._limits.tolist()])
        # A finished hypothesis must beat this to be kept: the worst kept score, once n_best are kept.
        self._thresholds = np.full(num_groups, -np.inf)
        self._open_scores = np.full((num_groups, group_size), -np.inf, np.float32)  # of the last step
        self._open_scores[:, 0] = 0  # each group begins with one beam
        shape = (max(limits, default=0) + 1, num_groups, group_size)
        self._parents, self._tokens = np.zeros(shape, np.int32), np.zeros(shape, np.int64)

    def update(self, steps: Sequence[BeamStep]) -> None:
        """Takes account of steps, in order; the groups in the batch are the same in all of them."""
        for step in beams_on_host(steps):
            self._update(step)

    def _update(self, step: BeamStep) -> None:
        groups, num_tokens = self.active, self._num_tokens
        tokens_BC, scores_BC = step.tokens_BC.numpy(), step.scores_BC.numpy()
        bonus_BK = np.zeros(step.open_scores_BK.shape) if step.bonus_BK is None else step.bonus_BK.numpy()
        ends_BC = tokens_BC == EOS
        if ends_BC.any():
            self._collect(scores_BC, step.beams_BC.numpy(), ends_BC, bonus_BK)
        last_B = self._limits[groups] <= num_tokens
        last_B |= (scores_BC == -np.inf).all(axis=1)  # bans leave no continuation
        for index in np.flatnonzero(last_B & ~self.done[groups]).tolist():
            self._close(groups[index], bonus_BK[index])
        self._parents[num_tokens, groups] = step.parents_BK.numpy()
        self._tokens[num_tokens, groups] = step.open_tokens_BK.numpy()
        self._open_scores[groups] = open_scores_BK = step.open_scores_BK.numpy()
        self._num_tokens += 1
        if self.stops_early:
            best_possible_B = open_scores_BK.max(axis=1).astype(np.float64) / self._final_penalties[groups]
            self.done[groups] |= self._thresholds[groups] >= best_possible_B

    def _collect(self, scores_BC: np.ndarray, beams_BC: np.ndarray, ends_BC: np.ndarray, bonus_BK: np.ndarray) -> None:
        """Adds finished candidates to the results where they are among the best."""
        normalised_BC = scores_BC.astype(np.float64) / gnmt_penalty(self._num_tokens + 1, self._alpha)
        normalised_BC += np.take_along_axis(bonus_BK, beams_BC, axis=1)
        beats_BC = (normalised_BC > self._thresholds[self.active][:, None]) & ~self.done[self.active][:, None]
        for index, candidate in np.argwhere(ends_BC & beats_BC).tolist():
            group, beam = int(self.active[index]), int(beams_BC[index, candidate])
            total, bonus = float(scores_BC[index, candidate]), float(bonus_BK[index, beam])
            kept = self.results[group]
            kept.append(hypothesis(self._ids(group, beam), total, True, self._alpha, bonus))
            kept.sort(key=lambda h: -h.score)  # stable: of equals, the one found first
            del kept[self._n_best :]
            if len(kept) == self._n_best:
                self._thresholds[group] = kept[-1].score

    def _close(self, group: int, bonus_K: np.ndarray) -> None:
        """Ends a group whose open beams may not grow; they are its result if nothing has finished."""
        self.done[group] = True
        if self.results[group]:
            return
        found = [
            hypothesis(self._ids(group, beam), score, False, self._alpha, float(bonus_K[beam]))
            for beam, score in enumerate(self._open_scores[group].tolist())
            if score > -np.inf
        ]
        # Those that lack the fewest required phrases come first.
        given = self._constraints[group // self._groups_per_sentence] if self._constraints else TokenConstraints()
        found.sort(key=lambda each: (len(given.unmet(each.ids)), -each.score))
        self.results[group].extend(found[: self._n_best])

    def _ids(self, group: int, beam: int) -> list[int]:
        """Returns the tokens of an open beam, followed back from its last."""
        ids = []
        for step in range(self._num_tokens - 1, -1, -1):
            ids.append(int(self._tokens[step, group, beam]))
            beam = int(self._parents[step, group, beam])
        return ids[::-1]
