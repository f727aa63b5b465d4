"""CTranslate2's variables as our weights: the inverse of `engines/ctranslate2_model.py`; needs no torch.

H heads of depth E are stored, filled up with zeros where ours were narrower. Scales that differ from ours go into the
weights that they multiply: the query's 1/√d_k, and the embeddings' √d_model.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transduce.config import ModelConfig
from transduce.config.choices import EMBEDDINGS, is_pre_norm, learns_positions
from transduce.export.checkpoint_files import Arrays
from transduce.export.ctranslate2_binary import Variables
from transduce.export.ctranslate2_positions import PositionTables, read_positions
from transduce.export.ctranslate2_settings import STACKS, Settings
from transduce.export.foreign_vocabulary import ForeignTokenizer, repeated
from transduce.export.huggingface_reading import tie_of
from transduce.export.huggingface_weights import NEVER_WRITTEN, dimension_order

_OUTPUT = "decoder/projection"
# The axis of each weight of ours that the dimensions of the model are on, by the end of its name.
_DIMENSIONS = {
    **dict.fromkeys(("query_key_value.weight", "query.weight", "key_value.weight", "inner.weight"), 1),
    **dict.fromkeys(("output.weight", "output.bias", "outer.weight", "outer.bias", "norm.weight", "norm.bias"), 0),
    **dict.fromkeys(("_embedding", ".table"), 1),
}


@dataclass(frozen=True)
class Shape:
    """The sizes of a model, read from its variables."""

    d_model: int
    d_ff: int
    depth: int  # E
    attention_bias: bool
    positions: PositionTables


def read_shape(variables: Variables, settings: Settings) -> Shape:
    """Returns the sizes; all variables are compared with them when they are converted.

    Raises:
        BundleError: a variable is missing, or has no shape that a model can have.
    """
    table = settings.embeddings["decoder"]
    first, inner = "encoder/layer_0/self_attention/linear_0/weight", "encoder/layer_0/ffn/linear_0/weight"
    for name in (table, first, inner):
        if len(variables.shape(name)) != 2 or 0 in variables.shape(name):
            raise variables.damaged(f"{name} has shape {variables.shape(name)}, but is a matrix")
    d_model, rows = variables.shape(table)[1], variables.shape(first)[0]
    depth, rest = divmod(rows, 3 * settings.num_heads)
    if rest or not depth:
        raise variables.damaged(f"{first} has {rows} rows, which {settings.num_heads} heads cannot share")
    biases = [name for name in variables.names() if "attention/linear_" in name and name.endswith("/bias")]
    return Shape(
        d_model=d_model,
        d_ff=variables.shape(inner)[0],
        depth=depth,
        attention_bias=any(variables.numbers(name).any() for name in biases),
        positions=read_positions(variables, d_model),
    )


def widths(variables: Variables, settings: Settings, shape: Shape, original: ModelConfig | None) -> tuple[int, int]:
    """Returns d_k and d_v: those that an export of ours was made from, if zeros fill up its heads; else E."""
    if original is None or max(original.d_k, original.d_v) != shape.depth or original.num_heads != settings.num_heads:
        return shape.depth, shape.depth
    scale = np.float32(original.d_k**-0.5)
    if any(np.float32(variables.setting(f"{name}/queries_scale", 0)) != scale for name, _ in _attentions(settings)):
        return shape.depth, shape.depth
    for name, num_matrices in _attentions(settings):
        for heads, kind in _heads(variables, name, num_matrices, settings.num_heads, shape.depth):
            if heads[:, (original.d_v if kind == "v" else original.d_k) :].any():
                return shape.depth, shape.depth
    return original.d_k, original.d_v


def _attentions(settings: Settings) -> Iterator[tuple[str, int]]:
    """Yields the name of each attention, and how many matrices its queries, keys and values are in."""
    for stack in STACKS:
        for layer in range(settings.layers[stack]):
            yield f"{stack}/layer_{layer}/self_attention", 1
            if stack == "decoder":
                yield f"{stack}/layer_{layer}/attention", 2


def _heads(
    variables: Variables, name: str, num_matrices: int, num_heads: int, depth: int
) -> Iterator[tuple[np.ndarray, str]]:
    """Yields the weights and biases of queries, keys, values and the output, (H, E, …), and which they are."""
    for number, letters in enumerate(("qkv",) if num_matrices == 1 else ("q", "kv")):
        for kind in ("weight", "bias"):
            if f"{name}/linear_{number}/{kind}" in variables:
                stacked = variables.numbers(f"{name}/linear_{number}/{kind}")
                if len(stacked) == len(letters) * num_heads * depth:
                    parts = np.split(stacked, len(letters))
                    for letter, part in zip(letters, parts, strict=True):
                        yield part.reshape(num_heads, depth, -1), letter
    output = variables.numbers(f"{name}/linear_{num_matrices}/weight").T
    if len(output) == num_heads * depth:
        yield output.reshape(num_heads, depth, -1), "v"


def to_model(
    variables: Variables,
    settings: Settings,
    shape: Shape,
    tokenizer: ForeignTokenizer,
    original: ModelConfig | None,
) -> tuple[ModelConfig, Arrays]:
    """Returns the configuration and the weights of the model; variables are released as they are converted.

    Args:
        variables: of the model.
        settings: what they and `config.json` say.
        shape: their sizes.
        tokenizer: has their id of each of our ids.
        original: what an export of ours was made from.

    Raises:
        BundleError: a variable is missing or has a wrong shape.
    """
    own, positions = tokenizer.tokenizer, shape.positions
    d_k, d_v = widths(variables, settings, shape, original)
    tables, tie = _tables(variables, settings, shape, tokenizer)
    has_bias = f"{_OUTPUT}/bias" in variables and bool(variables.numbers(f"{_OUTPUT}/bias").any())
    config = ModelConfig(
        vocab_size=own.vocab_size,
        target_vocab_size=own.target_vocab_size,
        num_encoder_layers=settings.layers["encoder"],
        num_decoder_layers=settings.layers["decoder"],
        d_model=shape.d_model,
        d_ff=shape.d_ff,
        activation=settings.activation,  # type: ignore[arg-type]
        num_heads=settings.num_heads,
        d_k=d_k,
        d_v=d_v,
        positions="sinusoidal" if positions.layout else "learned",
        sinusoid_layout=positions.layout or "interleaved",
        first_position=positions.first_position,
        max_positions=positions.num_positions or ModelConfig().max_positions,
        max_length=positions.num_positions if positions.layout else 0,
        tie_embeddings=tie,
        norm="pre" if settings.is_pre_norm else "post",
        layer_norm_epsilon=settings.layer_norm_epsilon,
        attention_bias=shape.attention_bias,
        output_bias=has_bias or bool(repeated(tokenizer.both[1])),
        decoder_start="zero" if settings.starts_from_zero else "bos",
        source_end="eos" if settings.has_source_end else "none",
    )
    weights = {name: tables[name.removesuffix("_embedding")] for name in EMBEDDINGS[tie]}
    weights |= _Converter(variables, config, shape.depth).convert()
    if config.output_bias:
        weights["output_bias"] = _output_bias(variables, tokenizer.both[1])
    if learns_positions(config):
        weights |= dict(zip(("source_positions.table", "target_positions.table"), positions.learned, strict=True))
    if positions.permuted:
        weights = _in_our_dimensions(weights, shape.d_model)
    return config, {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()}


def _tables(
    variables: Variables, settings: Settings, shape: Shape, tokenizer: ForeignTokenizer
) -> tuple[Arrays, Literal["all", "target", "none"]]:
    """Returns the embeddings of "source", "target" and "output" in our order and scale, and which are the same."""
    names = {
        "source": settings.embeddings["encoder"],
        "target": settings.embeddings["decoder"],
        "output": f"{_OUTPUT}/weight",
    }
    scales = {"source": settings.scales["encoder"], "target": settings.scales["decoder"], "output": None}
    source_order, target_order = tokenizer.both
    root = math.sqrt(shape.d_model)
    made: dict[tuple[int, int, np.float32 | None], np.ndarray] = {}
    tables: Arrays = {}
    for side, name in names.items():
        order, array = source_order if side == "source" else target_order, variables.numbers(name)
        if array.ndim != 2 or array.shape[1] != shape.d_model or order.max() >= len(array):
            raise variables.damaged(
                f"{name} has shape {array.shape}, but ({int(order.max()) + 1} or more, {shape.d_model}) is expected"
            )
        scale = scales[side]
        factor = None if scale is None else np.float32(scale / root)
        key = (id(array), id(order), factor)  # what is shared stays shared
        if key not in made:
            read = array if np.array_equal(order, np.arange(len(array))) else array[order]
            made[key] = read if factor is None else read * factor
        tables[side] = made[key]
    if shape.positions.added is not None:
        tables["source"] = tables["source"] + shape.positions.added / np.float32(root)
    variables.release(*names.values())
    tie = tie_of(tables)
    return tables, "target" if tie == "all" and tokenizer.tokenizer.target_vocab_size else tie


def _output_bias(variables: Variables, order: np.ndarray) -> np.ndarray:
    """Returns the bias of the logits; ids that repeat another's row are never written."""
    bias = np.zeros(len(order), np.float32)
    if f"{_OUTPUT}/bias" in variables:
        stored = variables.numbers(f"{_OUTPUT}/bias")
        if stored.ndim != 1 or order.max() >= len(stored):
            raise variables.damaged(f"{_OUTPUT}/bias has shape {stored.shape}, but {len(order)} numbers are expected")
        bias = stored[order]
    bias[repeated(order)] = NEVER_WRITTEN
    return bias


