"""Decoding steps as CUDA graphs: a GPU records a step once and replays it.

The kernels of a step with few rows run faster than the host can launch them. Replayed, the whole step is one launch. A
graph uses the same shapes and the same memory each time, so a search decodes in `GraphBuffers` of fixed size:

    position              a number on the device, which the step increments
    keys and values       space for every step of the search; a mask limits each beam to its own past
    sentences, sources    rounded up to a power of two; the rows that this adds are computed and ignored
    beams                 all of them from the first step on; they are reordered inside the step

Buffers are recorded when they are used again after some steps: a graph that is replayed only once does not pay.

Shape suffixes as in `transduce.model.attention`; B, K, T and S are those of the buffers.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.errors import ConfigError
from transduce.model.attention import attend_step
from transduce.model.cache import LayerCache, Memory
from transduce.model.transformer import Projection, Transformer

_POSITION_BLOCK, _MIN_SOURCE = 64, 16
_MAX_BYTES = 2 << 30  # keys and values of all buffers that are kept
_STEPS_BEFORE_RECORDING = 8  # recording takes about as long as these
_WARM_UP_STEPS = 3
# Relative to the greatest number: libraries may sum in another order while a graph is recorded.
_ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float16: 0.004, torch.float64: 1e-10}
_TURN_OFF = "Set TRANSDUCE_CUDA_GRAPHS=0 in the environment to decode without CUDA graphs."
_RECORDING = threading.Lock()  # one recording at a time in a process


@dataclass(frozen=True)
class _Shape:
    num_sentences: int
    num_beams: int
    num_positions: int
    num_source: int


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


class GraphBuffers:
    """The memory of a search in one shape, and its step (`cache.StepContext`): only the device knows the position."""

    first_seen = 0  # the whole cache; a mask hides what is not filled, and other beams' keys
    attend = staticmethod(attend_step)

    def __init__(self, model: Transformer, shape: _Shape) -> None:
        self._model, self.shape = model, shape
        like, heads = model.output_embedding, model.config.num_heads
        num_sentences, num_beams, num_positions = shape.num_sentences, shape.num_beams, shape.num_positions
        self.tokens_BK = like.new_zeros(num_sentences, num_beams, dtype=torch.long)
        self.newest = like.new_zeros(1, dtype=torch.long)  # the position that the step fills
        self.ancestors_BKT = like.new_zeros(num_sentences, num_beams, num_positions, dtype=torch.long)
        self._slots_K = torch.arange(num_beams, device=like.device)
        self.parents_BK = self._slots_K.repeat(num_sentences, 1)
        self.memory_mask = like.new_ones(num_sentences, 1, 1, shape.num_source, dtype=torch.bool)
        self._positions_T = torch.arange(num_positions, device=like.device)
        # A copy: the model replaces its own table when it needs a longer one. A learned table may be shorter.
        known = min(num_positions, model.target_positions.limit or num_positions)
        self._table_TD = F.pad(model.target_positions(0, known), (0, 0, 0, num_positions - known))
        past, memory = (num_sentences, heads, num_positions, num_beams), (num_sentences, heads, shape.num_source)
        widths = (model.config.d_k, model.config.d_v)
        self.layers = tuple(
            LayerCache(*(like.new_zeros(*block, width) for block in (past, memory) for width in widths))
            for _ in model.decoder
        )
        self._states_BKD: Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self.num_steps = 0  # so far, in all searches

    @property
    def is_recorded(self) -> bool:
        """Whether steps are replayed."""
        return self._graph is not None

    @property
    def num_bytes(self) -> int:
        """The size of the keys and values, which is nearly all."""
        return sum(block.nbytes for block in self._caches())

    def _caches(self) -> Iterator[Tensor]:
        for layer in self.layers:
            yield from (layer.key_BHTKE, layer.value_BHTKE, layer.memory_key_BHSE, layer.memory_value_BHSE)

    def run(self) -> Tensor:
        """Runs one step on the buffers; returns the decoder's output, (B, K, D), which the next step overwrites."""
        self.num_steps += 1
        if self._graph is None:
            return self.compute()
        assert self._states_BKD is not None
        self._graph.replay()
        return self._states_BKD

    def compute(self) -> Tensor:
        """Runs one step kernel by kernel."""
        index_BKT = self.parents_BK[:, :, None].expand_as(self.ancestors_BKT)
        self.ancestors_BKT.copy_(self.ancestors_BKT.gather(1, index_BKT))
        self.ancestors_BKT.index_copy_(2, self.newest, self._slots_K.expand_as(self.parents_BK)[:, :, None])
        seen_T1 = (self._positions_T <= self.newest)[:, None]
        own_BKTK = (self.ancestors_BKT[..., None] == self._slots_K) & seen_T1
        states_RD = self._model.step_states(
            self.tokens_BK.flatten(),
            self._table_TD.index_select(0, self.newest),
            self.layers,
            self,
            own_BKTK.flatten(2)[:, None],
        )
        self.parents_BK.copy_(self._slots_K.expand_as(self.parents_BK))
        self.newest.add_(1)
        return states_RD.view(*self.tokens_BK.shape, -1)

    def record(self, pool: Any = None) -> None:
        """Records the step; its temporary memory comes from `pool`. What the buffers hold is lost.

        A replay is then compared with the computed steps.

        Raises:
            ConfigError: CUDA cannot record the step, or the replay gives something else. The search cannot continue.
        """
        device = self.newest.device
        try:
            with _RECORDING, torch.cuda.device(device):
                here, own_stream = torch.cuda.current_stream(), torch.cuda.Stream()
                own_stream.wait_stream(here)
                with torch.cuda.stream(own_stream):  # a separate stream, which is left even after an error
                    expected = self.warm_up()  # libraries initialise themselves here, which must not be recorded
                    graph = torch.cuda.CUDAGraph()
                    # "thread_local": other threads may allocate memory meanwhile.
                    with torch.cuda.graph(graph, pool=pool, stream=own_stream, capture_error_mode="thread_local"):
                        self._states_BKD = self.compute()
                here.wait_stream(own_stream)
        except RuntimeError as error:
            reason = str(error.__context__ or error).partition("\n")[0]
            raise ConfigError(
                f"{device}: decoding steps cannot be recorded as a CUDA graph: {reason} {_TURN_OFF}"
            ) from error
        self._graph = graph
        self.check_replay(expected)

    def warm_up(self) -> list[Tensor]:
        """Runs a few steps from made-up contents, the same each time; returns the output of each."""
        self.clear()
        for block in self._caches():  # (B, H, T, K, E) or (B, H, S, E)
            positions = torch.arange(block.size(2), device=block.device).view(-1, *[1] * (block.dim() - 3))
            block.copy_((positions + 0.7 * torch.arange(block.size(-1), device=block.device)).sin())
        numbers_BK = torch.arange(self.tokens_BK.numel(), device=self.tokens_BK.device).view_as(self.tokens_BK)
        outputs = []
        for step in range(_WARM_UP_STEPS):
            self.tokens_BK.copy_((numbers_BK + step) % self._model.config.output_vocab_size)
            self.parents_BK.copy_(self._slots_K.roll(step).expand_as(self.parents_BK))
            outputs.append(self.run().clone())
        return outputs

    def check_replay(self, expected: Sequence[Tensor]) -> None:
        """Raises ConfigError where replayed steps differ by more than rounding from those of an earlier `warm_up`."""
        replayed, computed = torch.stack(self.warm_up()).float(), torch.stack([*expected]).float()
        difference = float((replayed - computed).abs().max() / computed.abs().max())
        if not difference <= _ROUNDING[expected[0].dtype]:
            raise ConfigError(
                f"{self.newest.device}: a CUDA graph of the decoding steps gives other results than the steps "
                f"themselves: they differ by {difference:.2g} of the greatest value. {_TURN_OFF}"
            )

    def clear(self) -> None:
        """Makes the buffers ready for a new search."""
        for block in self._caches():  # masked positions are multiplied by 0, and 0 × NaN is still NaN
            block.zero_()
        self.newest.zero_()
        self.ancestors_BKT.zero_()
        self.parents_BK.copy_(self._slots_K.expand_as(self.parents_BK))
        self.memory_mask.fill_(True)

    def by_sentence(self) -> Iterator[Tensor]:
        """Yields all tensors that a search fills; the first axis of each is the sentence."""
        yield from (self.ancestors_BKT, self.parents_BK, self.memory_mask)
        yield from self._caches()


