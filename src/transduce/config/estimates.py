"""What a training step costs, computed from the configuration alone: operations and memory. Needs no torch."""

from dataclasses import dataclass

from transduce.config.schema import Config, ModelConfig
from transduce.config.weights import count_parameters

SENTENCE_TOKENS = 32  # of each side; the cost of attention depends on it
_FLOAT_BYTES = 4
_COPIES = 4  # weights, gradients, and two moments of the optimiser


@dataclass(frozen=True)
class Estimate:
    """What a training step and a loaded model need, approximately."""

    step_flops: float  # matrix products, forward and backward: as `transduce.training.flops`, without padding
    weights_bytes: int  # float32
    training_bytes: int  # weights, gradients and moments, float32
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
    budgets = (train.source_batch_tokens, train.target_batch_tokens)
    encoder, decoder = kept_numbers(model)
    kept = budgets[0] * model.num_encoder_layers * encoder + budgets[1] * model.num_decoder_layers * decoder
    limit = train.micro_batch_tokens
    share = min(1.0, limit / train.target_batch_tokens) if isinstance(limit, int) and limit else 1.0
    return Estimate(
        step_flops=_step_flops(model, *budgets),
        weights_bytes=weights,
        training_bytes=_COPIES * weights,
        activation_bytes=round(share * _FLOAT_BYTES * kept),
    )


def _step_flops(config: ModelConfig, source_tokens: int, target_tokens: int) -> float:
    """Backward has two products for each of the forward pass; each weight is a multiplication and an addition."""
    d = config.d_model
    key, value = config.num_heads * config.d_k, config.num_heads * config.d_v
    attention = d * (2 * key + value) + value * d
    feed_forward = 2 * d * config.d_ff
    pairs = (key + value) * SENTENCE_TOKENS  # Q Kᵀ and the weighted sum of V, a token
    encoder = source_tokens * (attention + feed_forward + pairs)
    decoder = target_tokens * (attention + feed_forward + pairs)  # the attention to itself
    decoder += target_tokens * (d * key + value * d + pairs) + source_tokens * d * (key + value)  # and to the source
    layers = config.num_encoder_layers * encoder + config.num_decoder_layers * decoder
    return 6.0 * (layers + target_tokens * d * config.vocab_size)


def kept_numbers(config: ModelConfig) -> tuple[int, int]:
    """Returns how many numbers a layer of the encoder, and of the decoder, keeps of a token for its gradient.

    Queries, keys, values and what comes of them, the inner layer, and inputs and outputs of width d_model. Counted by
    what PyTorch keeps of this model, which it meets within a tenth. Logits are never held all at once.
    """
    heads = 2 * config.num_heads * (config.d_k + config.d_v)
    return heads + config.d_ff + 6 * config.d_model, 2 * heads + config.d_ff + 9 * config.d_model
