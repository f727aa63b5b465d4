"""Steps in fixed shapes are the steps of the model, and can be recorded: each is the same operations."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from transduce.config import DecodeConfig, ModelConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.engines.shortlist.table import Shortlist
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError
from transduce.model import Memory, Transformer, attention, fixed
from transduce.model.fixed import FixedDecoder, Room

pytestmark = pytest.mark.computes

_BASE = ModelConfig(
    vocab_size=40, num_encoder_layers=1, num_decoder_layers=2, d_model=16, d_ff=24, num_heads=2, d_k=8, d_v=8
)
_CONFIGS = {
    "post-norm": _BASE,
    "released code": replace(
        _BASE, decoder_start="zero", attention_bias=True, target_space_embedding=True, sinusoid_layout="concatenated"
    ),
    "learned positions": replace(_BASE, positions="learned", max_positions=100, norm="pre"),
    "d_k is not d_v": replace(_BASE, d_k=3, d_v=10, num_heads=4, tie_embeddings="none"),
}
_LENGTHS = torch.tensor([7, 2, 4])
_SOURCES = [[7, 8, 9], [10, 11, 10, 8, 7, 5, 6], [4], [5, 6, 7, 8], [9] * 20]
_SEARCHES: dict[str, tuple[dict[str, Any], int, list[TokenConstraints] | None]] = {
    "beam": ({"beam_size": 4}, 4, None),
    "greedy": ({"beam_size": 1}, 1, None),
    "groups": ({"beam_size": 4, "diversity_groups": 2, "diversity_penalty": 0.5}, 4, None),
    "coverage": ({"beam_size": 3, "coverage_penalty": 0.2}, 3, None),
    "drawn": ({"temperature": 1.0, "seed": 3}, 3, None),
    "long": ({"beam_size": 2, "max_extra_tokens": 150, "min_tokens": 140}, 1, None),
    "conditions": ({"beam_size": 4}, 2, [TokenConstraints(prefix=(5,), required=(((6, 7),),), forbidden=((9,),))] * 5),
}


@pytest.fixture(autouse=True)
def _inference() -> object:
    with torch.inference_mode():
        yield


def _model(config: ModelConfig = _BASE) -> Transformer:
    torch.manual_seed(1)
    model = Transformer(config).eval()
    for parameter in model.parameters():  # biases and norms too: as initialised they would hide much
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return model


def _memory(model: Transformer) -> Memory:
    source = torch.randint(4, 40, (3, 7))
    return model.encode(source.masked_fill(torch.arange(7) >= _LENGTHS[:, None], 0), _LENGTHS)


def _assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", _CONFIGS)
def test_each_step_is_that_of_the_model(name: str) -> None:
    """With beams that change places, sentences that leave, and more positions than the first room has."""
    model = _model(_CONFIGS[name]).double()  # so that a difference is one, and no rounding
    memory, num_steps = _memory(model), 70
    decoder = FixedDecoder(model, record=False)
    states: list[Any] = [model.start(memory, max_steps=num_steps), decoder.start(memory)]
    steps, tokens = (model.step, decoder.step), torch.full((3,), 1)
    generator = torch.Generator().manual_seed(2)
    for number in range(num_steps):
        ours, theirs = (step(tokens, state) for step, state in zip(steps, states, strict=True))
        _assert_close(theirs[0], ours[0])
        states = [ours[1], theirs[1]]
        if number == 0:
            states = [state.expand(3) for state in states]
        if number in (5, 40):  # within a room, and to another
            kept = torch.tensor([2, 0]) if number == 5 else torch.tensor([1])
            states = [state.keep(kept) for state in states]
        num_sentences = 3 if number < 5 else 2 if number < 40 else 1
        if number > 0 and number % 2:
            parents = torch.randint(3, (num_sentences, 3), generator=generator)
            rows = (torch.arange(num_sentences)[:, None] * 3 + parents).flatten()
            states = [state.reorder(rows) for state in states]
        tokens = torch.randint(4, 40, (num_sentences * 3,), generator=generator)


def _found(engine: TorchEngine, name: str) -> list[list[Hypothesis]]:
    options, n_best, conditions = _SEARCHES[name]
    return engine.translate(_SOURCES, DecodeConfig(**{"max_extra_tokens": 9, **options}), n_best, conditions)


def _assert_same(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    assert [[h.ids for h in each] for each in ours] == [[h.ids for h in each] for each in theirs]
    for one, other in zip(itertools.chain(*ours), itertools.chain(*theirs), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize("name", _SEARCHES)
def test_each_search_finds_the_same(name: str) -> None:
    engine = TorchEngine(_model())
    expected = _found(engine, name)
    engine.fixed = [FixedDecoder(engine.model, record=False)]
    for _ in range(2):  # in new rooms, and in rooms where something has been
        _assert_same(_found(engine, name), expected)


def test_an_ensemble_and_a_shortlist_find_the_same() -> None:
    candidates = np.concatenate([np.arange(40)[:, None], np.full((40, 3), [11, 17, 30])], axis=1).astype(np.int32)
    shortlist = Shortlist(candidates, np.array([2, 20, 21], np.int32), {})
    engine = TorchEngine(_model(), others=[_model(replace(_BASE, norm="pre"))], shortlist=shortlist)
    expected = _found(engine, "beam")
    engine.fixed = [FixedDecoder(model, record=False) for model in engine.models]
    _assert_same(_found(engine, "beam"), expected)


class _Operations(TorchDispatchMode):
    """Writes down each operation: its name, the shapes it is given, and the numbers it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def told(value: Any) -> Any:
            return tuple(value.shape) if isinstance(value, Tensor) else value

        self.seen.append((str(func), [told(each) for each in args], {k: told(v) for k, v in (kwargs or {}).items()}))
        return func(*args, **(kwargs or {}))


