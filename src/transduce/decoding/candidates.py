"""From one step's logits to the best candidates: the part of a search that touches every logit.

Shapes: R rows (B sentences × K beams), C candidates, V vocabulary. A gain is a token's log-probability.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

_GROUP = 64  # neighbours of which only the greatest is compared at first


def log_probabilities_(logits_RV: Tensor, never: Sequence[int]) -> Tensor:
    """Turns logits into log-probabilities, in place; the tokens in `never` get -inf, though they count in the sum.

    In place, because a fresh matrix of this size costs more in page faults than the arithmetic does. The fused softmax
    is also faster than `logsumexp`, whose parts each make a matrix of their own.
    """
    torch.log_softmax(logits_RV, dim=-1, out=logits_RV)
    for token in never:  # one by one: a list of them would be copied to a GPU first
        logits_RV[:, token] = -torch.inf
    return logits_RV


def top(values_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the same as `values_RV.topk(count)`: the greatest of each row, best first, and their indices, (R, count).

    The `count` greatest lie in the `count` groups of greatest maximum, and `amax` finds maxima far faster than `topk`
    or `max` find indices: 37 000 values are narrowed to some hundreds in one fast pass.
    """
    num_groups = values_RV.size(1) // _GROUP
    if num_groups <= count:
        values_RC, index_RC = values_RV.topk(count, dim=-1)
        return values_RC, index_RC
    grouped = num_groups * _GROUP
    groups_RC = values_RV[:, :grouped].unflatten(1, (num_groups, _GROUP)).amax(dim=-1).topk(count, dim=-1).indices
    inside_G = torch.arange(_GROUP, device=values_RV.device)
    tail_RN = torch.arange(grouped, values_RV.size(1), device=values_RV.device).expand(values_RV.size(0), -1)
    index_RN = torch.cat([(groups_RC[:, :, None] * _GROUP + inside_G).flatten(1), tail_RN], dim=1)
    values_RC, which_RC = values_RV.gather(1, index_RN).topk(count, dim=-1)
    return values_RC, index_RN.gather(1, which_RC)


def best_of_each_beam(gains_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns each row's greatest gains and their tokens, (R, count), in the order of tokens."""
    gains_RC, tokens_RC = top(gains_RV, min(count, gains_RV.size(1)))
    tokens_RC, order_RC = tokens_RC.sort(dim=-1)  # so that a stable sort of scores puts equals in token order
    return gains_RC.gather(1, order_RC), tokens_RC


def best_candidates(gains_RV: Tensor, scores_BK: Tensor, num_candidates: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns each sentence's best continuations, best first, as (scores, beams, tokens), each (B, C).

    A continuation's score is the sum of its beam's score and its token's gain. Equal scores are ordered by beam, then
    by token. Where fewer than C continuations exist, the rest score -inf.

    The best C of K × V lie among each beam's own best C, so only C × K are compared across beams.
    """
    found = ranked(*best_of_each_beam(gains_RV, num_candidates), scores_BK)
    scores_BC, beams_BC, tokens_BC = (x[:, :num_candidates] for x in found)
    return padded_candidates(scores_BC, beams_BC, tokens_BC, num_candidates)


def ranked(gains_RN: Tensor, tokens_RN: Tensor, scores_BK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns each sentence's continuations, best first, as (scores, beams, tokens); equal ones keep their order."""
    num_sentences, per_beam = scores_BK.size(0), gains_RN.size(1)
    scores_BN = (scores_BK.reshape(-1, 1) + gains_RN).view(num_sentences, -1)
    scores_BN, order_BN = scores_BN.sort(dim=1, descending=True, stable=True)
    return scores_BN, order_BN // per_beam, tokens_RN.view(num_sentences, -1).gather(1, order_BN)


def padded_candidates(
    scores_BC: Tensor, beams_BC: Tensor, tokens_BC: Tensor, num_candidates: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns candidates filled up to `num_candidates` with such that score -inf."""
    missing = (0, num_candidates - scores_BC.size(1))
    if missing[1] == 0:
        return scores_BC, beams_BC, tokens_BC
    pad = torch.nn.functional.pad
    return pad(scores_BC, missing, value=-torch.inf), pad(beams_BC, missing), pad(tokens_BC, missing)


def best_candidates_reference(
    gains_RV: Tensor, scores_BK: Tensor, num_candidates: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The obvious way to the same: one stable sort over all K × V continuations."""
    num_sentences, num_beams = scores_BK.shape
    totals_BKV = scores_BK[:, :, None] + gains_RV.view(num_sentences, num_beams, -1)
    scores_BN, index_BN = totals_BKV.flatten(1).sort(dim=1, descending=True, stable=True)
    scores_BC, index_BC = scores_BN[:, :num_candidates], index_BN[:, :num_candidates]
    return scores_BC, index_BC // gains_RV.size(1), index_BC % gains_RV.size(1)
