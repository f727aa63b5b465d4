"""Floating-point operations of a training step, counted from the model's shape and the batch's.

Only products of matrices are counted, which are nearly all of the work (`config.estimates.product_flops`). Softmax,
norms, dropout, biases and Adam, which work element by element, are left out. Two details:

- Attention is counted as it is computed: over all padded positions, also future ones of causal attention, and
  restricted attention over its blocks of keys.
- What a fused kernel or restricted attention computes again in the backward pass, to save memory, is not counted.
"""

from transduce.config import ModelConfig
from transduce.config.estimates import product_flops
from transduce.model.packing import num_rows
from transduce.model.windowed import windowed_pairs
from transduce.training.batch import Batch


def training_flops(config: ModelConfig, batch: Batch, *, rounded: bool = False) -> int:
    """Returns the operations of one forward and backward pass; `rounded` is the model's `rounded_shapes`."""
    num_sentences, source = batch.source_BS.shape
    target, target_tokens = batch.target_BT.size(1), batch.num_target_tokens
    source_rows = num_rows(int(batch.source_lengths_B.sum()), num_sentences, source, rounded=rounded)
    target_rows = num_rows(target_tokens, num_sentences, target, rounded=rounded)
    encoder_pairs = windowed_pairs(source, config.attention_window, causal=False)
    decoder_pairs = windowed_pairs(target, config.attention_window, causal=True) + target * source
    pairs = (num_sentences * encoder_pairs, num_sentences * decoder_pairs)
    return product_flops(config, (source_rows, target_rows), pairs, target_tokens)
