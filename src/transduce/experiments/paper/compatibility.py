"""Compatibility functions: dot product with and without 1 / √d_k, and additive attention (§3.2.1)."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from transduce.model.attention import join_heads, split_heads

Kind = Literal["scaled dot product", "dot product", "additive"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def scores(kind: Kind, query_BHTE: Tensor, key_BHSE: Tensor, weight_E: Tensor) -> Tensor:
    """Returns the score of each query with each key, (B, H, T, S).

    Additive attention is a feed-forward network with one hidden layer (Bahdanau et al. 2014): w · tanh(q + k), where
    q and k are its first layer's projections. It alone uses `weight_E`, and it holds all T × S × E hidden units.
    """
    if kind == "additive":
        hidden_BHTSE = (query_BHTE[..., :, None, :] + key_BHSE[..., None, :, :]).tanh()
        return hidden_BHTSE @ weight_E
    scale = 1 / math.sqrt(query_BHTE.size(-1)) if kind == "scaled dot product" else 1.0
    return (query_BHTE * scale) @ key_BHSE.transpose(-2, -1)


def attend_by(kind: Kind, query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, weight_E: Tensor) -> Tensor:
    """Returns softmax(scores) V, (B, H, T, E)."""
    return scores(kind, query_BHTE, key_BHSE, weight_E).softmax(dim=-1) @ value_BHSE


def draw_weight(d_k: int) -> Tensor:
    """Returns the last layer of additive attention: d_k numbers of variance 1 / d_k."""
    return torch.randn(d_k) / math.sqrt(d_k)


def softmax_gradient(scores_NS: Tensor) -> Tensor:
    """Returns the size of softmax's derivative at each row of scores: the Frobenius norm of diag(p) - p pᵀ, (N).

    Σ_ij (p_i [i = j] - p_i p_j)² = Σ p² - 2 Σ p³ + (Σ p²)².
    """
    p_NS = scores_NS.softmax(dim=-1)
    squares_N = p_NS.pow(2).sum(dim=-1)
    return (squares_N - 2 * p_NS.pow(3).sum(dim=-1) + squares_N.pow(2)).clamp_min(0).sqrt()


class CompatibilityAttention(nn.Module):
    """Multi-head self-attention with a choice of compatibility function.

    W_Q and W_K are drawn from N(0, 1/d_model): on normalised inputs, queries and keys then have components of variance
    1 for any d_k, as the paper's argument assumes.
    """

    def __init__(self, kind: Kind, d_model: int, num_heads: int, d_k: int, d_v: int) -> None:
        super().__init__()
        self.kind: Kind = kind
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.key = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.value = nn.Linear(d_model, num_heads * d_v, bias=False)
        self.output = nn.Linear(num_heads * d_v, d_model, bias=False)
        self.weight = nn.Parameter(draw_weight(d_k), requires_grad=kind == "additive")
        for projection in (self.query, self.key):
            nn.init.normal_(projection.weight, 0.0, d_model**-0.5)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Maps (B, T, D) to (B, T, D); every position sees every other."""
        query, key, value = (split_heads(part(x_BTD), self.num_heads) for part in (self.query, self.key, self.value))
        attended: Tensor = self.output(join_heads(attend_by(self.kind, query, key, value, self.weight)))
        return attended
