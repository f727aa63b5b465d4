"""A state dict of `torch.nn.Transformer` as one of our models.

Its layers compute what ours do, and have W_Q, W_K and W_V in one matrix, too. But `nn.Transformer` ends each stack in
a norm, also in post-norm, where ours have none. For that norm we add a layer whose sub-layers are zero. The other norms
of that layer change nothing, because the last one normalises again:

    LN(x) = LN(LN₀(x + 0) + 0)      with LN₀ of weight 1 and bias 0
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transduce.config import ModelConfig
from transduce.config.choices import is_pre_norm
from transduce.errors import BundleError, ExportError
from transduce.export.torch_description import LAYOUTS, TorchDescription

Arrays = dict[str, np.ndarray]
_SUBLAYERS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}


@dataclass(frozen=True)
class TorchModel:
    """A state dict in parts; layers and norms have the names of `nn.Transformer`, without the prefix."""

    description: TorchDescription
    arrays: Arrays  # of layers and norms
    tables: Arrays  # "source", "target", "output", and learned "source_positions" and "target_positions"
    layers: dict[str, int]  # of "encoder" and "decoder"
    final_norms: dict[str, bool]

    @property
    def d_model(self) -> int:
        """The width."""
        return int(self.arrays["encoder.layers.0.norm1.weight"].shape[0])


def read_state(state: Mapping[str, np.ndarray], description: TorchDescription) -> TorchModel:
    """Finds the parts of the model in a state dict.

    Raises:
        BundleError: a name that the description gives, or that a layer must have, is missing, or one is left over.
        ExportError: a model of Transduce cannot compute what this one does.
    """
    prefix = description.prefix
    arrays = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
    tables = {role: name for role, name in description.tables.items() if name}
    named = {*tables.values(), description.output_bias} - {""}
    if missing := sorted(named - state.keys()):
        raise BundleError(f"the state dict has no {', '.join(missing)}. It has: {_some(state)}.")
    layers = {side: _count_layers(arrays, side) for side in _SUBLAYERS}
    final_norms = {side: f"{side}.norm.weight" in arrays for side in _SUBLAYERS}
    if description.norm_first and not all(final_norms.values()):
        raise ExportError("norm_first without final norms: the pre-norm stacks of Transduce end in one each.")
    if description.output_bias and np.any(state[description.output_bias]):
        raise ExportError(f"{description.output_bias} is not zero: the logits of a model of Transduce have no biases.")
    known = _names(arrays, layers, final_norms)
    if left := sorted(set(state) - {f"{prefix}{name}" for name in known} - named):
        raise BundleError(
            f"the state dict has weights that are neither in the description nor in torch.nn.Transformer: "
            f"{', '.join(left[:8])}{', …' if len(left) > 8 else ''}. Name tables and the bias of the output in the "
            "description; a model of Transduce has nothing else."
        )
    for name in sorted(known):
        _get(arrays, name)
    arrays = {name: arrays[name] for name in known if name in arrays}
    return TorchModel(description, arrays, {role: state[name] for role, name in tables.items()}, layers, final_norms)


def _names(arrays: Arrays, layers: Mapping[str, int], final_norms: Mapping[str, bool]) -> set[str]:
    """Returns all names that `to_model` reads; biases only if the first layer has them."""
    attention = ("weight", "bias") if _has_attention_bias(arrays) else ("weight",)
    rest = ("weight", "bias") if _has_bias(arrays) else ("weight",)
    names = {f"{side}.norm.{kind}" for side, there in final_norms.items() if there for kind in rest}
    for side, sublayers in _SUBLAYERS.items():
        blocks = ["self_attn", "multihead_attn"][: len(sublayers) - 1]
        parts = ["linear1", "linear2", *(f"norm{number}" for number in range(1, len(sublayers) + 1))]
        for layer in (f"{side}.layers.{number}" for number in range(layers[side])):
            names |= {f"{layer}.{block}.in_proj_{kind}" for block in blocks for kind in attention}
            names |= {f"{layer}.{block}.out_proj.{kind}" for block in blocks for kind in attention}
            names |= {f"{layer}.{part}.{kind}" for part in parts for kind in rest}
    return names


def _has_attention_bias(arrays: Arrays) -> bool:
    return "encoder.layers.0.self_attn.in_proj_bias" in arrays


def _has_bias(arrays: Arrays) -> bool:
    """Returns whether the feed-forward networks and the norms have biases."""
    return "encoder.layers.0.linear1.bias" in arrays


def _count_layers(arrays: Arrays, side: str) -> int:
    start = f"{side}.layers."
    found = {name.removeprefix(start).partition(".")[0] for name in arrays if name.startswith(start)}
    numbers = {int(number) for number in found if number.isdecimal()}
    if not numbers or numbers != set(range(len(numbers))):
        raise BundleError(f"the state dict has no {start}0, {start}1, … It has: {_some(arrays)}. Is 'prefix' right?")
    return len(numbers)


def _some(names: Mapping[str, np.ndarray]) -> str:
    return ", ".join(sorted(names)[:6]) + ", …"


def to_model(model: TorchModel, rows: np.ndarray) -> tuple[ModelConfig, Arrays]:
    """Returns the configuration and the weights of the same model here; `rows` is their id of each of our ids."""
    description, d_model = model.description, model.d_model
    if d_model % description.num_heads:
        raise ExportError(f"num_heads = {description.num_heads} does not divide d_model = {d_model}.")
    tables, tie = _embeddings(model, rows)
    learned = description.positions == "learned"
    if learned:
        tables |= {f"{side}_positions.table": model.tables[f"{side}_positions"] for side in ("source", "target")}
    added = {side: not description.norm_first and model.final_norms[side] for side in model.layers}
    config = ModelConfig(
        vocab_size=len(rows),
        num_encoder_layers=model.layers["encoder"] + added["encoder"],
        num_decoder_layers=model.layers["decoder"] + added["decoder"],
        d_model=d_model,
        d_ff=int(model.arrays["encoder.layers.0.linear1.weight"].shape[0]),
        num_heads=description.num_heads,
        d_k=d_model // description.num_heads,
        d_v=d_model // description.num_heads,
        positions="learned" if learned else "sinusoidal",
        sinusoid_layout=LAYOUTS[description.positions],
        max_positions=len(tables["source_positions.table"]) if learned else 1024,
        tie_embeddings=tie,
        norm="pre" if description.norm_first else "post",
        layer_norm_epsilon=description.layer_norm_eps,
        attention_bias=_has_attention_bias(model.arrays),
    )
    weights = tables
    for side, count in model.layers.items():
        for layer in range(count):
            weights |= _layer(model.arrays, side, layer, bias=config.attention_bias)
        if model.final_norms[side]:
            weights |= _final_norm(model.arrays, side, count, config)
    return config, {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()}


def _embeddings(model: TorchModel, rows: np.ndarray) -> tuple[Arrays, Literal["all", "target", "none"]]:
    d_model = model.d_model
    source, target, output = (np.asarray(model.tables[role], np.float32) for role in ("source", "target", "output"))
    if shapes := {array.shape for array in (source, target, output)} - {(len(rows), d_model)}:
        raise ExportError(
            f"tables of shape {sorted(shapes)}: all three must be ({len(rows)}, {d_model}), one vocabulary."
        )
    if model.description.embedding_scale == "none":  # ours are multiplied by √d_model when they are read (§3.4)
        source, target = (array * np.float32(1 / math.sqrt(d_model)) for array in (source, target))
    found = {"source_embedding": source[rows]}
    if np.array_equal(source, target) and np.array_equal(target, output):
        return found, "all"
    found["target_embedding"] = target[rows]
    if np.array_equal(target, output):
        return found, "target"
    return found | {"output_embedding": output[rows]}, "none"


def _layer(arrays: Arrays, side: str, layer: int, *, bias: bool) -> Arrays:
    ours, theirs = f"{side}.{layer}", f"{side}.layers.{layer}"
    found: Arrays = {}
    kinds = ("weight", "bias") if bias else ("weight",)
    for kind in kinds:
        found[f"{ours}.self_attention.query_key_value.{kind}"] = _get(arrays, f"{theirs}.self_attn.in_proj_{kind}")
        found[f"{ours}.self_attention.output.{kind}"] = _get(arrays, f"{theirs}.self_attn.out_proj.{kind}")
        if side == "decoder":
            packed = _get(arrays, f"{theirs}.multihead_attn.in_proj_{kind}")
            third = len(packed) // 3
            found[f"{ours}.cross_attention.query.{kind}"] = packed[:third]
            found[f"{ours}.cross_attention.key_value.{kind}"] = packed[third:]
            found[f"{ours}.cross_attention.output.{kind}"] = _get(arrays, f"{theirs}.multihead_attn.out_proj.{kind}")
    for kind in ("weight", "bias"):
        found[f"{ours}.feed_forward.inner.{kind}"] = _get_or_zeros(arrays, f"{theirs}.linear1", kind)
        found[f"{ours}.feed_forward.outer.{kind}"] = _get_or_zeros(arrays, f"{theirs}.linear2", kind)
        for number, sublayer in enumerate(_SUBLAYERS[side], start=1):
            found[f"{ours}.{sublayer}_residual.norm.{kind}"] = _get_or_zeros(arrays, f"{theirs}.norm{number}", kind)
    return found


def _final_norm(arrays: Arrays, side: str, count: int, config: ModelConfig) -> Arrays:
    """Returns the norm at the end of a stack; in post-norm it is one more layer, see above."""
    norm = {kind: _get_or_zeros(arrays, f"{side}.norm", kind) for kind in ("weight", "bias")}
    if is_pre_norm(config):
        return {f"{side}_norm.{kind}": array for kind, array in norm.items()}
    last = _layer(arrays, side, count - 1, bias=config.attention_bias)
    added = {}
    for name, array in last.items():
        new_name = name.replace(f"{side}.{count - 1}.", f"{side}.{count}.", 1)
        added[new_name] = np.ones_like(array) if name.endswith("norm.weight") else np.zeros_like(array)
    return added | {f"{side}.{count}.feed_forward_residual.norm.{kind}": array for kind, array in norm.items()}


def _get_or_zeros(arrays: Arrays, name: str, kind: str) -> np.ndarray:
    """Returns a weight or a bias; zeros for a bias in a model without any (`bias=False`)."""
    if kind == "bias" and not _has_bias(arrays):
        return np.zeros(len(_get(arrays, f"{name}.weight")), np.float32)
    return _get(arrays, f"{name}.{kind}")


def _get(arrays: Arrays, name: str) -> np.ndarray:
    try:
        return np.asarray(arrays[name], np.float32)
    except KeyError:
        raise BundleError(f"the state dict has no '{name}'.") from None
