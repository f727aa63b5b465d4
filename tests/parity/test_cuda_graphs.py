"""Steps in buffers of fixed size give what the model's own steps give, and can be recorded as CUDA graphs."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from random_models import SEARCHES, SMALL, random_model
from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.shortlist.table import Shortlist
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError
from transduce.model import Memory, Transformer, attention, cuda_graphs
from transduce.model.cuda_graphs import GraphBuffers, GraphDecoder

pytestmark = pytest.mark.computes

_CONFIGS = {
    "post-norm": SMALL,
    "released code": replace(
        SMALL, decoder_start="zero", attention_bias=True, target_space_embedding=True, sinusoid_layout="concatenated"
    ),
    "learned positions": replace(SMALL, positions="learned", max_positions=100, norm="pre"),
    "d_k is not d_v": replace(SMALL, d_k=3, d_v=10, num_heads=4, tie_embeddings="none"),
}
_LENGTHS = torch.tensor([7, 2, 4])
_SOURCES = [[7, 8, 9], [10, 11, 10, 8, 7, 5, 6], [4], [5, 6, 7, 8], [9] * 20]
_LONG = ({"beam_size": 2, "max_extra_tokens": 150, "min_tokens": 140}, 1, None)
_SEARCHES = SEARCHES | {"long": _LONG}


@pytest.fixture(autouse=True)
def _inference() -> object:
    with torch.inference_mode():
        yield


def _memory(model: Transformer) -> Memory:
    source = torch.randint(4, 40, (3, 7))
    return model.encode(source.masked_fill(torch.arange(7) >= _LENGTHS[:, None], 0), _LENGTHS)


def _assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", _CONFIGS)
def test_each_step_is_that_of_the_model(name: str) -> None:
    """With beams that are reordered and sentences that finish."""
    model = random_model(_CONFIGS[name]).double()  # so that a difference is one, and no rounding
    memory, num_steps = _memory(model), 70
    decoder = GraphDecoder(model, record=False)
    states: list[Any] = [
        model.start(memory, max_steps=num_steps),
        decoder.start(memory, max_steps=num_steps, num_beams=3),
    ]
    steps, tokens = (model.step, decoder.step), torch.full((3,), 1)
    generator = torch.Generator().manual_seed(2)
    for number in range(num_steps):
        ours, theirs = (step(tokens, state) for step, state in zip(steps, states, strict=True))
        _assert_close(theirs[0], ours[0])
        states = [ours[1], theirs[1]]
        if number == 0:
            states = [state.expand(3) for state in states]
        if number in (5, 40):  # in the same buffers, and to smaller ones
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
    engine = TorchEngine(random_model())
    expected = _found(engine, name)
    engine.graph_decoders = [GraphDecoder(engine.model, record=False)]
    for _ in range(2):  # in new buffers, and in used ones
        _assert_same(_found(engine, name), expected)


def test_an_ensemble_and_a_shortlist_find_the_same() -> None:
    candidates = np.concatenate([np.arange(40)[:, None], np.full((40, 3), [11, 17, 30])], axis=1).astype(np.int32)
    shortlist = Shortlist(candidates, np.array([2, 20, 21], np.int32), {}, len(candidates))
    engine = TorchEngine(random_model(), others=[random_model(replace(SMALL, norm="pre"))], shortlist=shortlist)
    expected = _found(engine, "beam")
    engine.graph_decoders = [GraphDecoder(model, record=False) for model in engine.models]
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
    model = random_model(_CONFIGS[name])
    decoder = GraphDecoder(model, record=False)
    state = decoder.start(_memory(model), max_steps=9, num_beams=2).expand(2)
    seen = []
    for _ in range(3):
        with _Operations() as operations:
            state.buffers.run()
        seen.append(operations.seen)
    assert seen[0] == seen[1] == seen[2]
    assert any("scaled_dot_product" in op for op, *_ in seen[0]) == fused
    assert not [op for op, *_ in seen[0] if any(banned in op for banned in _NOT_RECORDABLE)]


@pytest.mark.parametrize("name", ["beam", "greedy"])
def test_fused_attention_finds_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TorchEngine(random_model())
    expected = _found(engine, name)
    monkeypatch.setattr(attention, "_has_fused_kernels", lambda device: True)
    engine.graph_decoders = [GraphDecoder(engine.model, record=False)]
    _assert_same(_found(engine, name), expected)


def test_buffers_are_recorded_when_they_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and before a search puts anything into them."""
    recorded: list[Any] = []

    def record(buffers: GraphBuffers, pool: Any) -> None:
        recorded.append((buffers.shape, buffers.num_steps))
        buffers.clear()
        is_recorded = property(lambda each: each.shape in {shape for shape, _ in recorded})
        monkeypatch.setattr(GraphBuffers, "is_recorded", is_recorded)

    monkeypatch.setattr(cuda_graphs, "_STEPS_BEFORE_RECORDING", 3)
    monkeypatch.setattr(GraphBuffers, "record", record)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    engine = TorchEngine(random_model())
    expected = _found(engine, "beam")
    engine.graph_decoders = [GraphDecoder(engine.model, record=True)]
    for number in range(4):
        _assert_same(_found(engine, "beam"), expected)
        assert bool(recorded) == (number > 0)
    assert all(steps >= 3 for shape, steps in recorded)
    assert len({shape for shape, _ in recorded}) == len(recorded)


