"""Converts a model folder into the folder that CTranslate2 loads, with numpy only, without torch and CTranslate2.

CTranslate2's format is a list of named arrays (`model.bin`), a vocabulary and a few settings. Its own writer is not
used, because it loads torch if torch is installed; tests compare the two. Both models compute the same except for
rounding: tests compare forced scores for every kind of model. Models without an exact counterpart are refused.

D d_model, H heads, E CTranslate2's depth of a head: the greater of d_k and d_v; the smaller is filled with zeros.
"""

import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from transduce import files
from transduce.bundle import Bundle
from transduce.config import ModelConfig
from transduce.config.choices import EMBEDDINGS, is_pre_norm, learns_positions, reads_source_end, starts_from_zero
from transduce.config.weights import BLOCK_HEADS, require_shapes
from transduce.engines.aligning_heads import heads_or_layer, with_heads_first
from transduce.engines.ctranslate2_limits import MAX_SINUSOIDS, require_convertible
from transduce.engines.shortlist.table import Shortlist
from transduce.engines.sinusoids import sinusoids
from transduce.text import BOS_TOKEN, EOS_TOKEN, UNK_TOKEN

_BINARY_VERSION, _SPECIFICATION, _REVISION = 6, "TransformerSpec", 7  # of the format; later releases read them
_TYPE_IDS = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4, "bfloat16": 5}
ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "swish": 2, "gelu": 3, "gelu_sigmoid": 4}
_TARGET = "decoder/embeddings/weight"  # holds the array where models share one; the others refer to it
_TABLES = {
    "source_embedding": "encoder/embeddings_0/weight",
    "target_embedding": _TARGET,
    "output_embedding": "decoder/projection/weight",
}

Arrays = dict[str, np.ndarray]
Take = Callable[[str], np.ndarray]


def convert(bundle: Bundle, output: Path, quantization: str = "float32", shortlist: Shortlist | None = None) -> None:
    """Writes the model of `bundle` as a folder for CTranslate2, atomically.

    Args:
        bundle: a model folder.
        output: the folder to write; an existing one is replaced.
        quantization: the type of stored numbers, one of `QUANTIZATIONS`. With int8 and int16, matrices are integers
            with a scale (with int8, one for each row); the rest is float32, or the type after the underscore.
        shortlist: is written as the vocabulary map, which CTranslate2 uses on request.

    Raises:
        ConfigError: there is no such quantization, or CTranslate2 cannot compute what this model computes.
        BundleError: the weights do not match the configuration, or the folder is damaged.
    """
    require_convertible(bundle.config.model, quantization)
    with files.atomic_folder(output) as folder:
        for name, blocks in contents(bundle, quantization, shortlist):
            with (folder / name).open("wb") as file:
                file.writelines(blocks)


def convert_in_memory(bundle: Bundle, quantization: str, shortlist: Shortlist | None = None) -> dict[str, io.BytesIO]:
    """Returns the files that `convert` writes, by name, for `ctranslate2.Translator`, if it would write them."""
    made = {}
    for name, blocks in contents(bundle, quantization, shortlist):
        made[name] = io.BytesIO()
        made[name].writelines(blocks)
        made[name].seek(0)
    return made


