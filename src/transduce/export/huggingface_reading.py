"""A Marian or Pegasus checkpoint as one of our models; needs no torch.

An export of ours names the configuration that it was made from, and the same model comes back: heads without the zeros
that fill them up, the vocabulary without its start token. Any other checkpoint becomes a model that computes the same.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from transduce.config import Config, DecodeConfig, ModelConfig, TextConfig, from_dict
from transduce.config.tensors import read_weights
from transduce.engines.sinusoids import sinusoids
from transduce.errors import BundleError, ConfigError, ExportError
from transduce.export.huggingface_settings import ORIGINAL, read_json, read_settings, require_shapes
from transduce.export.huggingface_shape import (
    LAYER_NORM_EPSILON,
    NEVER_BIAS,
    model_settings,
    shape_of,
)
from transduce.export.huggingface_tokenizer import ROLES, ForeignTokenizer, read_tokenizer
from transduce.export.huggingface_weights import Arrays, dimension_order, from_huggingface, has_trained_filling

_NORMS: dict[str, Literal["post", "pre"]] = {"marian": "post", "pegasus": "pre"}
# What ties become where the encoder's table is no longer the decoder's.
_WITH_AN_ENCODER_TABLE: dict[str, Literal["target", "none"]] = {"all": "target", "target": "target", "none": "none"}
_SIDES = ("encoder", "decoder")


@dataclass(frozen=True)
class Checkpoint:
    """Another system's model, read as one of ours."""

    config: Config
    weights: Arrays
    tokenizer: ForeignTokenizer


def read_checkpoint(folder: Path) -> Checkpoint:
    """Reads a folder of safetensors and JSON; nothing is unpickled.

    `folder` is what `save_pretrained` or our export wrote.

    Raises:
        BundleError: a file is missing or damaged, `config.json` lacks a key or does not fit the weights, or the
            tokeniser cannot become ours.
        ExportError: our model cannot compute what this one does; all reasons are named.
    """
    settings = read_settings(folder)
    arrays = _read_arrays(folder)
    require_shapes(folder, settings, arrays)
    arrays = _tables(arrays, settings)
    extra_start = _has_extra_start(arrays, settings)
    vocab_size = int(settings["vocab_size"]) - extra_start
    start = None if extra_start else int(settings["decoder_start_token_id"])
    tokenizer = read_tokenizer(folder / "tokenizer.json", _special_tokens(folder), start, vocab_size)
    config = _original_config(folder / ORIGINAL, settings, arrays)
    if config is None:
        model = _model_config(settings, arrays, vocab_size, extra_start=extra_start)
        text = TextConfig(algorithm=tokenizer.tokenizer.algorithm, vocab_size=max(260, vocab_size))
        config = Config(name=folder.resolve().name, model=model, text=text, decode=_decode_config(folder))
    shape = shape_of(config.model, num_positions=int(settings["max_position_embeddings"]))
    return Checkpoint(config, from_huggingface(arrays, config.model, shape, tokenizer.order), tokenizer)


def _read_arrays(folder: Path) -> Arrays:
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.is_file():
        files = read_json(index).get("weight_map")
        if not isinstance(files, dict):
            raise BundleError(f"{index}: damaged: has no 'weight_map'.")
        names = sorted(set(map(str, files.values())))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        pickled = " It has pytorch_model.bin, which could run code when read: save it with safe_serialization."
        advice = pickled if (folder / "pytorch_model.bin").is_file() else ""
        raise BundleError(f"{folder}: {', '.join(missing)} missing.{advice}")
    arrays: Arrays = {}
    for name in names:
        arrays |= read_weights(folder / name)
    return arrays


def _tables(arrays: Arrays, settings: Mapping[str, Any]) -> Arrays:
    """Returns the arrays with the three tables of embeddings by their own names, scaled like ours."""
    shared = arrays.get("model.shared.weight")
    encoder = arrays.get("model.encoder.embed_tokens.weight", shared)
    decoder = arrays.get("model.decoder.embed_tokens.weight", shared)
    tied = settings.get("tie_word_embeddings", True)
    output = decoder if tied else arrays.get("lm_head.weight", decoder)
    found = {"source": encoder, "target": decoder, "output": output}
    missing = [name for name, table in found.items() if table is None]
    if missing:
        raise BundleError(f"the checkpoint has no embeddings for: {', '.join(missing)}.")
    tables = {name: table for name, table in found.items() if table is not None}
    if not settings.get("scale_embedding", False):
        tables |= as_read(tables, int(settings["d_model"]))
    return arrays | tables


def as_read(tables: Mapping[str, np.ndarray], d_model: int) -> Arrays:
    """Returns the tables of "source" and "target" divided by √d_model, by which ours are multiplied (§3.4)."""
    return {name: tables[name] * np.float32(1 / math.sqrt(d_model)) for name in ("source", "target")}


