"""The limits of CTranslate2's format: what is known of a conversion before NumPy is loaded."""

from transduce.config import ModelConfig
from transduce.config.choices import Supported, learns_positions, unsupported
from transduce.engines import model_source
from transduce.engines.interface import require_known
from transduce.errors import ConfigError

# The types in which a model's weights can be stored.
_FLOATS = ("float32", "bfloat16", "float16")
QUANTIZATIONS = (*_FLOATS, "int8", *(f"int8_{name}" for name in _FLOATS), "int16")
VERSION = 2  # raised when what `ctranslate2_model.convert` writes changes: older conversions are then made anew
# Rows of the table of sinusoids in a converted model: no sequence may be longer.
MAX_SINUSOIDS = 4096
# What a converted model can express; `ctranslate2_model` writes each of these.
SUPPORTED: Supported = {
    "positions": ("sinusoidal", "learned"),
    "sinusoid_layout": ("interleaved", "concatenated"),
    "tie_embeddings": ("all", "target", "none"),
    "norm": ("post", "pre"),
    "decoder_start": ("bos", "zero"),
}


def require_quantization(name: str) -> None:
    """Raises ConfigError if there is no quantization of this name."""
    require_known("quantization", name, QUANTIZATIONS)


def require_convertible(config: ModelConfig) -> None:
    """Raises ConfigError if CTranslate2 cannot compute what this model computes."""
    if not model_source.is_known():
        raise ConfigError(
            f"{model_source.CHANGED}, and its conversion to CTranslate2 computes what it was before. Use the torch "
            "engine (--engine torch)."
        )
    if unknown := unsupported(config, SUPPORTED):
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
    return config.max_positions if learns_positions(config) else MAX_SINUSOIDS
