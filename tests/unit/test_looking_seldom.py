"""A search that looks at what has finished every few steps finds the same, and asks the device nothing in between."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from step_tables import EOS, A, B, C, FakeModel, random_table
from transduce.config import DecodeConfig, ModelConfig
from transduce.decoding import beam, greedy, sampling
from transduce.decoding.beam import beam_search
from transduce.decoding.finished import LookEvery, Taken
from transduce.decoding.greedy import greedy_search
from transduce.decoding.required import requirements
from transduce.decoding.restrictions import restrictions
from transduce.engines.interface import Conditions
from transduce.engines.torch import TorchEngine
from transduce.model import Transformer

_CONFIG = ModelConfig(
    vocab_size=12, num_encoder_layers=1, num_decoder_layers=2, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8
)
_SOURCES = [[7, 8, 9], [10, 11, 10, 8, 7, 5, 6], [4], [5, 6, 7, 8]]
_SEARCHES: dict[str, tuple[dict[str, Any], int, list[Conditions] | None]] = {
    "beam": ({"beam_size": 4}, 4, None),
    "greedy": ({"beam_size": 1}, 1, None),
    "groups": ({"beam_size": 4, "diversity_groups": 2, "diversity_penalty": 0.5}, 4, None),
    "coverage": ({"beam_size": 3, "coverage_penalty": 0.2}, 3, None),
    "drawn": ({"temperature": 1.0, "top_k": 5, "top_p": 0.9, "seed": 3}, 3, None),
    "rules": ({"beam_size": 3, "no_repeat_ngram": 2, "min_tokens": 2}, 3, None),
    "forbidden": ({"beam_size": 3}, 2, [Conditions(forbidden=((5,), (6, 7), (8, 9, 4)))] * 4),
    "prefix": ({"beam_size": 3}, 2, [Conditions(prefix=(5, 6), completions=((7,), (8, 9)))] * 4),
    "required": ({"beam_size": 4}, 2, [Conditions(required=(((5, 6),), ((9,), (10,))), joining=(4,))] * 4),
}


def _engine() -> TorchEngine:
    torch.manual_seed(0)
    model = Transformer(_CONFIG)
    model.output_embedding.data *= 3  # a model with opinions
    return TorchEngine(model)


def _look_every(num_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(_: int | None, device: Any, last: int) -> LookEvery:
        return LookEvery(num_steps, device, last)

    for module in (beam, greedy, sampling):
        monkeypatch.setattr(module, "LookEvery", look)


class _Questions(TorchDispatchMode):
    """Collects the operations that a GPU would have to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in ("_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "equal"):
            self.asked.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", _SEARCHES)
@pytest.mark.parametrize("num_steps", [2, 5, 100])
def test_the_result_is_the_same(name: str, num_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options, n_best, conditions = _SEARCHES[name]
    engine, config = _engine(), DecodeConfig(max_extra_tokens=9, **options)
    expected = engine.translate(_SOURCES, config, n_best, conditions)
    _look_every(num_steps, monkeypatch)
    found = engine.translate(_SOURCES, config, n_best, conditions)
    assert [[h.ids for h in each] for each in found] == [[h.ids for h in each] for each in expected]
    for one, other in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.finished == other.finished


@pytest.mark.parametrize("name", _SEARCHES)
def test_nothing_is_asked_of_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, n_best, conditions = _SEARCHES[name]
    engine, config = _engine(), DecodeConfig(max_extra_tokens=9, **options)
    encode: Callable[..., Any] = engine.model.encode
    _look_every(4, monkeypatch)
    with _Questions() as questions:

        def encode_unheard(*args: Any) -> Any:  # what goes before the steps may be asked
            memory = encode(*args)
            questions.asked.clear()
            return memory

        engine.model.encode = encode_unheard  # type: ignore[method-assign]
        engine.translate(_SOURCES, config, n_best, conditions)
    assert questions.asked == []


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
    seed: int, limits: list[int], beam_size: int, look_every: int, alpha: float, restricted: bool
) -> None:
    def run(**options: Any) -> list[Any]:
        rules = restrictions(len(limits), eos=EOS, no_repeat_ngram=2) if restricted else None
        model = FakeModel(table)
        found = beam_search(
            model.step, model.start(len(limits)), limits, beam_size=beam_size, length_penalty=alpha,
            n_best=beam_size, restrictions=rules, **options
        )  # fmt: skip
        if beam_size > 1:
            return found
        rules = restrictions(len(limits), eos=EOS, no_repeat_ngram=2) if restricted else None
        return [found, greedy_search(model.step, model.start(len(limits)), limits, restrictions=rules, **options)]

    table = random_table(seed, eos_bias=0.5)
    assert run(look_every=look_every) == run(look_every=1)


def test_requirements_are_looked_at_on_the_host() -> None:
    """Where a limit leaves something unmet, what has met most comes first, however seldom one looks."""
    for look_every in (1, 3):
        asked = requirements([[[(A, B, C)], [(C,)]]], vocab_size=7)
        model = FakeModel(random_table(3))
        [found] = beam_search(
            model.step, model.start(1), [2], beam_size=3, length_penalty=0.6, n_best=3, requirements=asked,
            look_every=look_every,
        )  # fmt: skip
        assert [(h.ids, h.finished) for h in found] == [([C, C], False), ([C, A], False), ([B, B], False)]
        assert found[1].score < found[2].score


def test_steps_are_fetched_at_once_and_exactly() -> None:
    """What a GPU would send in one piece, doubles, comes back as it was."""
    generator = torch.Generator().manual_seed(1)
    scores, bonus = torch.randn(2, 4, generator=generator), torch.randn(2, 2, generator=generator)
    ids = torch.randint(2**40, (2, 4), generator=generator)
    step = Taken(scores, ids, ids + 1, scores[:, :2], ids[:, :2], ids[:, 2:], bonus)
    for given_step in (step, Taken(*list(vars(step).values())[:-1], None)):
        [fetched] = Taken.unpacked(Taken.packed([given_step]), given_step)
        for name, value in vars(given_step).items():
            back = getattr(fetched, name)
            assert back is value if value is None else (back.dtype == value.dtype and torch.equal(back, value)), name
