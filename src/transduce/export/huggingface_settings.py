"""The `config.json` of a checkpoint of `transformers`, checked for what we support and against its weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from transduce.errors import BundleError, ExportError
from transduce.export.checkpoint_files import read_json
from transduce.export.huggingface_shape import ACTIVATIONS, ARCHITECTURES

SETTINGS = "config.json"
M2M100 = "m2m_100"  # the `model_type` of M2M100 and of NLLB
READ = (*ARCHITECTURES, M2M100)
ORIGINAL = "transduce.json"  # in an exported folder: the configuration that it was made from, for an import
_SIDES = ("encoder", "decoder")
_SIZES = (
    "vocab_size",
    "decoder_vocab_size",
    "d_model",
    "max_position_embeddings",
    *(f"{side}_{key}" for side in _SIDES for key in ("layers", "attention_heads", "ffn_dim")),
)
_OURS = {theirs: ours for ours, theirs in ACTIVATIONS.items()} | {"silu": "swish", "gelu_new": "gelu_tanh"}
# Where they differ from those of Marian and Pegasus.
_DEFAULTS_OF_M2M100 = {"activation_function": "relu", "scale_embedding": True, "attention_dropout": 0.1}
_RATES = ("dropout", "attention_dropout", "activation_dropout")

# The shape of a weight by the last part of its name, in keys of config.json; a bias is as long as its weight has rows.
_SHAPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("shared", "embed_tokens"), ("vocab_size", "d_model")),
    "lm_head": ("decoder_vocab_size", "d_model"),
    "embed_positions": ("max_position_embeddings", "d_model"),
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "out_proj"), ("d_model", "d_model")),
    "fc1": ("ffn_dim", "d_model"),
    "fc2": ("d_model", "ffn_dim"),
    **dict.fromkeys(
        ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm", "layer_norm"), ("d_model",)
    ),
}


def read_settings(folder: Path) -> dict[str, Any]:
    """Reads the `config.json` of a checkpoint and checks all keys that we use.

    Raises:
        BundleError: it is missing or damaged, or a key is missing or not a number in its range.
        ExportError: our model cannot compute what this one does; all reasons are named.
    """
    path = folder / SETTINGS
    settings = read_json(path)
    settings["decoder_vocab_size"] = settings.get("decoder_vocab_size") or settings.get("vocab_size")
    kind = settings.get("model_type")
    if kind == M2M100:
        settings = _DEFAULTS_OF_M2M100 | settings
    if isinstance(kind, str) and kind in READ:
        _require_numbers(path, settings)
        reasons = _obstacles(settings)
    else:
        reasons = [f"model_type '{kind}': only {', '.join(READ)} compute what a model of Transduce does"]
    if reasons:
        raise ExportError(f"{folder}: cannot be imported:\n  " + "\n  ".join(reasons))
    return settings


def activation_of(settings: Mapping[str, Any]) -> str | None:
    """Returns our name of the activation; None for one that we do not have."""
    name = settings.get("activation_function", "gelu")
    return _OURS.get(name) if isinstance(name, str) else None


def _obstacles(settings: Mapping[str, Any]) -> list[str]:
    reasons = []
    if activation_of(settings) is None:
        name = settings.get("activation_function")
        reasons.append(f"activation_function {name!r}: Transduce has {', '.join(_OURS)}")
    for key in ("attention_heads", "ffn_dim"):
        both = settings[f"encoder_{key}"], settings[f"decoder_{key}"]
        if both[0] != both[1]:
            reasons.append(f"encoder_{key} = {both[0]} and decoder_{key} = {both[1]}: in Transduce they are equal")
    return reasons


def _require_numbers(path: Path, settings: Mapping[str, Any]) -> None:
    """Checks that all sizes are there and in their range.

    Raises:
        BundleError: names the file and the key.
    """
    needed = (*_SIZES, "decoder_start_token_id")
    if missing := [key for key in needed if settings.get(key) is None]:
        raise BundleError(
            f"{path}: has no {', '.join(missing)}. Add the values of the model, or save it again (save_pretrained)."
        )
    for key in needed:
        value, least = settings[key], 1 if key in _SIZES else 0
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise BundleError(f"{path}: {key} = {value!r}: must be a whole number, {least} or greater.")
    for key in _RATES:
        value = settings.get(key, 0.0)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
            raise BundleError(f"{path}: {key} = {value!r}: must be a number from 0 to 1, 1 excluded.")
    start, vocab_size = settings["decoder_start_token_id"], settings["decoder_vocab_size"]
    if start >= vocab_size:
        raise BundleError(f"{path}: decoder_start_token_id = {start}: must be less than {vocab_size}, the vocabulary.")
    for heads in (f"{side}_attention_heads" for side in _SIDES):
        if settings["d_model"] % settings[heads]:
            raise BundleError(f"{path}: {heads} = {settings[heads]}: does not divide d_model = {settings['d_model']}.")


def require_shapes(folder: Path, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Checks that the weights have the sizes and no more layers than `config.json` says.

    Raises:
        BundleError: names the weights, and both shapes of each.
    """
    wrong = []
    for name, array in sorted(arrays.items()):
        side, _, layer = name.removeprefix("model.").partition(".layers.")
        number = layer.partition(".")[0]
        if side in _SIDES and number.isdecimal() and int(number) >= settings[f"{side}_layers"]:
            wrong.append(f"{name} is there, but {side}_layers = {settings[f'{side}_layers']}")
        keys = _shape_keys(name)
        shape = tuple(settings[key] if key else 1 for key in keys or ())
        if keys is not None and array.shape != shape:
            shown = ", ".join(key or "1" for key in keys)
            wrong.append(f"{name} has shape {array.shape}, but ({shown}) = {shape}")
    if wrong:
        rest = f"\n  … and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise BundleError(
            f"{folder / SETTINGS}: does not fit the weights in its folder. Copy both again, from the same model:\n  "
            + "\n  ".join(wrong[:8])
            + rest
        )


def _shape_keys(name: str) -> tuple[str, ...] | None:
    """Returns the keys that give a weight's shape, "" for an axis of 1; None for a weight that we do not use."""
    if name == "final_logits_bias":
        return ("", "decoder_vocab_size")
    if name == "model.decoder.embed_tokens.weight":
        return ("decoder_vocab_size", "d_model")
    module, _, kind = name.rpartition(".")
    side = module.removeprefix("model.").partition(".")[0]
    keys = _SHAPES.get(module.rpartition(".")[2])
    if keys is None or ("ffn_dim" in keys and side not in _SIDES):
        return None
    keys = tuple(f"{side}_{key}" if key == "ffn_dim" else key for key in keys)
    return keys if kind == "weight" else keys[:1]
