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
from transduce.engines.ctranslate2_model import sinusoids
from transduce.errors import BundleError
from transduce.export.huggingface_shape import NEVER_BIAS, HuggingFaceShape, query_scale

Arrays = dict[str, np.ndarray]
_POSITIONS = {"source_positions.table": "model.encoder.embed_positions.weight"}
_POSITIONS |= {"target_positions.table": "model.decoder.embed_positions.weight"}
# The feed-forward network: our name, theirs, and the axis that is as wide as the model.
_FEED_FORWARD = (
    ("inner.weight", "fc1.weight", 1),
    ("inner.bias", "fc1.bias", None),
    ("outer.weight", "fc2.weight", 0),
    ("outer.bias", "fc2.bias", 0),
)


def dimension_order(d_model: int) -> np.ndarray:
    """Returns the index of our dimension for each of theirs: the even ones, then the odd ones."""
    order: np.ndarray = np.r_[0:d_model:2, 1:d_model:2]
    return order


def to_huggingface(weights: Mapping[str, np.ndarray], config: ModelConfig, shape: HuggingFaceShape) -> Arrays:
    """Returns the state dict that the class of `shape` loads."""
    heads = _Heads(config, shape)
    order = _order(config, shape)

    def get(name: str) -> np.ndarray:
        """Returns a weight, or the zeros that stand for a bias that the model does not have."""
        if name not in weights and name.endswith(".bias"):
            return np.zeros(len(weights[f"{name.removesuffix('bias')}weight"]), np.float32)
        return weights[name]

    arrays = _embeddings(weights, config, shape, order)
    for ours, theirs in _POSITIONS.items():
        table = weights[ours] if learns_positions(config) else sinusoids(shape.num_positions, config)
        arrays[theirs] = table[:, order]
    for ours, theirs, matrices in _attentions(config):
        for name, letters in matrices.items():
            ends = np.cumsum([heads.width(letter) for letter in letters])
            for kind in ("weight", "bias"):
                parts = np.split(get(f"{ours}.{name}.{kind}"), ends[:-1])
                for letter, part in zip(letters, parts, strict=True):
                    part = part[:, order] if kind == "weight" else part
                    arrays[f"{theirs}.{letter}_proj.{kind}"] = heads.pad(part) * heads.factor(letter)
        arrays[f"{theirs}.out_proj.weight"] = heads.pad(get(f"{ours}.output.weight")[order].T).T
        arrays[f"{theirs}.out_proj.bias"] = get(f"{ours}.output.bias")[order]
    for ours, theirs, axis in _other_weights(config):
        arrays[theirs] = weights[ours] if axis is None else np.take(weights[ours], order, axis)
    return {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}


def from_huggingface(
    arrays: Mapping[str, np.ndarray], config: ModelConfig, shape: HuggingFaceShape, rows: np.ndarray
) -> Arrays:
    """Returns our weights; `rows` is their id of each of our ids.

    `arrays` holds the embeddings as "source", "target" and "output".

    Raises:
        BundleError: a weight is missing.
    """
    heads = _Heads(config, shape)
    back = np.argsort(_order(config, shape))
    weights: Arrays = {}

    def get(name: str) -> np.ndarray:
        if name not in arrays:
            raise BundleError(f"the checkpoint has no weight '{name}', which its config.json demands.")
        return arrays[name]

    for name in EMBEDDINGS[config.tie_embeddings]:
        weights[name] = get(name.removesuffix("_embedding"))[rows][:, back]
    if learns_positions(config):
        weights |= {ours: get(theirs)[:, back] for ours, theirs in _POSITIONS.items()}
    found: Arrays = {}
    for ours, theirs, matrices in _attentions(config):
        for name, letters in matrices.items():
            for kind in ("weight", "bias"):
                parts = [(letter, heads.cut(get(f"{theirs}.{letter}_proj.{kind}"), letter)) for letter in letters]
                matrix = np.concatenate([part / heads.factor(letter) for letter, part in parts])
                found[f"{ours}.{name}.{kind}"] = matrix[:, back] if kind == "weight" else matrix
        found[f"{ours}.output.weight"] = heads.cut(get(f"{theirs}.out_proj.weight").T, "v").T[back]
        found[f"{ours}.output.bias"] = get(f"{theirs}.out_proj.bias")[back]
    weights |= {name: array for name, array in found.items() if config.attention_bias or not name.endswith(".bias")}
    for ours, theirs, axis in _other_weights(config):
        weights[ours] = get(theirs) if axis is None else np.take(get(theirs), back, axis)
    return {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()}


