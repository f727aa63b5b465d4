"""The model as two ONNX graphs with a cache of keys and values.

    encoder.onnx   source_ids (B, S)  →  source_mask (B, 1, 1, S), and cross_key_N, cross_value_N of each decoder layer
    decoder.onnx   target_ids (R, T), source_mask, cross_*, past_*  →  logits (R, T, V), present_*

The decoder is fed T tokens at once: one in a step of a search, a whole target to score it. Keys and values of earlier
tokens go in as `past_key_N` and `past_value_N`, (R, H, P, E), with P = 0 at the start. They come back, longer by T, as
`present_*`. B, R, S, T and P may differ in each call. Zeros on the right of `source_ids` are padding.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from transduce.__about__ import __version__
from transduce.config import ModelConfig
from transduce.config.choices import EMBEDDINGS, is_pre_norm, unsupported
from transduce.config.special_ids import PAD
from transduce.errors import ExportError
from transduce.export.onnx_graph import IR_VERSION, OPSET, WEIGHTS, Graph, Weights

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"


def write_graphs(weights: Mapping[str, np.ndarray], config: ModelConfig, folder: Path, *, num_positions: int) -> None:
    """Writes both graphs and the weights that they share; a table of sinusoids gets `num_positions` rows.

    Raises:
        ExportError: the graphs do not support an option of the model.
    """
    if unknown := unsupported(config):
        raise ExportError(f"{', '.join(unknown)}: these ONNX graphs do not support it.")
    with (folder / WEIGHTS).open("wb") as file:
        store = Weights(file)
        for name, build in ((ENCODER, _encoder), (DECODER, _decoder)):
            graph = Graph(weights, config, store)
            inputs, outputs = build(graph, num_positions)
            constants = [*graph.constants.values()]
            model = helper.make_model(
                helper.make_graph(graph.nodes, name.removesuffix(".onnx"), inputs, outputs, constants),
                opset_imports=[helper.make_opsetid("", OPSET)],
                producer_name="transduce",
                producer_version=__version__,
                ir_version=IR_VERSION,
            )
            (folder / name).write_bytes(model.SerializeToString())
    for name in (ENCODER, DECODER):
        onnx.checker.check_model(str(folder / name), full_check=True)


def _encoder(graph: Graph, num_positions: int) -> tuple[list[Any], list[Any]]:
    config, ids = graph.config, "source_ids"
    length = graph.size(ids, 1)
    x = graph.embed(ids, "source_embedding", "source", graph.constant(0), length, num_positions)
    if config.target_space_embedding:
        x = graph.add("Add", x, graph.stored("target_space.0", graph.weights["target_space"][0]))
    padding = graph.add("Unsqueeze", graph.add("Equal", ids, graph.constant(PAD)), graph.constant([1, 2]))
    mask = graph.add("Identity", graph.masked_where(padding), name="source_mask")
    positions = graph.positions_up_to(length)
    outside = graph.outside_window(positions, positions, causal=False)
    masks = [mask] if outside is None else [mask, graph.masked_where(outside)]
    for layer in range(config.num_encoder_layers):
        name = f"encoder.{layer}"
        x = graph.residual(x, f"{name}.self_attention", lambda y, n=name: _self_attention(graph, y, n, masks))
        x = graph.residual(x, f"{name}.feed_forward", lambda y, n=name: graph.feed_forward(y, f"{n}.feed_forward"))
    if is_pre_norm(config):
        x = graph.norm(x, "encoder_norm")
    outputs = [_values("source_mask", ["batch", 1, 1, "source"])]
    for layer in range(config.num_decoder_layers):
        heads = graph.projections(x, f"decoder.{layer}.cross_attention.key_value", (config.d_k, config.d_v))
        for kind, head in zip(("key", "value"), heads, strict=True):
            name = graph.add("Identity", head, name=f"cross_{kind}_{layer}")
            outputs.append(_cache(config, name, "batch", "source"))
    return [helper.make_tensor_value_info(ids, TensorProto.INT64, ["batch", "source"])], outputs


def _self_attention(graph: Graph, x: str, layer: str, masks: Sequence[str], past: int | None = None) -> str:
    """Attention to the tokens that are fed, and to those in the cache of the `past` layer, if there is one."""
    sizes, name = (graph.config.d_k, graph.config.d_k, graph.config.d_v), f"{layer}.self_attention"
    query, key, value = graph.projections(x, f"{name}.query_key_value", sizes)
    if past is not None:
        key = graph.add("Concat", f"past_key_{past}", key, axis=2, name=f"present_key_{past}")
        value = graph.add("Concat", f"past_value_{past}", value, axis=2, name=f"present_value_{past}")
    return graph.linear(graph.attend(query, key, value, masks), f"{name}.output")


def _decoder(graph: Graph, num_positions: int) -> tuple[list[Any], list[Any]]:
    config, ids = graph.config, "target_ids"
    start = graph.size("past_key_0", 2)
    end = graph.add("Add", start, graph.size(ids, 1))
    own = EMBEDDINGS[config.tie_embeddings]
    table = "target_embedding" if "target_embedding" in own else "source_embedding"
    x = graph.embed(ids, table, "target", start, end, num_positions)
    queries, keys = graph.positions_up_to(end, start), graph.positions_up_to(end)
    future = graph.outside_window(queries, keys, causal=True)
    assert future is not None
    masks = [graph.masked_where(future)]
    inputs = [
        helper.make_tensor_value_info(ids, TensorProto.INT64, ["rows", "target"]),
        _values("source_mask", ["rows", 1, 1, "source"]),
    ]
    outputs = [_values("logits", ["rows", "target", config.output_vocab_size])]
    for layer in range(config.num_decoder_layers):
        name = f"decoder.{layer}"
        for kind in ("key", "value"):
            inputs.append(_cache(config, f"cross_{kind}_{layer}", "rows", "source"))
            inputs.append(_cache(config, f"past_{kind}_{layer}", "rows", "past"))
            outputs.append(_cache(config, f"present_{kind}_{layer}", "rows", "past + target"))
        x = graph.residual(
            x, f"{name}.self_attention", lambda y, n=name, p=layer: _self_attention(graph, y, n, masks, p)
        )
        x = graph.residual(x, f"{name}.cross_attention", lambda y, n=layer: _cross_attention(graph, y, n))
        x = graph.residual(x, f"{name}.feed_forward", lambda y, n=name: graph.feed_forward(y, f"{n}.feed_forward"))
    if is_pre_norm(config):
        x = graph.norm(x, "decoder_norm")
    output = "output_embedding" if "output_embedding" in own else table
    flat = graph.add("Reshape", x, graph.constant([-1, config.d_model]))
    projection = [graph.stored(output, graph.weights[output])]
    if config.output_bias:
        projection.append(graph.stored("output_bias", graph.weights["output_bias"]))
    product = graph.add("Gemm", flat, *projection, transB=1)
    shape = graph.add("Concat", graph.add("Shape", ids), graph.constant([config.output_vocab_size]), axis=0)
    graph.add("Reshape", product, shape, name="logits")
    return inputs, outputs


def _cross_attention(graph: Graph, x: str, layer: int) -> str:
    name = f"decoder.{layer}.cross_attention"
    [query] = graph.projections(x, f"{name}.query", (graph.config.d_k,))
    heads = graph.attend(query, f"cross_key_{layer}", f"cross_value_{layer}", ["source_mask"])
    return graph.linear(heads, f"{name}.output")


def _values(name: str, shape: Sequence[int | str]) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def _cache(config: ModelConfig, name: str, rows: str, length: str) -> Any:
    size = config.d_k if "_key_" in name else config.d_v
    return _values(name, [rows, config.num_heads, length, size])
