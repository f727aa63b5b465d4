"""A search that synchronises with the device every few steps finds the same, and does not wait for it in between."""

import itertools
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from step_tables import A, B, C, FakeModel, random_table
from transduce.config import DecodeConfig, ModelConfig
from transduce.decoding import search
from transduce.decoding.banned_tokens import BannedTokens
from transduce.decoding.beam import BeamSearch
from transduce.decoding.finished import FinishedBeams
from transduce.decoding.greedy import GreedySearch
from transduce.decoding.required import RequiredPhrases
from transduce.decoding.rows import FinishedRows, RowSearch
from transduce.decoding.transfer import BeamStep, pack, unpack
from transduce.engines.interface import TokenConstraints
from transduce.engines.torch import TorchEngine
from transduce.model import Transformer

_CONFIG = ModelConfig(
    vocab_size=12, num_encoder_layers=1, num_decoder_layers=2, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8
)
_SOURCES = [[7, 8, 9], [10, 11, 10, 8, 7, 5, 6], [4], [5, 6, 7, 8]]
_SEARCHES: dict[str, tuple[dict[str, Any], int, list[TokenConstraints] | None]] = {
    "beam": ({"beam_size": 4}, 4, None),
    "greedy": ({"beam_size": 1}, 1, None),
    "groups": ({"beam_size": 4, "diversity_groups": 2, "diversity_penalty": 0.5}, 4, None),
    "coverage": ({"beam_size": 3, "coverage_penalty": 0.2}, 3, None),
    "drawn": ({"temperature": 1.0, "top_k": 5, "top_p": 0.9, "seed": 3}, 3, None),
    "rules": ({"beam_size": 3, "no_repeat_ngram": 2, "min_tokens": 2}, 3, None),
    "forbidden": ({"beam_size": 3}, 2, [TokenConstraints(forbidden=((5,), (6, 7), (8, 9, 4)))] * 4),
    "prefix": ({"beam_size": 3}, 2, [TokenConstraints(prefix=(5, 6), completions=((7,), (8, 9)))] * 4),
    "required": ({"beam_size": 4}, 2, [TokenConstraints(required=(((5, 6),), ((9,), (10,))), joining=(4,))] * 4),
}


def _engine() -> TorchEngine:
    torch.manual_seed(0)
    model = Transformer(_CONFIG)
    model.output_embedding.data *= 3  # a model with opinions
    return TorchEngine(model)


def _sync_every(num_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "sync_steps", lambda _: num_steps)