def contents(bundle: Bundle, quantization: str, shortlist: Shortlist | None) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yields the name and the bytes of each file of a converted model."""
    arrays, aliases = bundle_arrays(bundle)
    yield "model.bin", _serialised(arrays, aliases, quantization)
    source, target = bundle.tokenizer.tokens(), bundle.tokenizer.target.tokens()
    if bundle.config.model.target_vocab_size:
        yield "source_vocabulary.json", [_json(source)]
        yield "target_vocabulary.json", [_json(target)]
    else:
        yield "shared_vocabulary.json", [_json(target)]
    yield "config.json", [_json(_settings(bundle.config.model))]
    if shortlist is not None:
        yield "vmap.txt", (f"{line}\n".encode() for line in shortlist.vocabulary_map(source, target))


def bundle_arrays(bundle: Bundle) -> tuple[Arrays, dict[str, str]]:
    """Returns the `model_arrays` of a model folder; the heads whose attention aligns words come first."""
    config, weights = bundle.config.model, bundle.weights()
    heads = heads_or_layer(config, bundle.aligning_heads)
    arrays, aliases = model_arrays(config, with_heads_first(config, weights, heads), str(bundle.path))
    # CTranslate2 returns the attention of the first heads of a decoder layer, counted from 0.
    arrays["decoder/alignment_layer"] = np.array(heads.layer, np.int16)
    arrays["decoder/alignment_heads"] = np.array(len(heads.heads), np.int16)
    return arrays, aliases


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


# --- from our names and shapes to CTranslate2's ---------------------------------------------------------------


def model_arrays(
    config: ModelConfig, weights: Mapping[str, np.ndarray], where: str = "weights"
) -> tuple[Arrays, dict[str, str]]:
    """Returns CTranslate2's arrays by name, float32 except settings, and the names that share another's array.

    Raises:
        BundleError: lists all weights that are missing, unknown or of a wrong shape.
    """
    require_shapes(config, {name: array.shape for name, array in weights.items()}, where)
    left = {name: array for name, array in weights.items() if not name.startswith(BLOCK_HEADS)}  # it has none

    def take(name: str) -> np.ndarray:
        """Returns one of our weights; each is converted once."""
        return left.pop(name).astype(np.float32, copy=False)

    arrays = {_TABLES[name]: take(name) for name in EMBEDDINGS[config.tie_embeddings]}
    if _TARGET not in arrays:
        arrays[_TARGET] = arrays.pop(_TABLES["source_embedding"])
    aliases = dict.fromkeys(_TABLES.values() - arrays.keys(), _TARGET)
    if config.output_bias:
        arrays["decoder/projection/bias"] = take("output_bias")
    arrays |= _positions(config, take)
    for stack in ("encoder", "decoder"):
        arrays |= _stack_settings(config, stack)
        if is_pre_norm(config):
            arrays |= _norm(take, f"{stack}_norm", f"{stack}/layer_norm")
        count = config.num_encoder_layers if stack == "encoder" else config.num_decoder_layers
        for layer in range(count):
            arrays |= _layer(config, take, f"{stack}.{layer}", f"{stack}/layer_{layer}")
    assert not left, f"not converted: {', '.join(left)}"
    return arrays, aliases


def _stack_settings(config: ModelConfig, stack: str) -> Arrays:
    flags: dict[str, int] = {"pre_norm": is_pre_norm(config), "activation": ACTIVATIONS[config.activation]}
    flags["scale_embeddings"] = 1  # by the square root of d_model
    if stack == "encoder":
        flags |= {"embeddings_merge": 0, "multi_query_attention": 0}
    else:
        flags |= {"start_from_zero_embedding": starts_from_zero(config)}
        flags |= {"alibi": 0, "alibi_use_positive_positions": 0, "scale_alibi": 0}
    settings = {f"{stack}/{name}": np.array(value, np.int8) for name, value in flags.items()}
    return settings | {f"{stack}/num_heads": np.array(config.num_heads, np.int16)}


def _positions(config: ModelConfig, take: Take) -> Arrays:
    """Returns tables of positions; the target space's vector, the same everywhere, is added to the source's."""
    if learns_positions(config):
        source, target = (take(f"{side}_positions.table") for side in ("source", "target"))
    else:
        source = target = sinusoids(MAX_SINUSOIDS, config)
    if config.target_space_embedding:
        source = source + take("target_space")[0]
    return {"encoder/position_encodings/encodings": source, "decoder/position_encodings/encodings": target}


def _norm(take: Take, ours: str, theirs: str) -> Arrays:
    return {f"{theirs}/gamma": take(f"{ours}.weight"), f"{theirs}/beta": take(f"{ours}.bias")}


def _layer(config: ModelConfig, take: Take, ours: str, theirs: str) -> Arrays:
    key, value = config.d_k, config.d_v
    matrices: dict[str, Sequence[int]] = {"query_key_value": (key, key, value)}
    arrays = _attention(config, take, f"{ours}.self_attention", f"{theirs}/self_attention", matrices)
    if ours.startswith("decoder"):
        matrices = {"query": (key,), "key_value": (key, value)}
        arrays |= _attention(config, take, f"{ours}.cross_attention", f"{theirs}/attention", matrices)
    arrays |= _norm(take, f"{ours}.feed_forward_residual.norm", f"{theirs}/ffn/layer_norm")
    for name, linear in (("inner", "linear_0"), ("outer", "linear_1")):
        for kind in ("weight", "bias"):
            arrays[f"{theirs}/ffn/{linear}/{kind}"] = take(f"{ours}.feed_forward.{name}.{kind}")
    return arrays


def _attention(
    config: ModelConfig, take: Take, ours: str, theirs: str, matrices: Mapping[str, Sequence[int]]
) -> Arrays:
    """Converts an attention; `matrices` are its projections, each with the widths of the heads that share it.

    Heads are filled with zeros up to E. Zeros add nothing to the product of a query and a key, and W_O gets columns of
    zeros for the filling of values.
    """
    num_heads, depth = config.num_heads, max(config.d_k, config.d_v)

    def filled(stacked: np.ndarray, width: int) -> np.ndarray:
        """Returns the rows of a projection, or the elements of its bias, with zeros after those of each head."""
        heads = stacked.reshape(num_heads, width, -1)
        return np.pad(heads, [(0, 0), (0, depth - width), (0, 0)]).reshape(num_heads * depth, *stacked.shape[1:])

    kinds = ("weight", "bias") if config.attention_bias else ("weight",)
    arrays = {
        f"{theirs}/queries_scale": np.array(config.d_k**-0.5, np.float32),
        f"{theirs}/head_dim": np.array(depth, np.int32),
    }
    for number, (name, widths) in enumerate(matrices.items()):
        starts = np.cumsum([num_heads * width for width in widths])[:-1]
        for kind in kinds:
            parts = zip(np.split(take(f"{ours}.{name}.{kind}"), starts), widths, strict=True)
            arrays[f"{theirs}/linear_{number}/{kind}"] = np.concatenate([filled(*part) for part in parts])
    output = f"{theirs}/linear_{len(matrices)}"
    arrays[f"{output}/weight"] = filled(take(f"{ours}.output.weight").T, config.d_v).T
    if config.attention_bias:
        arrays[f"{output}/bias"] = take(f"{ours}.output.bias")
    return arrays | _norm(take, f"{ours}_residual.norm", f"{theirs}/layer_norm")


def _settings(config: ModelConfig) -> dict[str, object]:
    return {
        "add_source_bos": False,
        "add_source_eos": reads_source_end(config),
        "bos_token": BOS_TOKEN,
        "decoder_start_token": BOS_TOKEN,  # its embedding is not used if the decoder starts from zero
        "eos_token": EOS_TOKEN,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "multi_query_attention": False,
        "unk_token": UNK_TOKEN,
    }


# --- numbers and bytes ----------------------------------------------------------------------------------------


def _stored(arrays: Arrays, quantization: str) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yields the name, type and numbers of each stored array, in order of name."""
    integers, _, floats = quantization.partition("_") if quantization.startswith("int") else ("", "", quantization)
    for name, array in sorted(arrays.items()):
        if array.ndim == 0:  # a setting
            yield name, array.dtype.name, array
        elif integers and _is_quantized(name):
            values, scale = quantize(array, integers)
            yield name, integers, values
            yield f"{name}_scale", "float32", scale
        else:
            yield name, floats or "float32", as_floats(array, floats or "float32")


