"""Steps of decoding in fixed shapes, which a GPU can record once and play back (CUDA graphs).

A step of few rows is over before the host has named its kernels: recorded, they are one call. What is recorded must
have the same shapes and addresses each time, and so

    the position          is a number on the device, which the step counts up itself
    keys and values       have a room of so many positions, all attended to; a mask leaves each beam its own past
    sentences, sources    are filled up to the next power of two; what fills up is computed and left aside
    beams                 change their places inside the step

A `Room` is one such shape with its memory. It is recorded when it is entered again after some steps: what is translated
once is not worth it.

Shapes are those of `model.attention`, with T, B and S those of the room.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.errors import ConfigError
from transduce.model.cache import LayerCache, Memory
from transduce.model.transformer import Transformer

_LEAST_POSITIONS, _LEAST_SOURCE = 64, 16
_MAX_BYTES = 2 << 30  # of the keys and values of all rooms that are kept
_STEPS_WORTH_RECORDING = 8  # recording takes the time of some
_REHEARSED_STEPS = 3
# Of the greatest number: libraries may sum in another order when they are recorded.
_ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float16: 0.004, torch.float64: 1e-10}
_WITHOUT = "Set TRANSDUCE_CUDA_GRAPHS=0 in the environment to decode without."
_RECORDING = threading.Lock()  # one at a time in a process


@dataclass(frozen=True)
class _Shape:
    num_sentences: int
    num_beams: int
    num_positions: int
    num_source: int

    @classmethod
    def around(cls, num_sentences: int, num_beams: int, num_positions: int, num_source: int) -> "_Shape":
        """Returns the least shape that holds so many."""
        return cls(
            _power_of_two(num_sentences),
            num_beams,
            _power_of_two(max(num_positions, _LEAST_POSITIONS)),
            _power_of_two(max(num_source, _LEAST_SOURCE)),
        )


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


class Room:
    """Memory for the steps of one shape, and where they are (`cache.Place`): only the device knows the position."""

    first_seen = 0  # all of the past, and what is not yet: a mask tells

    def __init__(self, model: Transformer, shape: _Shape) -> None:
        self._model, self.shape = model, shape
        like, heads = model.output_embedding, model.config.num_heads
        num_sentences, num_beams, num_positions = shape.num_sentences, shape.num_beams, shape.num_positions
        self.tokens_R = like.new_zeros(num_sentences * num_beams, dtype=torch.long)
        self.newest = like.new_zeros(1, dtype=torch.long)  # the position that a step fills
        self.ancestors_BKT = like.new_zeros(num_sentences, num_beams, num_positions, dtype=torch.long)
        self._slots_K = torch.arange(num_beams, device=like.device)
        self.parents_BK = self._slots_K.repeat(num_sentences, 1)
        self.memory_mask = like.new_ones(num_sentences, 1, 1, shape.num_source, dtype=torch.bool)
        self._places_T = torch.arange(num_positions, device=like.device)
        # A copy: the model's own table is another one when it has grown. Where a learned one ends, so do searches.
        known = min(num_positions, model.target_positions.limit or num_positions)
        self._positions_TD = F.pad(model.target_positions(0, known), (0, 0, 0, num_positions - known))
        past, memory = (num_sentences, heads, num_positions, num_beams), (num_sentences, heads, shape.num_source)
        widths = (model.config.d_k, model.config.d_v)
        self.layers = tuple(
            LayerCache(*(like.new_zeros(*block, width) for block in (past, memory) for width in widths))
            for _ in model.decoder
        )
        self._states_RD: Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self.num_steps = 0  # so far, in all

    @property
    def is_recorded(self) -> bool:
        """Whether steps are played back."""
        return self._graph is not None

    @property
    def num_bytes(self) -> int:
        """What the keys and values take, which is nearly all."""
        return sum(part.nbytes for part in self._blocks())

    def _blocks(self) -> Iterator[Tensor]:
        for layer in self.layers:
            yield from (layer.key_BHTKE, layer.value_BHTKE, layer.memory_key_BHSE, layer.memory_value_BHSE)

    def run(self) -> Tensor:
        """Does a step with what lies in the room; returns the decoder's output, (R, D), good until the next."""
        self.num_steps += 1
        if self._graph is None:
            return self.compute()
        assert self._states_RD is not None
        self._graph.replay()
        return self._states_RD

    def compute(self) -> Tensor:
        """The step, kernel by kernel."""
        index_BKT = self.parents_BK[:, :, None].expand_as(self.ancestors_BKT)
        self.ancestors_BKT.copy_(self.ancestors_BKT.gather(1, index_BKT))
        self.ancestors_BKT.index_copy_(2, self.newest, self._slots_K.expand_as(self.parents_BK)[:, :, None])
        seen_T1 = (self._places_T <= self.newest)[:, None]
        own_BKTK = (self.ancestors_BKT[..., None] == self._slots_K) & seen_T1
        states_RD = self._model.step_states(
            self.tokens_R,
            self._positions_TD.index_select(0, self.newest),
            self.layers,
            self,
            own_BKTK.flatten(2)[:, None],
        )
        self.parents_BK.copy_(self._slots_K.expand_as(self.parents_BK))
        self.newest.add_(1)
        return states_RD

    def record(self, pool: Any = None) -> None:
        """Records the step, with what it needs in between in a `pool` of memory. What lies in the room is lost.

        What is played back is compared with what is computed, once, before it is relied on.

        Raises:
            ConfigError: CUDA cannot, or plays back something else; what it was doing is in no state to go on from.
        """
        device = self.newest.device
        try:
            with _RECORDING, torch.cuda.device(device):
                here, beside = torch.cuda.current_stream(), torch.cuda.Stream()
                beside.wait_stream(here)
                with torch.cuda.stream(beside):  # its own, so that it is left whatever happens
                    expected = self.rehearse()  # here libraries set themselves up too, which is not to be recorded
                    graph = torch.cuda.CUDAGraph()
                    # Other threads may go on asking for memory meanwhile.
                    with torch.cuda.graph(graph, pool=pool, stream=beside, capture_error_mode="thread_local"):
                        self._states_RD = self.compute()
                here.wait_stream(beside)
        except RuntimeError as error:
            reason = str(error.__context__ or error).partition("\n")[0]
            raise ConfigError(
                f"{device}: decoding steps cannot be recorded as a CUDA graph: {reason} {_WITHOUT}"
            ) from error
        self._graph = graph
        self.require_alike(expected)

    def rehearse(self) -> list[Tensor]:
        """Returns what comes out of some steps, from a beginning that was made up: the same each time."""
        self.clear()
        for block in self._blocks():  # (B, H, T, K, E) or (B, H, S, E)
            places = torch.arange(block.size(2), device=block.device).view(-1, *[1] * (block.dim() - 3))
            block.copy_((places + 0.7 * torch.arange(block.size(-1), device=block.device)).sin())
        numbers = torch.arange(self.tokens_R.numel(), device=self.tokens_R.device)
        found = []
        for step in range(_REHEARSED_STEPS):
            self.tokens_R.copy_((numbers + step) % self._model.config.vocab_size)
            self.parents_BK.copy_(self._slots_K.roll(step).expand_as(self.parents_BK))
            found.append(self.run().clone())
        return found

    def require_alike(self, expected: Sequence[Tensor]) -> None:
        """Raises ConfigError where a rehearsal does not give what one gave before, up to rounding."""
        played, computed = torch.stack(self.rehearse()).float(), torch.stack([*expected]).float()
        difference = float((played - computed).abs().max() / computed.abs().max())
        if not difference <= _ROUNDING[expected[0].dtype]:
            raise ConfigError(
                f"{self.newest.device}: decoding steps that were recorded as a CUDA graph come out otherwise (by "
                f"{difference:.2g} of the greatest value). {_WITHOUT}"
            )

    def clear(self) -> None:
        """Makes it the room of no step yet."""
        for block in self._blocks():  # what is masked is multiplied by 0, which makes no number of what is none
            block.zero_()
        self.newest.zero_()
        self.ancestors_BKT.zero_()
        self.parents_BK.copy_(self._slots_K.expand_as(self.parents_BK))
        self.memory_mask.fill_(True)


