"""From one step's logits to the tokens worth looking at: the part of a search that touches every logit.

Shapes: R rows (B sentences × K beams), C candidates, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def log_probabilities_(logits_RV: Tensor, never: Sequence[int]) -> Tensor:
    """Turns logits into log-probabilities, in place; the tokens in `never` get -inf and take part in the sum.

    In place, because a fresh matrix of this size costs more in page faults than the arithmetic does. The
    fused softmax is also faster than `logsumexp`, whose parts each make a matrix of their own.
    """
    torch.log_softmax(logits_RV, dim=-1, out=logits_RV)
    logits_RV[:, list(never)] = -torch.inf
    return logits_RV


def best_token(logits_RV: Tensor, never: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Returns each row's most probable token and its log-probability. Overwrites the logits."""
    gains_R, tokens_R = log_probabilities_(logits_RV, never).max(dim=-1)
    return tokens_R, gains_R


def best_candidates(
    logits_RV: Tensor, scores_BK: Tensor, num_candidates: int, never: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns each sentence's best continuations, best first, as (scores, beams, tokens), each (B, C).

    The best C of K × V lie among each beam's own best C, so only C × K are compared across beams. Equal
    scores are ordered by beam, then by token. Where fewer than C continuations exist, the rest score -inf.

    Overwrites the logits.
    """
    (num_sentences, num_beams), vocab_size = scores_BK.shape, logits_RV.size(1)
    gains_RV = log_probabilities_(logits_RV, never)
    if num_candidates == 1:
        best_R, tokens_R = gains_RV.max(dim=-1)
        gains_RC, tokens_RC = best_R[:, None], tokens_R[:, None]
    else:
        gains_RC, tokens_RC = gains_RV.topk(min(num_candidates, vocab_size), dim=-1)
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
