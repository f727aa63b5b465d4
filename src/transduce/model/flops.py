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


@dataclass(frozen=True)
class BatchSizes:
    """The sizes of a batch that decide how many operations it costs."""

    num_sentences: int
    source: int  # positions of a source, padding included
    target: int
    source_tokens: int  # of all sources together, EOS counted, padding not
    target_tokens: int
    predicted_tokens: int  # fewer than `target_tokens` for a head that predicts later ones
    head: int = 1  # that is trained


def training_flops(config: ModelConfig, sizes: BatchSizes, *, rounded: bool = False, frozen: bool = False) -> int:
    """Returns the operations of one forward and backward pass.

    Args:
        config: the shape of the model.
        sizes: those of the batch, which is for one of the model's heads.
        rounded: the model's `rounded_shapes`.
        frozen: whether only the head is trained: the gradient goes through the output projection, and no further.
    """
    num_sentences, source, target = sizes.num_sentences, sizes.source, sizes.target
    source_rows = num_rows(sizes.source_tokens, num_sentences, source, rounded=rounded)
    target_rows = num_rows(sizes.target_tokens, num_sentences, target, rounded=rounded)
    encoder_pairs = windowed_pairs(source, config.attention_window, causal=False)
    decoder_pairs = windowed_pairs(target, config.attention_window, causal=True) + target * source
    pairs = (num_sentences * encoder_pairs, num_sentences * decoder_pairs)
    predicted = sizes.predicted_tokens
    of_head = 2 * predicted * 2 * config.d_model * config.d_ff if sizes.head > 1 else 0
    rows = (source_rows, target_rows)
    if frozen:  # the forward pass, the gradient of the projection's input, and those of the head's two weights and W₂'s
        forward = product_flops(config, rows, pairs, predicted) // 3
        return forward + 2 * predicted * config.d_model * config.output_vocab_size + of_head + of_head + of_head // 2
    return product_flops(config, rows, pairs, predicted) + 3 * of_head
