"""The kinds that a model can be of, asked for in one place: a new kind raises here, and is not taken for the last one.

Code that tests for one kind and takes the rest for the other goes wrong silently once there is a third. So other
modules call these functions, which name all kinds, and an exporter declares what its format supports (`unsupported`).
"""

from collections.abc import Mapping
from typing import Literal, assert_never, get_args, get_origin, get_type_hints

from transduce.config.schema import ModelConfig

Supported = Mapping[str, tuple[str, ...]]  # key of `ModelConfig` → the kinds of it that a system can hold

Precision = Literal["float32", "bfloat16", "int8"]  # what the torch engine multiplies weights in

EMBEDDINGS = {  # which of the three tables are weights of their own, by `tie_embeddings`
    "all": ("source_embedding",),
    "target": ("source_embedding", "target_embedding"),
    "none": ("source_embedding", "target_embedding", "output_embedding"),
}


def choices() -> dict[str, tuple[str, ...]]:
    """Returns the keys of `ModelConfig` that are a choice between kinds, with all kinds."""
    hints = get_type_hints(ModelConfig)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def unsupported(config: ModelConfig, supported: Supported) -> list[str]:
    """Returns which keys of a model have a kind that is not `supported`, for people; a key not declared is not."""
    return [
        f"model.{name} = {getattr(config, name)!r}"
        for name in choices()
        if getattr(config, name) not in supported.get(name, ())
    ]


def learns_positions(config: ModelConfig) -> bool:
    """Tells whether the vectors of positions are weights."""
    match config.positions:
        case "learned":
            return True
        case "sinusoidal":
            return False
        case other:
            assert_never(other)


def interleaves_sinusoids(config: ModelConfig) -> bool:
    """Tells whether the sines and cosines of sinusoidal positions stand by turns, or else in halves."""
    match config.sinusoid_layout:
        case "interleaved":
            return True
        case "concatenated":
            return False
        case other:
            assert_never(other)


def starts_from_zero(config: ModelConfig) -> bool:
    """Tells whether the decoder's first input is a zero vector, or else the embedding of BOS."""
    match config.decoder_start:
        case "zero":
            return True
        case "bos":
            return False
        case other:
            assert_never(other)


def is_pre_norm(config: ModelConfig) -> bool:
    """Tells whether norms stand before sub-layers, so that each stack ends with one of its own, or else after them."""
    match config.norm:
        case "pre":
            return True
        case "post":
            return False
        case other:
            assert_never(other)