# What asks the device something, or brings it something from the host: neither can be recorded.
_NOT_RECORDABLE = (
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "lift_fresh",
    "_to_copy",
    "aten.full",
    "pin_memory",
)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", _CONFIGS)
def test_a_step_is_the_same_operations_at_each_position(
    name: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it can be recorded: no shape, no number and no question to the device depends on the position."""
    monkeypatch.setattr(attention, "_has_fused_kernels", lambda device: fused)
    model = _model(_CONFIGS[name])
    decoder = FixedDecoder(model, record=False)
    state = decoder.start(_memory(model)).expand(2)
    seen = []
    for _ in range(3):
        with _Operations() as operations:
            state.room.run()
        seen.append(operations.seen)
    assert seen[0] == seen[1] == seen[2]
    assert any("scaled_dot_product" in op for op, *_ in seen[0]) == fused
    assert not [op for op, *_ in seen[0] if any(banned in op for banned in _NOT_RECORDABLE)]


@pytest.mark.parametrize("name", ["beam", "greedy"])
def test_fused_attention_finds_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TorchEngine(_model())
    expected = _found(engine, name)
    monkeypatch.setattr(attention, "_has_fused_kernels", lambda device: True)
    engine.fixed = [FixedDecoder(engine.model, record=False)]
    _assert_same(_found(engine, name), expected)


def test_a_room_is_recorded_when_it_has_been_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything lies in it, and once."""
    recorded: list[Any] = []

    def record(room: Room, pool: Any) -> None:
        recorded.append((room.shape, room.num_steps))
        room.clear()
        monkeypatch.setattr(Room, "is_recorded", property(lambda each: each.shape in {shape for shape, _ in recorded}))

    monkeypatch.setattr(fixed, "_STEPS_WORTH_RECORDING", 3)
    monkeypatch.setattr(Room, "record", record)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    engine = TorchEngine(_model())
    expected = _found(engine, "beam")
    engine.fixed = [FixedDecoder(engine.model, record=True)]
    for number in range(4):
        _assert_same(_found(engine, "beam"), expected)
        assert bool(recorded) == (number > 0)
    assert all(steps >= 3 for shape, steps in recorded)
    assert len({shape for shape, _ in recorded}) == len(recorded)


def test_what_cannot_be_recorded_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nand much more")

    engine = TorchEngine(_model())
    engine.fixed = [FixedDecoder(engine.model, record=True)]
    monkeypatch.setattr(fixed, "_STEPS_WORTH_RECORDING", 3)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(torch.cuda, "device", fail)
    _found(engine, "beam")
    with pytest.raises(ConfigError, match=r"^cpu: .*CUDA graph: CUDA error: .* capturing Set TRANSDUCE_CUDA_GRAPHS=0"):
        _found(engine, "beam")


def test_what_is_no_number_spoils_its_own_sentence_only() -> None:
    """Not the next one that comes into the same room."""
    model = _model()
    model.source_embedding.data[39] = float("nan")
    model.output_embedding = torch.nn.Parameter(model.source_embedding.detach().nan_to_num())
    engine = TorchEngine(model)
    clean, options = [[5, 6, 7], [8, 9, 10]], DecodeConfig(beam_size=2, max_extra_tokens=5)
    expected = engine.translate(clean, options)
    engine.fixed = [FixedDecoder(engine.model, record=False)]
    for sources in (clean, [[5, 6, 7], [8, 39, 10]], clean):
        found = engine.translate(sources, options)
        _assert_same(found[:1], expected[:1])
    _assert_same(found, expected)


def test_rooms_are_given_up_where_they_take_too_much() -> None:
    engine = TorchEngine(_model())
    expected = {name: _found(engine, name) for name in ("beam", "greedy", "long")}
    decoder = FixedDecoder(engine.model, record=False, max_bytes=1)
    engine.fixed = [decoder]
    for name, found in expected.items():
        _assert_same(_found(engine, name), found)
        assert not decoder.rooms
    room = Room(engine.model, next(iter(_rooms(engine))))
    decoder = FixedDecoder(engine.model, record=False, max_bytes=3 * room.num_bytes)
    engine.fixed = [decoder]
    for name, found in expected.items():
        _assert_same(_found(engine, name), found)
        assert decoder.rooms
        assert sum(each.num_bytes for each in decoder.rooms.values()) <= 3 * room.num_bytes


def _rooms(engine: TorchEngine) -> Any:
    engine.fixed = [FixedDecoder(engine.model, record=False)]
    _found(engine, "beam")
    return engine.fixed[0].rooms


class _Tape:
    """Stands in for a recording: puts what a step computes where the recorded step left its output."""

    def __init__(self, room: Room, wrong: bool = False) -> None:
        self.room, self.wrong = room, wrong
        room._states_RD = torch.empty_like(room.compute())

    def replay(self) -> None:
        if self.wrong:
            self.room.parents_BK.zero_()  # as if beams had not changed their places
        assert self.room._states_RD is not None
        self.room._states_RD.copy_(self.room.compute())


@pytest.mark.parametrize("config", _CONFIGS)
def test_what_is_played_back_otherwise_than_it_is_computed_is_refused(config: str) -> None:
    model = _model(_CONFIGS[config])
    room = FixedDecoder(model, record=False).start(_memory(model)).expand(3).room
    expected = room.rehearse()
    assert len({tuple(step.flatten().tolist()) for step in expected}) == 3  # each step is another
    room._graph = _Tape(room)  # type: ignore[assignment]
    room.require_alike(expected)
    room._graph = _Tape(room, wrong=True)  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"come out otherwise .* TRANSDUCE_CUDA_GRAPHS=0"):
        room.require_alike(expected)


def test_a_window_is_refused() -> None:
    with pytest.raises(ValueError, match="attention window"):
        FixedDecoder(_model(replace(_BASE, attention_window=8)), record=False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: what is recorded cannot be played back")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("config", _CONFIGS)
def test_what_a_gpu_plays_back_is_the_same(config: str, precision: Any) -> None:
    engine = TorchEngine(_model(_CONFIGS[config]).cuda(), precision)
    decoders, engine.fixed = engine.fixed, None
    assert decoders is not None
    for name in _SEARCHES:
        if name == "long" and config == "learned positions":
            continue
        expected = _found(engine, name)
        engine.fixed = decoders
        for _ in range(3):
            found = _found(engine, name)
            if precision == "float32":
                _assert_same(found, expected)
            assert [len(each) for each in found] == [len(each) for each in expected]
        engine.fixed = None
    assert any(room.is_recorded for room in decoders[0].rooms.values())
