"""Scaled dot-product attention and its heads (§3.2).

The names of tensors end in their shape, one letter an axis, here and in all of `model` and `decoding`:

    B sentences of a batch   K beams       R rows = B × K     N real tokens of a batch, without its padding
    T target or query positions            S source or key positions
    D d_model                H heads       E d_k or d_v       F d_ff          V vocabulary

So `query_BHTE` is (sentences, heads, query positions, d_k). A digit is an axis of that length: `positions_1D`. Where a
tensor is (B, T, D) or, packed, (N, D), its name has no suffix.

Masks are boolean, True = may attend, and always called `attend_mask`.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from transduce.config import ModelConfig
from transduce.config.choices import query_factor, scores_additively
from transduce.model.packing import Packing, packed, unpacked

KeysAndValues = tuple[Tensor, Tensor]  # of the encoder's output, (B, H, S, E) each


def attention_scores(query: Tensor, key: Tensor, score_HE: Tensor | None = None) -> Tensor:
    """Returns Q Kᵀ / √d_k of eq. 1, for queries (…, T, E) and keys (…, S, E).

    With `score_HE`, the weights w of each head, it is w · tanh(q + k) (Bahdanau et al. 2014): T × S × E numbers a head.
    """
    if score_HE is not None:
        hidden_BHTSE = torch.tanh(query[..., :, None, :] + key[..., None, :, :])
        return (hidden_BHTSE @ score_HE[:, None, :, None]).squeeze(-1)
    return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))


def attention_weights(
    query_BHTE: Tensor,
    key_BHSE: Tensor,
    attend_mask: Tensor | None = None,
    *,
    causal: bool = False,
    score_HE: Tensor | None = None,
) -> Tensor:
    """Returns softmax(Q Kᵀ / √d_k) of eq. 1, shape (B, H, T, S); a row with nothing to attend to is all zeros.

    Args:
        query_BHTE: queries.
        key_BHSE: keys.
        attend_mask: True where a query may see a key; any shape that broadcasts to (B, H, T, S).
        causal: position t sees keys 0 … t only (§3.2.3); combines with `attend_mask`.
        score_HE: of additive attention: see `attention_scores`.
    """
    scores_BHTS = attention_scores(query_BHTE, key_BHSE, score_HE)
    if causal:
        causal_TS = torch.ones(scores_BHTS.shape[-2:], dtype=torch.bool, device=scores_BHTS.device).tril()
        attend_mask = causal_TS if attend_mask is None else attend_mask & causal_TS
    if attend_mask is None:
        return scores_BHTS.softmax(dim=-1)
    weights_BHTS = scores_BHTS.masked_fill(~attend_mask, -math.inf).softmax(dim=-1)
    return weights_BHTS.masked_fill(~attend_mask, 0.0)  # 0/0 of an empty row, and nothing else, is NaN before this


def attend_reference(
    query_BHTE: Tensor,
    key_BHSE: Tensor,
    value_BHSE: Tensor,
    attend_mask: Tensor | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Attention as eq. 1 writes it: the obvious version, which tests compare `attend` with."""
    weights_BHTS = attention_weights(query_BHTE, key_BHSE, attend_mask, causal=causal)
    return F.dropout(weights_BHTS, dropout) @ value_BHSE


def attend(
    query_BHTE: Tensor,
    key_BHSE: Tensor,
    value_BHSE: Tensor,
    attend_mask: Tensor | None = None,
    *,
    causal: bool = False,
    dropout: float = 0.0,
    score_HE: Tensor | None = None,
) -> Tensor:
    """Does what `attend_reference` does, with the fastest kernel for the shapes.

    That is `scaled_dot_product_attention`, except for short sequences on a CPU, where two batched products and a
    softmax are faster (docs/decisions/0004). Those look at numbers, which a compiled program does not. No kernel has
    the scores of additive attention, of which `score_HE` are the weights.
    """
    if score_HE is not None:
        weights_BHTS = attention_weights(query_BHTE, key_BHSE, attend_mask, causal=causal, score_HE=score_HE)
        return F.dropout(weights_BHTS, dropout) @ value_BHSE
    num_queries, num_keys = query_BHTE.size(-2), key_BHSE.size(-2)
    if causal and attend_mask is not None:
        causal_TS = torch.ones(num_queries, num_keys, dtype=torch.bool, device=query_BHTE.device).tril()
        attend_mask, causal = attend_mask & causal_TS, False
    is_short = num_queries * num_keys <= _SHORT
    if query_BHTE.device.type == "cpu" and is_short and not torch.compiler.is_compiling():
        return F.dropout(_short_weights(query_BHTE, key_BHSE, attend_mask, causal), dropout) @ value_BHSE
    if attend_mask is not None:
        attend_mask = torch.atleast_2d(attend_mask)  # the kernel does not accept a mask of shape (S,)
    return fused_attention(query_BHTE, key_BHSE, value_BHSE, attn_mask=attend_mask, dropout_p=dropout, is_causal=causal)


