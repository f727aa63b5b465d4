"""A state dict of `torch.nn.Transformer` as one of our models.

Its layers compute what ours do, and have W_Q, W_K and W_V in one matrix, too. But `nn.Transformer` ends each stack in
a norm, also in post-norm, where ours have none. For that norm we add a layer whose sub-layers are zero. The other norms
of that layer change nothing, because the last one normalises again:

    LN(x) = LN(LN₀(x + 0) + 0)      with LN₀ of weight 1 and bias 0

That holds as long as the ε that is added to a variance is small compared with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transduce.config import ModelConfig
from transduce.config.choices import EMBEDDINGS, is_pre_norm
from transduce.errors import BundleError, ExportError
from transduce.export.huggingface_reading import as_read, tie_of
from transduce.export.torch_description import TorchDescription

Arrays = dict[str, np.ndarray]
_SUBLAYERS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
# The modules of sub-layers: their name and ours, to which "weight" or "bias" is added.
_MODULES = {
    "self_attn.in_proj_": "self_attention.query_key_value.",
    "self_attn.out_proj.": "self_attention.output.",
    "multihead_attn.in_proj_": "cross_attention.",  # ours are two: query and key_value
    "multihead_attn.out_proj.": "cross_attention.output.",
    "linear1.": "feed_forward.inner.",
    "linear2.": "feed_forward.outer.",
}
_MAX_EPSILON = 1e-4  # of norms, where one follows others that normalise already: variances are about 1


@dataclass(frozen=True)
class TorchModel:
    """A state dict in parts; layers and norms have the names of `nn.Transformer`, without the prefix."""

    description: TorchDescription
    arrays: Arrays  # of layers and norms
    tables: Arrays  # "source", "target", "output", and where there are such: "output_bias", "…_positions"
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
    named = set(tables.values())
    if missing := sorted(named - state.keys()):
        raise BundleError(f"the state dict has no {', '.join(missing)}. It has: {_some(state)}.")
    layers = {side: _count_layers(arrays, side) for side in _SUBLAYERS}
    final_norms = {side: f"{side}.norm.weight" in arrays for side in _SUBLAYERS}
    if description.norm_first and not all(final_norms.values()):
        raise ExportError("norm_first without final norms: the pre-norm stacks of Transduce end in one each.")
    known = _names(arrays, layers, final_norms)
    if left := sorted(set(state) - {f"{prefix}{name}" for name in known} - named):
        raise BundleError(
            f"the state dict has weights that are neither in the description nor in torch.nn.Transformer: "
            f"{', '.join(left[:8])}{', …' if len(left) > 8 else ''}. Name tables and the bias of the output in the "
            "description; a model of Transduce has nothing else."
        )
    if missing := sorted(known - arrays.keys()):
        raise BundleError(f"the state dict has no '{missing[0]}'.")
    arrays = {name: arrays[name] for name in known}
    return TorchModel(description, arrays, {role: state[name] for role, name in tables.items()}, layers, final_norms)


def _names(arrays: Arrays, layers: Mapping[str, int], final_norms: Mapping[str, bool]) -> set[str]:
    """Returns all names that `to_model` reads; biases only if the first layer has them."""
    modules = [f"{side}.norm." for side, there in final_norms.items() if there]
    for side, count in layers.items():
        modules += [f"{side}.layers.{layer}.{name}" for layer in range(count) for name in _modules(side)]
    biases = {f"{module}bias" for module in modules if _has_bias(arrays, module)}
    return {f"{module}weight" for module in modules} | biases


def _modules(side: str) -> dict[str, str]:
    """Returns the modules of a layer: their name and ours."""
    sublayers = _SUBLAYERS[side]
    norms = {f"norm{number}.": f"{name}_residual.norm." for number, name in enumerate(sublayers, start=1)}
    return {theirs: ours for theirs, ours in _MODULES.items() if ours.partition(".")[0] in sublayers} | norms


def _has_bias(arrays: Arrays, module: str) -> bool:
    """Returns whether the attentions have biases, or whether all else has; the first layer decides."""
    first = "self_attn.in_proj_bias" if "attn." in module else "linear1.bias"
    return f"encoder.layers.0.{first}" in arrays


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
    if any(added.values()) and description.layer_norm_eps > _MAX_EPSILON:
        raise ExportError(
            f"layer_norm_eps = {description.layer_norm_eps:g} with a final norm in post-norm: at most {_MAX_EPSILON:g} "
            "is supported, because a model of Transduce normalises twice there."
        )
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
        sinusoid_layout=description.layout,
        max_positions=len(tables["source_positions.table"]) if learned else 1024,
        tie_embeddings=tie,
        norm="pre" if description.norm_first else "post",
        layer_norm_epsilon=description.layer_norm_eps,
        attention_bias=_has_bias(model.arrays, "self_attn."),
        activation=description.activation,
        output_bias="output_bias" in tables,
    )
    weights = tables
    for side, count in model.layers.items():
        for layer in range(count):
            weights |= _layer(model.arrays, side, layer)
        if model.final_norms[side]:
            weights |= _final_norm(model.arrays, side, count, config)
    return config, {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()}


def _embeddings(model: TorchModel, rows: np.ndarray) -> tuple[Arrays, Literal["all", "target", "none"]]:
    tables = {role: model.tables[role] for role in ("source", "target", "output")}
    if shapes := {table.shape for table in tables.values()} - {(len(rows), model.d_model)}:
        raise ExportError(
            f"tables of shape {sorted(shapes)}: all three must be ({len(rows)}, {model.d_model}), one vocabulary."
        )
    if model.description.embedding_scale == "none":
        tables |= as_read(tables, model.d_model)
    tie = tie_of(tables)
    found = {name: tables[name.removesuffix("_embedding")][rows] for name in EMBEDDINGS[tie]}
    if (bias := model.tables.get("output_bias")) is not None:
        if bias.shape != (len(rows),):
            raise ExportError(f"{model.description.output_bias} has the shape {bias.shape}: must be ({len(rows)},).")
        found["output_bias"] = bias[rows]
    return found, tie


def _layer(arrays: Arrays, side: str, layer: int) -> Arrays:
    found: Arrays = {}
    for theirs, name in _modules(side).items():
        ours = f"{side}.{layer}.{name}"
        kinds = ("weight",) if "attn." in theirs and not _has_bias(arrays, theirs) else ("weight", "bias")
        for kind in kinds:
            array = _weight_or_zeros(arrays, f"{side}.layers.{layer}.{theirs}", kind)
            if theirs == "multihead_attn.in_proj_":
                third = len(array) // 3
                found |= {f"{ours}query.{kind}": array[:third], f"{ours}key_value.{kind}": array[third:]}
            else:
                found[ours + kind] = array
    return found


def _final_norm(arrays: Arrays, side: str, count: int, config: ModelConfig) -> Arrays:
    """Returns the norm at the end of a stack; in post-norm it is one more layer, see above."""
    norm = {kind: _weight_or_zeros(arrays, f"{side}.norm.", kind) for kind in ("weight", "bias")}
    if is_pre_norm(config):
        return {f"{side}_norm.{kind}": array for kind, array in norm.items()}
    last = _layer(arrays, side, count - 1)
    added = {}
    for name, array in last.items():
        new_name = name.replace(f"{side}.{count - 1}.", f"{side}.{count}.", 1)
        added[new_name] = np.ones_like(array) if name.endswith("norm.weight") else np.zeros_like(array)
    return added | {f"{side}.{count}.feed_forward_residual.norm.{kind}": array for kind, array in norm.items()}


def _weight_or_zeros(arrays: Arrays, module: str, kind: str) -> np.ndarray:
    """Returns a weight or a bias; zeros for a bias in a model without any (`bias=False`)."""
    return arrays[module + kind] if module + kind in arrays else np.zeros(len(arrays[f"{module}weight"]), np.float32)
