"""Floating-point operations of a training step, counted from the model's shape and the batch's.

Only products of matrices are counted, which are nearly all of the work (`config.estimates.product_flops`). Softmax,
norms, dropout, biases and Adam, which work element by element, are left out. Two details:

- Attention is counted as it is computed: over all padded positions, also future ones of causal attention, and
  restricted attention over its blocks of keys.
- What a fused kernel or restricted attention computes again in the backward pass, to save memory, is not counted.
"""

from dataclasses import dataclass

from transduce.config import ModelConfig
from transduce.config.estimates import product_flops
from transduce.model.packing import num_rows
from transduce.model.windowed import windowed_pairs
from transduce.training.batch import Batch


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


def training_flops(config: ModelConfig, shape: BatchShape) -> int:
    """Returns the operations of one forward and backward pass."""
    source, target = shape.source_positions, shape.target_positions
    encoder_pairs = windowed_pairs(source, config.attention_window, causal=False)
    decoder_pairs = windowed_pairs(target, config.attention_window, causal=True) + target * source
    pairs = (shape.num_sentences * encoder_pairs, shape.num_sentences * decoder_pairs)
    return product_flops(config, (shape.source_rows, shape.target_rows), pairs, shape.target_tokens)