_SHORT = 256 * 256  # query positions × key positions
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def fused_attention(query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, **options: Any) -> Tensor:
    """`scaled_dot_product_attention` without the kernels of cuDNN, PyTorch's first choice on Hopper GPUs.

    cuDNN plans for each shape when it first sees it, which takes longer than an update. The batches of text have
    hundreds of shapes (docs/decisions/0035).
    """
    with sdpa_kernel(_KERNELS):
        return F.scaled_dot_product_attention(query_BHTE, key_BHSE, value_BHSE, **options)


def _short_weights(query_BHTE: Tensor, key_BHSE: Tensor, attend_mask: Tensor | None, causal: bool) -> Tensor:
    """Does what `attention_weights` does, with few operations."""
    num_queries, num_keys = query_BHTE.size(-2), key_BHSE.size(-2)
    scores_BHTS = (query_BHTE * query_BHTE.size(-1) ** -0.5) @ key_BHSE.transpose(-2, -1)
    if attend_mask is not None:
        # The lowest finite number instead of -inf: a row with nothing to attend to stays finite, and is zeroed below.
        lowest = torch.finfo(scores_BHTS.dtype).min
        scores_BHTS = scores_BHTS + scores_BHTS.new_zeros(attend_mask.shape).masked_fill_(~attend_mask, lowest)
    if causal:
        future_TS = torch.full((num_queries, num_keys), -math.inf, dtype=scores_BHTS.dtype).triu_(1)
        scores_BHTS = scores_BHTS + future_TS
    weights_BHTS: Tensor = scores_BHTS.softmax(dim=-1)
    if attend_mask is not None and not bool((sees_any := attend_mask.any(dim=-1, keepdim=True)).all()):
        weights_BHTS = weights_BHTS * sees_any
    return weights_BHTS


def mask_bias(attend_mask: Tensor | None, num_heads: int, dtype: torch.dtype) -> Tensor | None:
    """Returns a mask (B, 1, T, S) as a term of the scores of all heads, (B·H, T, S): 0 where a query may see a key."""
    if attend_mask is None:
        return None
    lowest = torch.finfo(dtype).min
    bias = torch.zeros(attend_mask.shape, dtype=dtype, device=attend_mask.device).masked_fill_(~attend_mask, lowest)
    return bias.expand(-1, num_heads, -1, -1).flatten(0, 1)


def attend_step(
    query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, bias: Tensor | None, score_HE: Tensor | None = None
) -> Tensor:
    """`attend` for a decoding step. It uses few operations: with few rows, the cost is that of calling them.

    Args:
        query_BHTE: queries.
        key_BHSE: keys.
        value_BHSE: values.
        bias: from `mask_bias`, computed once for all layers. Each query sees at least one key.
        score_HE: of additive attention: see `attention_scores`.
    """
    num_sentences, num_heads, num_queries, width = query_BHTE.shape
    if score_HE is not None:
        scores_BHTS = attention_scores(query_BHTE, key_BHSE, score_HE)
        scores_BHTS = scores_BHTS if bias is None else scores_BHTS + bias.unflatten(0, (num_sentences, num_heads))
        return scores_BHTS.softmax(dim=-1) @ value_BHSE
    if _has_fused_kernels(query_BHTE.device):
        mask_BHTS = None if bias is None else bias.unflatten(0, (num_sentences, num_heads))
        return fused_attention(query_BHTE, key_BHSE, value_BHSE, attn_mask=mask_BHTS)
    queries, keys, values = query_BHTE.flatten(0, 1), key_BHSE.flatten(0, 1), value_BHSE.flatten(0, 1)
    added = queries.new_empty(()) if bias is None else bias
    scores = torch.baddbmm(added, queries, keys.transpose(1, 2), beta=int(bias is not None), alpha=width**-0.5)
    return torch.bmm(scores.softmax(dim=-1), values).view(num_sentences, num_heads, num_queries, -1)


def attend_own_keys(
    query_BHKE: Tensor, key_BHNE: Tensor, value_BHNE: Tensor, own_keys_BKT: Tensor, score_HE: Tensor | None = None
) -> Tensor:
    """`attend_step` where beam k of a sentence sees the T of its N keys that `own_keys_BKT` names, (B, H, K, E)."""
    num_heads, num_beams = query_BHKE.shape[1:3]
    index_BHN = own_keys_BKT.flatten(1)[:, None].expand(-1, num_heads, -1)
    keys, values = (
        x.gather(2, index_BHN[..., None].expand(-1, -1, -1, x.size(3))).unflatten(2, (num_beams, -1)).flatten(1, 2)
        for x in (key_BHNE, value_BHNE)
    )
    if score_HE is not None:  # each beam's heads stand in the place of heads
        score_HE = score_HE.repeat_interleave(num_beams, dim=0)
    attended = attend_step(query_BHKE.flatten(1, 2)[:, :, None], keys, values, None, score_HE)
    return attended.view(*query_BHKE.shape[:3], -1)


