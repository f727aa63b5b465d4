"""The PyTorch engine scores given translations as its own search would have scored them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from transduce.config import DecodeConfig, ModelConfig
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
