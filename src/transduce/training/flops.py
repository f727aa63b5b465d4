"""Floating-point operations of a training step, counted from the model's shape and the batch's.

Only products of matrices are counted, which are nearly all of the work: a product of (m, k) and (k, n) is 2·m·k·n
operations, an addition for each multiplication. Softmax, norms, dropout, biases and Adam, which work element by
element, are left out.

The backward pass has two products of the same size for each one, one for the gradient of each factor: a step is three
times its forward pass. Two details:

- Attention is counted as it is computed: over all padded positions, also future ones of causal attention, and
  restricted attention over its blocks of keys.
- What a fused kernel or restricted attention computes again in the backward pass, to save memory, is not counted.
"""

from dataclasses import dataclass

from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.model.packing import num_rows
from transduce.model.windowed import windowed_pairs
from transduce.training.batch import Batch

_FORWARD_AND_BACKWARD = 3


@dataclass(frozen=True)
class BatchShape:
    """The sizes of a batch as it is computed. Rows are what projections and FFN work on: see `num_rows`."""

    num_sentences: int
    source_positions: int  # of the padded batch, EOS counted; what attention sees
    target_positions: int
    source_rows: int
    target_rows: int
    target_tokens: int  # real ones: what the output projection sees

    @classmethod
    def of(cls, batch: Batch, *, rounded: bool = False) -> "BatchShape":
        """Returns the sizes of a batch as `Transformer.forward` computes it; `rounded` is its `rounded_shapes`."""
        num_sentences, source_positions = batch.source_BS.shape
        target_positions, target_tokens = batch.target_BT.size(1), batch.num_target_tokens
        return cls(
            num_sentences,
            source_positions,
            target_positions,
            num_rows(int(batch.source_lengths_B.sum()), num_sentences, source_positions, rounded=rounded),
            num_rows(target_tokens, num_sentences, target_positions, rounded=rounded),
            target_tokens,
        )


@dataclass(frozen=True)
class Flops:
    """Operations in each part of the model."""

    encoder: int  # projections and FFN
    decoder: int  # the same, with the projections of the encoder's output
    attention: int  # Q Kᵀ and the sum of the values, in both stacks
    output: int  # the projection to the vocabulary

    @property
    def total(self) -> int:
        """All of them."""
        return self.encoder + self.decoder + self.attention + self.output


def step_flops(model: Transformer, config: ModelConfig, batch: Batch) -> int:
    """Returns the operations of one forward and backward pass."""
    return training_flops(config, BatchShape.of(batch, rounded=model.rounded_shapes)).total


def training_flops(config: ModelConfig, shape: BatchShape) -> Flops:
    """Returns the operations of one forward and backward pass."""
    d, d_ff = config.d_model, config.d_ff
    key, value = config.num_heads * config.d_k, config.num_heads * config.d_v
    self_attention = d * (2 * key + value) + value * d  # W_Q, W_K, W_V and W_O: multiplications a row
    feed_forward = 2 * d * d_ff
    query_and_output = d * key + value * d
    encoder_layer = shape.source_rows * (self_attention + feed_forward)
    decoder_layer = shape.target_rows * (self_attention + query_and_output + feed_forward)
    decoder_layer += shape.source_rows * d * (key + value)
    source, target = shape.source_positions, shape.target_positions
    encoder_pairs = config.num_encoder_layers * _self_attention_pairs(source, config, causal=False)
    decoder_pairs = config.num_decoder_layers * (_self_attention_pairs(target, config, causal=True) + target * source)
    scale = 2 * _FORWARD_AND_BACKWARD
    return Flops(
        encoder=scale * config.num_encoder_layers * encoder_layer,
        decoder=scale * config.num_decoder_layers * decoder_layer,
        attention=scale * shape.num_sentences * (encoder_pairs + decoder_pairs) * (key + value),
        output=scale * shape.target_tokens * d * config.vocab_size,
    )


def _self_attention_pairs(num_positions: int, config: ModelConfig, *, causal: bool) -> int:
    """Returns the number of pairs of positions that a head of one layer scores."""
    if config.attention_window:
        return windowed_pairs(num_positions, config.attention_window, causal=causal)
    return num_positions * num_positions
