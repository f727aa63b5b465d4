"""Weights in the names and the layout of `transformers`, and back; needs no torch.

Ours has W_Q, W_K and W_V in one matrix, and the sine of a position next to its cosine. Marian and Pegasus have three
matrices, and all sines before all cosines. The dimensions of a model are only names: if they are permuted in every
matrix that reads or writes them, no output changes:

    ours    sin₀ cos₀ sin₁ cos₁   →   theirs  sin₀ sin₁ cos₀ cos₁
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from transduce.config import ModelConfig
from transduce.config.choices import EMBEDDINGS, is_pre_norm, learns_positions
from transduce.config.special_ids import BOS
from transduce.engines.sinusoids import sinusoids
from transduce.errors import BundleError, ExportError
from transduce.export.foreign_vocabulary import ForeignTokenizer, repeats_start
from transduce.export.huggingface_shape import NEVER_BIAS, HuggingFaceShape

Arrays = dict[str, np.ndarray]
_POSITIONS = {"source_positions.table": "model.encoder.embed_positions.weight"}
_POSITIONS |= {"target_positions.table": "model.decoder.embed_positions.weight"}
# Tables that are not read by their names, or not by all models.
_TABLES = {"model.shared.weight", "lm_head.weight", "final_logits_bias", *_POSITIONS.values()}
_TABLES |= {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
_TABLES |= {"model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights"}  # sinusoids of M2M100
# Each attention: our name, theirs, and the projections that each matrix of ours holds.
_ATTENTIONS = (
    ("self_attention", "self_attn", {"query_key_value": "qkv"}),
    ("cross_attention", "encoder_attn", {"query": "q", "key_value": "kv"}),  # the decoder's only
)
_ALL = slice(None)
# The bias of a token that is never written. Its probability is 0, and label smoothing still has a finite loss of it.
NEVER_WRITTEN = -100.0


def dimension_order(d_model: int) -> np.ndarray:
    """Returns the index of our dimension for each of theirs: the even ones, then the odd ones."""
    order: np.ndarray = np.r_[0:d_model:2, 1:d_model:2]
    return order


def to_huggingface(weights: Mapping[str, np.ndarray], config: ModelConfig, shape: HuggingFaceShape) -> Arrays:
    """Returns the state dict that the class of `shape` loads."""
    layout = _Layout(config, shape)

    def get(name: str) -> np.ndarray:
        """Returns a weight, or the zeros that stand for a bias that the model does not have."""
        if name not in weights and name.endswith(".bias"):
            return np.zeros(len(weights[f"{name.removesuffix('bias')}weight"]), np.float32)
        return weights[name]

    arrays = _embeddings(weights, config, shape, layout)
    for ours, theirs in _POSITIONS.items():
        table = weights[ours] if learns_positions(config) else sinusoids(shape.num_positions, config)
        arrays[theirs] = layout.to_theirs(table, "-d")
    for ours, rows, theirs, axes in _modules(config):
        arrays[f"{theirs}.weight"] = layout.to_theirs(get(f"{ours}.weight")[rows], axes)
        arrays[f"{theirs}.bias"] = layout.to_theirs(get(f"{ours}.bias")[rows], axes[0])
    return {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}


def from_huggingface(
    arrays: Arrays, config: ModelConfig, shape: HuggingFaceShape, tokenizer: ForeignTokenizer
) -> Arrays:
    """Returns our weights; `tokenizer` has their id of each of our ids.

    `arrays` holds the embeddings as "source", "target" and "output". It is emptied, so that both need little more
    memory than one.

    Raises:
        BundleError: a weight is missing.
        ExportError: there are weights that our model does not have.
    """
    layout, given = _Layout(config, shape), dict(arrays)
    arrays.clear()

    def get(name: str) -> np.ndarray:
        if name not in given:
            raise BundleError(f"the checkpoint has no weight '{name}', which its config.json demands.")
        return given.pop(name)

    source_rows, target_rows = tokenizer.both
    rows = {"source_embedding": source_rows}
    tables = {
        name: get(name.removesuffix("_embedding"))[rows.get(name, target_rows)]
        for name in EMBEDDINGS[config.tie_embeddings]
    }
    if learns_positions(config):
        tables |= {ours: get(theirs) for ours, theirs in _POSITIONS.items()}
    parts: dict[str, list[np.ndarray]] = {name: [layout.to_ours(table, "-d")] for name, table in tables.items()}
    for ours, _, theirs, axes in _modules(config):
        parts.setdefault(f"{ours}.weight", []).append(layout.to_ours(get(f"{theirs}.weight"), axes))
        bias = layout.to_ours(get(f"{theirs}.bias"), axes[0])
        if config.attention_bias or "attention." not in ours:
            parts.setdefault(f"{ours}.bias", []).append(bias)
    if config.output_bias:
        bias = given.get("final_logits_bias", np.zeros((1, int(target_rows.max()) + 1)))[0][target_rows]
        if repeats_start(target_rows):
            bias[BOS] = NEVER_WRITTEN
        parts["output_bias"] = [bias]
    if left := sorted(given.keys() - _TABLES - {"source", "target", "output"}):
        raise ExportError(
            f"the checkpoint has weights that a model of Transduce does not have: {', '.join(left[:8])}"
            f"{', …' if len(left) > 8 else ''}. Merge or remove them in transformers, and save it again."
        )
    weights: Arrays = {}
    for name in [*parts]:
        each = parts.pop(name)
        weights[name] = np.ascontiguousarray(np.concatenate(each) if len(each) > 1 else each[0], np.float32)
    return weights


def has_trained_filling(arrays: Mapping[str, np.ndarray], config: ModelConfig, shape: HuggingFaceShape) -> bool:
    """Returns whether what fills up the heads is no longer zero, as after fine-tuning."""
    layout = _Layout(config, shape)
    for _, _, theirs, axes in _modules(config):
        for name, of_array in ((f"{theirs}.weight", axes), (f"{theirs}.bias", axes[0])):
            for axis, held in enumerate(of_array if name in arrays else ""):
                if held in "qkv" and np.delete(arrays[name], layout.indices[held][1], axis).any():
                    return True
    return False


def _embeddings(
    weights: Mapping[str, np.ndarray], config: ModelConfig, shape: HuggingFaceShape, layout: "_Layout"
) -> Arrays:
    """Returns the tables of embeddings and the bias of the logits."""
    source = weights["source_embedding"]
    target = weights.get("target_embedding", source)
    output = weights.get("output_embedding", target)
    if config.target_space_embedding:  # added to each scaled embedding of the encoder
        source = source + weights["target_space"][0] / np.float32(math.sqrt(config.d_model))
    rows = ((0, int(shape.extra_start)), (0, 0))
    source, target, output = (np.pad(layout.to_theirs(table, "-d"), rows) for table in (source, target, output))
    arrays: Arrays = {}
    if shape.untied_encoder:
        arrays["model.encoder.embed_tokens.weight"] = source
        arrays["model.decoder.embed_tokens.weight"] = target
    if not shape.untied_encoder or shape.model_type == "pegasus":
        arrays["model.shared.weight"] = source
    if shape.untied_output or (shape.untied_encoder and shape.model_type == "pegasus"):
        arrays["lm_head.weight"] = output
    own_bias = weights.get("output_bias", np.zeros(config.output_vocab_size, np.float32))
    bias = np.pad(own_bias, (0, int(shape.extra_start)))[None]
    if shape.extra_start:
        bias[0, -1] = NEVER_BIAS
    return arrays | {"final_logits_bias": bias}


def _modules(config: ModelConfig) -> Iterator[tuple[str, slice, str, str]]:
    """Yields our name of a module and the rows of its weight, their name, and what the axes of their weight hold.

    An axis holds "d", the dimensions of the model; or "q", "k" or "v", the heads of that projection; or "-", what both
    have in the same order. A bias has the first axis.
    """
    keys, values = config.num_heads * config.d_k, config.num_heads * config.d_v
    widths = {"q": keys, "k": keys, "v": values}
    for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
        for ours, theirs in ((f"{side}.{layer}", f"model.{side}.layers.{layer}") for layer in range(count)):
            for attention, module, matrices in _ATTENTIONS[: 1 if side == "encoder" else 2]:
                for matrix, letters in matrices.items():
                    end = 0
                    for letter in letters:
                        start, end = end, end + widths[letter]
                        rows = slice(start, end)
                        yield f"{ours}.{attention}.{matrix}", rows, f"{theirs}.{module}.{letter}_proj", f"{letter}d"
                yield f"{ours}.{attention}.output", _ALL, f"{theirs}.{module}.out_proj", "dv"
                yield f"{ours}.{attention}_residual.norm", _ALL, f"{theirs}.{module}_layer_norm", "d"
            yield f"{ours}.feed_forward.inner", _ALL, f"{theirs}.fc1", "-d"
            yield f"{ours}.feed_forward.outer", _ALL, f"{theirs}.fc2", "d-"
            yield f"{ours}.feed_forward_residual.norm", _ALL, f"{theirs}.final_layer_norm", "d"
        if is_pre_norm(config):
            yield f"{side}_norm", _ALL, f"model.{side}.layer_norm", "d"


class _Layout:
    """Puts the axes of a weight into their layout and back: for what an axis holds, see `_modules`."""

    def __init__(self, config: ModelConfig, shape: HuggingFaceShape) -> None:
        order = dimension_order(config.d_model) if shape.permuted else np.arange(config.d_model)
        # For what an axis holds: its length there, and the index there of each of our numbers.
        self.indices = {"d": (config.d_model, np.argsort(order))}
        for letter, size in (("q", config.d_k), ("k", config.d_k), ("v", config.d_v)):
            indices = np.arange(config.num_heads)[:, None] * shape.head_size + np.arange(size)
            self.indices[letter] = (shape.num_heads * shape.head_size, indices.ravel())
        # Products of queries and keys are divided by √head_size there, by √d_k here.
        self._query_factor = np.float32(math.sqrt(shape.head_size / config.d_k))

    def to_theirs(self, array: np.ndarray, axes: str) -> np.ndarray:
        """Orders dimensions as theirs, and fills heads up with zeros."""
        for axis, held in enumerate(axes):
            if held in self.indices:
                length, indices = self.indices[held]
                filled = np.zeros((*array.shape[:axis], length, *array.shape[axis + 1 :]), array.dtype)
                np.moveaxis(filled, axis, 0)[indices] = np.moveaxis(array, axis, 0)
                array = filled
        return array * self._query_factor if axes[0] == "q" else array

    def to_ours(self, array: np.ndarray, axes: str) -> np.ndarray:
        """Orders dimensions as ours, and removes the padding of the heads."""
        for axis, held in enumerate(axes):
            if held in self.indices:
                array = np.take(array, self.indices[held][1], axis)
        return array / self._query_factor if axes[0] == "q" else array