def _in_our_dimensions(weights: Mapping[str, np.ndarray], d_model: int) -> Arrays:
    """Puts the dimensions of Marian's order into ours, in every weight that has them."""
    order = np.argsort(dimension_order(d_model))
    made = {}
    for name, array in weights.items():
        axis = next((axis for end, axis in _DIMENSIONS.items() if name.endswith(end)), None)
        made[name] = array if axis is None else np.take(array, order, axis)
    return made


class _Converter:
    """Converts all layers."""

    def __init__(self, variables: Variables, config: ModelConfig, depth: int) -> None:
        self._variables, self._config, self._depth = variables, config, depth

    def convert(self) -> Arrays:
        config = self._config
        made: Arrays = {}
        for stack, count in (("encoder", config.num_encoder_layers), ("decoder", config.num_decoder_layers)):
            if is_pre_norm(config):
                made |= self._norm(f"{stack}_norm", f"{stack}/layer_norm")
            for layer in range(count):
                ours, theirs = f"{stack}.{layer}", f"{stack}/layer_{layer}"
                matrices = {"query_key_value": "qkv"}
                made |= self._attention(f"{ours}.self_attention", f"{theirs}/self_attention", matrices)
                if stack == "decoder":
                    matrices = {"query": "q", "key_value": "kv"}
                    made |= self._attention(f"{ours}.cross_attention", f"{theirs}/attention", matrices)
                made |= self._norm(f"{ours}.feed_forward_residual.norm", f"{theirs}/ffn/layer_norm")
                for name, number, rows, columns in (
                    ("inner", 0, config.d_ff, config.d_model),
                    ("outer", 1, config.d_model, config.d_ff),
                ):
                    made[f"{ours}.feed_forward.{name}.weight"] = self._take(
                        f"{theirs}/ffn/linear_{number}/weight", rows, columns
                    )
                    made[f"{ours}.feed_forward.{name}.bias"] = self._bias(f"{theirs}/ffn/linear_{number}/bias", rows)
        return made

    def _take(self, name: str, *shape: int) -> np.ndarray:
        array = self._variables.numbers(name)
        if array.shape != shape:
            raise self._variables.damaged(f"{name} has shape {array.shape}, but {shape} is expected")
        self._variables.release(name)
        return array

    def _bias(self, name: str, size: int) -> np.ndarray:
        return self._take(name, size) if name in self._variables else np.zeros(size, np.float32)

    def _norm(self, ours: str, theirs: str) -> Arrays:
        parts = {"weight": "gamma", "bias": "beta"}
        return {f"{ours}.{our}": self._take(f"{theirs}/{their}", self._config.d_model) for our, their in parts.items()}

    def _attention(self, ours: str, theirs: str, matrices: Mapping[str, str]) -> Arrays:
        config, depth = self._config, self._depth
        rows = config.num_heads * depth
        usual = np.float32(config.d_k**-0.5)
        scale = np.float32(self._variables.setting(f"{theirs}/queries_scale", depth**-0.5))
        made = {}
        for number, (name, letters) in enumerate(matrices.items()):
            for kind in ("weight", "bias") if config.attention_bias else ("weight",):
                path = f"{theirs}/linear_{number}/{kind}"
                if kind == "weight":
                    stored = self._take(path, len(letters) * rows, config.d_model)
                else:
                    stored = self._bias(path, len(letters) * rows)
                if config.d_k == config.d_v == depth and scale == usual:
                    made[f"{ours}.{name}.{kind}"] = stored
                    continue
                parts = []
                for letter, part in zip(letters, np.split(stored, len(letters)), strict=True):
                    width = config.d_v if letter == "v" else config.d_k
                    kept = _narrowed(part, config.num_heads, width)
                    parts.append(kept * (scale / usual) if letter == "q" and scale != usual else kept)
                made[f"{ours}.{name}.{kind}"] = np.concatenate(parts)
        output = self._take(f"{theirs}/linear_{len(matrices)}/weight", config.d_model, rows)
        made[f"{ours}.output.weight"] = _narrowed(output.T, config.num_heads, config.d_v).T
        if config.attention_bias:
            made[f"{ours}.output.bias"] = self._bias(f"{theirs}/linear_{len(matrices)}/bias", config.d_model)
        return made | self._norm(f"{ours}_residual.norm", f"{theirs}/layer_norm")


def _narrowed(stacked: np.ndarray, num_heads: int, width: int) -> np.ndarray:
    """Returns the rows of a projection without those that fill up its heads."""
    heads = stacked.reshape(num_heads, -1, *stacked.shape[1:])[:, :width]
    return heads.reshape(num_heads * width, *stacked.shape[1:])
