"""Restricted self-attention: each position sees a neighbourhood of r positions around it (§4, Table 1).

A window of r positions reaches r // 2 to each side: position t sees t - r // 2 … t + r // 2, itself included. In the
decoder the same neighbourhood is masked causally and is t - r // 2 … t. (For an even r that is r + 1 positions: a
centred neighbourhood has as many on its left as on its right.) Shape suffixes as in `transduce.model.attention`.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.config import ModelConfig
from transduce.model.attention import SelfAttention, attend, attend_reference, attention_weights, project_heads
from transduce.model.packing import Packing

_SHORTEST_BLOCK, _LONGEST_BLOCK = 16, 128  # queries that share a span of keys
# Scores computed at once: few enough for a CPU's cache, and enough to keep a GPU busy.
_SPAN_BYTES = {"cpu": 4 << 20, "cuda": 256 << 20}


class WindowedSelfAttention(SelfAttention):
    """Multi-head self-attention restricted to a neighbourhood of `attention_window` positions (§4)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.window = config.attention_window

    def weights(self, x: Tensor, attend_mask: Tensor | None, *, causal: bool, packing: Packing | None = None) -> Tensor:
        """Returns the attention weights of `forward` with the same arguments, (B, H, T, T); 0 outside the window."""
        query, key, _ = self.project(x, packing)
        return attention_weights(query, key, _within(query, attend_mask, self.window), causal=causal)

    def forward(self, x: Tensor, attend_mask: Tensor | None, *, causal: bool, packing: Packing | None = None) -> Tensor:
        """Attends within the window around each position of `x`: (B, T, D), or (N, D) with a `packing`."""
        query, key, value = self.project(x, packing)
        dropout = self.dropout if self.training else 0.0
        heads = windowed_attend(query, key, value, attend_mask, window=self.window, causal=causal, dropout=dropout)
        return project_heads(heads, self.output, packing)


def window_mask(num_positions: int, window: int, device: torch.device | str | None = None) -> Tensor:
    """Returns which keys lie in each query's neighbourhood, (T, T): True where |t - s| ≤ window // 2."""
    positions = torch.arange(num_positions, device=device)
    return (positions[:, None] - positions).abs() <= window // 2


