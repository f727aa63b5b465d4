"""Names, shapes and number of a model's weights, from its configuration alone (the last column of Table 3)."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace

from transduce.config.choices import EMBEDDINGS, is_pre_norm, learns_positions, scores_additively
from transduce.config.ranges import ranges_of
from transduce.config.schema import ModelConfig
from transduce.errors import BundleError, ConfigError

TARGET_SPACES = 32  # rows of the released code's "target space" table
BLOCK_HEADS = "block_heads."  # what the names of the weights begin with that predict later tokens
_OF_NORM = ("weight", "bias")
_SHOWN_PROBLEMS, _SHOWN_CHARACTERS = 40, 100


def count_parameters(config: ModelConfig) -> int:
    """Returns the number of parameters of `Transformer(config)`, without building it; needs no torch."""
    return sum(map(math.prod, weight_shapes(config).values()))


def weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each weight of `Transformer(config)`, by name, without building it; needs no torch."""
    d, key, value = config.d_model, config.num_heads * config.d_k, config.num_heads * config.d_v
    rows = {"source_embedding": config.vocab_size}
    shapes: dict[str, tuple[int, ...]] = {
        name: (rows.get(name, config.output_vocab_size), d) for name in EMBEDDINGS[config.tie_embeddings]
    }
    if config.output_bias:
        shapes["output_bias"] = (config.output_vocab_size,)
    if config.target_space_embedding:
        shapes["target_space"] = (TARGET_SPACES, d)
    if learns_positions(config):
        shapes |= {f"{side}_positions.table": (config.max_positions, d) for side in ("source", "target")}
    attention = {"self_attention.query_key_value": (2 * key + value, d), "self_attention.output": (d, value)}
    crossing = {
        "cross_attention.query": (key, d),
        "cross_attention.key_value": (key + value, d),
        "cross_attention.output": (d, value),
    }
    networks = {"feed_forward.inner": (config.d_ff, d), "feed_forward.outer": (d, config.d_ff)}
    stacks = {
        "encoder": (config.num_encoder_layers, attention | networks),
        "decoder": (config.num_decoder_layers, attention | crossing | networks),
    }
    for stack, (num_layers, matrices) in stacks.items():
        sublayers = dict.fromkeys(name.partition(".")[0] for name in matrices)
        for prefix in (f"{stack}.{layer}" for layer in range(num_layers)):
            if scores_additively(config):
                attentions = [name for name in sublayers if name.endswith("attention")]
                shapes |= {f"{prefix}.{name}.score_HE": (config.num_heads, config.d_k) for name in attentions}
            for name, shape in matrices.items():
                shapes[f"{prefix}.{name}.weight"] = shape
                if config.attention_bias or name in networks:
                    shapes[f"{prefix}.{name}.bias"] = shape[:1]
            shapes |= {f"{prefix}.{name}_residual.norm.{kind}": (d,) for name in sublayers for kind in _OF_NORM}
        if is_pre_norm(config):
            shapes |= {f"{stack}_norm.{kind}": (d,) for kind in _OF_NORM}
    return shapes | _block_head_shapes(config)


def _block_head_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    d, num_heads = config.d_model, config.block_size - 1
    if num_heads == 0:
        return {}
    shapes: dict[str, tuple[int, ...]] = {
        "inner.weight": (num_heads * config.d_ff, d),
        "inner.bias": (num_heads * config.d_ff,),
    }
    for head in range(num_heads):
        shapes |= {f"outer.{head}.weight": (d, config.d_ff), f"outer.{head}.bias": (d,)}
    return {BLOCK_HEADS + name: shape for name, shape in shapes.items()}


def require_shapes(config: ModelConfig, found: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Compares names and shapes of weights with the configuration; `where` names their file in errors.

    Nothing is allocated. A configuration with more layers than there are weights is refused at once.

    Raises:
        BundleError: lists all names that are missing, unknown, or of another shape.
    """
    num_layers = config.num_encoder_layers + config.num_decoder_layers
    if num_layers > len(found):
        raise BundleError(
            f"{where}: the weights do not fit the configuration: {len(found)} tensors cannot belong to "
            f"{num_layers:,} layers (model.num_encoder_layers, model.num_decoder_layers)."
        )
    wanted = weight_shapes(config)
    problems = [f"missing: {name}" for name in wanted if name not in found]
    problems += [f"unknown: {name[:_SHOWN_CHARACTERS]}" for name in found if name not in wanted]
    problems += [
        f"shape of {name}: {tuple(found[name])}, the configuration says {shape}"
        for name, shape in wanted.items()
        if name in found and tuple(found[name]) != shape
    ]
    if len(problems) > _SHOWN_PROBLEMS:
        problems[_SHOWN_PROBLEMS:] = [f"and {len(problems) - _SHOWN_PROBLEMS} more"]
    if problems:
        raise BundleError(f"{where}: the weights do not fit the configuration:\n  " + "\n  ".join(problems))


def require_memory(config: ModelConfig, memory_bytes: int | None = None) -> None:
    """Raises ConfigError, naming the keys at fault, where the weights alone do not fit into memory.

    Args:
        config: the model to be built.
        memory_bytes: the memory available; None: this machine's.
    """
    memory_bytes = _memory_bytes() if memory_bytes is None else memory_bytes
    needed = _FLOAT32_BYTES * count_parameters(config)
    if needed <= memory_bytes:
        return
    default = ModelConfig()
    limited = {key: replace(config, **{key: min(getattr(config, key), getattr(default, key))}) for key in _SIZES}
    smaller = {key: count_parameters(limited[key]) for key in _SIZES}
    keys = [key for key in _SIZES if smaller[key] <= 2 * min(smaller.values())]
    shown = ", ".join(f"model.{key} = {getattr(config, key)}" for key in keys)
    raise ConfigError(
        f"{shown}: the weights alone would take {needed / 1e9:,.0f} GB, and this machine has "
        f"{memory_bytes / 1e9:,.0f} GB. Make the model smaller."
    )


def _memory_bytes() -> int:
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))


_FLOAT32_BYTES = 4
# The keys that make a model large: all whole numbers but the window of attention.
_SIZES = [key for key, (kind, _) in ranges_of(ModelConfig).items() if kind is int and key != "attention_window"]
