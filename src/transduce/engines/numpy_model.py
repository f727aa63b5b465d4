"""The forward pass of `transduce.model` in NumPy, for sentences of equal length: without padding there are no masks.

For the few sentences of `aligning_heads`; it is slow for more. B sentences, S source and T target positions, D d_model,
H heads, E d_k or d_v, V vocabulary.
"""

import math
from collections.abc import Mapping

import numpy as np

from transduce.config import ModelConfig
from transduce.config.choices import EMBEDDINGS, interleaves_sinusoids, is_pre_norm, learns_positions, starts_from_zero
from transduce.config.special_ids import BOS
from transduce.decoding.scores import NEVER_GENERATED

Weights = Mapping[str, np.ndarray]


def greedy_translations(
    config: ModelConfig, weights: Weights, source_BS: np.ndarray, num_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the outputs of greedy search, (B, T), and the decoder's attention to the source, (L, B, H, T, S).

    Outputs do not stop at EOS: what follows it means nothing.
    """
    model = _Model(config, weights)
    memory_BSD = model.encode(source_BS)
    layers = [f"decoder.{index}" for index in range(config.num_decoder_layers)]
    memories = [model.keys_and_values(memory_BSD, layer) for layer in layers]
    pasts: list[list[np.ndarray]] = [[] for _ in layers]  # queries, keys and values of each layer's own positions
    tokens_B = np.full(len(source_BS), BOS)
    outputs, attention = [], []
    for step in range(num_steps):
        x_B1D = model.target_input(tokens_B, step)
        seen = []
        for layer, past, memory in zip(layers, pasts, memories, strict=True):
            x_B1D, weights_BH1S = model.decoder_layer(x_B1D, layer, past, *memory)
            seen.append(weights_BH1S)
        tokens_B = model.best_tokens(x_B1D)
        outputs.append(tokens_B)
        attention.append(np.stack(seen))
    return np.stack(outputs, axis=1), np.concatenate(attention, axis=-2)


def sinusoids(num_positions: int, config: ModelConfig) -> np.ndarray:
    """Returns what `model.positions.sinusoids` does, shape (T, D), float32."""
    half = config.d_model // 2
    pairs = np.arange(half, dtype=np.float64)
    interleaved = interleaves_sinusoids(config)
    exponent = pairs / (config.d_model / 2) if interleaved else pairs / max(half - 1, 1)
    angle = np.arange(num_positions)[:, None] * np.exp(-np.log(10000.0) * exponent)
    both = np.sin(angle), np.cos(angle)
    table = np.stack(both, axis=-1).reshape(num_positions, -1) if interleaved else np.concatenate(both, axis=-1)
    return table.astype(np.float32)


class _Model:
    """The layers of one model, by the names of its weights."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights
        own = EMBEDDINGS[config.tie_embeddings]
        self._source_embedding = weights["source_embedding"]
        self._target_embedding = weights["target_embedding" if "target_embedding" in own else "source_embedding"]
        self._output_embedding = weights["output_embedding"] if "output_embedding" in own else self._target_embedding
        self._scale = np.float32(math.sqrt(config.d_model))

    def encode(self, source_BS: np.ndarray) -> np.ndarray:
        """Returns the encoder's output, (B, S, D)."""
        x = self._source_embedding[source_BS] * self._scale + self._positions("source", source_BS.shape[1])
        if self.config.target_space_embedding:
            x = x + self.weights["target_space"][0]
        for layer in (f"encoder.{index}" for index in range(self.config.num_encoder_layers)):
            x, _ = self._self_attention(x, layer, [])
            x = self._feed_forward(x, layer)
        return self._norm(x, "encoder_norm") if is_pre_norm(self.config) else x

    def keys_and_values(self, memory_BSD: np.ndarray, layer: str) -> list[np.ndarray]:
        """Returns what a decoder layer makes of the encoder's output, (B, H, S, E) each."""
        return self._heads(memory_BSD, f"{layer}.cross_attention.key_value", (self.config.d_k, self.config.d_v))

    def target_input(self, tokens_B: np.ndarray, position: int) -> np.ndarray:
        """Returns the decoder's input at a position, (B, 1, D)."""
        x_B1D: np.ndarray = self._target_embedding[tokens_B][:, None] * self._scale
        if position == 0 and starts_from_zero(self.config):
            x_B1D = np.zeros_like(x_B1D)
        x_B1D += self._positions("target", position + 1)[-1]
        return x_B1D

    def decoder_layer(
        self, x_B1D: np.ndarray, layer: str, past: list[np.ndarray], key_BHSE: np.ndarray, value_BHSE: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the output of a layer for the newest position, and its attention to the source, (B, H, 1, S).

        Keys and values of the position are added to `past`.
        """
        x_B1D, _ = self._self_attention(x_B1D, layer, past)
        name = f"{layer}.cross_attention"
        [query_BH1E] = self._heads(self._enter(x_B1D, name), f"{name}.query", (self.config.d_k,))
        attended, weights_BH1S = self._attend(query_BH1E, key_BHSE, value_BHSE)
        x_B1D = self._leave(x_B1D, self._linear(attended, f"{name}.output"), name)
        return self._feed_forward(x_B1D, layer), weights_BH1S

    def best_tokens(self, x_B1D: np.ndarray) -> np.ndarray:
        """Returns the most probable token after each sentence, (B,)."""
        x_B1D = self._norm(x_B1D, "decoder_norm") if is_pre_norm(self.config) else x_B1D
        logits_BV = x_B1D[:, 0] @ self._output_embedding.T
        logits_BV[:, NEVER_GENERATED] = -np.inf
        best_B: np.ndarray = logits_BV.argmax(axis=-1)
        return best_B

    def _self_attention(self, x: np.ndarray, layer: str, past: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Attends to all positions of `past` and of `x`, and adds the latter to `past`."""
        name, widths = f"{layer}.self_attention", (self.config.d_k, self.config.d_k, self.config.d_v)
        query, *newest = self._heads(self._enter(x, name), f"{name}.query_key_value", widths)
        past[:] = [np.concatenate(pair, axis=-2) for pair in zip(past, newest, strict=True)] if past else newest
        window = self.config.attention_window
        key, value = past
        attended, weights = self._attend(query, key, value, window // 2 if window else None)
        return self._leave(x, self._linear(attended, f"{name}.output"), name), weights

    def _feed_forward(self, x: np.ndarray, layer: str) -> np.ndarray:
        name = f"{layer}.feed_forward"
        inner = np.maximum(self._linear(self._enter(x, name), f"{name}.inner"), 0)
        return self._leave(x, self._linear(inner, f"{name}.outer"), name)

    def _enter(self, x: np.ndarray, sublayer: str) -> np.ndarray:
        return self._norm(x, f"{sublayer}_residual.norm") if is_pre_norm(self.config) else x

    def _leave(self, x: np.ndarray, output: np.ndarray, sublayer: str) -> np.ndarray:
        return x + output if is_pre_norm(self.config) else self._norm(x + output, f"{sublayer}_residual.norm")

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(self.config.layer_norm_epsilon))
        normed: np.ndarray = centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return normed

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        projected: np.ndarray = x @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return projected if bias is None else projected + bias

    def _heads(self, x: np.ndarray, name: str, widths: tuple[int, ...]) -> list[np.ndarray]:
        """Returns the parts of a projection, whose heads have these widths: (B, H, T, E) each."""
        cuts = np.cumsum([self.config.num_heads * width for width in widths])[:-1]
        parts = np.split(self._linear(x, name), cuts, axis=-1)
        return [part.reshape(*x.shape[:2], self.config.num_heads, -1).swapaxes(1, 2) for part in parts]

    def _attend(
        self, query: np.ndarray, key: np.ndarray, value: np.ndarray, reach: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the attended values, heads joined, (B, T, H × E), and the weights, (B, H, T, S); eq. 1.

        With `reach`, only keys at most so many positions from the query; the last query is at the last key.
        """
        scores = query @ key.swapaxes(-1, -2) / np.float32(math.sqrt(self.config.d_k))
        if reach is not None:
            keys_S = np.arange(key.shape[-2])
            queries_T = keys_S[-query.shape[-2] :]
            scores = np.where(np.abs(queries_T[:, None] - keys_S) <= reach, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        attended = (weights @ value).swapaxes(1, 2)
        return attended.reshape(*attended.shape[:2], -1), weights

    def _positions(self, side: str, count: int) -> np.ndarray:
        """Returns the vectors of the first positions, (T, D)."""
        if learns_positions(self.config):
            table: np.ndarray = self.weights[f"{side}_positions.table"][:count]
            return table
        return sinusoids(count, self.config)
