"""Weights in the names and the layout of `transformers`, and back; needs no torch.

Ours lay W_Q, W_K and W_V in one matrix and pair each sine of a position with its cosine; Marian's and Pegasus's lie in
three, and all sines stand before all cosines. The dimensions of the model are only names, so putting them into another
order, in every matrix that reads or writes them, changes no output:

    ours    sin₀ cos₀ sin₁ cos₁   →   theirs  sin₀ sin₁ cos₀ cos₁
"""

import math
from collections.abc import Mapping

import numpy as np

from transduce.config import ModelConfig
from transduce.config.choices import is_pre_norm, learns_positions
from transduce.engines.ctranslate2_model import sinusoids
from transduce.export.huggingface_shape import NEVER_BIAS, HuggingFaceShape, query_scale

Arrays = dict[str, np.ndarray]


def dimension_order(d_model: int) -> np.ndarray:
    """Returns which of our dimensions stands at each place of theirs: the even ones, then the odd ones."""
    order: np.ndarray = np.r_[0:d_model:2, 1:d_model:2]
    return order


def to_huggingface(weights: Mapping[str, np.ndarray], config: ModelConfig, shape: HuggingFaceShape) -> Arrays:
    """Returns the state dict that the class of `shape` loads."""
    return _Writer(weights, config, shape).write()


class _Writer:
    """Fills `arrays` part by part."""

    def __init__(self, weights: Mapping[str, np.ndarray], config: ModelConfig, shape: HuggingFaceShape) -> None:
        self.weights, self.config, self.shape = weights, config, shape
        self.order = dimension_order(config.d_model) if shape.permuted else np.arange(config.d_model)
        self.arrays: Arrays = {}

    def write(self) -> Arrays:
        self._embeddings()
        self._positions()
        for side, count in (("encoder", self.config.num_encoder_layers), ("decoder", self.config.num_decoder_layers)):
            for layer in range(count):
                self._layer(side, layer)
            if is_pre_norm(self.config):
                self._norm(f"{side}_norm", f"model.{side}.layer_norm")
        return {name: np.ascontiguousarray(array, np.float32) for name, array in self.arrays.items()}

    def _embeddings(self) -> None:
        source = self.weights["source_embedding"]
        target = self.weights.get("target_embedding", source)
        output = self.weights.get("output_embedding", target)
        if self.config.target_space_embedding:  # added to each scaled embedding of the encoder
            source = source + self.weights["target_space"][0] / np.float32(math.sqrt(self.config.d_model))
        if self.shape.untied_encoder:
            self.arrays["model.encoder.embed_tokens.weight"] = self._table(source)
            self.arrays["model.decoder.embed_tokens.weight"] = self._table(target)
        if not self.shape.untied_encoder or self.shape.model_type == "pegasus":
            self.arrays["model.shared.weight"] = self._table(source)
        if self.shape.untied_output or (self.shape.untied_encoder and self.shape.model_type == "pegasus"):
            self.arrays["lm_head.weight"] = self._table(output)
        bias = np.zeros((1, self.config.vocab_size + self.shape.extra_start), np.float32)
        if self.shape.extra_start:
            bias[0, -1] = NEVER_BIAS
        self.arrays["final_logits_bias"] = bias

    def _table(self, embedding: np.ndarray) -> np.ndarray:
        permuted = embedding[:, self.order]
        return np.pad(permuted, ((0, int(self.shape.extra_start)), (0, 0)))

    def _positions(self) -> None:
        for side, ours in (("encoder", "source"), ("decoder", "target")):
            if learns_positions(self.config):
                table = self.weights[f"{ours}_positions.table"]
            else:
                table = sinusoids(self.shape.num_positions, self.config)
            self.arrays[f"model.{side}.embed_positions.weight"] = table[:, self.order]

    def _layer(self, side: str, layer: int) -> None:
        ours, theirs = f"{side}.{layer}", f"model.{side}.layers.{layer}"
        d_k, heads = self.config.d_k, self.config.num_heads
        widths = np.cumsum([heads * d_k, heads * d_k])
        packed = f"{ours}.self_attention.query_key_value"
        parts = zip(*(np.split(self._get(packed, kind), widths) for kind in ("weight", "bias")), strict=True)
        self._attention(f"{theirs}.self_attn", list(parts), f"{ours}.self_attention.output")
        self._norm(f"{ours}.self_attention_residual.norm", f"{theirs}.self_attn_layer_norm")
        if side == "decoder":
            cross = f"{ours}.cross_attention"
            query = (self._get(f"{cross}.query", "weight"), self._get(f"{cross}.query", "bias"))
            split = (np.split(self._get(f"{cross}.key_value", kind), [heads * d_k]) for kind in ("weight", "bias"))
            self._attention(f"{theirs}.encoder_attn", [query, *zip(*split, strict=True)], f"{cross}.output")
            self._norm(f"{ours}.cross_attention_residual.norm", f"{theirs}.encoder_attn_layer_norm")
        self.arrays[f"{theirs}.fc1.weight"] = self.weights[f"{ours}.feed_forward.inner.weight"][:, self.order]
        self.arrays[f"{theirs}.fc1.bias"] = self.weights[f"{ours}.feed_forward.inner.bias"]
        self.arrays[f"{theirs}.fc2.weight"] = self.weights[f"{ours}.feed_forward.outer.weight"][self.order]
        self.arrays[f"{theirs}.fc2.bias"] = self.weights[f"{ours}.feed_forward.outer.bias"][self.order]
        self._norm(f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm")

    def _get(self, name: str, kind: str) -> np.ndarray:
        """Returns a weight, or the bias of zeros that stands for none."""
        if kind == "bias" and not self.config.attention_bias:
            return np.zeros(self.weights[f"{name}.weight"].shape[0], np.float32)
        return self.weights[f"{name}.{kind}"]

    def _attention(self, theirs: str, query_key_value: list[tuple[np.ndarray, np.ndarray]], output: str) -> None:
        scale = np.float32(query_scale(self.config.d_k, self.shape.head_size))
        for letter, (weight, bias) in zip("qkv", query_key_value, strict=True):
            factor = scale if letter == "q" else np.float32(1)
            self.arrays[f"{theirs}.{letter}_proj.weight"] = self._pad_heads(weight[:, self.order]) * factor
            self.arrays[f"{theirs}.{letter}_proj.bias"] = self._pad_heads(bias) * factor
        joined = self._pad_heads(self.weights[f"{output}.weight"][self.order].T).T
        self.arrays[f"{theirs}.out_proj.weight"] = joined
        self.arrays[f"{theirs}.out_proj.bias"] = self._get(output, "bias")[self.order]

    def _pad_heads(self, rows: np.ndarray) -> np.ndarray:
        """Fills (h·E, …) up with zeros to (h'·E', …), the heads and sizes of `shape`."""
        heads, rest = self.config.num_heads, rows.shape[1:]
        split = rows.reshape(heads, -1, *rest)
        missing = [(0, self.shape.num_heads - heads), (0, self.shape.head_size - split.shape[1])]
        return np.pad(split, missing + [(0, 0)] * len(rest)).reshape(-1, *rest)

    def _norm(self, ours: str, theirs: str) -> None:
        for kind in ("weight", "bias"):
            self.arrays[f"{theirs}.{kind}"] = self.weights[f"{ours}.{kind}"][self.order]
