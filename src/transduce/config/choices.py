"""One function for each option of `ModelConfig` that has several values.

A new value goes into the schema, and becomes a case here. Until then `assert_never` raises: no code treats it as an old
value. Other modules call these functions, and compare with no value themselves. No format that models are exported to
takes a value that it does not know (`unsupported`): `IN_EVERY_FORMAT` has those that all of them support.
"""

import math
from collections.abc import Mapping
from typing import Literal, assert_never, get_args, get_origin, get_type_hints

from transduce.config.schema import ModelConfig

Supported = Mapping[str, tuple[str, ...]]  # key of `ModelConfig` → the values that a system supports

# CTranslate2, Hugging Face and ONNX; one that supports a further value adds it to a table of its own.
IN_EVERY_FORMAT: Supported = {
    "positions": ("sinusoidal", "learned"),
    "sinusoid_layout": ("interleaved", "concatenated"),
    "tie_embeddings": ("all", "target", "none"),
    "norm": ("post", "pre"),
    "decoder_start": ("bos", "zero"),
    "activation": ("relu", "swish", "gelu", "gelu_tanh", "gelu_sigmoid"),
}

Precision = Literal["float32", "bfloat16", "int8"]  # in which the torch engine multiplies weights

EMBEDDINGS = {  # which of the three tables are weights of their own, by `tie_embeddings`
    "all": ("source_embedding",),
    "target": ("source_embedding", "target_embedding"),
    "none": ("source_embedding", "target_embedding", "output_embedding"),
}


def choices() -> dict[str, tuple[str, ...]]:
    """Returns the keys of `ModelConfig` that have several values, with all of them."""
    hints = get_type_hints(ModelConfig)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def unsupported(config: ModelConfig, supported: Supported = IN_EVERY_FORMAT) -> list[str]:
    """Returns `model.KEY = VALUE` for each value that is not `supported`; a missing key supports its default only."""
    defaults = ModelConfig()
    return [
        f"model.{name} = {getattr(config, name)!r}"
        for name in choices()
        if getattr(config, name) not in supported.get(name, (getattr(defaults, name),))
    ]


def learns_positions(config: ModelConfig) -> bool:
    """Returns whether the vectors of positions are weights."""
    match config.positions:
        case "learned":
            return True
        case "sinusoidal":
            return False
        case other:
            assert_never(other)


def longest_sequence(config: ModelConfig) -> int | None:
    """Returns how many tokens a sequence may have, EOS counted; None where there is no limit."""
    return config.max_positions if learns_positions(config) else config.max_length or None


def interleaves_sinusoids(config: ModelConfig) -> bool:
    """Returns whether sines and cosines of sinusoidal positions alternate; else all sines come first."""
    match config.sinusoid_layout:
        case "interleaved":
            return True
        case "concatenated":
            return False
        case other:
            assert_never(other)


def starts_from_zero(config: ModelConfig) -> bool:
    """Returns whether the decoder's first input is a zero vector; else it is the embedding of BOS."""
    match config.decoder_start:
        case "zero":
            return True
        case "bos":
            return False
        case other:
            assert_never(other)


def reads_source_end(config: ModelConfig) -> bool:
    """Returns whether the encoder reads the EOS that ends each source; else it is masked like padding."""
    match config.source_end:
        case "eos":
            return True
        case "none":
            return False
        case other:
            assert_never(other)


def query_factor(config: ModelConfig) -> float:
    """Returns what queries are multiplied by before their product with keys is divided by √d_k: √d_k undoes that."""
    match config.attention_score:
        case "scaled_dot" | "additive":
            return 1.0
        case "dot":
            return math.sqrt(config.d_k)
        case other:
            assert_never(other)


def scores_additively(config: ModelConfig) -> bool:
    """Returns whether a network scores queries and keys, which has weights; else it is their product."""
    match config.attention_score:
        case "additive":
            return True
        case "scaled_dot" | "dot":
            return False
        case other:
            assert_never(other)


def is_pre_norm(config: ModelConfig) -> bool:
    """Returns whether norms precede sub-layers, so that each stack ends with a norm; else they follow them."""
    match config.norm:
        case "pre":
            return True
        case "post":
            return False
        case other:
            assert_never(other)