def _has_fused_kernels(device: torch.device) -> bool:
    return device.type != "cpu"


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, T, H·E) → (B, H, T, E), without copying."""
    return x.view(*x.shape[:2], num_heads, -1).transpose(1, 2)


def join_heads(x_BHTE: Tensor) -> Tensor:
    """(B, H, T, E) → (B, T, H·E)."""
    return x_BHTE.transpose(1, 2).flatten(2)


def project_heads(x_BHTE: Tensor, output: nn.Linear, packing: Packing | None) -> Tensor:
    """Returns W_O of the joined heads, (B, T, D), or (N, D) with a `packing`."""
    projected: Tensor = output(packed(join_heads(x_BHTE), packing))
    return projected


def _score_weights(config: ModelConfig) -> nn.Parameter | None:
    return nn.Parameter(torch.empty(config.num_heads, config.d_k)) if scores_additively(config) else None


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself (§3.2.2); W_Q, W_K and W_V are one matrix, in that order."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads, self.dropout = config.num_heads, config.attention_dropout
        key_width, value_width = config.num_heads * config.d_k, config.num_heads * config.d_v
        self.widths = (key_width, key_width, value_width)
        self.query_key_value = nn.Linear(config.d_model, sum(self.widths), bias=config.attention_bias)
        self.output = nn.Linear(value_width, config.d_model, bias=config.attention_bias)
        self.query_factor, self.score_HE = query_factor(config), _score_weights(config)

    def project(self, x: Tensor, packing: Packing | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values, (B, H, T, E) each."""
        qkv = unpacked(self.query_key_value(x), packing)
        query, key, value = (split_heads(each, self.num_heads) for each in qkv.split(self.widths, dim=-1))
        return query if self.query_factor == 1 else query * self.query_factor, key, value

    def weights(self, x: Tensor, attend_mask: Tensor | None, *, causal: bool, packing: Packing | None = None) -> Tensor:
        """Returns the attention weights of `forward` with the same arguments, (B, H, T, S)."""
        query, key, _ = self.project(x, packing)
        return attention_weights(query, key, attend_mask, causal=causal, score_HE=self.score_HE)

    def forward(self, x: Tensor, attend_mask: Tensor | None, *, causal: bool, packing: Packing | None = None) -> Tensor:
        """Attends within each sequence of `x`: (B, T, D), or (N, D) with a `packing`."""
        dropout = self.dropout if self.training else 0.0
        query, key, value = self.project(x, packing)
        heads_BHTE = attend(query, key, value, attend_mask, causal=causal, dropout=dropout, score_HE=self.score_HE)
        return project_heads(heads_BHTE, self.output, packing)


class CrossAttention(nn.Module):
    """Multi-head attention of the decoder to the encoder's output (§3.2.3); W_K and W_V are one matrix."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads, self.dropout = config.num_heads, config.attention_dropout
        self.widths = (config.num_heads * config.d_k, config.num_heads * config.d_v)
        self.query = nn.Linear(config.d_model, self.widths[0], bias=config.attention_bias)
        self.key_value = nn.Linear(config.d_model, sum(self.widths), bias=config.attention_bias)
        self.output = nn.Linear(self.widths[1], config.d_model, bias=config.attention_bias)
        self.query_factor, self.score_HE = query_factor(config), _score_weights(config)

    def project_memory(self, memory: Tensor, packing: Packing | None = None) -> KeysAndValues:
        """Returns the keys and values of the encoder's output, (B, H, S, E) each; they are the same at every step."""
        key, value = unpacked(self.key_value(memory), packing).split(self.widths, dim=-1)
        return split_heads(key, self.num_heads), split_heads(value, self.num_heads)

    def project_query(self, x: Tensor, packing: Packing | None = None) -> Tensor:
        """Returns the queries, (B, H, T, E)."""
        query_BHTE = split_heads(unpacked(self.query(x), packing), self.num_heads)
        return query_BHTE if self.query_factor == 1 else query_BHTE * self.query_factor

    def weights(
        self, x: Tensor, memory: KeysAndValues, attend_mask: Tensor | None, *, packing: Packing | None = None
    ) -> Tensor:
        """Returns the attention weights of `forward` with the same arguments, (B, H, T, S)."""
        return attention_weights(self.project_query(x, packing), memory[0], attend_mask, score_HE=self.score_HE)

    def step(self, x_BKD: Tensor, memory: KeysAndValues, bias: Tensor | None) -> Tensor:
        """Does what `forward` does, in a decoding step; for `bias` see `attend_step`."""
        heads_BHKE = attend_step(self.project_query(x_BKD), *memory, bias, self.score_HE)
        return project_heads(heads_BHKE, self.output, None)

    def forward(
        self, x: Tensor, memory: KeysAndValues, attend_mask: Tensor | None, *, packing: Packing | None = None
    ) -> Tensor:
        """Attends from each position of `x`, (B, T, D) or (N, D) with a `packing`, to projected memory."""
        dropout = self.dropout if self.training else 0.0
        query_BHTE = self.project_query(x, packing)
        heads_BHTE = attend(query_BHTE, *memory, attend_mask, dropout=dropout, score_HE=self.score_HE)
        return project_heads(heads_BHTE, self.output, packing)
