"""Heads that predict the tokens after the next one: blockwise parallel decoding.

Stern, Shazeer, Uszkoreit 2018, "Blockwise parallel decoding for deep autoregressive models" (arXiv 1811.03115). In a
model of block size k, head i of 1 … k predicts the i-th token to come, all from the same output of the decoder. Heads
share the output projection. Shape suffixes: `model.attention`.
"""

import torch
from torch import Tensor, nn

from transduce.config import ModelConfig


class BlockHeads(nn.Module):
    """Heads 2 … k, each h + W₂ relu(W₁ h + b₁) + b₂ with d_ff inner numbers, for a decoder's last output h.

    Head 1 is the identity, so a model's ordinary outputs do not depend on its block size. In the paper it is like the
    others, and all inner numbers reach all heads. Here each head has its own, so that heads can be added and removed.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.d_ff, self.block_size, num_heads = config.d_ff, config.block_size, config.block_size - 1
        self.inner = nn.Linear(config.d_model, num_heads * config.d_ff)  # of all heads: one product
        self.outer = nn.ModuleList(nn.Linear(config.d_ff, config.d_model) for _ in range(num_heads))

    def forward(self, states: Tensor, count: int | None = None) -> Tensor:
        """Returns the states of heads 2 … k, (…, k - 1, D), or of the first `count` of them, for outputs (…, D)."""
        inners = torch.relu(self.inner(states)).split(self.d_ff, dim=-1)[:count]
        found = [states + outer(inner) for outer, inner in zip(self.outer, inners, strict=False)]
        return torch.stack(found, dim=-2)

    def head(self, number: int, states: Tensor) -> Tensor:
        """Returns the states of head 2 … k alone, (…, D), for the decoder's outputs (…, D), computed in their type.

        For training: the weights must not be prepacked.
        """
        rows, outer = slice((number - 2) * self.d_ff, (number - 1) * self.d_ff), self.outer[number - 2]
        assert isinstance(outer, nn.Linear)
        weights = (self.inner.weight[rows], self.inner.bias[rows], outer.weight, outer.bias)
        inner_FD, inner_F, outer_DF, outer_D = (weight.to(states.dtype) for weight in weights)
        inner = torch.relu(nn.functional.linear(states, inner_FD, inner_F))
        return states + nn.functional.linear(inner, outer_DF, outer_D)
