"""Decoding steps that feed a sentence several tokens at once, of which some may turn out wrong.

That is the verification of drafts (Stern, Shazeer, Uszkoreit 2018): one pass of the decoder gives the logits after each
of the tokens. Whoever called it says how many tokens of each sentence count; the next step overwrites the keys and
values of the others. Sentences may be at different positions.

Shapes as in `transduce.model.attention`; the K tokens of a step take the place of a sentence's K beams.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from transduce.model.attention import attend_step
from transduce.model.cache import Memory
from transduce.model.transformer import Transformer

_INITIAL_TOKENS = 64  # capacity of a new cache; it doubles as needed


@dataclass(frozen=True)
class SpanCache:
    """One decoder layer's keys and values, as `LayerCache` for one beam."""

    key_BHTE: Tensor
    value_BHTE: Tensor
    memory_key_BHSE: Tensor
    memory_value_BHSE: Tensor

    def resize(self, capacity: int) -> Self:
        """Returns a cache with a greater capacity."""
        more = capacity - self.key_BHTE.size(2)
        key, value = (torch.nn.functional.pad(x, (0, 0, 0, more)) for x in (self.key_BHTE, self.value_BHTE))
        return replace(self, key_BHTE=key, value_BHTE=value)

    def copied(self, copies: int) -> Self:
        """Returns a cache with equal memories for so many tokens of its one sentence."""
        key, value = (x[:1].repeat(copies, 1, 1, 1) for x in (self.memory_key_BHSE, self.memory_value_BHSE))
        return replace(self, memory_key_BHSE=key, memory_value_BHSE=value)

    def keep(self, sentences_B: Tensor) -> Self:
        """Returns the cache of the given sentences only, in that order."""
        return type(self)(
            self.key_BHTE.index_select(0, sentences_B),
            self.value_BHTE.index_select(0, sentences_B),
            self.memory_key_BHSE.index_select(0, sentences_B),
            self.memory_value_BHSE.index_select(0, sentences_B),
        )


@dataclass(frozen=True)
class _SpanStep:
    """A step over several sentences; a `StepContext`, and with `of` a `StepCache` for each layer."""

    position_BK: Tensor
    newest: Tensor  # the same, (R, 1)
    end: int  # of the last token of any sentence
    together: bool  # whether all sentences are at the same position
    memory_mask: Tensor | None
    first_seen: int = 0

    attend = staticmethod(attend_step)  # what each token finds in the past of its sentence

    def append(self, cache: SpanCache, key_BHKE: Tensor, value_BHKE: Tensor) -> tuple[Tensor, Tensor]:
        """Stores the keys and values of each sentence's tokens; returns all up to the last of any sentence."""
        num_tokens = key_BHKE.size(2)
        for kept, new in ((cache.key_BHTE, key_BHKE), (cache.value_BHTE, value_BHKE)):
            if self.together:
                kept[:, :, self.end - num_tokens : self.end] = new
            else:
                kept.scatter_(2, self.position_BK[:, None, :, None].expand(new.shape), new)
        return cache.key_BHTE[:, :, : self.end], cache.value_BHTE[:, :, : self.end]


@dataclass(frozen=True)
class _SingleSpanStep(_SpanStep):
    """A step over one sentence, whose K tokens stand for K sentences with one token each.

    So a token is computed as an ordinary step computes it: products of one query, over as many keys as that step sees.
    In 8 bits the logits are then the same to the last bit, on a CPU: there, the products with the weights do not depend
    on the number of rows. In 16 bits that is so on processors that have such products.
    """

    def attend(
        self,
        query_BHKE: Tensor,
        key_BHNE: Tensor,
        value_BHNE: Tensor,
        bias: Tensor | None,
        score_HE: Tensor | None = None,
    ) -> Tensor:
        """Returns what each token finds in the past."""
        start = self.end - query_BHKE.size(0)
        found = [
            attend_step(query_11HE, key_BHNE[:, :, : start + 1 + i], value_BHNE[:, :, : start + 1 + i], None, score_HE)
            for i, query_11HE in enumerate(query_BHKE.split(1))
        ]
        return torch.cat(found)

    def append(self, cache: SpanCache, key_BHKE: Tensor, value_BHKE: Tensor) -> tuple[Tensor, Tensor]:
        """Stores the keys and values of the tokens; returns all up to the last."""
        return super().append(cache, key_BHKE.transpose(0, 2), value_BHKE.transpose(0, 2))


@dataclass(frozen=True)
class _SteppedCache:
    """A `SpanCache` in one step; a `StepCache`."""

    cache: SpanCache
    step: _SpanStep
    memory_key_BHSE: Tensor
    memory_value_BHSE: Tensor
    coverage_BKS: None = None

    def append(
        self, key_BHKE: Tensor, value_BHKE: Tensor, position: int | Tensor, first: int = 0
    ) -> tuple[Tensor, Tensor]:
        """See `_SpanStep.append`."""
        return self.step.append(self.cache, key_BHKE, value_BHKE)


