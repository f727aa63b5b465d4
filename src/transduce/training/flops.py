"""Floating-point operations of a training step, counted from the model's shape and the batch's.

Only products of matrices are counted, which are nearly all of the work (`config.estimates.product_flops`). Softmax,
norms, dropout, biases and Adam, which work element by element, are left out. Two details:

- Attention is counted as it is computed: over all padded positions, also future ones of causal attention, and
  restricted attention over its blocks of keys.
- What a fused kernel or restricted attention computes again in the backward pass, to save memory, is not counted.
"""

from transduce.config import ModelConfig
from transduce.config.estimates import product_flops
from transduce.model import Transformer
from transduce.model.packing import num_rows
from transduce.model.windowed import windowed_pairs
from transduce.training.batch import Batch
from transduce.training.trainable import TrainableModel


def model_flops(model: TrainableModel, batch: Batch) -> int:
    """Returns the operations of a training step on a batch; 0 for a model whose products are not known."""
    if not isinstance(model, Transformer):
        return 0
    return training_flops(model.config, batch, rounded=model.rounded_shapes, frozen=not model.training)


def training_flops(config: ModelConfig, batch: Batch, *, rounded: bool = False, frozen: bool = False) -> int:
    """Returns the operations of one forward and backward pass.

    Args:
        config: the shape of the model.
        batch: for one of its heads.
        rounded: the model's `rounded_shapes`.
        frozen: whether only the head is trained: the gradient goes through the output projection, and no further.
    """
    num_sentences, source = batch.source_BS.shape
    target, target_tokens = batch.target_BT.size(1), int(batch.target_lengths_B.sum())
    source_rows = num_rows(int(batch.source_lengths_B.sum()), num_sentences, source, rounded=rounded)
    target_rows = num_rows(target_tokens, num_sentences, target, rounded=rounded)
    encoder_pairs = windowed_pairs(source, config.attention_window, causal=False)
    decoder_pairs = windowed_pairs(target, config.attention_window, causal=True) + target * source
    pairs = (num_sentences * encoder_pairs, num_sentences * decoder_pairs)
    predicted = batch.num_target_tokens
    of_head = 2 * predicted * 2 * config.d_model * config.d_ff if batch.head > 1 else 0
    rows = (source_rows, target_rows)
    if frozen:  # the forward pass, the gradient of the projection's input, and those of the head's two weights and W₂'s
        forward = product_flops(config, rows, pairs, predicted) // 3
        return forward + 2 * predicted * config.d_model * config.output_vocab_size + of_head + of_head + of_head // 2
    return product_flops(config, rows, pairs, predicted) + 3 * of_head
