"""A checkpoint of `transformers` as one of our models: Marian, Pegasus, M2M100 and NLLB.

An export of ours names the configuration that it was made from, and the same model comes back: heads without the zeros
that fill them up, the vocabulary without its start token. Any other checkpoint becomes a model that computes the same.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from transduce.config import Config, DataConfig, DecodeConfig, ModelConfig, TextConfig, from_dict
from transduce.engines.sinusoids import sinusoids
from transduce.errors import BundleError, ConfigError
from transduce.export.checkpoint_files import read_arrays, read_json, weight_files
from transduce.export.foreign_model import ForeignModel
from transduce.export.foreign_vocabulary import ForeignTokenizer, repeats_start
from transduce.export.huggingface_settings import (
    M2M100,
    ORIGINAL,
    SETTINGS,
    activation_of,
    read_settings,
    require_shapes,
)
from transduce.export.huggingface_shape import (
    LAYER_NORM_EPSILON,
    NEVER_BIAS,
    model_settings,
    shape_of,
    shape_there,
)
from transduce.export.huggingface_vocabulary import languages_of, read_vocabulary
from transduce.export.huggingface_weights import Arrays, dimension_order, from_huggingface, has_trained_filling

_NORMS: dict[str, Literal["post", "pre"]] = {"marian": "post", "pegasus": "pre", M2M100: "pre"}
# What ties become where the encoder's table is no longer the decoder's.
_WITH_AN_ENCODER_TABLE: dict[str, Literal["target", "none"]] = {"all": "target", "target": "target", "none": "none"}
_SIDES = ("encoder", "decoder")
_FIRST_OF_FAIRSEQ = 2  # the position of the first token: the two before are of padding


def read_checkpoint(folder: Path) -> ForeignModel:
    """Reads a folder that `save_pretrained` or our export wrote.

    Raises:
        BundleError: a file is missing or damaged, `config.json` lacks a key or does not fit the weights, or the
            tokeniser cannot become ours.
        ExportError: our model cannot compute what this one does; all reasons are named.
    """
    settings = read_settings(folder)
    arrays = read_arrays(weight_files(folder))
    require_shapes(folder, settings, arrays)
    arrays = _tables(arrays, settings)
    extra_start = _has_extra_start(arrays, settings)
    tokenizer = read_vocabulary(folder, settings, extra_start=extra_start)
    config = _original_config(folder / ORIGINAL, settings, arrays)
    if config is None:
        own = tokenizer.tokenizer
        model = _model_config(settings, arrays, tokenizer, extra_start=extra_start)
        text = TextConfig(algorithm=own.algorithm, vocab_size=max(260, own.vocab_size))
        data = DataConfig(language_tags="both")
        if settings["model_type"] != M2M100:
            source, target = languages_of(folder)
            if own.target_languages and target not in own.target_languages:  # such as "mul": one has to be named
                target = ""
            data = DataConfig(source_language=source, target_language=target)
        config = Config(
            name=folder.resolve().name, model=model, text=text, data=data, decode=_decode_config(folder, settings)
        )
    shape = shape_there(config.model, num_positions=int(settings["max_position_embeddings"]))
    return ForeignModel(config, from_huggingface(arrays, config.model, shape, tokenizer), tokenizer)


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
    """Returns whether the decoder starts from a zero vector that is no token, as in an export of ours."""
    last = int(settings["decoder_vocab_size"]) - 1
    bias = arrays.get("final_logits_bias", np.zeros((1, last + 1), np.float32))[0]
    extra = settings.get("decoder_start_token_id") == last and bias[last] <= NEVER_BIAS / 10
    return bool(extra and not arrays["target"][last].any())


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
    fixed = ("model_type", "vocab_size", "d_model", "max_position_embeddings", "scale_embedding", "activation_function")
    shapes = [key for key in expected if key.startswith(("encoder_", "decoder_"))]
    fits = all(settings.get(key) == expected[key] for key in (*fixed, *shapes))
    fits = fits and tie_of(arrays) in AT_LEAST_AS_TIED[config.model.tie_embeddings]
    fits = fits and (config.model.attention_bias or not _has_attention_bias(arrays))
    bias = arrays.get("final_logits_bias", np.zeros((1, 0)))[0, : config.model.output_vocab_size]
    fits = fits and (config.model.output_bias or not bias.any())
    return config if fits and not has_trained_filling(arrays, config.model, shape) else None


# The ties of tables that a model of each tie may have been read with.
AT_LEAST_AS_TIED = {"all": ("all",), "target": ("all", "target"), "none": ("all", "target", "none")}


def tie_of(tables: Arrays) -> Literal["all", "target", "none"]:
    """Returns which of the tables "source", "target" and "output" are the same."""
    if not np.array_equal(tables["target"], tables["output"]):
        return "none"
    return "all" if np.array_equal(tables["source"], tables["target"]) else "target"


def _has_attention_bias(arrays: Arrays) -> bool:
    return any(array.any() for name, array in arrays.items() if name.endswith("_proj.bias"))


def _model_config(
    settings: Mapping[str, Any], arrays: Arrays, tokenizer: ForeignTokenizer, *, extra_start: bool
) -> ModelConfig:
    d_model, heads = int(settings["d_model"]), int(settings["encoder_attention_heads"])
    of_fairseq = settings["model_type"] == M2M100
    learned = not of_fairseq and _has_learned_positions(arrays, d_model)
    bias, own = arrays.get("final_logits_bias"), tokenizer.tokenizer
    num_positions = int(settings["max_position_embeddings"])
    activation: Any = activation_of(settings)
    return ModelConfig(
        vocab_size=own.vocab_size,
        target_vocab_size=own.target_vocab_size,
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
        activation=activation,
        positions="learned" if learned else "sinusoidal",
        sinusoid_layout="concatenated" if of_fairseq else "interleaved",
        first_position=_FIRST_OF_FAIRSEQ if of_fairseq else 0,
        max_positions=num_positions,
        max_length=0 if learned else num_positions,
        tie_embeddings=tie_of(arrays),
        norm=_NORMS[settings["model_type"]],
        layer_norm_epsilon=LAYER_NORM_EPSILON,
        attention_bias=_has_attention_bias(arrays),
        output_bias=(bias is not None and bool(bias[0, tokenizer.both[1]].any())) or repeats_start(tokenizer.both[1]),
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


def _decode_config(folder: Path, settings: Mapping[str, Any]) -> DecodeConfig:
    """Returns the search of a checkpoint; older folders have it in their `config.json`, the `settings`."""
    path = folder / "generation_config.json"
    path, values = (path, read_json(path)) if path.is_file() else (folder / SETTINGS, settings)
    beam, penalty = values.get("num_beams") or 4, values.get("length_penalty")
    try:
        return DecodeConfig(beam_size=int(beam), length_penalty=0.6 if penalty is None else max(0.0, float(penalty)))
    except (TypeError, ValueError, OverflowError):
        raise BundleError(f"{path}: num_beams = {beam!r}, length_penalty = {penalty!r}: must be numbers.") from None
