"""From one step's logits to the tokens worth looking at: the part of a search that touches every logit.

Shapes: R rows (B sentences × K beams), C candidates, V vocabulary.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# Sets the log-probabilities of what may not come next to -inf, in place.
Restrict = Callable[[Tensor], None]


def log_probabilities_(logits_RV: Tensor, never: Sequence[int], restrict: Restrict | None = None) -> Tensor:
    """Turns logits into log-probabilities, in place; the tokens in `never` get -inf and take part in the sum.

    So do those that `restrict` bans: what is left is not normalised anew.

    In place, because a fresh matrix of this size costs more in page faults than the arithmetic does. The
    fused softmax is also faster than `logsumexp`, whose parts each make a matrix of their own.
    """
    torch.log_softmax(logits_RV, dim=-1, out=logits_RV)
    for token in never:  # one by one: a list of them would be copied to a GPU first
        logits_RV[:, token] = -torch.inf
    if restrict is not None:
        restrict(logits_RV)
    return logits_RV


def best_token(logits_RV: Tensor, never: Sequence[int], restrict: Restrict | None = None) -> tuple[Tensor, Tensor]:
    """Returns each row's most probable token and its log-probability. Overwrites the logits."""
    gains_R1, tokens_R1 = top(log_probabilities_(logits_RV, never, restrict), 1)
    return tokens_R1[:, 0], gains_R1[:, 0]


_GROUP = 64  # neighbours of which only the greatest is looked at first


def top(values_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns what `values_RV.topk(count)` does: the greatest of each row, best first, and their places, (R, count).

    The `count` greatest lie in the `count` groups of greatest maximum, and `amax` finds maxima far faster than
    `topk` or `max` find places: 37 000 values are narrowed to some hundreds in one fast pass.
    """
    num_groups = values_RV.size(1) // _GROUP
    if num_groups <= count:
        values_RC, places_RC = values_RV.topk(count, dim=-1)
        return values_RC, places_RC
    grouped = num_groups * _GROUP
    groups_RC = values_RV[:, :grouped].unflatten(1, (num_groups, _GROUP)).amax(dim=-1).topk(count, dim=-1).indices
    inside_G = torch.arange(_GROUP, device=values_RV.device)
    tail_RN = torch.arange(grouped, values_RV.size(1), device=values_RV.device).expand(values_RV.size(0), -1)
    places_RN = torch.cat([(groups_RC[:, :, None] * _GROUP + inside_G).flatten(1), tail_RN], dim=1)
    values_RC, which_RC = values_RV.gather(1, places_RN).topk(count, dim=-1)
    return values_RC, places_RN.gather(1, which_RC)


def best_candidates(
    logits_RV: Tensor,
    scores_BK: Tensor,
    num_candidates: int,
    never: Sequence[int],
    restrict: Restrict | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns each sentence's best continuations, best first, as (scores, beams, tokens), each (B, C).

    Equal scores are ordered by beam, then by token. Where fewer than C continuations exist, the rest score -inf.

    Overwrites the logits.
    """
    return best_sums(log_probabilities_(logits_RV, never, restrict), scores_BK, num_candidates)


def best_sums(gains_RV: Tensor, scores_BK: Tensor, num_candidates: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the greatest sums of a beam's score and a token's gain; see `best_candidates`.

    The best C of K × V lie among each beam's own best C, so only C × K are compared across beams.
    """
    (num_sentences, num_beams), vocab_size = scores_BK.shape, gains_RV.size(1)
    gains_RC, tokens_RC = top(gains_RV, min(num_candidates, vocab_size))
    tokens_RC, by_token_RC = tokens_RC.sort(dim=-1)  # so that the stable sort below puts equals in token order
    gains_RC = gains_RC.gather(1, by_token_RC)
    per_beam = gains_RC.size(1)
    totals_BN = (scores_BK.reshape(-1, 1) + gains_RC).view(num_sentences, num_beams * per_beam)
    totals_BN, places_BN = totals_BN.sort(dim=1, descending=True, stable=True)
    scores_BC, places_BC = totals_BN[:, :num_candidates], places_BN[:, :num_candidates]
    tokens_BC = tokens_RC.view(num_sentences, -1).gather(1, places_BC)
    beams_BC = places_BC // per_beam
    missing = num_candidates - scores_BC.size(1)
    if missing:
        scores_BC = torch.nn.functional.pad(scores_BC, (0, missing), value=-torch.inf)
        beams_BC, tokens_BC = (torch.nn.functional.pad(x, (0, missing)) for x in (beams_BC, tokens_BC))
    return scores_BC, beams_BC, tokens_BC


def best_candidates_reference(
    logits_RV: Tensor, scores_BK: Tensor, num_candidates: int, never: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """The obvious way to the same: a full softmax, and one stable sort over all K × V continuations."""
    num_sentences, num_beams = scores_BK.shape
    gains_RV = torch.log_softmax(logits_RV, dim=-1)
    gains_RV[:, list(never)] = -torch.inf
    totals_BKV = scores_BK[:, :, None] + gains_RV.view(num_sentences, num_beams, -1)
    scores_BN, places_BN = totals_BKV.flatten(1).sort(dim=1, descending=True, stable=True)
    scores_BC, places_BC = scores_BN[:, :num_candidates], places_BN[:, :num_candidates]
    return scores_BC, places_BC // logits_RV.size(1), places_BC % logits_RV.size(1)
