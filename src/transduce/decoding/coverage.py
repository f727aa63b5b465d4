"""GNMT's coverage penalty: prefers outputs that have attended to all of their source (Wu et al. 2016, eq. 14)."""

import torch
from torch import Tensor


def coverage_penalty(coverage_BKS: Tensor, real_BS: Tensor | None = None) -> Tensor:
    """Returns Σᵢ log(min(Σⱼ pᵢⱼ, 1)) of each row, (B, K): 0 where all of the source has been attended to, else less.

    pᵢⱼ is what target position j attends to source position i. The end marks of both sides are positions like others.

    Args:
        coverage_BKS: the sum over j, for each source position; taken as the smallest float32 where it is less.
        real_BS: which positions are not padding; None: all.
    """
    logarithms_BKS = coverage_BKS.clamp(min=torch.finfo(torch.float32).tiny, max=1.0).log()
    if real_BS is not None:
        logarithms_BKS = logarithms_BKS.masked_fill(~real_BS[:, None], 0.0)
    return logarithms_BKS.sum(dim=-1)
