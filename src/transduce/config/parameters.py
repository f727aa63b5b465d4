"""The number of trained numbers of a model, from its configuration alone (the last column of Table 3)."""

from transduce.config.schema import ModelConfig

_T2T_TARGET_SPACES = 32


def count_parameters(config: ModelConfig) -> int:
    """Returns what `Transformer(config).num_parameters` is, without building it; needs no torch."""
    d, bias = config.d_model, int(config.attention_bias)
    key, value = config.num_heads * config.d_k, config.num_heads * config.d_v
    attention = (d + bias) * (2 * key + value) + value * d + bias * d
    feed_forward = d * config.d_ff + config.d_ff + config.d_ff * d + d
    norm = 2 * d
    encoder = config.num_encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = config.num_decoder_layers * (2 * attention + feed_forward + 3 * norm)
    tables = {"all": 1, "target": 2, "none": 3}[config.tie_embeddings] * config.vocab_size * d
    positions = 2 * config.max_positions * d if config.positions == "learned" else 0
    final_norms = 2 * norm if config.norm == "pre" else 0
    target_space = _T2T_TARGET_SPACES * d if config.target_space_embedding else 0
    return encoder + decoder + tables + positions + final_norms + target_space
