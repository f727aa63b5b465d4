"""Diverse beam search (Vijayakumar et al. 2016): groups of beams, each of which avoids the tokens of those before it.

Shapes: B sentences, G groups of a sentence, L = B × G groups of the batch, K beams of a group, C candidates,
V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.config.special_ids import EOS
from transduce.decoding.candidates import best_candidates
from transduce.decoding.scores import Hypothesis


def diverse_candidates(
    gains_RV: Tensor, scores_LK: Tensor, num_candidates: int, num_groups: int, penalty: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns each group's candidates, as (scores, beams, tokens), each (L, C), in the order of the search.

    Groups choose one after another. To group g a token is worth λ less for each open beam of groups 0 … g - 1 that
    continues with it at this very step (Hamming diversity, the paper's choice); EOS is exempt. That only orders the
    candidates: their scores are the model's own log-probabilities.

    Args:
        gains_RV: log-probabilities of each token, row after row; they are not changed.
        scores_LK: log-probabilities of the open beams.
        num_candidates: C.
        num_groups: G.
        penalty: λ.
    """
    num_lines, num_beams = scores_LK.shape
    gains_BGKV = gains_RV.view(num_lines // num_groups, num_groups, num_beams, -1)
    scores_BGK = scores_LK.view(-1, num_groups, num_beams)
    uses_BV = gains_RV.new_zeros(gains_BGKV.size(0), gains_RV.size(1))
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for group in range(num_groups):
        gains_BKV, scores_BK = gains_BGKV[:, group], scores_BGK[:, group]
        adjusted_BKV = gains_BKV - penalty * uses_BV[:, None]
        _, beams_BC, tokens_BC = best_candidates(adjusted_BKV.flatten(0, 1), scores_BK, num_candidates)
        index_BC = beams_BC * gains_RV.size(1) + tokens_BC
        scores_BC = scores_BK.gather(1, beams_BC) + gains_BKV.flatten(1).gather(1, index_BC)
        found.append((scores_BC, beams_BC, tokens_BC))
        continues_BC = (tokens_BC != EOS) & (scores_BC > -torch.inf)
        opens_BC = continues_BC & (continues_BC.cumsum(dim=1) <= max(1, num_candidates // 2))
        uses_BV.scatter_add_(1, tokens_BC, opens_BC.to(uses_BV.dtype))
    scores_LC, beams_LC, tokens_LC = (torch.stack(each, dim=1).flatten(0, 1) for each in zip(*found, strict=True))
    return scores_LC, beams_LC, tokens_LC


def merged(groups: Sequence[Sequence[Hypothesis]], n_best: int) -> list[Hypothesis]:
    """Returns the `n_best` hypotheses of a sentence's groups, best first, without duplicates.

    The best of every group come before all others, so that a list of as many as there are groups has one of each where
    they differ. The very best is always among them: asking for more never changes the first.
    """

    def order(found: Hypothesis) -> tuple[bool, float]:
        return not found.finished, -found.score

    bests = sorted((group[0] for group in groups if group), key=order)
    others = sorted((each for group in groups for each in group[1:]), key=order)
    distinct: dict[tuple[int, ...], Hypothesis] = {}
    for each in (*bests, *others):
        distinct.setdefault(tuple(each.ids), each)
    return sorted(list(distinct.values())[:n_best], key=order)