@dataclass(frozen=True)
class SpanState:
    """What the next step needs.

    Attributes:
        layers: the cache of each layer.
        memory_mask: real positions of the sources, (B, 1, 1, S); None: all.
        lengths: how many tokens of each sentence count so far: the position of its next.
        states_BKD: what the decoder gave for the tokens of the last step; None before any.
        counts: how many of these count, by sentence.
    """

    layers: tuple[SpanCache, ...]
    memory_mask: Tensor | None
    lengths: tuple[int, ...]
    states_BKD: Tensor | None = None
    counts: tuple[int, ...] = ()

    @classmethod
    def start(cls, model: Transformer, memory: Memory) -> Self:
        """Returns the state before the first step."""
        config, num_sentences, layers = model.config, memory.states_BSD.size(0), []
        for layer in model.decoder_layers():
            key, value = layer.cross_attention.project_memory(memory.states_BSD)
            key, value = key.contiguous(), value.contiguous()  # copied once here, because every step reads them
            shape = (num_sentences, config.num_heads, _INITIAL_TOKENS)
            # Zeros: where sentences differ in length, a product meets what is not filled yet before a mask hides it.
            layers.append(SpanCache(key.new_zeros(*shape, config.d_k), key.new_zeros(*shape, config.d_v), key, value))
        return cls(tuple(layers), memory.attend_mask, (0,) * num_sentences)

    def accept(self, counts: Sequence[int]) -> Self:
        """Returns the state in which so many more tokens of each sentence count."""
        return replace(self, lengths=tuple(map(sum, zip(self.lengths, counts, strict=True))), counts=tuple(counts))

    def newest(self, sentences: Sequence[int]) -> Tensor | None:
        """Returns what the decoder gave for the last token that counts of each given sentence, (B, D)."""
        if self.states_BKD is None:
            return None
        if len(self.lengths) == 1:
            return self.states_BKD[:, self.counts[0] - 1]
        return self.states_BKD[list(sentences), [self.counts[each] - 1 for each in sentences]]

    def keep(self, sentences: Sequence[int]) -> Self:
        """Returns the state of the given sentences only, in that order."""
        index_B = torch.tensor(sentences, device=self.layers[0].key_BHTE.device)
        mask = None if self.memory_mask is None else self.memory_mask.index_select(0, index_B)
        return type(self)(
            tuple(layer.keep(index_B) for layer in self.layers),
            mask,
            tuple(self.lengths[each] for each in sentences),
            None if self.states_BKD is None else self.states_BKD.index_select(0, index_B),
            tuple(self.counts[each] for each in sentences),
        )


def step_span(model: Transformer, tokens_BK: Tensor, state: SpanState) -> tuple[Tensor, SpanState]:
    """Feeds K tokens to each sentence, and returns the logits after each of them, (B, K, V), float32, and the state.

    In the state that is returned, none of these tokens counts yet: see `SpanState.accept`. Positions that a model has
    not learned are those of padding; their logits mean nothing.
    """
    num_tokens, device, end = tokens_BK.size(1), tokens_BK.device, max(state.lengths) + tokens_BK.size(1)
    if end > (capacity := state.layers[0].key_BHTE.size(2)):
        state = replace(state, layers=tuple(layer.resize(max(2 * capacity, end)) for layer in state.layers))
    alone = len(state.lengths) == 1 and state.memory_mask is None
    if alone and num_tokens > state.layers[0].memory_key_BHSE.size(0):
        state = replace(state, layers=tuple(layer.copied(num_tokens) for layer in state.layers))
    together = min(state.lengths) == max(state.lengths)
    limit = model.target_positions.limit
    if alone:  # no padding, and so no position that was not learned
        position_BK = torch.arange(end - num_tokens, end, device=device)[None]
        positions_RD = model.target_positions(end - num_tokens, end)
    else:
        position_BK = torch.tensor(state.lengths, device=device)[:, None] + torch.arange(num_tokens, device=device)
        positions_TD = model.target_positions(0, end if limit is None else min(end, limit))
        positions_RD = positions_TD[position_BK.flatten().clamp(max=positions_TD.size(0) - 1)]
    make, copies = (_SingleSpanStep, num_tokens) if alone else (_SpanStep, len(state.lengths))
    step = make(position_BK, position_BK.view(-1, 1), end, together, state.memory_mask)
    past_mask = None
    if not (alone or (together and num_tokens == 1)):
        past_mask = (torch.arange(end, device=device) <= position_BK[:, :, None])[:, None]
    caches = [
        _SteppedCache(layer, step, layer.memory_key_BHSE[:copies], layer.memory_value_BHSE[:copies])
        for layer in state.layers
    ]
    states_RD = model.step_states(tokens_BK.flatten(), positions_RD, caches, step, past_mask)
    state = replace(state, states_BKD=states_RD.unflatten(0, tokens_BK.shape))
    return model.logits(states_RD).unflatten(0, tokens_BK.shape), state