def test_a_failed_recording_says_how_to_decode_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nand much more")

    engine = TorchEngine(random_model())
    engine.graph_decoders = [GraphDecoder(engine.model, record=True)]
    monkeypatch.setattr(cuda_graphs, "_STEPS_BEFORE_RECORDING", 3)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(torch.cuda, "device", fail)
    _found(engine, "beam")
    with pytest.raises(ConfigError, match=r"^cpu: .*CUDA graph: CUDA error: .* capturing Set TRANSDUCE_CUDA_GRAPHS=0"):
        _found(engine, "beam")


def test_nan_spoils_its_own_sentence_only() -> None:
    """Not the next one that is searched in the same buffers."""
    model = random_model()
    model.source_embedding.data[39] = float("nan")
    model.output_embedding = torch.nn.Parameter(model.source_embedding.detach().nan_to_num())
    engine = TorchEngine(model)
    clean, options = [[5, 6, 7], [8, 9, 10]], DecodeConfig(beam_size=2, max_extra_tokens=5)
    expected = engine.translate(clean, options)
    engine.graph_decoders = [GraphDecoder(engine.model, record=False)]
    for sources in (clean, [[5, 6, 7], [8, 39, 10]], clean):
        found = engine.translate(sources, options)
        _assert_same(found[:1], expected[:1])
    _assert_same(found, expected)


@pytest.mark.parametrize("lengths", [(3, 10), (10, 3)])
def test_a_search_sees_all_of_its_source_after_another_in_the_same_buffers(lengths: tuple[int, int]) -> None:
    engine, options = TorchEngine(random_model()), DecodeConfig(beam_size=2, max_extra_tokens=5)
    sources = [[[*range(4, 4 + length)], [*range(20, 20 + length)]] for length in lengths]
    expected = [engine.translate(each, options) for each in sources]
    engine.graph_decoders = [GraphDecoder(engine.model, record=False)]
    for each, found in zip(sources, expected, strict=True):
        _assert_same(engine.translate(each, options), found)
    shapes = [(shape.num_sentences, shape.num_beams, shape.num_source) for shape in engine.graph_decoders[0].buffers]
    assert (2, 2, 16) in shapes


@pytest.mark.parametrize(
    ("num_sentences", "num_source", "max_steps", "expected"),
    [(1, 1, 1, (1, 64, 16)), (3, 16, 64, (4, 64, 16)), (4, 17, 65, (4, 128, 32)), (5, 33, 128, (8, 128, 64))],
)
def test_buffers_are_rounded_up(num_sentences: int, num_source: int, max_steps: int, expected: Any) -> None:
    model = random_model()
    memory = Memory(torch.zeros(num_sentences, num_source, 16), None)
    shape = GraphDecoder(model, record=False).start(memory, max_steps=max_steps, num_beams=2).buffers.shape
    assert (shape.num_sentences, shape.num_positions, shape.num_source) == expected


def test_padding_of_the_buffers_is_no_source() -> None:
    model = random_model()
    memory = Memory(torch.zeros(3, 5, 16), torch.tensor([True, True, False, True, True]).expand(3, 1, 1, 5))
    mask = GraphDecoder(model, record=False).start(memory, max_steps=1, num_beams=2).buffers.memory_mask
    assert mask[:3, 0, 0].tolist() == [[True, True, False, True, True, *[False] * 11]] * 3
    assert mask[3].all()  # a sentence that fills up the batch sees something: a softmax over nothing is no number