@dataclass(frozen=True)
class GraphState:
    """What a search carries from step to step: its buffers, and how much of them it uses. See `decoding.step.State`."""

    decoder: "GraphDecoder"
    buffers: GraphBuffers
    num_sentences: int
    num_beams: int  # 1 until `expand`
    position: int  # the number of filled positions

    def expand(self, num_beams: int) -> "GraphState":
        """Goes from one row to `num_beams` equal rows a sentence; all have been computed since the start."""
        if num_beams != self.buffers.shape.num_beams:
            raise ValueError(f"{num_beams} beams: the buffers were made for {self.buffers.shape.num_beams}.")
        return replace(self, num_beams=num_beams)

    def reorder(self, rows_R: Tensor) -> "GraphState":
        """Makes row r the continuation of the old row `rows_R[r]`; the next step does it."""
        self.buffers.parents_BK[: self.num_sentences] = rows_R.view(-1, self.num_beams) % self.num_beams
        return self

    def keep(self, sentences_B: Tensor) -> "GraphState":
        """Keeps all rows of the given sentences, in smaller buffers where half of these are enough."""
        old, count = self.buffers, sentences_B.numel()
        shape = replace(old.shape, num_sentences=_power_of_two(count))
        new = old if shape == old.shape else self.decoder.buffers_of(shape)
        for source, target in zip(old.by_sentence(), new.by_sentence(), strict=True):
            target[:count] = source.index_select(0, sentences_B)
        new.newest.copy_(old.newest)
        return replace(self, buffers=new, num_sentences=count)


