"""What `decoding.required` computes, written the obvious way: one beam and one token after another, in plain Python."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.config.special_ids import EOS

Ids = tuple[int, ...]
Candidate = tuple[float, int, int]  # score, beam, token


@dataclass(frozen=True)
class RequiredEntries:
    """What the outputs of one sentence must hold: of each entry one phrase."""

    entries: tuple[tuple[Ids, ...], ...] = ()
    joining: Ids = ()

    def met(self, ids: Ids) -> list[bool]:
        """Returns whether an output has met each entry; see `RequiredPhrases.progress`."""
        return [any(self._holds(ids, phrase) for phrase in entry) for entry in self.entries]

    def _holds(self, ids: Ids, phrase: Ids) -> bool:
        ends = (i + len(phrase) for i in range(len(ids) - len(phrase) + 1) if ids[i : i + len(phrase)] == phrase)
        return any(end == len(ids) or ids[end] not in self.joining for end in ends)

    def bank(self, ids: Ids) -> int:
        """Returns the bank of an output; see `RequiredPhrases.banks`."""
        tokens_met, furthest = 0, 0
        for entry, met in zip(self.entries, self.met(ids), strict=True):
            shortest = min(map(len, entry))
            if met:
                tokens_met += shortest
                continue
            for phrase in entry:
                begun = _num_begun(ids, phrase)
                if begun:
                    furthest = max(furthest, shortest - (len(phrase) - begun))
        return tokens_met + furthest

    @property
    def total(self) -> int:
        """The bank of an output that has met all entries."""
        return sum(min(map(len, entry)) for entry in self.entries)

    def offers(self, ids: Ids) -> set[int]:
        """Returns the tokens that begin or continue a phrase of an unmet entry."""
        unmet = [entry for entry, met in zip(self.entries, self.met(ids), strict=True) if not met]
        phrases = [phrase for entry in unmet for phrase in entry]
        return {token for phrase in phrases for token in (phrase[0], phrase[_num_begun(ids, phrase, short=1)])}


def _num_begun(ids: Ids, phrase: Ids, short: int = 0) -> int:
    """Returns how many tokens of the phrase the output ends with, at most all but `short`."""
    return max(k for k in range(len(phrase) + 1 - short) if ids[len(ids) - k :] == phrase[:k])


def required_candidates_reference(
    gains_RV: Tensor, scores_BK: Tensor, past_BKT: Tensor, required: Sequence[RequiredEntries], beam_size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the same as `required_candidates`, but gaps come last; does not change the gains."""
    gains_BKV = gains_RV.unflatten(0, scores_BK.shape).tolist()
    rows = [
        _of_sentence(gains_KV, scores_K, [tuple(past) for past in past_KT], entries, beam_size)
        for gains_KV, scores_K, past_KT, entries in zip(
            gains_BKV, scores_BK.tolist(), past_BKT.tolist(), required, strict=True
        )
    ]
    scores, beams, tokens = ([[candidate[part] for candidate in row] for row in rows] for part in range(3))
    return torch.tensor(scores), torch.tensor(beams), torch.tensor(tokens)


def _of_sentence(
    gains_KV: list[list[float]], scores_K: list[float], pasts: list[Ids], required: RequiredEntries, beam_size: int
) -> list[Candidate]:
    candidates: list[Candidate] = []
    for beam, (gains, score, past) in enumerate(zip(gains_KV, scores_K, pasts, strict=True)):
        allowed = [token for token in range(len(gains)) if token != EOS or all(required.met(past))]
        best = sorted(allowed, key=lambda token: -gains[token])[: 2 * beam_size]
        offered = required.offers(past) - {*best}
        # The kernel adds in float32.
        totals = (torch.tensor(score) + torch.tensor(gains)).tolist()
        candidates += [(totals[token], beam, token) for token in (*sorted(best), *offered)]
    candidates = sorted((each for each in candidates if each[0] > -torch.inf), key=lambda each: -each[0])
    bank = {each: required.bank((*pasts[each[1]], each[2])) for each in candidates}
    complete = [each for each in candidates if bank[each] == required.total][: 2 * beam_size]
    ending = [each for each in complete if each[2] == EOS][:beam_size]
    kept = _allocate([each for each in candidates if each[2] != EOS], bank, beam_size)
    nothing = (-torch.inf, 0, 0)
    return [
        *kept, *[nothing] * (beam_size - len(kept)),
        *ending, *[nothing] * (beam_size - len(ending)),
    ]  # fmt: skip


def _allocate(candidates: list[Candidate], bank: dict[Candidate, int], count: int) -> list[Candidate]:
    """Returns the best of the highest bank, then the best of each bank, the seconds of each, …, in order of score."""
    if not candidates:
        return []
    by_bank: dict[int, list[Candidate]] = {}
    for each in candidates:
        by_bank.setdefault(bank[each], []).append(each)
    first = by_bank[max(by_bank)][0]
    rank = {each: index for members in by_bank.values() for index, each in enumerate(members)}
    order = [first, *sorted((each for each in candidates if each != first), key=lambda each: rank[each])]
    kept = {*order[:count]}
    return [each for each in candidates if each in kept]
