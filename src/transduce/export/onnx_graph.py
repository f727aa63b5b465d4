"""The parts of a Transformer as ONNX nodes, written one by one from its weights, without PyTorch and its exporter.

The weights are in one file that several graphs share. Shape suffixes as in `transduce.model.attention`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from transduce.config import ModelConfig
from transduce.config.choices import is_pre_norm, learns_positions, starts_from_zero
from transduce.config.special_ids import BOS
from transduce.engines.sinusoids import sinusoids

WEIGHTS = "weights.bin"
OPSET, IR_VERSION = 17, 8  # the first with LayerNormalization: what runtimes since 2022 read
_MASKED = -1e9  # added to a score, it leaves a weight of exactly 0
_ALIGNMENT = 64


class Weights:
    """One file of arrays; each is written once, even if several graphs use it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.ranges: dict[str, tuple[int, int]] = {}

    def tensor(self, name: str, array: np.ndarray) -> onnx.TensorProto:
        """Returns a tensor whose numbers are in the file."""
        data = np.ascontiguousarray(array, np.float32)
        if name not in self.ranges:
            self.ranges[name] = (self.file.tell(), data.nbytes)
            self.file.write(data.tobytes() + bytes(-data.nbytes % _ALIGNMENT))
        offset, length = self.ranges[name]
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=data.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", WEIGHTS), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        return tensor


