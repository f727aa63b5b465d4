"""What `decoding.required` computes, written the obvious way: one beam and one token after another, in plain Python."""

from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.config.special_ids import EOS
from transduce.decoding.constraints import TokenConstraints

Ids = tuple[int, ...]
Candidate = tuple[float, int, int]  # score, beam, token


def bank(given: TokenConstraints, ids: Ids) -> int:
    """Returns the bank of an output; see `RequiredPhrases.banks`."""
    unmet = given.unmet(ids)
    furthest = 0
    for entry in unmet:
        shortest = min(map(len, entry))
        for phrase in entry:
            begun = _num_begun(ids, phrase)
            if begun:
                furthest = max(furthest, shortest - (len(phrase) - begun))
    return total(given.required) - total(unmet) + furthest


def total(entries: Sequence[Sequence[Ids]]) -> int:
    """Returns the bank of an output that has met all of these entries, and no others."""
    return sum(min(map(len, entry)) for entry in entries)


def _offers(given: TokenConstraints, ids: Ids) -> set[int]:
    """Returns the tokens that begin or continue a phrase of an unmet entry."""
    phrases = [phrase for entry in given.unmet(ids) for phrase in entry]
    return {token for phrase in phrases for token in (phrase[0], phrase[_num_begun(ids, phrase, short=1)])}


def _num_begun(ids: Ids, phrase: Ids, short: int = 0) -> int:
    """Returns how many tokens of the phrase the output ends with, at most all but `short`."""
    return max(k for k in range(len(phrase) + 1 - short) if ids[len(ids) - k :] == phrase[:k])


def required_candidates_reference(
    gains_RV: Tensor, scores_BK: Tensor, past_BKT: Tensor, required: Sequence[TokenConstraints], beam_size: int
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
    gains_KV: list[list[float]], scores_K: list[float], pasts: list[Ids], given: TokenConstraints, beam_size: int
) -> list[Candidate]:
    candidates: list[Candidate] = []
    for beam, (gains, score, past) in enumerate(zip(gains_KV, scores_K, pasts, strict=True)):
        allowed = [token for token in range(len(gains)) if token != EOS or not given.unmet(past)]
        best = sorted(allowed, key=lambda token: -gains[token])[: 2 * beam_size]
        offered = _offers(given, past) - {*best}
        # The kernel adds in float32.
        totals = (torch.tensor(score) + torch.tensor(gains)).tolist()
        candidates += [(totals[token], beam, token) for token in (*sorted(best), *offered)]
    candidates = sorted((each for each in candidates if each[0] > -torch.inf), key=lambda each: -each[0])
    banks = {each: bank(given, (*pasts[each[1]], each[2])) for each in candidates}
    complete = [each for each in candidates if banks[each] == total(given.required)][: 2 * beam_size]
    ending = [each for each in complete if each[2] == EOS][:beam_size]
    kept = _allocate([each for each in candidates if each[2] != EOS], banks, beam_size)
    nothing = (-torch.inf, 0, 0)
    return [
        *kept, *[nothing] * (beam_size - len(kept)),
        *ending, *[nothing] * (beam_size - len(ending)),
    ]  # fmt: skip


def _allocate(candidates: list[Candidate], banks: dict[Candidate, int], count: int) -> list[Candidate]:
    """Returns the best of the highest bank, then the best of each bank, the seconds of each, …, in order of score."""
    if not candidates:
        return []
    by_bank: dict[int, list[Candidate]] = {}
    for each in candidates:
        by_bank.setdefault(banks[each], []).append(each)
    first = by_bank[max(by_bank)][0]
    rank = {each: index for members in by_bank.values() for index, each in enumerate(members)}
    order = [first, *sorted((each for each in candidates if each != first), key=lambda each: rank[each])]
    kept = {*order[:count]}
    return [each for each in candidates if each in kept]