class _Waits(TorchDispatchMode):
    """Collects the operations that would wait for a GPU, except while the search synchronises."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.is_synchronising = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        asks = name in ("_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "equal")
        if name in ("index", "index_put_", "_index_put_impl_"):
            places = [place for place in args[1] if place is not None]
            asks = any(place.dtype == torch.bool for place in places) or (name != "index" and args[2].dim() == 0)
        if asks:
            self._note(str(func))
        return func(*args, **(kwargs or {}))

    def _note(self, name: str) -> None:
        if not self.is_synchronising:
            self.seen.append(name)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also collects methods that no operation shows, and ignores everything while the search synchronises."""
        for name in ("tolist", "cpu", "numpy", "item"):
            monkeypatch.setattr(Tensor, name, self._noting(name, getattr(Tensor, name)))
        synchronising: list[tuple[type, str]] = [(FinishedBeams, "update"), (FinishedRows, "update")]
        synchronising += [(BannedTokens, "keep"), (RequiredPhrases, "keep"), (BeamSearch, "keep"), (RowSearch, "keep")]
        for owner, name in synchronising:
            monkeypatch.setattr(owner, name, self._ignoring(getattr(owner, name)))

    def _noting(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(tensor: Tensor, *args: Any, **options: Any) -> Any:
            self._note(name)
            return original(tensor, *args, **options)

        return method

    def _ignoring(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(*args: Any, **options: Any) -> Any:
            before, self.is_synchronising = self.is_synchronising, True
            try:
                return original(*args, **options)
            finally:
                self.is_synchronising = before

        return method


@pytest.mark.parametrize("name", _SEARCHES)
@pytest.mark.parametrize("num_steps", [2, 5, 100])
def test_the_result_is_the_same(name: str, num_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options, n_best, conditions = _SEARCHES[name]
    engine, config = _engine(), DecodeConfig(max_extra_tokens=9, **options)
    expected = engine.translate(_SOURCES, config, n_best, conditions)
    _sync_every(num_steps, monkeypatch)
    found = engine.translate(_SOURCES, config, n_best, conditions)
    assert [[h.ids for h in each] for each in found] == [[h.ids for h in each] for each in expected]
    for one, other in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.finished == other.finished


@pytest.mark.parametrize("name", _SEARCHES)
def test_nothing_waits_for_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, n_best, conditions = _SEARCHES[name]
    engine, config = _engine(), DecodeConfig(max_extra_tokens=9, **options)
    step: Callable[..., Any] = engine.model.step
    num_steps = 0
    _sync_every(4, monkeypatch)
    with _Waits() as waits:
        waits.watch(monkeypatch)

        def counted(*args: Any, **more: Any) -> Any:
            nonlocal num_steps
            if num_steps == 0:  # before the first step, waiting is allowed
                waits.seen.clear()
            num_steps += 1
            return step(*args, **more)

        engine.model.step = counted  # type: ignore[method-assign]
        engine.translate(_SOURCES, config, n_best, conditions)
    assert num_steps > 4
    assert waits.seen == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: bool(x.any()),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x.__setitem__((slice(0, 1), torch.tensor([0])), 1.0),
    ],
)
def test_a_wait_would_be_noticed(ask: Callable[[Tensor], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with _Waits() as waits:
        waits.watch(monkeypatch)
        ask(torch.ones(2, 3))
    assert waits.seen


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 7), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.6, 1.0]),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_any_table(
    seed: int, limits: list[int], beam_size: int, sync_steps: int, alpha: float, restricted: bool
) -> None:
    def run(num_steps: int) -> list[Any]:
        options = DecodeConfig(beam_size=beam_size, length_penalty=alpha, no_repeat_ngram=2 * restricted)
        task = FakeModel(table).task(limits)
        with mock.patch.object(search, "sync_steps", return_value=num_steps):
            found = BeamSearch(task, options, beam_size).run()
            return found if beam_size > 1 else [found, GreedySearch(task, options).run()]

    table = random_table(seed, eos_bias=0.5)
    assert run(sync_steps) == run(1)


def test_required_phrases_are_counted_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a limit leaves entries unmet, outputs that have met most come first, whatever the interval."""
    for num_steps in (1, 3):
        _sync_every(num_steps, monkeypatch)
        required = TokenConstraints(required=(((A, B, C),), ((C,),)))
        task = FakeModel(random_table(3)).task([2], constraints=[required])
        [found] = BeamSearch(task, DecodeConfig(beam_size=3), 3).run()
        assert [(h.ids, h.finished) for h in found] == [([C, C], False), ([C, A], False), ([B, B], False)]
        assert found[1].score < found[2].score


def test_steps_are_fetched_at_once_and_exactly() -> None:
    """Packed as doubles, as for a GPU, all values come back exactly."""
    generator = torch.Generator().manual_seed(1)
    scores, bonus = torch.randn(2, 4, generator=generator), torch.randn(2, 2, generator=generator)
    ids = torch.randint(2**40, (2, 4), generator=generator)
    step = BeamStep(scores, ids, ids + 1, scores[:, :2], ids[:, :2], ids[:, 2:], bonus)
    for given_step in (step, BeamStep(*list(vars(step).values())[:-1], None)):
        [fetched] = unpack(pack([given_step]), given_step)
        for name, value in vars(given_step).items():
            back = getattr(fetched, name)
            assert back is value if value is None else (back.dtype == value.dtype and torch.equal(back, value)), name