def test_the_least_recently_used_buffers_are_dropped_first() -> None:
    model = random_model()
    memory = Memory(torch.zeros(1, 4, 16), None)
    decoder = GraphDecoder(model, record=False)
    one = decoder.start(memory, max_steps=1, num_beams=1).buffers.num_bytes
    two = decoder.start(memory, max_steps=1, num_beams=2).buffers.num_bytes
    for max_bytes, kept in ((one + two, [1, 2]), (one + two - 1, [2]), (two - 1, [])):
        decoder = GraphDecoder(model, record=False, max_bytes=max_bytes)
        for num_beams in (2, 1, 2):
            decoder.start(memory, max_steps=1, num_beams=num_beams)
        assert [shape.num_beams for shape in decoder.buffers] == kept


def test_buffers_are_dropped_beyond_the_limit_on_memory() -> None:
    engine = TorchEngine(random_model())
    expected = {name: _found(engine, name) for name in ("beam", "greedy", "long")}
    decoder = GraphDecoder(engine.model, record=False, max_bytes=1)
    engine.graph_decoders = [decoder]
    for name, found in expected.items():
        _assert_same(_found(engine, name), found)
        assert not decoder.buffers
    one = GraphBuffers(engine.model, next(iter(_buffers(engine))))
    decoder = GraphDecoder(engine.model, record=False, max_bytes=3 * one.num_bytes)
    engine.graph_decoders = [decoder]
    for name, found in expected.items():
        _assert_same(_found(engine, name), found)
        assert decoder.buffers
        assert sum(each.num_bytes for each in decoder.buffers.values()) <= 3 * one.num_bytes


def _buffers(engine: TorchEngine) -> Any:
    engine.graph_decoders = [GraphDecoder(engine.model, record=False)]
    _found(engine, "beam")
    return engine.graph_decoders[0].buffers


class _Replay:
    """Stands in for a CUDA graph: puts what a step computes where the recorded step left its output."""

    def __init__(self, buffers: GraphBuffers, wrong: bool = False) -> None:
        self.buffers, self.wrong = buffers, wrong
        buffers._states_BKD = torch.empty_like(buffers.compute())

    def replay(self) -> None:
        if self.wrong:
            self.buffers.parents_BK.zero_()  # as if beams had not been reordered
        assert self.buffers._states_BKD is not None
        self.buffers._states_BKD.copy_(self.buffers.compute())


@pytest.mark.parametrize("config", _CONFIGS)
def test_a_replay_that_gives_other_results_is_refused(config: str) -> None:
    model = random_model(_CONFIGS[config])
    buffers = GraphDecoder(model, record=False).start(_memory(model), max_steps=9, num_beams=3).buffers
    expected = buffers.warm_up()
    assert len({tuple(step.flatten().tolist()) for step in expected}) == 3  # each step is another
    buffers._graph = _Replay(buffers)  # type: ignore[assignment]
    buffers.check_replay(expected)
    buffers._graph = _Replay(buffers, wrong=True)  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"gives other results .* TRANSDUCE_CUDA_GRAPHS=0"):
        buffers.check_replay(expected)


def test_a_search_beyond_its_buffers_is_refused() -> None:
    model = random_model()
    state = GraphDecoder(model, record=False).start(_memory(model), max_steps=64, num_beams=2)
    with pytest.raises(ValueError, match="3 beams"):
        state.expand(3)
    with pytest.raises(ValueError, match="step 65"):
        state.decoder.step(torch.full((3,), 1), replace(state, position=64))


def test_a_window_is_refused() -> None:
    with pytest.raises(ValueError, match="attention window"):
        GraphDecoder(random_model(replace(SMALL, attention_window=8)), record=False)


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU (make gpu, on a machine with one): CUDA graphs cannot be replayed"
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("config", _CONFIGS)
def test_a_gpu_replays_the_same(config: str, precision: Any) -> None:
    engine = TorchEngine(random_model(_CONFIGS[config]).cuda(), precision)
    decoders, engine.graph_decoders = engine.graph_decoders, None
    assert decoders is not None
    for name in _SEARCHES:
        if name == "long" and config == "learned positions":
            continue
        expected = _found(engine, name)
        engine.graph_decoders = decoders
        for _ in range(3):
            found = _found(engine, name)
            if precision == "float32":
                _assert_same(found, expected)
            assert [len(each) for each in found] == [len(each) for each in expected]
        engine.graph_decoders = None
    assert any(each.is_recorded for each in decoders[0].buffers.values())