def _order(config: ModelConfig, shape: HuggingFaceShape) -> np.ndarray:
    return dimension_order(config.d_model) if shape.permuted else np.arange(config.d_model)


def _embeddings(
    weights: Mapping[str, np.ndarray], config: ModelConfig, shape: HuggingFaceShape, order: np.ndarray
) -> Arrays:
    """Returns the tables of embeddings and the bias of the logits."""
    source = weights["source_embedding"]
    target = weights.get("target_embedding", source)
    output = weights.get("output_embedding", target)
    if config.target_space_embedding:  # added to each scaled embedding of the encoder
        source = source + weights["target_space"][0] / np.float32(math.sqrt(config.d_model))
    source, target, output = (
        np.pad(table[:, order], ((0, int(shape.extra_start)), (0, 0))) for table in (source, target, output)
    )
    arrays: Arrays = {}
    if shape.untied_encoder:
        arrays["model.encoder.embed_tokens.weight"] = source
        arrays["model.decoder.embed_tokens.weight"] = target
    if not shape.untied_encoder or shape.model_type == "pegasus":
        arrays["model.shared.weight"] = source
    if shape.untied_output or (shape.untied_encoder and shape.model_type == "pegasus"):
        arrays["lm_head.weight"] = output
    bias = np.zeros((1, config.vocab_size + shape.extra_start), np.float32)
    if shape.extra_start:
        bias[0, -1] = NEVER_BIAS
    return arrays | {"final_logits_bias": bias}


def _layers(config: ModelConfig) -> Iterator[tuple[str, str, str]]:
    """Yields the stack of each layer, and the layer's name, ours and theirs."""
    for side, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
        yield from ((side, f"{side}.{layer}", f"model.{side}.layers.{layer}") for layer in range(count))


def _attentions(config: ModelConfig) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yields the name of each attention, ours and theirs, and which projections each matrix of ours holds."""
    for side, ours, theirs in _layers(config):
        yield f"{ours}.self_attention", f"{theirs}.self_attn", {"query_key_value": "qkv"}
        if side == "decoder":
            yield f"{ours}.cross_attention", f"{theirs}.encoder_attn", {"query": "q", "key_value": "kv"}


def _other_weights(config: ModelConfig) -> Iterator[tuple[str, str, int | None]]:
    """Yields the names of norms and feed-forward networks, ours and theirs, and the axis as wide as the model."""
    norms = []
    for side, ours, theirs in _layers(config):
        norms.append((f"{ours}.self_attention_residual.norm", f"{theirs}.self_attn_layer_norm"))
        if side == "decoder":
            norms.append((f"{ours}.cross_attention_residual.norm", f"{theirs}.encoder_attn_layer_norm"))
        norms.append((f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm"))
        yield from ((f"{ours}.feed_forward.{one}", f"{theirs}.{other}", axis) for one, other, axis in _FEED_FORWARD)
    if is_pre_norm(config):
        norms += [(f"{side}_norm", f"model.{side}.layer_norm") for side in ("encoder", "decoder")]
    yield from ((f"{ours}.{kind}", f"{theirs}.{kind}", 0) for ours, theirs in norms for kind in ("weight", "bias"))


class _Heads:
    """Heads of our number and size, filled up with zeros to those of `shape`, and back."""

    def __init__(self, config: ModelConfig, shape: HuggingFaceShape) -> None:
        self._config, self._shape = config, shape

    def size(self, letter: str) -> int:
        """Returns the size of one head of the projection q, k or v."""
        return self._config.d_v if letter == "v" else self._config.d_k

    def width(self, letter: str) -> int:
        """Returns the size of all heads."""
        return self._config.num_heads * self.size(letter)

    def factor(self, letter: str) -> np.float32:
        """Returns what a projection is multiplied by there."""
        return np.float32(query_scale(self._config.d_k, self._shape.head_size) if letter == "q" else 1)

    def pad(self, rows: np.ndarray) -> np.ndarray:
        """Fills (h·E, …) up with zeros to (h'·E', …)."""
        heads, rest = self._config.num_heads, rows.shape[1:]
        split = rows.reshape(heads, -1, *rest)
        missing = [(0, self._shape.num_heads - heads), (0, self._shape.head_size - split.shape[1])]
        return np.pad(split, missing + [(0, 0)] * len(rest)).reshape(-1, *rest)

    def cut(self, rows: np.ndarray, letter: str) -> np.ndarray:
        """Returns (h·E, …) of (h'·E', …), without what fills up the heads."""
        rest = rows.shape[1:]
        split = rows.reshape(self._shape.num_heads, self._shape.head_size, *rest)
        return split[: self._config.num_heads, : self.size(letter)].reshape(-1, *rest)
