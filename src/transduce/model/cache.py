"""The decoder's state between steps: a value that is passed in and returned, never module state.

Rows are sentence-major: row b × K + k is beam k of sentence b. What depends on the source alone (keys and values of
the encoder's output) is kept once a sentence; only the self-attention cache has a part for each row.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Memory:
    """What the encoder hands to the decoder."""

    states_BSD: Tensor
    attend_mask: Tensor | None  # (B, 1, 1, S), True at real tokens; None where there is no padding


@dataclass(frozen=True)
class LayerCache:
    """One decoder layer's keys and values. Time lies first, so that the filled part is one block of memory."""

    key_TRHE: Tensor  # preallocated; positions from `DecoderState.position` on hold nothing yet
    value_TRHE: Tensor
    memory_key: Tensor  # (B, H, S, E)
    memory_value: Tensor

    def append(self, key_RH1E: Tensor, value_RH1E: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Stores one position's key and value and returns all of them so far, (R, H, T, E) views."""
        self.key_TRHE[position] = key_RH1E[:, :, 0]
        self.value_TRHE[position] = value_RH1E[:, :, 0]
        keys, values = self.key_TRHE[: position + 1], self.value_TRHE[: position + 1]
        return keys.permute(1, 2, 0, 3), values.permute(1, 2, 0, 3)

    def take_rows(self, rows: Tensor, filled: int) -> "LayerCache":
        """Returns a cache whose row r is this one's row `rows[r]`."""
        return replace(
            self, key_TRHE=_take(self.key_TRHE, rows, filled), value_TRHE=_take(self.value_TRHE, rows, filled)
        )

    def grow(self, capacity: int) -> "LayerCache":
        """Returns a cache with room for `capacity` positions."""
        return replace(self, key_TRHE=_grow(self.key_TRHE, capacity), value_TRHE=_grow(self.value_TRHE, capacity))


def _take(x_TRHE: Tensor, rows: Tensor, filled: int) -> Tensor:
    taken = x_TRHE.new_empty(x_TRHE.size(0), rows.numel(), *x_TRHE.shape[2:])
    torch.index_select(x_TRHE[:filled], 1, rows, out=taken[:filled])
    return taken


def _grow(x_TRHE: Tensor, capacity: int) -> Tensor:
    grown = x_TRHE.new_empty(capacity, *x_TRHE.shape[1:])
    grown[: x_TRHE.size(0)] = x_TRHE
    return grown


@dataclass(frozen=True)
class DecoderState:
    """All that the next step needs: the caches of each layer and the position it will fill."""

    layers: tuple[LayerCache, ...]
    memory_mask: Tensor | None  # (B, 1, 1, S)
    position: int
    max_steps: int

    def with_room(self) -> "DecoderState":
        """Returns the state with room for one more position; the room doubles, up to `max_steps`."""
        capacity = self.layers[0].key_TRHE.size(0)
        if self.position < capacity:
            return self
        larger = max(min(2 * capacity, self.max_steps), self.position + 1)
        return replace(self, layers=tuple(layer.grow(larger) for layer in self.layers))

    def reorder(self, rows_R: Tensor) -> "DecoderState":
        """Returns a state whose row r continues row `rows_R[r]`; rows move within their sentence only."""
        return replace(self, layers=tuple(layer.take_rows(rows_R, self.position) for layer in self.layers))

    def expand(self, beam_size: int) -> "DecoderState":
        """Returns a state with `beam_size` rows for each row of this one."""
        rows = torch.arange(self.layers[0].key_TRHE.size(1), device=self.layers[0].key_TRHE.device)
        return self.reorder(rows.repeat_interleave(beam_size))

    def keep(self, sentences: Tensor) -> "DecoderState":
        """Returns the state of the given sentences only, with all their rows, in that order."""
        num_sentences = self.layers[0].memory_key.size(0)
        beam_size = self.layers[0].key_TRHE.size(1) // num_sentences
        rows = (sentences[:, None] * beam_size + torch.arange(beam_size, device=sentences.device)).flatten()
        layers = tuple(
            replace(
                layer.take_rows(rows, self.position),
                memory_key=layer.memory_key.index_select(0, sentences),
                memory_value=layer.memory_value.index_select(0, sentences),
            )
            for layer in self.layers
        )
        mask = None if self.memory_mask is None else self.memory_mask.index_select(0, sentences)
        return replace(self, layers=layers, memory_mask=mask)
