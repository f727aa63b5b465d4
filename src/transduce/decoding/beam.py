"""Beam search (§6.1): 2 × beam candidates a step, GNMT's length penalty, an end that is provably safe.

Shapes: B sentences still in the batch, K open beams each, C candidates (2 × K), T tokens so far, V vocabulary.
In diverse beam search a sentence has G groups of beams, and each group is a line of its own: B below then counts
groups, and K the beams of a group.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.decoding.banned_tokens import BannedTokens
from transduce.decoding.candidates import best_candidates, log_probabilities_
from transduce.decoding.diverse import diverse_candidates, merged
from transduce.decoding.finished import BeamStep, FinishedBeams, SyncInterval
from transduce.decoding.required import RequiredPhrases, required_candidates
from transduce.decoding.scores import Hypothesis, SpecialIds
from transduce.decoding.step import S, Step


def beam_search(
    step: Step[S],
    state: S,
    limits: Sequence[int],
    *,
    beam_size: int,
    length_penalty: float,
    n_best: int = 1,
    specials: SpecialIds | None = None,
    banned: BannedTokens | None = None,
    required: RequiredPhrases | None = None,
    bonus: Callable[[S], Tensor] | None = None,
    num_groups: int = 1,
    diversity_penalty: float = 0.0,
    device: torch.device | str = "cpu",
    stop_early: bool = True,
    look_every: int | None = None,
) -> list[list[Hypothesis]]:
    """Returns the `n_best` finished hypotheses of each sentence, best first, or fewer where fewer exist.

    Each step takes the best 2K continuations of a sentence's K open beams. Those that end in EOS are finished
    hypotheses, the best K of the others are the next open beams: at most K of 2K can end, so K always go on,
    and nothing that is finished makes room for anything but a better finished one. Where nothing has finished
    within the limit, the open beams are returned, marked as unfinished.

    A sentence is done before its limit when its worst kept hypothesis scores at least as well as anything
    that can still come. That is safe: let g be the greatest log-probability among its open beams. Every
    hypothesis yet to finish extends an open beam, and a token's log-probability is at most 0, so its own is
    at most g ≤ 0. Its length is at most limit + 1 (with EOS), and for α ≥ 0 the penalty ((5 + length) / 6)^α
    grows with length. So its score is at most g / ((5 + limit + 1) / 6)^α, whatever follows. Only the best
    `n_best` are kept, so that is what "worst" means; asking for more never changes the best.

    BannedTokens only take continuations away, and a bonus is at most 0: neither lifts a score over that bound. A
    group's bound is that of its own open beams, but as they steer the groups after it, it goes on until all groups of
    its sentence are done, while nothing that it finishes is kept any more. Where bans leave a sentence no
    continuation before its limit and nothing has finished, what was open before is its result.

    What lacks a required phrase does not end, which is one more continuation taken away: it is looked at as any
    open beam, and what it may yet reach is bounded as theirs. Where nothing has met all within the limit, the open
    beams are returned, those first that have met most.

    A beam of 1 takes one candidate a step, and so is greedy search: it ends where EOS is the best
    continuation.

    Args:
        step: see `transduce.decoding.step`.
        state: one row a sentence, nothing decoded yet.
        limits: for each sentence, the greatest number of tokens of its output; EOS is not counted.
        beam_size: K, over all groups.
        length_penalty: α, 0 or greater.
        n_best: at most `beam_size`.
        specials: ids of the special tokens.
        banned: what outputs must begin with and may not hold.
        required: phrases that outputs must hold; they need a beam of 2 or more, and one group.
        bonus: what is added to the score of a hypothesis, given the state after its last step; for each row, at most 0.
        num_groups: a divisor of `beam_size`; above 1 for diverse beam search, see `diverse_candidates`. `n_best`
            hypotheses of each group are kept, and `merged`.
        diversity_penalty: λ of diverse beam search.
        device: where `step` works.
        stop_early: False goes on to each limit; the result is the same (this is what tests compare with).
        look_every: steps from one look at what has finished to the next, which a GPU has to be waited for; the result
            is the same. None: 1 on a CPU, 8 elsewhere.
    """
    _refuse_wrong(beam_size, length_penalty, n_best, num_groups, required)
    specials = specials or SpecialIds()
    finished = FinishedBeams(
        [limit for limit in limits for _ in range(num_groups)],
        beam_size=beam_size // num_groups,
        length_penalty=length_penalty,
        n_best=n_best,
        eos=specials.eos,
        num_groups=num_groups,
        required=required,
        restricted=banned is not None or required is not None,
        stop_early=stop_early,
    )
    look = SyncInterval(look_every, device, max(limits, default=0))
    options = _Options(beam_size // num_groups, num_groups, diversity_penalty, specials, waits=look.num_steps == 1)
    beams = _OpenBeams(len(limits), max(limits, default=0), options, banned, required, device)
    taken: list[BeamStep] = []
    for step_number in itertools.count() if limits else ():
        logits_RV, state = step(beams.last_tokens_R, state)
        taken.append(beams.advance(logits_RV, None if bonus is None else bonus(state)))
        if look.now(step_number):
            finished.tell(taken)
            taken.clear()
            if finished.all_done:
                break
            kept = finished.drop_done()
            if kept is not None:
                state = state.keep(beams.keep(*kept))
        state = state.reorder(beams.parent_rows_R) if step_number else state.expand(beam_size)
    if num_groups == 1:
        return finished.results
    groups = [finished.results[first : first + num_groups] for first in range(0, len(finished.results), num_groups)]
    return [merged(each, n_best) for each in groups]


def _refuse_wrong(
    beam_size: int, length_penalty: float, n_best: int, num_groups: int, required: RequiredPhrases | None
) -> None:
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best = {n_best}: must be between 1 and the beam size, {beam_size}.")
    if length_penalty < 0:
        raise ValueError(f"length_penalty = {length_penalty}: must be 0 or greater.")
    if beam_size % num_groups:
        raise ValueError(f"num_groups = {num_groups}: must divide the beam size, {beam_size}.")
    if required is not None and (beam_size == 1 or num_groups > 1):
        raise ValueError("requirements need a beam of 2 or more, and one group.")


@dataclass(frozen=True)
class _Options:
    """How open beams are continued."""

    beam_size: int  # of a group
    num_groups: int
    diversity_penalty: float
    specials: SpecialIds
    waits: bool  # whether the host may ask the device how things stand at each step


class _OpenBeams:
    """The beams that are gone on with; tensors have one line for each sentence (group) in the batch."""

    def __init__(
        self,
        num_sentences: int,
        max_tokens: int,
        options: _Options,
        banned: BannedTokens | None,
        required: RequiredPhrases | None,
        device: torch.device | str,
    ) -> None:
        self._options, self._restrictions, self._requirements = options, banned, required
        num_lines = num_sentences * options.num_groups
        self._num_tokens = 0  # of every open beam
        self._scores_BK = torch.zeros(num_lines, 1, device=device)  # log-probabilities, in any order
        self._output_BKT: Tensor | None = None  # what conditions are functions of
        if banned is not None or required is not None:
            self._output_BKT = torch.zeros(num_lines, 1, max_tokens + 1, device=device, dtype=torch.long)
        self._parents_BK = torch.zeros(num_lines, 1, device=device, dtype=torch.long)
        self.last_tokens_R = torch.full((num_sentences,), options.specials.bos, device=device)

    def advance(self, logits_RV: Tensor, bonus_R: Tensor | None = None) -> BeamStep:
        """Takes one step's logits and opens the next beams; returns what was looked at."""
        num_groups, beam_size = self._options.num_groups, self._options.beam_size
        if num_groups > 1 and self._num_tokens == 0:  # the one row of a sentence is where each of its groups starts
            logits_RV = logits_RV.repeat_interleave(num_groups, dim=0)
            bonus_R = None if bonus_R is None else bonus_R.repeat_interleave(num_groups)
        bonus_BK = None if bonus_R is None else bonus_R.view_as(self._scores_BK)
        candidates = self._candidates(logits_RV)
        scores_BK, parents_BK, tokens_BK = (x[:, :beam_size] for x in self._going_on(*candidates))
        if self._output_BKT is not None:
            index_BKT = parents_BK[:, :, None].expand(-1, -1, self._output_BKT.size(2))
            self._output_BKT = self._output_BKT.gather(1, index_BKT)
            self._output_BKT[:, :, self._num_tokens] = tokens_BK
        self._scores_BK, self._parents_BK = scores_BK, parents_BK
        self.last_tokens_R = tokens_BK.flatten()
        self._num_tokens += 1
        return BeamStep(*candidates, scores_BK, parents_BK, tokens_BK, bonus_BK)

    def _candidates(self, logits_RV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the continuations that are looked at, as (scores, beams, tokens), each (B, C)."""
        options, past_BKT = self._options, self._past_BKT
        # A single beam must stop where EOS is best, and so sees one candidate.
        num_candidates = 2 * options.beam_size if options.beam_size > 1 else 1
        never, restrict = options.specials.never_generated, None
        if self._restrictions is not None and past_BKT is not None:
            restrict = self._restrictions.after(past_BKT.flatten(0, 1))
        if self._requirements is not None and past_BKT is not None:
            return required_candidates(
                log_probabilities_(logits_RV, never, restrict),
                self._scores_BK,
                past_BKT,
                self._requirements,
                beam_size=options.beam_size,
                eos=options.specials.eos,
            )
        if options.num_groups == 1:
            return best_candidates(logits_RV, self._scores_BK, num_candidates, never, restrict)
        return diverse_candidates(
            log_probabilities_(logits_RV, never, restrict),
            self._scores_BK,
            num_candidates,
            num_groups=options.num_groups,
            penalty=options.diversity_penalty,
            eos=options.specials.eos,
        )

    @property
    def _past_BKT(self) -> Tensor | None:
        return None if self._output_BKT is None else self._output_BKT[:, :, : self._num_tokens]

    def _going_on(self, scores_BC: Tensor, beams_BC: Tensor, tokens_BC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the candidates with those that do not end in front, in their order: at least K of 2K do not."""
        ends_BC = tokens_BC == self._options.specials.eos
        if self._options.waits and not bool(ends_BC.any()):
            return scores_BC, beams_BC, tokens_BC
        # Stable sorting by "ends" moves the others behind them.
        order_BC = ends_BC.byte().sort(dim=1, stable=True).indices
        scores_BC = scores_BC.masked_fill(ends_BC, -torch.inf).gather(1, order_BC)
        return scores_BC, beams_BC.gather(1, order_BC), tokens_BC.gather(1, order_BC)

    def keep(self, sentences: Sequence[int], lines: Sequence[int]) -> Tensor:
        """Goes on with these sentences, that is, with these lines; returns the former on the device."""
        device = self._scores_BK.device
        kept_B, kept_lines_B = (torch.tensor(list(x), device=device) for x in (sentences, lines))
        if self._restrictions is not None:
            self._restrictions = self._restrictions.keep(kept_B)
        if self._requirements is not None:
            self._requirements = self._requirements.keep(kept_B)
        self.last_tokens_R = self.last_tokens_R.view(len(self._scores_BK), -1)[kept_lines_B].flatten()
        self._scores_BK, self._parents_BK = self._scores_BK[kept_lines_B], self._parents_BK[kept_lines_B]
        if self._output_BKT is not None:
            self._output_BKT = self._output_BKT[kept_lines_B]
        return kept_B

    @property
    def parent_rows_R(self) -> Tensor:
        """The row of the last step that each open beam continues."""
        num_lines, num_beams = self._parents_BK.shape
        starts_B = torch.arange(num_lines, device=self._parents_BK.device) * num_beams
        return (starts_B[:, None] + self._parents_BK).flatten()
