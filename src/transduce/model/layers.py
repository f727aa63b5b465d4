"""The layers of encoder and decoder (§3.1, §3.3), in the order of Figure 1. Shape suffixes: `model.attention`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import ModelConfig
from transduce.config.choices import is_pre_norm
from transduce.model.attention import CrossAttention, SelfAttention, join_heads
from transduce.model.cache import StepCache, StepContext
from transduce.model.dropout import dropout
from transduce.model.packing import Packing
from transduce.model.windowed import WindowedSelfAttention

Biases = tuple[Tensor | None, Tensor | None]  # `mask_bias` of a beam's own past, and of the source


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {  # each may overwrite its input
    "relu": lambda x: F.relu(x, inplace=True),
    "swish": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
}


class FeedForward(nn.Module):
    """f(x W₁ + b₁) W₂ + b₂ at each position; f(x) = max(0, x) is eq. 2."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.dropout = config.ffn_dropout
        self.config = config

    def forward(self, x: Tensor) -> Tensor:
        inner = _ACTIVATIONS[self.config.activation](self.inner(x))
        projected: Tensor = self.outer(dropout(inner, self.dropout, self.training))
        return projected


class Residual(nn.Module):
    """The connection around a sub-layer: LayerNorm(x + Dropout(Sublayer(x))) in post-norm, the paper's (§3.1, §5.4).

    Pre-norm is x + Dropout(Sublayer(LayerNorm(x))). The sub-layer is called between `enter` and `leave`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.pre = is_pre_norm(config)
        self.dropout = config.dropout

    def enter(self, x: Tensor) -> Tensor:
        """Returns the input of the sub-layer."""
        normed: Tensor = self.norm(x) if self.pre else x
        return normed

    def leave(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Returns the sum of `x` and the sub-layer's output, normalised where the model is post-norm."""
        x = x + dropout(sublayer_output, self.dropout, self.training)
        normed: Tensor = x if self.pre else self.norm(x)
        return normed


def _self_attention(config: ModelConfig) -> SelfAttention:
    return WindowedSelfAttention(config) if config.attention_window else SelfAttention(config)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _self_attention(config)
        self.self_attention_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: Tensor, attend_mask: Tensor | None, packing: Packing | None) -> Tensor:
        """Maps (B, S, D) to (B, S, D), or (N, D) to (N, D) where a `packing` is given."""
        attended = self.self_attention(
            self.self_attention_residual.enter(x), attend_mask, causal=False, packing=packing
        )
        x = self.self_attention_residual.leave(x, attended)
        return self.feed_forward_residual.leave(x, self.feed_forward(self.feed_forward_residual.enter(x)))


@dataclass(frozen=True)
class Encoded:
    """The encoder's output as the layers of the decoder read it."""

    states: Tensor  # (B, S, D), or (N, D) with a `packing`
    attend_mask: Tensor | None  # (B, 1, 1, S), True at real tokens; None where there is no padding
    packing: Packing | None


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, then the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _self_attention(config)
        self.self_attention_residual = Residual(config)
        self.cross_attention = CrossAttention(config)
        self.cross_attention_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: Tensor, encoded: Encoded, packing: Packing | None) -> Tensor:
        """Maps all target positions at once, as training does: (B, T, D) or (N, D) with a `packing`."""
        attended = self.self_attention(self.self_attention_residual.enter(x), None, causal=True, packing=packing)
        x = self.self_attention_residual.leave(x, attended)
        memory = self.cross_attention.project_memory(encoded.states, encoded.packing)
        attended = self.cross_attention(
            self.cross_attention_residual.enter(x), memory, encoded.attend_mask, packing=packing
        )
        x = self.cross_attention_residual.leave(x, attended)
        return self.feed_forward_residual.leave(x, self.feed_forward(self.feed_forward_residual.enter(x)))

    def step(self, x_BKD: Tensor, cache: StepCache, context: StepContext, biases: Biases) -> Tensor:
        """Maps the newest position, (B, K, D) to (B, K, D), and writes its keys and values into `cache`.

        The K beams of a sentence are K queries to one past and one memory, which are never copied for each beam;
        a bias hides from a beam what is not its own past (`StepContext.attend`).
        With an attention window both begin at `context.first_seen`.
        """
        past_bias, memory_bias = biases
        query, key, value = self.self_attention.project(self.self_attention_residual.enter(x_BKD))
        keys, values = cache.append(key, value, context.newest, context.first_seen)
        heads_BHKE = context.attend(query, keys, values, past_bias, self.self_attention.score_HE)
        attended = self.self_attention.output(join_heads(heads_BHKE))
        x_BKD = self.self_attention_residual.leave(x_BKD, attended)
        entered = self.cross_attention_residual.enter(x_BKD)
        memory = (cache.memory_key_BHSE, cache.memory_value_BHSE)
        if cache.coverage_BKS is not None:
            cache.coverage_BKS.add_(self.cross_attention.weights(entered, memory, context.memory_mask).mean(dim=1))
        attended = self.cross_attention.step(entered, memory, memory_bias)
        x_BKD = self.cross_attention_residual.leave(x_BKD, attended)
        return self.feed_forward_residual.leave(x_BKD, self.feed_forward(self.feed_forward_residual.enter(x_BKD)))
