"""Beam search (§6.1): 2 × beam candidates a step, GNMT's length penalty, an end that is provably safe.

Shapes: B sentences still in the batch, K open beams each, C candidates (2 × K), T tokens so far, V vocabulary.
In diverse beam search a sentence has G groups of beams, and each group is a line of its own: B below then counts
groups, and K the beams of a group.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transduce.decoding.candidates import best_candidates, log_probabilities_
from transduce.decoding.diverse import diverse_candidates, merged
from transduce.decoding.required import Requirements, required_candidates
from transduce.decoding.restrictions import Restrictions
from transduce.decoding.scores import Hypothesis, SpecialIds, gnmt_penalty, hypothesis
from transduce.decoding.step import S, Step, worth_shrinking


def beam_search(
    step: Step[S],
    state: S,
    limits: Sequence[int],
    *,
    beam_size: int,
    length_penalty: float,
    n_best: int = 1,
    specials: SpecialIds | None = None,
    restrictions: Restrictions | None = None,
    requirements: Requirements | None = None,
    bonus: Callable[[S], Tensor] | None = None,
    num_groups: int = 1,
    diversity_penalty: float = 0.0,
    device: torch.device | str = "cpu",
    stop_early: bool = True,
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

    Restrictions only take continuations away, and a bonus is at most 0: neither lifts a score over that bound. A
    group's bound is that of its own open beams, but as they steer the groups after it, it goes on until all groups of
    its sentence are done, while nothing that it finishes is kept any more. Where restrictions leave a sentence no
    continuation before its limit and nothing has finished, what was open before is its result.

    What has not met its requirements does not end, which is one more continuation taken away: it is looked at as any
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
        restrictions: what outputs must begin with and may not hold.
        requirements: phrases that outputs must hold; they need a beam of 2 or more, and one group.
        bonus: what is added to the score of a hypothesis, given the state after its last step; for each row, at most 0.
        num_groups: a divisor of `beam_size`; above 1 for diverse beam search, see `diverse_candidates`. `n_best`
            hypotheses of each group are kept, and `merged`.
        diversity_penalty: λ of diverse beam search.
        device: where `step` works.
        stop_early: False goes on to each limit; the result is the same (this is what tests compare with).
    """
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best = {n_best}: must be between 1 and the beam size, {beam_size}.")
    if length_penalty < 0:
        raise ValueError(f"length_penalty = {length_penalty}: must be 0 or greater.")
    if beam_size % num_groups:
        raise ValueError(f"num_groups = {num_groups}: must divide the beam size, {beam_size}.")
    if requirements is not None and (beam_size == 1 or num_groups > 1):
        raise ValueError("requirements need a beam of 2 or more, and one group.")
    search = _Search(
        limits, beam_size // num_groups, length_penalty, n_best, specials or SpecialIds(), num_groups, device
    )
    search.diversity_penalty, search.restrictions, search.stop_early = diversity_penalty, restrictions, stop_early
    search.requirements = requirements
    first = True
    while search.sentences:
        logits_RV, state = step(search.last_tokens_R, state)
        search.advance(logits_RV, None if bonus is None else bonus(state))
        if not search.sentences:
            break
        kept_B = search.drop_finished()
        if kept_B is not None:
            state = state.keep(kept_B)
        if first:
            state = state.expand(beam_size)
            first = False
        elif search.beams_moved:
            state = state.reorder(search.parent_rows_R)
    if num_groups == 1:
        return search.results
    groups = [search.results[first : first + num_groups] for first in range(0, len(search.results), num_groups)]
    return [merged(each, n_best) for each in groups]


