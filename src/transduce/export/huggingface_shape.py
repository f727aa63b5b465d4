"""Which class of `transformers` a model is exported to, and in what shape; what is not supported is named.

Two stock classes compute what our Transformer does:

    MarianMTModel                     post-norm; sinusoids, sines before cosines
    PegasusForConditionalGeneration   pre-norm, a final norm for each stack; any table of positions, which is stored

Both have heads of size d_model / heads for queries, keys and values. Smaller heads are filled up with zeros. If the
number of heads does not divide d_model, heads that give zero are added. A decoder that starts from a zero vector gets
one more token: its embedding is zero, and its logit so low that it is never generated.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from transduce.config import Config, ModelConfig
from transduce.config.choices import (
    EMBEDDINGS,
    interleaves_sinusoids,
    is_pre_norm,
    learns_positions,
    starts_from_zero,
    unsupported,
)
from transduce.config.special_ids import BOS, EOS, PAD, UNK
from transduce.errors import ExportError

LAYER_NORM_EPSILON = 1e-5  # of `torch.nn.LayerNorm`, which both classes use as it comes
_EPSILON_TOLERANCE = 1e-5
ARCHITECTURES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}  # by `model_type`
ACTIVATIONS = {  # ours → theirs
    "relu": "relu",
    "swish": "swish",
    "gelu": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "gelu_sigmoid": "quick_gelu",
}
START_TOKEN = "<start>"
NEVER_BIAS = -1e9  # a logit of this adds nothing to a sum of exponentials


@dataclass(frozen=True)
class HuggingFaceShape:
    """The class that a model is exported to, and its shape there."""

    model_type: str
    num_heads: int
    head_size: int
    num_positions: int
    permuted: bool  # whether the dimensions are put into Marian's order
    untied_encoder: bool  # whether the encoder's table differs from the decoder's
    untied_output: bool  # whether the logits' table differs from the decoder's
    extra_start: bool  # whether a token with a zero embedding is added, for the decoder to start from


def shape_of(config: ModelConfig, *, num_positions: int) -> HuggingFaceShape:
    """Returns the shape of the model in `transformers`; sinusoids get a table of `num_positions`.

    Raises:
        ExportError: no class supports it; all reasons are named.
    """
    reasons = _obstacles(config)
    if reasons:
        raise ExportError(
            "No class of transformers computes what this model does:\n  "
            + "\n  ".join(reasons)
            + "\nTry the formats 'onnx' and 'ctranslate2'."
        )
    return shape_there(config, num_positions=num_positions)


def shape_there(config: ModelConfig, *, num_positions: int) -> HuggingFaceShape:
    """Returns what `shape_of` does, also for a model that only reading supports: Marian's with stored positions."""
    num_heads = _padded_heads(config)
    assert num_heads is not None
    own = EMBEDDINGS[config.tie_embeddings]
    return HuggingFaceShape(
        model_type="pegasus" if is_pre_norm(config) else "marian",
        num_heads=num_heads,
        head_size=config.d_model // num_heads,
        num_positions=config.max_positions if learns_positions(config) else num_positions,
        permuted=_is_marian_sinusoid(config),
        untied_encoder="target_embedding" in own or config.target_space_embedding,
        untied_output="output_embedding" in own,
        extra_start=starts_from_zero(config),
    )


def _is_marian_sinusoid(config: ModelConfig) -> bool:
    return not learns_positions(config) and interleaves_sinusoids(config) and not config.first_position


def _obstacles(config: ModelConfig) -> list[str]:
    """Returns what neither class computes: the two support each value of an option, but not all combinations."""
    reasons = [f"{option}: not supported" for option in unsupported(config)]
    if reasons:
        return reasons
    if config.attention_window:
        reasons.append(f"model.attention_window = {config.attention_window}: its attention sees all positions")
    if not is_pre_norm(config) and learns_positions(config):
        reasons.append(
            "model.positions = 'learned' with model.norm = 'post': MarianMTModel leaves its position table out when it "
            "is saved, and makes sinusoids when it is loaded"
        )
    elif not is_pre_norm(config) and not _is_marian_sinusoid(config):
        reasons.append(
            f"model.sinusoid_layout = '{config.sinusoid_layout}' and model.first_position = {config.first_position} "
            "with model.norm = 'post': MarianMTModel makes its own sinusoids"
        )
    if is_pre_norm(config) and config.target_vocab_size:
        reasons.append(
            f"model.target_vocab_size = {config.target_vocab_size} with model.norm = 'pre': Pegasus has one vocabulary"
        )
    if abs(config.layer_norm_epsilon - LAYER_NORM_EPSILON) > _EPSILON_TOLERANCE:
        reasons.append(
            f"model.layer_norm_epsilon = {config.layer_norm_epsilon:g}: its norms have {LAYER_NORM_EPSILON:g}"
        )
    if _padded_heads(config) is None:
        reasons.append(
            f"model.num_heads = {config.num_heads} with d_k = {config.d_k} and d_v = {config.d_v}: its heads share out "
            f"d_model = {config.d_model}, which is too few for these"
        )
    return reasons


def _padded_heads(config: ModelConfig) -> int | None:
    """Returns the least number of heads, from ours on, that divides d_model into heads large enough for ours."""
    numbers = range(config.num_heads, config.d_model // max(config.d_k, config.d_v) + 1)
    return next((num_heads for num_heads in numbers if config.d_model % num_heads == 0), None)


def model_settings(config: ModelConfig, shape: HuggingFaceShape) -> dict[str, Any]:
    """Returns the `config.json` of the exported folder."""
    vocab_size, start = config.vocab_size + shape.extra_start, config.output_vocab_size if shape.extra_start else BOS
    settings: dict[str, Any] = {
        "architectures": [ARCHITECTURES[shape.model_type]],
        "model_type": shape.model_type,
        "dtype": "float32",
        "is_encoder_decoder": True,
        "vocab_size": vocab_size,
        "d_model": config.d_model,
        "max_position_embeddings": shape.num_positions,
        "activation_function": ACTIVATIONS[config.activation],
        "scale_embedding": True,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.ffn_dropout,
        "init_std": config.d_model**-0.5,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "forced_eos_token_id": None,
        "decoder_start_token_id": start,
        # Pegasus ties all tables or none.
        "tie_word_embeddings": not (shape.untied_encoder if is_pre_norm(config) else shape.untied_output),
    }
    for side, num_layers in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
        settings[f"{side}_layers"] = num_layers
        settings[f"{side}_attention_heads"] = shape.num_heads
        settings[f"{side}_ffn_dim"] = config.d_ff
    if shape.model_type == "marian":
        settings["decoder_vocab_size"] = config.output_vocab_size + shape.extra_start
        settings["share_encoder_decoder_embeddings"] = not shape.untied_encoder
    return settings


def generation_settings(config: Config, shape: HuggingFaceShape, tags: Collection[int] = ()) -> dict[str, Any]:
    """Returns the `generation_config.json`: the defaults of `generate`, which never writes one of the `tags`.

    `transformers` divides by length^α. It has one limit for all outputs: here, the one for the longest source in
    training.
    """
    model, decode = config.model, config.decode
    return {
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "decoder_start_token_id": model.output_vocab_size if shape.extra_start else BOS,
        "bad_words_ids": [[PAD], [BOS], [UNK], *([tag] for tag in tags)],
        "num_beams": decode.beam_size,
        "length_penalty": decode.length_penalty,
        "early_stopping": False,
        "max_length": min(config.data.max_tokens + decode.max_extra_tokens, shape.num_positions),
    }
