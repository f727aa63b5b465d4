"""GNMT's coverage penalty, for outputs that have attended to their whole source (Wu et al. 2016, eq. 14)."""

import torch
from torch import Tensor


def coverage_penalty(coverage_BKS: Tensor, real_BS: Tensor | None = None) -> Tensor:
    """Returns Σᵢ log(min(Σⱼ pᵢⱼ, 1)) of each row, (B, K): 0 if the whole source has been attended to, otherwise less.

    pᵢⱼ is the weight with which target position j attends to source position i. EOS counts as a position on both sides.

    Args:
        coverage_BKS: the sum over j, for each source position; clamped to the smallest float32.
        real_BS: True where a position is not padding; None: everywhere.
    """
    logarithms_BKS = coverage_BKS.clamp(min=torch.finfo(torch.float32).tiny, max=1.0).log()
    if real_BS is not None:
        logarithms_BKS = logarithms_BKS.masked_fill(~real_BS[:, None], 0.0)
    return logarithms_BKS.sum(dim=-1)