class _Search:
    """The open beams and the finished hypotheses; tensors have one line for each sentence (group) in the batch."""

    def __init__(
        self,
        limits: Sequence[int],
        beam_size: int,
        length_penalty: float,
        n_best: int,
        specials: SpecialIds,
        num_groups: int,
        device: torch.device | str,
    ) -> None:
        self.beam_size, self.alpha, self.n_best, self.specials = beam_size, length_penalty, n_best, specials
        self.num_groups, self.diversity_penalty = num_groups, 0.0
        self.restrictions: Restrictions | None = None
        self.requirements: Requirements | None = None
        self.stop_early = True
        self.num_tokens = 0  # of every open beam
        limits = [limit for limit in limits for _ in range(num_groups)]
        num_lines = len(limits)
        self.results: list[list[Hypothesis]] = [[] for _ in limits]
        self.sentences = list(range(num_lines))  # line in the batch → place in `results`
        self.limits_B = torch.tensor(limits, device=device)
        # Best score that a hypothesis of log-probability g can reach is g over this; double, as scores are.
        final_penalties = [gnmt_penalty(limit + 1, length_penalty) for limit in limits]
        self.final_penalty_B = torch.tensor(final_penalties, device=device, dtype=torch.double)
        # A finished hypothesis must beat this to be kept: the worst kept score once n_best are kept; +inf: done.
        self.threshold_B = torch.full((num_lines,), -torch.inf, device=device, dtype=torch.double)
        self.scores_BK = torch.zeros(num_lines, 1, device=device)  # log-probabilities, in any order
        self.output_BKT = torch.zeros(num_lines, 1, max(limits, default=0) + 1, device=device, dtype=torch.long)
        self.parents_BK = torch.zeros(num_lines, 1, device=device, dtype=torch.long)
        self.last_tokens_R = torch.full((num_lines // num_groups,), specials.bos, device=device)
        self.unmoved_K = torch.arange(beam_size, device=device)

    def advance(self, logits_RV: Tensor, bonus_R: Tensor | None = None) -> None:
        """Takes one step's logits: collects what finishes, opens the next beams, closes done sentences."""
        if self.num_groups > 1 and self.num_tokens == 0:  # the one row of a sentence is where each of its groups starts
            logits_RV = logits_RV.repeat_interleave(self.num_groups, dim=0)
            bonus_R = None if bonus_R is None else bonus_R.repeat_interleave(self.num_groups)
        bonus_BK = None if bonus_R is None else bonus_R.double().view_as(self.scores_BK)
        scores_BC, beams_BC, tokens_BC = self._candidates(logits_RV)
        ends_BC = tokens_BC == self.specials.eos
        any_ends = bool(ends_BC.any())
        if any_ends:
            self._collect(scores_BC, beams_BC, ends_BC, bonus_BK)
        last_B = self.limits_B == self.num_tokens
        if self.restrictions is not None or self.requirements is not None:
            last_B = last_B | (scores_BC == -torch.inf).all(dim=1)
        for line in (last_B & (self.threshold_B < torch.inf)).nonzero().flatten().tolist():
            self._close_at_limit(line, bonus_BK)
        if any_ends:
            # The first K that do not end, in order: stable sorting by "ends" moves the others behind them.
            order_BC = ends_BC.byte().sort(dim=1, stable=True).indices
            scores_BC = scores_BC.masked_fill(ends_BC, -torch.inf).gather(1, order_BC)
            beams_BC, tokens_BC = beams_BC.gather(1, order_BC), tokens_BC.gather(1, order_BC)
        self._open(*(x[:, : self.beam_size] for x in (scores_BC, beams_BC, tokens_BC)))
        best_possible_B = self.scores_BK.amax(dim=1).double() / self.final_penalty_B
        if self.stop_early:
            done_B = self.threshold_B >= best_possible_B
            self.threshold_B = self.threshold_B.masked_fill(done_B, torch.inf)
        if bool((self.threshold_B == torch.inf).all()):
            self.sentences = []

    def _candidates(self, logits_RV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the continuations that are looked at, as (scores, beams, tokens), each (B, C)."""
        # A single beam must stop where EOS is best, and so sees one candidate.
        num_candidates = 2 * self.beam_size if self.beam_size > 1 else 1
        never, restrict = self.specials.never_generated, None
        if self.restrictions is not None:
            restrict = self.restrictions.after(self.output_BKT[:, :, : self.num_tokens].flatten(0, 1))
        if self.requirements is not None:
            return required_candidates(
                log_probabilities_(logits_RV, never, restrict),
                self.scores_BK,
                self.output_BKT[:, :, : self.num_tokens],
                self.requirements,
                beam_size=self.beam_size,
                eos=self.specials.eos,
            )
        if self.num_groups == 1:
            return best_candidates(logits_RV, self.scores_BK, num_candidates, never, restrict)
        return diverse_candidates(
            log_probabilities_(logits_RV, never, restrict),
            self.scores_BK,
            num_candidates,
            num_groups=self.num_groups,
            penalty=self.diversity_penalty,
            eos=self.specials.eos,
        )

    def _collect(self, scores_BC: Tensor, beams_BC: Tensor, ends_BC: Tensor, bonus_BK: Tensor | None) -> None:
        """Adds finished candidates to the results where they are among the best."""
        normalised_BC = scores_BC.double() / gnmt_penalty(self.num_tokens + 1, self.alpha)
        if bonus_BK is not None:
            normalised_BC = normalised_BC + bonus_BK.gather(1, beams_BC)
        accepted_BC = ends_BC & (normalised_BC > self.threshold_B[:, None])
        for line, candidate in accepted_BC.nonzero().tolist():
            kept = self.results[self.sentences[line]]
            beam = beams_BC[line, candidate]
            ids = self.output_BKT[line, beam, : self.num_tokens].tolist()
            bonus = 0.0 if bonus_BK is None else float(bonus_BK[line, beam])
            kept.append(hypothesis(ids, float(scores_BC[line, candidate]), True, self.alpha, bonus))
            kept.sort(key=lambda h: -h.score)  # stable: of equals, the one found first
            del kept[self.n_best :]
            if len(kept) == self.n_best:
                self.threshold_B[line] = kept[-1].score

    def _close_at_limit(self, line: int, bonus_BK: Tensor | None) -> None:
        """Ends a sentence whose open beams may not grow; they are its result if nothing has finished."""
        kept = self.results[self.sentences[line]]
        if not kept:
            open_scores = self.scores_BK[line].tolist()
            bonuses = [0.0] * len(open_scores) if bonus_BK is None else bonus_BK[line].tolist()
            ids = self.output_BKT[line, :, : self.num_tokens].tolist()
            found = [
                (missing, hypothesis(ids_of_beam, score, False, self.alpha, bonus))
                for missing, ids_of_beam, score, bonus in zip(
                    self._num_missing(line), ids, open_scores, bonuses, strict=True
                )
                if score > -torch.inf
            ]
            found.sort(key=lambda each: (each[0], -each[1].score))
            kept.extend(each for _, each in found[: self.n_best])
        self.threshold_B[line] = torch.inf

    def _num_missing(self, line: int) -> list[int]:
        """Returns how many entries of its requirements each open beam of a sentence has not met."""
        past_BKT = self.output_BKT[line : line + 1, :, : self.num_tokens]
        if self.requirements is None:
            return [0] * past_BKT.size(1)
        asked = self.requirements.keep(torch.tensor([line], device=past_BKT.device))
        missing: list[int] = asked.unmet(asked.progress(past_BKT)).sum(dim=2)[0].tolist()
        return missing

    def _open(self, scores_BK: Tensor, beams_BK: Tensor, tokens_BK: Tensor) -> None:
        """Makes the given continuations the open beams."""
        index_BKT = beams_BK[:, :, None].expand(-1, -1, self.output_BKT.size(2))
        self.output_BKT = self.output_BKT.gather(1, index_BKT)
        self.output_BKT[:, :, self.num_tokens] = tokens_BK
        self.scores_BK, self.parents_BK = scores_BK, beams_BK
        self.last_tokens_R = tokens_BK.flatten()
        self.num_tokens += 1

    def drop_finished(self) -> Tensor | None:
        """Drops done sentences where that pays; returns the sentences that stay, or None where all do."""
        open_B = self.threshold_B < torch.inf
        if self.num_groups > 1:
            open_B = open_B.view(-1, self.num_groups).any(dim=1)
        if not worth_shrinking(open_B.numel() - int(open_B.sum()), open_B.numel()):
            return None
        kept_sentences = open_B.nonzero().flatten()
        kept_B = open_B.repeat_interleave(self.num_groups).nonzero().flatten()  # all groups of a sentence, or none
        if self.restrictions is not None:
            self.restrictions = self.restrictions.keep(kept_sentences)
        if self.requirements is not None:
            self.requirements = self.requirements.keep(kept_sentences)
        self.sentences = [self.sentences[line] for line in kept_B.tolist()]
        self.limits_B, self.final_penalty_B = self.limits_B[kept_B], self.final_penalty_B[kept_B]
        self.threshold_B, self.scores_BK = self.threshold_B[kept_B], self.scores_BK[kept_B]
        self.output_BKT, self.parents_BK = self.output_BKT[kept_B], self.parents_BK[kept_B]
        self.last_tokens_R = self.last_tokens_R.view(-1, self.beam_size)[kept_B].flatten()
        return kept_sentences

    @property
    def beams_moved(self) -> bool:
        """Whether any open beam continues another one than that in its place."""
        return not bool((self.parents_BK == self.unmoved_K).all())

    @property
    def parent_rows_R(self) -> Tensor:
        """The row of the last step that each open beam continues."""
        starts_B = torch.arange(len(self.sentences), device=self.parents_BK.device) * self.beam_size
        return (starts_B[:, None] + self.parents_BK).flatten()