@dataclass(frozen=True)
class FixedState:
    """What a search carries: the room, and how much of it is in use. See `decoding.step.State`."""

    decoder: "FixedDecoder"
    room: Room
    num_sentences: int
    num_source: int
    position: int  # the number of filled positions

    def expand(self, num_beams: int) -> "FixedState":
        """Goes from one row to `num_beams` equal rows a sentence."""
        return self.decoder.moved(self, num_beams=num_beams)

    def reorder(self, rows_R: Tensor) -> "FixedState":
        """Makes row r the continuation of the old row `rows_R[r]`; the next step does it."""
        num_beams = self.room.shape.num_beams
        self.room.parents_BK[: self.num_sentences] = rows_R.view(self.num_sentences, num_beams) % num_beams
        return self

    def keep(self, sentences_B: Tensor) -> "FixedState":
        """Keeps all rows of the given sentences."""
        return self.decoder.moved(self, sentences_B=sentences_B)


class FixedDecoder:
    """Decodes as its `Transformer` does, in fixed shapes; for one search at a time."""

    def __init__(self, model: Transformer, *, record: bool, max_bytes: int = _MAX_BYTES) -> None:
        """With `record`, on a CUDA device, steps are recorded; the model's weights must stay where they are.

        The model may not have an attention window. Rooms beyond `max_bytes` of keys and values are given up, those
        first that have not been used for longest; one that is in use is there besides.
        """
        if model.config.attention_window:
            raise ValueError("a model with an attention window sees another part of its past at each step.")
        self._model, self._record, self._max_bytes = model, record, max_bytes
        self._pool: Any = None  # of memory, shared by all recordings
        self.rooms: dict[_Shape, Room] = {}  # in the order of their last use

    def start(self, memory: Memory) -> FixedState:
        """Does what `Transformer.start` does; how many steps there are to be need not be known."""
        num_sentences, num_source = memory.states_BSD.shape[:2]
        room = self._room(_Shape.around(num_sentences, 1, _LEAST_POSITIONS, num_source))
        room.clear()
        room.memory_mask[:num_sentences, ..., num_source:] = False
        if memory.attend_mask is not None:
            room.memory_mask[:num_sentences, ..., :num_source] = memory.attend_mask
        for layer, cache in zip(self._model.decoder_layers(), room.layers, strict=True):
            key, value = layer.cross_attention.project_memory(memory.states_BSD)
            cache.memory_key_BHSE[:num_sentences, :, :num_source] = key
            cache.memory_value_BHSE[:num_sentences, :, :num_source] = value
        return FixedState(self, room, num_sentences, num_source, 0)

    def step(
        self, tokens_R: Tensor, state: FixedState, projection: nn.Module | None = None
    ) -> tuple[Tensor, FixedState]:
        """Does what `Transformer.step` does."""
        if state.position == state.room.shape.num_positions:
            state = self.moved(state, num_positions=2 * state.position)
        num_rows = tokens_R.numel()
        state.room.tokens_R[:num_rows] = tokens_R
        states_RD = state.room.run()[:num_rows]
        logits_RV = self._model.logits(states_RD) if projection is None else projection(states_RD)
        return logits_RV, replace(state, position=state.position + 1)

    def moved(
        self,
        state: FixedState,
        *,
        sentences_B: Tensor | None = None,
        num_beams: int | None = None,
        num_positions: int | None = None,
    ) -> FixedState:
        """Returns the state of the given sentences, with so many equal beams for the one there is, with more room."""
        old, count = state.room, state.num_sentences if sentences_B is None else sentences_B.numel()
        positions = num_positions or old.shape.num_positions
        shape = _Shape.around(count, num_beams or old.shape.num_beams, positions, state.num_source)
        new = old if shape == old.shape else self._room(shape)

        def taken(part: Tensor, filled: int, dim: int) -> Tensor:
            """Returns what is in use of a part, of its dimension `dim` the first `filled`."""
            used = part.narrow(dim, 0, filled)
            return used[: state.num_sentences] if sentences_B is None else used.index_select(0, sentences_B)

        filled, num_source = state.position, state.num_source
        parts = [(old.ancestors_BKT, new.ancestors_BKT, filled, 2), (old.memory_mask, new.memory_mask, num_source, 3)]
        if num_beams is None:  # else it is one that none has changed its place with
            parts.append((old.parents_BK, new.parents_BK, old.shape.num_beams, 1))
        for theirs, ours in zip(old.layers, new.layers, strict=True):
            parts += [(theirs.key_BHTKE, ours.key_BHTKE, filled, 2), (theirs.value_BHTKE, ours.value_BHTKE, filled, 2)]
            parts += [(theirs.memory_key_BHSE, ours.memory_key_BHSE, num_source, 2)]
            parts += [(theirs.memory_value_BHSE, ours.memory_value_BHSE, num_source, 2)]
        newest = old.newest.clone()
        if new is not old:
            new.clear()
            new.newest.copy_(newest)
            new.memory_mask[:count, ..., num_source:] = False
        for theirs_part, ours_part, length, dim in parts:
            ours_part[:count].narrow(dim, 0, length).copy_(taken(theirs_part, length, dim))
        return replace(state, room=new, num_sentences=count)

    def _room(self, shape: _Shape) -> Room:
        """Returns the room of a shape, with whatever lies in it."""
        room = self.rooms.pop(shape, None)
        if room is None:
            try:
                room = Room(self._model, shape)
            except torch.OutOfMemoryError:
                self.rooms.clear()
                room = Room(self._model, shape)
        if self._record and not room.is_recorded and room.num_steps >= _STEPS_WORTH_RECORDING:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            room.record(self._pool)
        left = self._max_bytes - room.num_bytes
        while self.rooms and sum(each.num_bytes for each in self.rooms.values()) > left:
            del self.rooms[next(iter(self.rooms))]  # one that is in use lives on in its state
        if left >= 0:
            self.rooms[shape] = room
        return room
