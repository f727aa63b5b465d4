"""What a search has finished, kept on the host: the device only ever goes on.

A search is in two parts. The device turns logits into the tokens that are gone on with, and never asks how it stands.
The host is told what was looked at, some steps at a time, and knows what has finished, what cannot get better, and
when all is done. So a GPU is waited for once in so many steps, and what it does beyond a sentence's end is left aside:
the result is the same, however many steps are told at once.

Shapes: B sentences (lines) in the batch, K open beams each, C candidates, T tokens so far. Lines are numbered as the
batch began; `lines` says which of them are still in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from transduce.decoding.required import RequiredPhrases
from transduce.decoding.scores import Hypothesis, gnmt_penalty, hypothesis
from transduce.decoding.step import worth_shrinking


@dataclass(frozen=True)
class BeamStep:
    """One step of a beam search: what was looked at, and what is gone on with."""

    scores_BC: Tensor  # log-probabilities of the candidates, best first
    beams_BC: Tensor
    tokens_BC: Tensor
    open_scores_BK: Tensor
    parents_BK: Tensor  # the beam that each open beam continues
    open_tokens_BK: Tensor
    bonus_BK: Tensor | None  # of the beams that were continued

    @classmethod
    def on_host(cls, steps: Sequence["BeamStep"]) -> list["BeamStep"]:
        """Returns the same on the host; of a GPU all are fetched in one piece, so that it is waited for once."""
        if steps[0].scores_BC.device.type == "cpu":
            return list(steps)
        return cls.unpacked(cls.packed(steps).cpu(), steps[0])

    @classmethod
    def packed(cls, steps: Sequence["BeamStep"]) -> Tensor:
        """Returns all of the steps as one matrix each, double: it holds float32 and any id exactly."""
        return torch.stack([torch.cat([part.double() for part in step._parts().values()], dim=1) for step in steps])

    @classmethod
    def unpacked(cls, packed: Tensor, like: "BeamStep") -> list["BeamStep"]:
        """Undoes `packed`; `like` is one of the steps."""
        parts = like._parts()
        found = []
        for matrix in packed:
            columns = matrix.split([part.size(1) for part in parts.values()], dim=1)
            values = {name: column.to(part.dtype) for (name, part), column in zip(parts.items(), columns, strict=True)}
            found.append(cls(**{"bonus_BK": None, **values}))
        return found

    def _parts(self) -> dict[str, Tensor]:
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: part for name, part in named.items() if part is not None}


class FinishedBeams:
    """The finished hypotheses of a beam search, and what they have to beat."""

    def __init__(
        self,
        limits: Sequence[int],
        *,
        beam_size: int,
        length_penalty: float,
        n_best: int,
        eos: int,
        num_groups: int = 1,
        required: RequiredPhrases | None = None,
        restricted: bool = False,
        stop_early: bool = True,
    ) -> None:
        """See `beam_search`; with groups, each line is one of a sentence's `num_groups`, and K are the beams of one.

        `restricted` says that a line may be left without any continuation.
        """
        self.results: list[list[Hypothesis]] = [[] for _ in limits]
        self.lines = np.arange(len(limits))
        self._alpha, self._n_best, self._eos, self._num_groups = length_penalty, n_best, eos, num_groups
        self._requirements, self._restricted, self._stop_early = required, restricted, stop_early
        self._limits = np.array(limits)
        # Best score that a hypothesis of log-probability g can reach is g over this; double, as scores are.
        self._final_penalties = np.array([gnmt_penalty(limit + 1, length_penalty) for limit in limits])
        # A finished hypothesis must beat this to be kept: the worst kept score once n_best are kept; +inf: done.
        self._thresholds = np.full(len(limits), -np.inf)
        self._open_scores = np.zeros((len(limits), 1), np.float32)
        shape = (max(limits, default=0) + 1, len(limits), beam_size)
        self._parents, self._tokens = np.zeros(shape, np.int32), np.zeros(shape, np.int64)
        self._num_tokens = 0  # of every open beam

    @property
    def all_done(self) -> bool:
        """Whether no line can find anything better."""
        return bool((self._thresholds[self.lines] == np.inf).all())

    def tell(self, steps: Sequence[BeamStep]) -> None:
        """Takes account of steps, in their order; the lines in the batch have been the same in all of them."""
        for step in BeamStep.on_host(steps):
            self._tell(step)

    def _tell(self, step: BeamStep) -> None:
        lines, num_tokens = self.lines, self._num_tokens
        tokens_BC, scores_BC = step.tokens_BC.numpy(), step.scores_BC.numpy()
        bonus_BK = None if step.bonus_BK is None else step.bonus_BK.numpy().astype(np.float64)
        ends_BC = tokens_BC == self._eos
        if ends_BC.any():
            self._collect(scores_BC, step.beams_BC.numpy(), ends_BC, bonus_BK)
        last_B = self._limits[lines] <= num_tokens
        if self._restricted:
            last_B = last_B | (scores_BC == -np.inf).all(axis=1)
        for place in np.flatnonzero(last_B & (self._thresholds[lines] < np.inf)):
            self._close(int(place), None if bonus_BK is None else bonus_BK[place])
        self._parents[num_tokens, lines] = step.parents_BK.numpy()
        self._tokens[num_tokens, lines] = step.open_tokens_BK.numpy()
        self._open_scores = step.open_scores_BK.numpy()
        self._num_tokens += 1
        if self._stop_early:
            best_possible_B = self._open_scores.max(axis=1).astype(np.float64) / self._final_penalties[lines]
            self._thresholds[lines[self._thresholds[lines] >= best_possible_B]] = np.inf

    def _collect(
        self, scores_BC: np.ndarray, beams_BC: np.ndarray, ends_BC: np.ndarray, bonus_BK: np.ndarray | None
    ) -> None:
        """Adds finished candidates to the results where they are among the best."""
        normalised_BC = scores_BC.astype(np.float64) / gnmt_penalty(self._num_tokens + 1, self._alpha)
        if bonus_BK is not None:
            normalised_BC = normalised_BC + np.take_along_axis(bonus_BK, beams_BC, axis=1)
        accepted_BC = ends_BC & (normalised_BC > self._thresholds[self.lines][:, None])
        for place, candidate in np.argwhere(accepted_BC).tolist():
            line, beam = int(self.lines[place]), int(beams_BC[place, candidate])
            bonus = 0.0 if bonus_BK is None else float(bonus_BK[place, beam])
            total = float(scores_BC[place, candidate])
            kept = self.results[line]
            kept.append(hypothesis(self._ids(line, beam), total, True, self._alpha, bonus))
            kept.sort(key=lambda h: -h.score)  # stable: of equals, the one found first
            del kept[self._n_best :]
            if len(kept) == self._n_best:
                self._thresholds[line] = kept[-1].score

    def _close(self, place: int, bonus_K: np.ndarray | None) -> None:
        """Ends a line whose open beams may not grow; they are its result if nothing has finished."""
        line, scores = int(self.lines[place]), self._open_scores[place].tolist()
        if not self.results[line]:
            outputs = [self._ids(line, beam) for beam in range(len(scores))]
            bonuses = [0.0] * len(scores) if bonus_K is None else bonus_K.tolist()
            found = [
                (missing, hypothesis(ids, score, False, self._alpha, bonus))
                for missing, ids, score, bonus in zip(
                    self._num_missing(line, outputs), outputs, scores, bonuses, strict=True
                )
                if score > -np.inf
            ]
            found.sort(key=lambda each: (each[0], -each[1].score))
            self.results[line].extend(each for _, each in found[: self._n_best])
        self._thresholds[line] = np.inf

    def _ids(self, line: int, beam: int) -> list[int]:
        """Returns the tokens of an open beam, followed back from its last."""
        ids = []
        for step in range(self._num_tokens - 1, -1, -1):
            ids.append(int(self._tokens[step, line, beam]))
            beam = int(self._parents[step, line, beam])
        return ids[::-1]

    def _num_missing(self, line: int, outputs: Sequence[list[int]]) -> list[int]:
        """Returns how many required entries each output of a sentence has not met."""
        if self._requirements is None:
            return [0] * len(outputs)
        device = self._requirements.lengths_BP.device
        asked = self._requirements.keep(torch.tensor([line], device=device))
        past_1KT = torch.tensor(outputs, dtype=torch.long, device=device)[None]
        missing: list[int] = asked.unmet(asked.progress(past_1KT)).sum(dim=2)[0].tolist()
        return missing

    def drop_done(self) -> tuple[list[int], list[int]] | None:
        """Drops done sentences where that pays; returns the sentences and the lines that stay, or None where all do.

        They are numbered as they have been in the batch until now.
        """
        open_B = self._thresholds[self.lines] < np.inf
        open_sentences = open_B.reshape(-1, self._num_groups).any(axis=1)
        if not worth_shrinking(int((~open_sentences).sum()), open_sentences.size):
            return None
        stay_B = np.repeat(open_sentences, self._num_groups)  # all groups of a sentence, or none
        self.lines, self._open_scores = self.lines[stay_B], self._open_scores[stay_B]
        return np.flatnonzero(open_sentences).tolist(), np.flatnonzero(stay_B).tolist()


class FinishedRows:
    """The outputs of a search whose rows know nothing of each other: each ends with EOS, or at its limit."""

    def __init__(self, limits: Sequence[int], *, length_penalty: float, eos: int, of_each: int = 1) -> None:
        """`limits` are those of rows; each sentence has `of_each` of them."""
        self.results: list[Hypothesis | None] = [None] * len(limits)
        self._rows = np.arange(len(limits))  # those in the batch
        self._limits, self._alpha, self._eos, self._of_each = np.array(limits), length_penalty, eos, of_each
        self._tokens = np.zeros((len(limits), max(limits, default=0) + 1), np.int64)
        self._totals = np.zeros(len(limits), np.float32)
        self._done = np.zeros(len(limits), bool)
        self._num_tokens = 0

    @property
    def all_done(self) -> bool:
        """Whether every row has ended."""
        return bool(self._done.all())

    def tell(self, steps: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Takes account of steps, in their order: each row's token and its log-probability; -inf: there was none."""
        # Fetched in one piece, as double: it holds float32 and any id exactly.
        told = torch.stack([torch.stack(each).double() for each in zip(*steps, strict=True)]).cpu().numpy()
        for tokens_R, gains_R in zip(told[0].astype(np.int64), told[1].astype(np.float32), strict=True):
            stuck_R = ~(gains_R > -np.inf)
            eos_R = (tokens_R == self._eos) & ~stuck_R
            last_R = (self._limits[self._rows] <= self._num_tokens) | stuck_R
            for place in np.flatnonzero((eos_R | last_R) & ~self._done[self._rows]):
                row, finished = self._rows[place], bool(eos_R[place])
                total = self._totals[row] + gains_R[place] if finished else self._totals[row]
                ids = self._tokens[row, : self._num_tokens].tolist()
                self.results[row] = hypothesis(ids, float(total), finished, self._alpha)
                self._done[row] = True
            self._totals[self._rows] += gains_R
            self._tokens[self._rows, self._num_tokens] = tokens_R
            self._num_tokens += 1

    def drop_done(self) -> list[int] | None:
        """Drops sentences all of whose rows have ended, where that pays; returns those that stay, or None where all do.

        They are numbered as they have been in the batch until now.
        """
        open_BK = ~self._done[self._rows].reshape(-1, self._of_each)
        open_B = open_BK.any(axis=1)
        if not worth_shrinking(int((~open_B).sum()), open_B.size):
            return None
        self._rows = self._rows.reshape(open_BK.shape)[open_B].flatten()
        return np.flatnonzero(open_B).tolist()


class SyncInterval:
    """When a search looks at what has finished: a CPU is asked at each step, a GPU at each eighth."""

    _STEPS_ON_A_GPU = 8

    def __init__(self, num_steps: int | None, device: torch.device | str, last: int) -> None:
        """`num_steps` from one look to the next, or None for what suits the device; `last`: the last step's number."""
        on_cpu = torch.device(device).type == "cpu"
        self.num_steps = num_steps or (1 if on_cpu else self._STEPS_ON_A_GPU)
        self._last, self._next = last, 0

    def now(self, step: int) -> bool:
        """Tells whether to look after this step: the first, each so many after it, and the last."""
        if step < self._next and step < self._last:
            return False
        self._next = step + self.num_steps
        return True
