"""What a training step costs, computed from the configuration alone: operations and memory. Needs no torch."""

from dataclasses import dataclass

from transduce.config.schema import Config, ModelConfig
from transduce.config.weights import count_parameters

SENTENCE_TOKENS = 32  # of each side; the cost of attention depends on it
_FLOAT_BYTES = 4
_COPIES = {"adam": 4, "nesterov": 3}  # weights, gradients, and one or two moments of the optimiser


@dataclass(frozen=True)
class Estimate:
    """What a training step and a loaded model need, approximately."""

    step_flops: float  # of `product_flops`, without padding
    weights_bytes: int  # float32
    training_bytes: int  # weights, gradients and moments, float32; in int8 tuning, rounded weights too
    activation_bytes: int  # what the backward pass of one micro-batch needs, float32

    @property
    def memory_bytes(self) -> int:
        """What training needs in all, without PyTorch itself and its temporary buffers."""
        return self.training_bytes + self.activation_bytes


def estimate(config: Config) -> Estimate:
    """Returns the estimate for full batches on one device, all sentences `SENTENCE_TOKENS` long.

    Where `train.micro_batch_tokens` is "auto", batches are not split, which training may do.
    """
    model, train, weights = config.model, config.train, _FLOAT_BYTES * count_parameters(config.model)
    budgets = source, target = (train.source_batch_tokens, train.target_batch_tokens)
    pairs = (source * SENTENCE_TOKENS, target * 2 * SENTENCE_TOKENS)
    encoder, decoder = kept_numbers(model)
    kept = source * model.num_encoder_layers * encoder + target * model.num_decoder_layers * decoder
    limit = train.micro_batch_tokens
    share = min(1.0, limit / train.target_batch_tokens) if isinstance(limit, int) and limit else 1.0
    return Estimate(
        step_flops=float(product_flops(model, budgets, pairs, target)),
        weights_bytes=weights,
        training_bytes=(_COPIES[train.optimizer] + (train.int8_tuning_steps > 0)) * weights,
        activation_bytes=round(share * _FLOAT_BYTES * kept),
    )


def product_flops(config: ModelConfig, rows: tuple[int, int], pairs: tuple[int, int], target_tokens: int) -> int:
    """Returns the operations of all products of matrices, in one forward and backward pass.

    A product of (m, k) and (k, n) is 2·m·k·n operations, an addition for each multiplication. The backward pass has two
    products of the same size for each one, one for the gradient of each factor.

    Args:
        config: the shape of the model.
        rows: the positions of source and target that projections and FFN work on.
        pairs: the pairs of positions that a head scores, in a layer of the encoder and in one of the decoder.
        target_tokens: the positions that are projected to the vocabulary.
    """
    d, (source_rows, target_rows), (encoder_pairs, decoder_pairs) = config.d_model, rows, pairs
    key, value = config.num_heads * config.d_k, config.num_heads * config.d_v
    self_attention = d * (2 * key + value) + value * d  # W_Q, W_K, W_V and W_O: multiplications a row
    query_and_output, memory = d * key + value * d, d * (key + value)
    feed_forward = 2 * d * config.d_ff
    encoder = source_rows * (self_attention + feed_forward) + encoder_pairs * (key + value)  # Q Kᵀ and the sum of V
    decoder = target_rows * (self_attention + query_and_output + feed_forward) + source_rows * memory
    decoder += decoder_pairs * (key + value)
    layers = config.num_encoder_layers * encoder + config.num_decoder_layers * decoder
    return 6 * (layers + target_tokens * d * config.output_vocab_size)


def kept_numbers(config: ModelConfig) -> tuple[int, int]:
    """Returns how many numbers a layer of the encoder, and of the decoder, keeps of a token for its gradient.

    Queries, keys, values and what comes of them, the inner layer, and inputs and outputs of width d_model. Counted by
    what PyTorch keeps of this model, which it meets within a tenth. Logits are never held all at once.
    """
    heads = 2 * config.num_heads * (config.d_k + config.d_v)
    return heads + config.d_ff + 6 * config.d_model, 2 * heads + config.d_ff + 9 * config.d_model
