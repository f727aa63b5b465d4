"""The limits of CTranslate2's format, checked before NumPy is loaded."""

import math
from dataclasses import replace

from transduce.config import ModelConfig
from transduce.config.choices import IN_EVERY_FORMAT, learns_positions, longest_sequence, unsupported
from transduce.config.weights import weight_shapes
from transduce.engines import model_source
from transduce.engines.interface import require_known
from transduce.errors import ConfigError

_SUPPORTED = {**IN_EVERY_FORMAT, "source_end": ("eos", "none")}
# The types in which a model's weights can be stored.
_FLOATS = ("float32", "bfloat16", "float16")
QUANTIZATIONS = (*_FLOATS, "int8", *(f"int8_{name}" for name in _FLOATS), "int16")
VERSION = 2  # raised when the output of `ctranslate2_model.convert` changes: older conversions are then made anew
# Rows of the table of sinusoids in a converted model: no sequence may be longer.
MAX_SINUSOIDS = 4096


def require_convertible(config: ModelConfig, quantization: str = "float32") -> None:
    """Raises ConfigError if CTranslate2 cannot compute what this model computes, or has no such quantization."""
    require_known("quantization", quantization, QUANTIZATIONS)
    if not model_source.is_known():
        raise ConfigError(
            f"{model_source.CHANGED}, and its conversion to CTranslate2 computes what it was before. Use the torch "
            "engine (--engine torch)."
        )
    if unknown := unsupported(config, _SUPPORTED):
        raise ConfigError(
            f"{', '.join(unknown)}: CTranslate2's format does not support it. Use the torch engine (--engine torch)."
        )
    if config.attention_window:
        raise ConfigError(
            f"model.attention_window = {config.attention_window}: CTranslate2 has no such restricted self-attention. "
            "Use the torch engine (--engine torch)."
        )


def max_positions(config: ModelConfig) -> int:
    """Returns how many positions a sequence of the converted model may have, BOS or EOS counted."""
    return longest_sequence(config) or MAX_SINUSOIDS


def converted_bytes(config: ModelConfig, *, int8: bool) -> int:
    """Returns the bytes of the weights of a converted model, in float32 or int8, with the table of sinusoids.

    In int8, each row of a matrix has a scale; norms, biases and positions are float32.
    """
    depth = max(config.d_k, config.d_v)  # narrower heads are filled with zeros
    shapes = weight_shapes(replace(config, d_k=depth, d_v=depth, target_space_embedding=False, block_size=1))
    numbers = 0 if learns_positions(config) else 2 * MAX_SINUSOIDS * config.d_model
    matrices = [shape for name, shape in shapes.items() if len(shape) == 2 and "_positions." not in name]
    numbers += sum(map(math.prod, shapes.values()))
    saved = sum(3 * math.prod(shape) - 4 * shape[0] for shape in matrices) if int8 else 0
    return 4 * numbers - saved