def _is_quantized(name: str) -> bool:
    return name.endswith("/weight")  # of a matrix: embeddings and projections, neither norms nor positions


def quantize(matrix: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns a matrix as integers, and its scale: one number for each row (int8) or for all (int16)."""
    if kind == "int16":  # 10 bits for a weight, so that sums of products fit into 32
        scale = np.float32(2**10) / (np.abs(matrix).max() or np.float32(1))
        return np.rint(matrix * scale).astype(np.int16), np.array(scale, np.float32)
    greatest = np.abs(matrix).max(axis=1)
    scales = np.float32(127) / np.where(greatest == 0, np.float32(127), np.maximum(greatest, np.float32(1e-36)))
    return np.rint(matrix * scales[:, None]).astype(np.int8), scales.astype(np.float32)


def as_floats(array: np.ndarray, kind: str) -> np.ndarray:
    """Returns `array` in float32, float16 or bfloat16 (the upper half of float32's bits, rounded to even)."""
    if kind == "float16":
        return array.astype(np.float16)
    if kind == "bfloat16":
        bits = np.ascontiguousarray(array).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.ascontiguousarray(array, np.float32)


def _serialised(arrays: Arrays, aliases: Mapping[str, str], quantization: str) -> Iterator[bytes]:
    """Yields the bytes of `model.bin`: little-endian; strings end in a zero byte, which their length includes."""
    num_scales = sum(map(_is_quantized, arrays)) if quantization.startswith("int") else 0
    yield struct.pack("<I", _BINARY_VERSION) + _text(_SPECIFICATION)
    yield struct.pack("<II", _REVISION, len(arrays) + num_scales)
    for name, kind, array in _stored(arrays, quantization):
        yield _text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        yield struct.pack("<BI", _TYPE_IDS[kind], array.nbytes)
        yield array.tobytes()
    yield struct.pack("<I", len(aliases))
    for name, other in sorted(aliases.items()):
        yield _text(name) + _text(other)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<H", len(encoded) + 1) + encoded + b"\0"