def windowed_attend_reference(
    query_BHTE: Tensor,
    key_BHTE: Tensor,
    value_BHTE: Tensor,
    attend_mask: Tensor | None = None,
    *,
    window: int,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Full attention with all but the neighbourhood masked, O(n²·d): what tests compare `windowed_attend` with."""
    mask = _within(query_BHTE, attend_mask, window)
    return attend_reference(query_BHTE, key_BHTE, value_BHTE, mask, causal=causal, dropout=dropout)


def _within(query_BHTE: Tensor, attend_mask: Tensor | None, window: int) -> Tensor | None:
    num_positions = query_BHTE.size(-2)
    if num_positions - 1 <= window // 2:  # the window covers the sequence
        return attend_mask
    mask_TT = window_mask(num_positions, window, query_BHTE.device)
    return mask_TT if attend_mask is None else attend_mask & mask_TT


def windowed_attend(
    query_BHTE: Tensor,
    key_BHTE: Tensor,
    value_BHTE: Tensor,
    attend_mask: Tensor | None = None,
    *,
    window: int,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Attention within a neighbourhood, in O(r·n·d) time and O(n·d) memory, forward and backward.

    Queries are cut into blocks. Each block sees one stretch of keys: its own positions and r // 2 to either side. The
    blocks become the sentences of a batch for `attend`, a few megabytes of scores at a time. Scores are computed again
    for the gradient instead of being stored. At n = 8, blocks of 2 and r = 2:

        queries  01   23    45    67
        keys    ·012 1234  3456  567·       · is padding, masked; corners such as 0–2 are masked too

    Args:
        query_BHTE: queries.
        key_BHTE: keys of the same positions.
        value_BHTE: their values.
        attend_mask: True at keys that may be seen (padding is False); broadcasts to (B, H, 1, T).
        window: r, at least 1.
        causal: position t sees no position after t.
        dropout: rate on the attention weights.
    """
    plan = _Plan.of(query_BHTE, window, causal)
    num_positions = query_BHTE.size(-2)
    if num_positions <= plan.width:  # one block would see them all
        mask = _within(query_BHTE, attend_mask, window)
        return attend(query_BHTE, key_BHTE, value_BHTE, mask, causal=causal, dropout=dropout)
    if attend_mask is not None:
        num_heads = attend_mask.size(-3) if attend_mask.dim() >= 3 else 1
        attend_mask = attend_mask.expand(query_BHTE.size(0), num_heads, 1, num_positions)
    arguments = (query_BHTE, key_BHTE, value_BHTE, attend_mask, plan, dropout)
    attended: Tensor = _Windowed.apply(*arguments)  # type: ignore[no-untyped-call]
    return attended


def windowed_pairs(num_positions: int, window: int, *, causal: bool) -> int:
    """Returns the number of scores that `windowed_attend` computes, masked ones included.

    Whole blocks times the number of keys that each sees; n² where a block would see the whole sequence, and where
    there is no window (0).
    """
    block, width = _block(window, causal)
    if not window or num_positions <= width:
        return num_positions * num_positions
    return math.ceil(num_positions / block) * block * width


def _block(window: int, causal: bool) -> tuple[int, int]:
    """Returns the number of queries of a block, and that of the keys that they see."""
    half = window // 2
    block = min(max(half, _SHORTEST_BLOCK), _LONGEST_BLOCK)
    return block, half + block + (0 if causal else half)


@dataclass(frozen=True)
class _Span:
    """Some blocks of queries, and the keys that they see."""

    number: int
    queries: slice  # positions
    keys: slice

    def of(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns views of its queries, of the keys that they see, and of those keys' values."""
        return query[:, :, self.queries], key[:, :, self.keys], value[:, :, self.keys]

    def of_mask(self, attend_mask: Tensor | None) -> Tensor | None:
        """Returns a view of the mask of those keys."""
        return None if attend_mask is None else attend_mask[..., self.keys]


@dataclass(frozen=True)
class _Plan:
    """How positions are divided: blocks of queries, and spans of blocks that are computed at once."""

    block: int
    left: int  # keys before a block that its first query sees
    right: int  # keys after a block that its last query sees
    num_positions: int
    span_blocks: int

    @classmethod
    def of(cls, query_BHTE: Tensor, window: int, causal: bool) -> "_Plan":
        num_sentences, num_heads, num_positions, _ = query_BHTE.shape
        half = window // 2
        block, width = _block(window, causal)
        block_bytes = num_sentences * num_heads * block * width * query_BHTE.element_size()
        span_blocks = max(1, _SPAN_BYTES.get(query_BHTE.device.type, 64 << 20) // max(block_bytes, 1))
        return cls(block, half, 0 if causal else half, num_positions, span_blocks)

    @property
    def width(self) -> int:
        """The number of keys that a block sees."""
        return self.left + self.block + self.right

    def spans(self) -> Iterator[_Span]:
        """Yields the spans, in order."""
        step = self.span_blocks * self.block
        for number, start in enumerate(range(0, self.num_positions, step)):
            stop = min(start + step, self.num_positions)
            keys = slice(max(0, start - self.left), min(self.num_positions, stop + self.right))
            yield _Span(number, slice(start, stop), keys)

    def attend(
        self, span: _Span, query: Tensor, key: Tensor, value: Tensor, attend_mask: Tensor | None, dropout: float
    ) -> Tensor:
        """Attends from the queries of a span, (B, H, t, E), to its keys, (B, H, s, E); gives (B, H, t, E)."""
        num_queries = query.size(2)
        num_blocks = math.ceil(num_queries / self.block)
        # Padding that brings the span to whole blocks, and the keys to the width of theirs.
        after_queries = num_blocks * self.block - num_queries
        before = self.left - (span.queries.start - span.keys.start)
        after = after_queries + self.right - (span.keys.stop - span.queries.stop)
        query = F.pad(query, (0, 0, 0, after_queries)) if after_queries else query
        query_b = query.unflatten(2, (num_blocks, self.block)).transpose(1, 2).flatten(0, 1)
        key_b, value_b = (self._blocks_of_keys(x, before, after) for x in (key, value))
        mask = self._mask(query.device)
        if before or after or attend_mask is not None:
            if attend_mask is None:
                attend_mask = key.new_ones(key.size(0), 1, 1, key.size(2), dtype=torch.bool)
            seen = F.pad(attend_mask[:, :, 0, :, None], (0, 0, before, after))  # padding is False
            mask = mask & self._blocks_of_keys(seen, 0, 0).transpose(-1, -2)
        attended = attend(query_b, key_b, value_b, mask, dropout=dropout)
        attended_BHTE: Tensor = attended.unflatten(0, (-1, num_blocks)).transpose(1, 2).flatten(2, 3)
        return attended_BHTE[:, :, :num_queries]

    def _blocks_of_keys(self, x_BHSE: Tensor, before: int, after: int) -> Tensor:
        """(B, H, s, E) → (B × blocks, H, width, E): the keys that each block of queries sees; these overlap."""
        if before or after:
            x_BHSE = F.pad(x_BHSE, (0, 0, before, after))
        return x_BHSE.unfold(2, self.width, self.block).permute(0, 2, 1, 4, 3).flatten(0, 1)

    def _mask(self, device: torch.device) -> Tensor:
        """Returns which of the keys that a block sees lie in each of its queries' neighbourhoods, (block, width)."""
        query = torch.arange(self.block, device=device)[:, None]
        offset = torch.arange(self.width, device=device) - self.left - query  # key position - query position
        return (offset >= -self.left) & (offset <= self.right)


class _Windowed(torch.autograd.Function):
    """Attends span by span. The gradient computes each span again: only the inputs are stored."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, attend_mask: Tensor | None, plan: _Plan, dropout: float
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, attend_mask)
        ctx.plan, ctx.dropout = plan, dropout
        ctx.seed = int(torch.randint(1 << 62, ())) if dropout else 0
        ctx.autocast = (torch.is_autocast_enabled(query.device.type), torch.get_autocast_dtype(query.device.type))
        batch, heads, positions, _ = query.shape
        # In memory as (B, T, H, E): joining the heads, the next operation, then copies nothing.
        attended = query.new_empty(batch, positions, heads, value.size(-1)).transpose(1, 2)
        for span in plan.spans():
            with _same_dropout(ctx.seed, span, query.device, dropout):
                parts = span.of(query, key, value)
                attended[:, :, span.queries] = plan.attend(span, *parts, span.of_mask(attend_mask), dropout)
        return attended

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, attend_mask = ctx.saved_tensors
        device = query.device
        sums = [torch.zeros_like(x) for x in (query, key, value)]
        enabled, dtype = ctx.autocast
        for span in ctx.plan.spans():
            parts = [x.detach().requires_grad_() for x in span.of(query, key, value)]
            autocast = torch.autocast(device.type, dtype, enabled=enabled)
            with torch.enable_grad(), autocast, _same_dropout(ctx.seed, span, device, ctx.dropout):
                attended = ctx.plan.attend(span, *parts, span.of_mask(attend_mask), ctx.dropout)
            gradients = torch.autograd.grad(attended, parts, gradient[:, :, span.queries].to(attended.dtype))
            for total, part in zip(span.of(*sums), gradients, strict=True):
                total += part  # spans share keys at their borders
        return (*sums, None, None, None)


@contextmanager
def _same_dropout(seed: int, span: _Span, device: torch.device, dropout: float) -> Iterator[None]:
    """Draws the same dropout for a span each time, and leaves the random state outside of it as it was."""
    if not dropout:
        yield
        return
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed + span.number)
        yield