def _has_extra_start(arrays: Arrays, settings: Mapping[str, Any]) -> bool:
    """Returns whether the decoder starts from a zero vector that is no token.

    Raises:
        ExportError: logits have other biases; ours have none.
    """
    last = int(settings["vocab_size"]) - 1
    bias = arrays.get("final_logits_bias", np.zeros((1, last + 1), np.float32))[0]
    extra = settings.get("decoder_start_token_id") == last and bias[last] <= NEVER_BIAS / 10
    extra = bool(extra and not arrays["target"][last].any())
    if (bias[:last] if extra else bias).any():
        raise ExportError("final_logits_bias is not zero: the logits of a model of Transduce have no biases (§3.4).")
    return extra


def _special_tokens(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        values = read_json(folder / name) if (folder / name).is_file() else {}
        for role in ROLES:
            token = values.get(role)
            if isinstance(token, dict):
                token = token.get("content")
            if isinstance(token, str):
                found[role] = token
    return found


def _original_config(path: Path, settings: Mapping[str, Any], arrays: Arrays) -> Config | None:
    """Returns the configuration that an export was made from, if the checkpoint still fits it: it may be fine-tuned."""
    if not path.is_file():
        return None
    try:
        values = read_json(path)["config"]
        if not isinstance(values, dict):
            return None
        config = from_dict(values, str(path))
    except (KeyError, ConfigError):
        return None
    model = config.model
    if model.target_space_embedding:  # it went into the encoder's table
        tie = _WITH_AN_ENCODER_TABLE[model.tie_embeddings]
        config = replace(config, model=replace(model, target_space_embedding=False, tie_embeddings=tie))
    shape = shape_of(config.model, num_positions=int(settings["max_position_embeddings"]))
    expected = model_settings(config.model, shape)
    fixed = ("model_type", "vocab_size", "d_model", "max_position_embeddings", "scale_embedding")
    shapes = [key for key in expected if key.startswith(("encoder_", "decoder_"))]
    fits = all(settings.get(key) == expected[key] for key in (*fixed, *shapes))
    fits = fits and tie_of(arrays) in _AT_LEAST_AS_TIED[config.model.tie_embeddings]
    fits = fits and (config.model.attention_bias or not _has_attention_bias(arrays))
    return config if fits and not has_trained_filling(arrays, config.model, shape) else None


_AT_LEAST_AS_TIED = {"all": ("all",), "target": ("all", "target"), "none": ("all", "target", "none")}


def tie_of(tables: Arrays) -> Literal["all", "target", "none"]:
    """Returns which of the tables "source", "target" and "output" are the same."""
    if not np.array_equal(tables["target"], tables["output"]):
        return "none"
    return "all" if np.array_equal(tables["source"], tables["target"]) else "target"


def _has_attention_bias(arrays: Arrays) -> bool:
    return any(array.any() for name, array in arrays.items() if name.endswith("_proj.bias"))


def _model_config(settings: Mapping[str, Any], arrays: Arrays, vocab_size: int, *, extra_start: bool) -> ModelConfig:
    d_model, heads = int(settings["d_model"]), int(settings["encoder_attention_heads"])
    learned = _has_learned_positions(arrays, d_model)
    return ModelConfig(
        vocab_size=vocab_size,
        num_encoder_layers=int(settings["encoder_layers"]),
        num_decoder_layers=int(settings["decoder_layers"]),
        d_model=d_model,
        d_ff=int(settings["encoder_ffn_dim"]),
        num_heads=heads,
        d_k=d_model // heads,
        d_v=d_model // heads,
        dropout=float(settings.get("dropout", 0.1)),
        attention_dropout=float(settings.get("attention_dropout", 0.0)),
        ffn_dropout=float(settings.get("activation_dropout", 0.0)),
        positions="learned" if learned else "sinusoidal",
        max_positions=int(settings["max_position_embeddings"]),
        tie_embeddings=tie_of(arrays),
        norm=_NORMS[settings["model_type"]],
        layer_norm_epsilon=LAYER_NORM_EPSILON,
        attention_bias=_has_attention_bias(arrays),
        decoder_start="zero" if extra_start else "bos",
    )


def _has_learned_positions(arrays: Arrays, d_model: int) -> bool:
    """Returns whether a stored table of positions differs from the sinusoids of the class."""
    tables = [arrays[name] for side in _SIDES if (name := f"model.{side}.embed_positions.weight") in arrays]
    if not tables:
        return False
    if d_model % 2:
        return True
    own, order = ModelConfig(d_model=d_model), dimension_order(d_model)
    return not all(np.allclose(table, sinusoids(len(table), own)[:, order], atol=1e-5) for table in tables)


def _decode_config(folder: Path) -> DecodeConfig:
    path = folder / "generation_config.json"
    values = read_json(path) if path.is_file() else {}
    beam, penalty = values.get("num_beams") or 4, values.get("length_penalty")
    try:
        return DecodeConfig(beam_size=int(beam), length_penalty=0.6 if penalty is None else max(0.0, float(penalty)))
    except (TypeError, ValueError):
        raise BundleError(f"{path}: num_beams = {beam!r}, length_penalty = {penalty!r}: must be numbers.") from None
