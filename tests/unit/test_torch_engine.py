"""The PyTorch engine scores given translations as its own search would have scored them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from transduce.config import DecodeConfig, ModelConfig
from transduce.engines.shortlist.table import Shortlist
from transduce.engines.torch import TorchEngine
from transduce.errors import DataError
from transduce.model import Transformer

pytestmark = pytest.mark.computes

_CONFIG = ModelConfig(
    vocab_size=12, num_encoder_layers=2, num_decoder_layers=2, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8
)
_SOURCES = [[7, 8, 9], [], [10, 11, 10, 8, 7, 5, 6], [4]]


def _engine(**changes: Any) -> TorchEngine:
    torch.manual_seed(0)
    model = Transformer(replace(_CONFIG, **changes))
    model.output_embedding.data *= 3  # a model with opinions
    return TorchEngine(model)


def test_forced_scores_add_up_to_those_of_the_search() -> None:
    engine = _engine()
    sources = [source for source in _SOURCES if source]
    found = engine.translate(sources, DecodeConfig(beam_size=4, max_extra_tokens=8), n_best=4)
    pairs = [(source, h) for source, hs in zip(sources, found, strict=True) for h in hs if h.finished]
    assert len(pairs) >= 3
    scores = engine.score([source for source, _ in pairs], [h.ids for _, h in pairs])
    for (_, hypothesis), tokens in zip(pairs, scores, strict=True):
        assert len(tokens) == len(hypothesis.ids) + 1
        assert sum(tokens) == pytest.approx(hypothesis.log_probability, abs=1e-4)


def test_forced_scores_are_log_probabilities_over_the_vocabulary() -> None:
    engine = _engine()
    targets = [[token] for token in range(12)]
    scores = engine.score([_SOURCES[0]] * 12, targets)
    assert np.logaddexp.reduce([tokens[0] for tokens in scores]) == pytest.approx(0.0, abs=1e-5)


def test_a_forced_score_does_not_depend_on_the_other_pairs() -> None:
    engine = _engine()
    targets = [[5, 6], [7], [], [8, 9, 10, 11, 5]]
    together = engine.score(_SOURCES, targets)
    for source, target, tokens in zip(_SOURCES, targets, together, strict=True):
        [alone] = engine.score([source], [target])
        assert alone == pytest.approx(tokens, abs=1e-5)


def test_forced_scores_need_a_target_for_each_source_within_reach() -> None:
    with pytest.raises(DataError, match="4 sources and 1 target"):
        _engine().score(_SOURCES, [[5]])
    with pytest.raises(DataError, match="target 1 has 9 tokens"):
        _engine(positions="learned", max_positions=9).score([[5]], [[6] * 9])


def _pair(first: int, second: int, **options: Any) -> TorchEngine:
    """Returns an ensemble of two models that have learned so many positions."""
    torch.manual_seed(0)
    models = [Transformer(replace(_CONFIG, positions="learned", max_positions=each)) for each in (first, second)]
    return TorchEngine(models[0], others=models[1:], **options)


@pytest.mark.parametrize("positions", [(9, 12), (12, 9)])
@pytest.mark.parametrize(
    "call",
    [
        lambda engine, target: engine.score([[5]], [target]),
        lambda engine, target: engine.align([[5]], [target]),
        lambda engine, target: engine.next_scores([5], target),
    ],
    ids=["score", "align", "next"],
)
def test_an_ensemble_reaches_as_far_as_the_shortest_of_its_models(
    positions: tuple[int, int], call: Callable[[TorchEngine, list[int]], Any]
) -> None:
    engine = _pair(*positions)
    call(engine, [6] * 8)
    with pytest.raises(DataError, match=r"target 1 has 9 tokens, but this model's positions end at 8\."):
        call(engine, [6] * 9)
    with pytest.raises(DataError, match="1 source and 2 targets"):
        engine.align([[5]], [[6], [7]])


def test_what_is_not_read_of_a_source_changes_nothing() -> None:
    engine = _engine(positions="learned", max_positions=9)
    long, read = [4, 5, 6, 7, 8, 9, 10, 11, 4, 5], [4, 5, 6, 7, 8, 9, 10, 11]
    assert engine.score([long], [[5, 6]]) == engine.score([read], [[5, 6]])
    assert np.array_equal(engine.next_scores(long, [5]), engine.next_scores(read, [5]))
    options = DecodeConfig(beam_size=2, max_tokens=5)
    assert engine.translate([long], options) == engine.translate([read], options)
    [wide], [narrow] = engine.align([long], [[5, 6]]), engine.align([read], [[5, 6]])
    assert np.array_equal(wide[:, :8], narrow)
    assert not wide[:, 8:].any()


def test_scores_of_many_pairs_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """More pairs than go together, and their logits a few rows at a time."""
    engine, generator = _engine(), np.random.default_rng(0)
    sources, targets = (
        [generator.integers(4, 12, size).tolist() for size in generator.integers(0, 7, 40)] for _ in range(2)
    )
    expected = [engine.score([source], [target])[0] for source, target in zip(sources, targets, strict=True)]
    monkeypatch.setattr("transduce.engines.torch._MAX_LOGIT_ROWS", 5)
    for found, alone in zip(engine.score(sources, targets), expected, strict=True):
        assert found == pytest.approx(alone, abs=1e-5)


def test_the_next_scores_are_those_of_each_target() -> None:
    """Of an ensemble too: log-probabilities over the vocabulary, behind no token, one and two."""
    for engine in (_engine(), _pair(9, 12)):
        found = engine.next_scores([7, 8], [5, 6])
        assert found.shape == (3, 12)
        [values] = engine.score([[7, 8]], [[5, 6]])
        assert [found[0, 5], found[1, 6], found[2, 2]] == pytest.approx(values, abs=1e-5)
        assert np.exp(found).sum(axis=1) == pytest.approx([1, 1, 1], abs=1e-5)


def test_an_engine_says_what_it_is() -> None:
    shortlist = Shortlist(np.full((12, 1), 2, np.int32), np.arange(4, 12, dtype=np.int32), {}, 12)
    assert _engine().name == "torch on cpu"
    assert _pair(9, 12, shortlist=shortlist).name == "torch on cpu, 2 models as one, with a shortlist"
    assert _pair(9, 12).max_source_tokens == 8
    assert _engine().max_source_tokens == 1024
    assert _engine().undivided().num_workers == 1
    assert _engine().graph_decoders is None
