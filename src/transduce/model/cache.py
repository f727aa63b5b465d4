"""The decoder's state between steps: a value that is passed in and returned, never module state.

Rows are sentence-major: row b × K + k is beam k of sentence b. When beams are reordered, keys and values stay in the
slot of the beam that wrote them; only a small table of slots changes. Each beam is given all K × T keys of its
sentence, and a mask hides those that are not its own past. The product is larger, yet cheaper than copying the caches
at each step, for any beam below about 50 (docs/lab-log.md). With more than 64 beams each is given a copy of its own T
keys, or memory would grow with the square of the beam. What depends on the source alone (keys and values of the
encoder's output) is stored once a sentence.

Shape suffixes as in `transduce.model.attention`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from transduce.model.attention import attend_own_keys, attend_step

_MOST_MASKED_BEAMS = 64


@dataclass(frozen=True)
class Memory:
    """The encoder's output, for the decoder."""

    states_BSD: Tensor
    attend_mask: Tensor | None  # (B, 1, 1, S), True at real tokens; None where there is no padding


@dataclass(frozen=True)
class LayerCache:
    """One decoder layer's keys and values. What one head of one sentence attends to is contiguous in memory."""

    key_BHTKE: Tensor  # preallocated; positions from `DecoderState.position` on are not filled yet
    value_BHTKE: Tensor
    memory_key_BHSE: Tensor
    memory_value_BHSE: Tensor
    # How much each open beam has attended to each source position so far, averaged over heads; None: not computed.
    coverage_BKS: Tensor | None = None

    def append(
        self, key_BHKE: Tensor, value_BHKE: Tensor, position: int | Tensor, first: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Stores one position's key and value of each beam; returns all from `first` on as (B, H, T × K, E) views.

        Where the position is a tensor (1,), only the device knows it: then the whole cache is returned.
        """
        if isinstance(position, Tensor):
            self.key_BHTKE.index_copy_(2, position, key_BHKE[:, :, None])
            self.value_BHTKE.index_copy_(2, position, value_BHKE[:, :, None])
            return self.key_BHTKE.flatten(2, 3), self.value_BHTKE.flatten(2, 3)
        self.key_BHTKE[:, :, position] = key_BHKE
        self.value_BHTKE[:, :, position] = value_BHKE
        keys, values = self.key_BHTKE[:, :, first : position + 1], self.value_BHTKE[:, :, first : position + 1]
        return keys.flatten(2, 3), values.flatten(2, 3)

    def resize(self, filled: int, *, capacity: int | None = None, num_beams: int | None = None) -> "LayerCache":
        """Returns a cache with another capacity, or with `num_beams` copies of its one beam."""
        key, value = (_resize(x, filled, capacity, num_beams) for x in (self.key_BHTKE, self.value_BHTKE))
        coverage = self.coverage_BKS
        if coverage is not None and num_beams is not None:
            coverage = coverage.repeat(1, num_beams, 1)
        return replace(self, key_BHTKE=key, value_BHTKE=value, coverage_BKS=coverage)

    def reorder_coverage(self, rows_R: Tensor) -> "LayerCache":
        """Returns the cache whose row r has the coverage of the old row `rows_R[r]`; keys and values stay in place."""
        if self.coverage_BKS is None:
            return self
        moved_RS = self.coverage_BKS.flatten(0, 1).index_select(0, rows_R)
        return replace(self, coverage_BKS=moved_RS.view_as(self.coverage_BKS))

    def keep(self, sentences: Tensor, filled: int) -> "LayerCache":
        """Returns the cache of the given sentences only, in that order."""
        return LayerCache(
            _keep(self.key_BHTKE, sentences, filled),
            _keep(self.value_BHTKE, sentences, filled),
            self.memory_key_BHSE.index_select(0, sentences),
            self.memory_value_BHSE.index_select(0, sentences),
            None if self.coverage_BKS is None else self.coverage_BKS.index_select(0, sentences),
        )


def _resize(x_BHTKE: Tensor, filled: int, capacity: int | None, num_beams: int | None) -> Tensor:
    num_sentences, num_heads, old_capacity, old_num_beams, width = x_BHTKE.shape
    shape = (num_sentences, num_heads, capacity or old_capacity, num_beams or old_num_beams, width)
    resized = x_BHTKE.new_empty(shape)
    resized[:, :, :filled] = x_BHTKE[:, :, :filled]
    return resized


def _keep(x_BHTKE: Tensor, sentences: Tensor, filled: int) -> Tensor:
    kept = x_BHTKE.new_empty(sentences.numel(), *x_BHTKE.shape[1:])
    kept[:, :, :filled] = x_BHTKE[:, :, :filled].index_select(0, sentences)
    return kept


class StepCache(Protocol):
    """One decoder layer's keys and values, as a decoding step reads and writes them."""

    @property
    def memory_key_BHSE(self) -> Tensor:
        """Keys of the encoder's output."""

    @property
    def memory_value_BHSE(self) -> Tensor:
        """Values of the encoder's output."""

    @property
    def coverage_BKS(self) -> Tensor | None:
        """See `LayerCache`."""

    def append(
        self, key_BHKE: Tensor, value_BHKE: Tensor, position: int | Tensor, first: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Stores keys and values; returns those that the step sees."""


class StepContext(Protocol):
    """Which positions a decoding step fills and sees."""

    @property
    def newest(self) -> int | Tensor:
        """The position that the step fills; a tensor (1,) where only the device knows it."""

    @property
    def first_seen(self) -> int:
        """The first position that the step sees."""

    @property
    def memory_mask(self) -> Tensor | None:
        """Real positions of the source, (B, 1, 1, S); None: all."""

    def attend(
        self,
        query_BHKE: Tensor,
        key_BHNE: Tensor,
        value_BHNE: Tensor,
        bias: Tensor | None,
        score_HE: Tensor | None = None,
    ) -> Tensor:
        """Returns what the queries find in the past, (B, H, K, E); for `bias` and `score_HE` see `attend_step`."""


@dataclass(frozen=True)
class DecoderState:
    """What the next step needs: the cache of each layer and the position to fill. It is the `StepContext`, too."""

    layers: tuple[LayerCache, ...]
    memory_mask: Tensor | None  # (B, 1, 1, S)
    ancestors_BKT: Tensor  # for each open beam and filled position, the slot that holds its own past
    max_steps: int
    attention_window: int = 0  # 0: the newest position sees all before it

    @property
    def position(self) -> int:
        """The number of filled positions, which is the index of the next."""
        return self.ancestors_BKT.size(2)

    @property
    def newest(self) -> int:
        """The last filled position."""
        return self.position - 1

    @property
    def coverage_BKS(self) -> Tensor | None:
        """How much each source position has been attended to so far, averaged over the last layer's heads.

        It is 0 at padding. None unless `Transformer.start` was called with `coverage`.
        """
        return self.layers[-1].coverage_BKS

    @property
    def first_seen(self) -> int:
        """The first position that the newest filled one sees: itself and window // 2 before it (§4), or all."""
        return max(0, self.newest - self.attention_window // 2) if self.attention_window else 0

    def step(self) -> "DecoderState":
        """Returns the state with one more position, each beam in its own slot; the cache doubles, up to `max_steps`."""
        num_sentences, num_beams, position = self.ancestors_BKT.shape
        layers, capacity = self.layers, self.layers[0].key_BHTKE.size(2)
        if position == capacity:
            larger = max(min(2 * capacity, self.max_steps), position + 1)
            layers = tuple(layer.resize(position, capacity=larger) for layer in layers)
        own_slots_BK1 = torch.arange(num_beams, device=self.ancestors_BKT.device).expand(num_sentences, -1)[:, :, None]
        return replace(self, layers=layers, ancestors_BKT=torch.cat([self.ancestors_BKT, own_slots_BK1], dim=2))

    def ancestor_mask(self) -> Tensor | None:
        """Returns which of the keys from `first_seen` on belong to each beam's past, (B, 1, K, T × K).

        None for one beam, to which all belong, and for many, which look theirs up in `own_keys_BKT`.
        """
        num_beams = self.ancestors_BKT.size(1)
        if num_beams == 1 or num_beams > _MOST_MASKED_BEAMS:
            return None
        slots_K = torch.arange(num_beams, device=self.ancestors_BKT.device)
        return (self.ancestors_BKT[:, :, self.first_seen :, None] == slots_K).flatten(2)[:, None]

    def attend(
        self,
        query_BHKE: Tensor,
        key_BHNE: Tensor,
        value_BHNE: Tensor,
        bias: Tensor | None,
        score_HE: Tensor | None = None,
    ) -> Tensor:
        """Returns what each beam finds in its own past, (B, H, K, E)."""
        if self.own_keys_BKT is None:
            return attend_step(query_BHKE, key_BHNE, value_BHNE, bias, score_HE)
        return attend_own_keys(query_BHKE, key_BHNE, value_BHNE, self.own_keys_BKT, score_HE)

    @cached_property
    def own_keys_BKT(self) -> Tensor | None:
        """Returns the indices of each beam's past among the keys from `first_seen` on; None where a mask selects it."""
        num_beams = self.ancestors_BKT.size(1)
        if num_beams <= _MOST_MASKED_BEAMS:
            return None
        slots_BKT = self.ancestors_BKT[:, :, self.first_seen :]
        return slots_BKT + num_beams * torch.arange(slots_BKT.size(2), device=slots_BKT.device)

    def reorder(self, rows_R: Tensor) -> "DecoderState":
        """Returns a state whose row r continues row `rows_R[r]`; rows move within their sentence only."""
        ancestors_RT = self.ancestors_BKT.flatten(0, 1).index_select(0, rows_R)
        ancestors_BKT = ancestors_RT.view_as(self.ancestors_BKT)
        if self.coverage_BKS is None:
            return replace(self, ancestors_BKT=ancestors_BKT)
        layers = tuple(layer.reorder_coverage(rows_R) for layer in self.layers)
        return replace(self, layers=layers, ancestors_BKT=ancestors_BKT)

    def expand(self, beam_size: int) -> "DecoderState":
        """Returns a state with `beam_size` equal rows for the one row that each sentence has."""
        layers = tuple(layer.resize(self.position, num_beams=beam_size) for layer in self.layers)
        return replace(self, layers=layers, ancestors_BKT=self.ancestors_BKT.repeat(1, beam_size, 1))

    def keep(self, sentences: Tensor) -> "DecoderState":
        """Returns the state of the given sentences only, with all their rows, in that order."""
        return replace(
            self,
            layers=tuple(layer.keep(sentences, self.position) for layer in self.layers),
            memory_mask=None if self.memory_mask is None else self.memory_mask.index_select(0, sentences),
            ancestors_BKT=self.ancestors_BKT.index_select(0, sentences),
        )