class GraphDecoder:
    """Decodes as its `Transformer` does, in buffers of fixed size; for one search at a time."""

    def __init__(self, model: Transformer, *, record: bool, max_bytes: int = _MAX_BYTES) -> None:
        """With `record`, on a CUDA device, steps are recorded; the model's weights must stay where they are.

        The model may not have an attention window. Buffers are kept for later searches, up to `max_bytes` of keys and
        values; the least recently used ones are dropped first. Those in use do not count.
        """
        if model.config.attention_window:
            raise ValueError("a model with an attention window sees another part of its past at each step.")
        self._model, self._record, self._max_bytes = model, record, max_bytes
        self._pool: Any = None  # of memory, shared by all recordings
        self.buffers: dict[_Shape, GraphBuffers] = {}  # least recently used first

    def start(self, memory: Memory, *, max_steps: int, num_beams: int) -> GraphState:
        """Does what `Transformer.start` does, for a search that will `expand` to `num_beams`."""
        num_sentences, num_source = memory.states_BSD.shape[:2]
        shape = _Shape(
            _power_of_two(num_sentences),
            num_beams,
            -(-max_steps // _POSITION_BLOCK) * _POSITION_BLOCK,
            _power_of_two(max(num_source, _MIN_SOURCE)),
        )
        buffers = self.buffers_of(shape)
        buffers.clear()
        buffers.memory_mask[:num_sentences, ..., num_source:] = False
        if memory.attend_mask is not None:
            buffers.memory_mask[:num_sentences, ..., :num_source] = memory.attend_mask
        for layer, cache in zip(self._model.decoder_layers(), buffers.layers, strict=True):
            key, value = layer.cross_attention.project_memory(memory.states_BSD)
            cache.memory_key_BHSE[:num_sentences, :, :num_source] = key
            cache.memory_value_BHSE[:num_sentences, :, :num_source] = value
        return GraphState(self, buffers, num_sentences, num_beams=1, position=0)

    def step(
        self, tokens_R: Tensor, state: GraphState, projection: Projection | None = None
    ) -> tuple[Tensor, GraphState]:
        """Does what `Transformer.step` does."""
        if state.position == state.buffers.shape.num_positions:
            raise ValueError(f"step {state.position + 1}: the buffers were made for {state.position} steps.")
        state.buffers.tokens_BK[: state.num_sentences] = tokens_R.view(state.num_sentences, -1)
        states_RD = state.buffers.run()[: state.num_sentences, : state.num_beams].flatten(0, 1)
        logits_RV = self._model.logits(states_RD) if projection is None else projection(states_RD)
        return logits_RV, replace(state, position=state.position + 1)

    def buffers_of(self, shape: _Shape) -> GraphBuffers:
        """Returns buffers of a shape, with the contents that the last search left in them."""
        buffers = self.buffers.pop(shape, None)
        if buffers is None:
            try:
                buffers = GraphBuffers(self._model, shape)
            except torch.OutOfMemoryError:
                self.buffers.clear()
                buffers = GraphBuffers(self._model, shape)
        if self._record and not buffers.is_recorded and buffers.num_steps >= _STEPS_BEFORE_RECORDING:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            buffers.record(self._pool)
        left = self._max_bytes - buffers.num_bytes
        while self.buffers and sum(each.num_bytes for each in self.buffers.values()) > left:
            del self.buffers[next(iter(self.buffers))]  # those in use live on in their state
        if left >= 0:
            self.buffers[shape] = buffers
        return buffers