class Graph:
    """A graph under construction; each method adds nodes and returns the name of their output."""

    def __init__(self, weights: Mapping[str, np.ndarray], config: ModelConfig, store: Weights) -> None:
        self.weights, self.config, self.store = weights, config, store
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def add(self, operation: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Adds a node with one output, called `name` where that is given."""
        output = name or f"{operation.lower()}_{len(self.nodes) + 1}"
        self.nodes.append(helper.make_node(operation, list(inputs), [output], **attributes))
        return output

    def stored(self, name: str, array: np.ndarray) -> str:
        """Stores an array in the shared file; returns its name."""
        self.constants.setdefault(name, self.store.tensor(name, array))
        return name

    def constant(self, value: Any, dtype: type = np.int64) -> str:
        """Stores a small array in the graph itself; returns its name."""
        array: np.ndarray = np.asarray(value, dtype)
        name = f"constant_{array.dtype}_{'_'.join(map(str, array.reshape(-1)))}_{array.ndim}".replace("-", "m")
        self.constants.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def size(self, x: str, axis: int) -> str:
        """Returns one axis of a shape, as a scalar."""
        return self.add("Gather", self.add("Shape", x), self.constant(axis))

    def positions_up_to(self, end: str, start: str | None = None) -> str:
        """Returns start, start + 1, … end - 1."""
        return self.add("Range", start or self.constant(0), end, self.constant(1))

    def linear(self, x: str, name: str, part: str = "", rows: slice = slice(None)) -> str:
        """Returns x Wᵀ + b, or with `rows` the `part` that they give; W is stored as (inputs, outputs)."""
        product = self.add("MatMul", x, self.stored(f"{name}{part}.weight", self.weights[f"{name}.weight"][rows].T))
        bias = self.weights.get(f"{name}.bias")
        return product if bias is None else self.add("Add", product, self.stored(f"{name}{part}.bias", bias[rows]))

    def norm(self, x: str, name: str) -> str:
        """Returns the layer normalisation of the last axis."""
        parts = (self.stored(f"{name}.{kind}", self.weights[f"{name}.{kind}"]) for kind in ("weight", "bias"))
        return self.add("LayerNormalization", x, *parts, axis=-1, epsilon=self.config.layer_norm_epsilon)

    def split_heads(self, x: str, size: int) -> str:
        """(B, T, H·E) → (B, H, T, E)."""
        split = self.add("Reshape", x, self.constant([0, 0, self.config.num_heads, size]))
        return self.add("Transpose", split, perm=[0, 2, 1, 3])

    def attend(self, query: str, key: str, value: str, masks: Sequence[str]) -> str:
        """Returns softmax(Q Kᵀ / √d_k + masks) V with the heads joined, (B, T, H·E): eq. 1."""
        scale = self.constant(1 / math.sqrt(self.config.d_k), np.float32)
        scores = self.add("MatMul", self.add("Mul", query, scale), self.add("Transpose", key, perm=[0, 1, 3, 2]))
        for mask in masks:
            scores = self.add("Add", scores, mask)
        heads = self.add("MatMul", self.add("Softmax", scores, axis=-1), value)
        joined = self.add("Transpose", heads, perm=[0, 2, 1, 3])
        return self.add("Reshape", joined, self.constant([0, 0, self.config.num_heads * self.config.d_v]))

    def masked_where(self, hidden: str) -> str:
        """Returns a term of the scores: 0, or where `hidden` a number so low that the weight is 0."""
        return self.add("Where", hidden, self.constant(_MASKED, np.float32), self.constant(0, np.float32))

    def outside_window(self, queries_T: str, keys_S: str, *, causal: bool) -> str | None:
        """Returns the pairs of positions that may not attend to each other, (T, S); None if all may."""
        if not causal and not self.config.attention_window:
            return None
        rows = self.add("Unsqueeze", queries_T, self.constant([1]))
        distance = self.add("Sub", rows, self.add("Unsqueeze", keys_S, self.constant([0])))
        hidden = self.add("Less", distance, self.constant(0)) if causal else None
        if not self.config.attention_window:
            return hidden
        reach = self.constant(self.config.attention_window // 2)
        far = self.add("Greater", self.add("Abs", distance), reach)
        return far if hidden is None else self.add("Or", hidden, far)

    # --- parts of a layer ---

    def residual(self, x: str, name: str, sublayer: Any) -> str:
        """Returns `x` after a sub-layer and its connection, post-norm or pre-norm."""
        norm = f"{name}_residual.norm"
        if is_pre_norm(self.config):
            return self.add("Add", x, sublayer(self.norm(x, norm)))
        return self.norm(self.add("Add", x, sublayer(x)), norm)

    def projections(self, x: str, name: str, sizes: Sequence[int]) -> list[str]:
        """Returns the heads of the projections in one matrix, (B, H, T, E) each; `sizes` are of one head."""
        found, end = [], 0
        for part, size in enumerate(sizes):
            start, end = end, end + self.config.num_heads * size
            found.append(self.split_heads(self.linear(x, name, f".{part}", slice(start, end)), size))
        return found

    def feed_forward(self, x: str, name: str) -> str:
        """Returns f(x W₁ + b₁) W₂ + b₂; with relu eq. 2."""
        return self.linear(self._activated(self.linear(x, f"{name}.inner")), f"{name}.outer")

    def _activated(self, x: str) -> str:
        """Returns the activation of `x`; the operator Gelu is of a later version."""
        forms = {
            "relu": lambda: self.add("Relu", x),
            "swish": lambda: self.add("Mul", x, self.add("Sigmoid", x)),
            "gelu": lambda: self._gelu(x, self.add("Erf", self.times(x, math.sqrt(0.5)))),
            "gelu_tanh": lambda: self._gelu(x, self.add("Tanh", self._tanh_input(x))),
            "gelu_sigmoid": lambda: self.add("Mul", x, self.add("Sigmoid", self.times(x, 1.702))),
        }
        return forms[self.config.activation]()

    def _gelu(self, x: str, curve: str) -> str:
        """Returns x (1 + `curve`) / 2."""
        doubled = self.add("Add", curve, self.constant(1, np.float32))
        return self.add("Mul", x, self.times(doubled, 0.5))

    def _tanh_input(self, x: str) -> str:
        """Returns √(2/π) (x + 0.044715 x³), whose tanh is close to the error function of x / √2."""
        cube = self.add("Mul", self.add("Mul", x, x), x)
        return self.times(self.add("Add", x, self.times(cube, 0.044715)), math.sqrt(2 / math.pi))

    def times(self, x: str, factor: float) -> str:
        """Returns `x` times a number."""
        return self.add("Mul", x, self.constant(factor, np.float32))

    def embed(self, ids: str, table: str, side: str, start: str, end: str, num_positions: int) -> str:
        """Returns embeddings of `ids` × √d_model, with the vectors of positions start … end - 1 added."""
        scale = self.constant(math.sqrt(self.config.d_model), np.float32)
        embedded = self.add("Mul", self.add("Gather", self.stored(table, self.weights[table]), ids), scale)
        if side == "target" and starts_from_zero(self.config):  # BOS occurs only at the first position
            real = self.add("Not", self.add("Equal", ids, self.constant(BOS)))
            real = self.add("Unsqueeze", self.add("Cast", real, to=TensorProto.FLOAT), self.constant([2]))
            embedded = self.add("Mul", embedded, real)
        if learns_positions(self.config):
            positions = self.stored(f"{side}_positions.table", self.weights[f"{side}_positions.table"])
        else:
            positions = self.stored("sinusoids", sinusoids(num_positions, self.config))
        axis = self.constant([0])
        window = (self.add("Unsqueeze", start, axis), self.add("Unsqueeze", end, axis), axis)
        return self.add("Add", embedded, self.add("Slice", positions, *window))
