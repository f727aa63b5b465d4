"""Word alignments without torch are the attention that torch computes."""

from pathlib import Path

import numpy as np
import pytest

from made_models import KINDS, made_bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.alignment import alignment_scores, best_heads
from transduce.engines.aligning_heads import (
    AligningHeads,
    aligning_heads,
    sample_sources,
    with_heads_first,
)
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.numpy_model import greedy_translations
from transduce.engines.torch import TorchEngine
from transduce.errors import DataError

SOURCES = [[7, 8, 9, 200], [10, 11, 10, 8, 7, 5, 6], [4], [5, 6], []]
TARGETS = [[5, 6, 7], [8], [9, 10, 11, 12, 13, 14], [], [8]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.computes
@pytest.mark.parametrize("kind", KINDS)
def test_the_forward_pass_in_numpy_is_that_of_the_model(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    source_BS = sample_sources(bundle.config.model, bundle.tokenizer)[:3]
    target_BT, weights_LBHTS = greedy_translations(bundle.config.model, bundle.weights(), source_BS, 15)
    engine = TorchEngine.load(bundle, device="cpu")
    for row, (source, target) in enumerate(zip(source_BS.tolist(), target_BT.tolist(), strict=True)):
        cross_LHTS = engine.attend(source[:-1], target[:-1]).cross
        np.testing.assert_allclose(weights_LBHTS[:, row], cross_LHTS, atol=1e-5)
        [[greedy]] = engine.translate([source[:-1]], DecodeConfig(beam_size=1, max_tokens=15))
        assert greedy.ids == target[: (*target, EOS).index(EOS)]


@pytest.mark.computes
@pytest.mark.parametrize("kind", KINDS)
def test_the_ctranslate2_engine_returns_the_chosen_heads(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    layer, order, count = aligning_heads(bundle.config.model, bundle.weights(), bundle.tokenizer)
    torch = TorchEngine.load(bundle, device="cpu")
    found = CTranslate2Engine.load(bundle, device="cpu").align(SOURCES, TARGETS)
    for source, target, weights in zip(SOURCES, TARGETS, found, strict=True):
        assert weights.shape == (len(target), len(source))
        if source:
            cross_HTS = torch.attend(source, target).cross[layer, list(order[:count]), :-1, :-1]
            np.testing.assert_allclose(weights, cross_HTS.mean(axis=0), atol=1e-5)


def test_the_torch_engine_takes_the_best_heads_of_each_pair(tmp_path: Path) -> None:
    engine = TorchEngine.load(made_bundle(tmp_path / "model", num_heads=4), device="cpu")
    found = engine.align(SOURCES, TARGETS)
    for source, target, weights in zip(SOURCES, TARGETS, found, strict=True):
        assert weights.shape == (len(target), len(source))
        if source and target:
            cross = engine.attend(source, target).cross[:, :, :-1, :-1]
            best = [cross[layer - 1, head - 1] for layer, head in best_heads(alignment_scores(cross))]
            np.testing.assert_allclose(weights, np.mean(best, axis=0), atol=1e-6)


def test_what_is_not_read_of_a_source_has_no_weight(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", positions="learned", max_positions=8)
    for engine in (TorchEngine.load(bundle, device="cpu"), CTranslate2Engine.load(bundle, device="cpu")):
        [weights] = engine.align([list(range(4, 16))], [[5, 6, 7]])
        assert weights.shape == (3, 12)
        assert (weights[:, :7] > 0).all()
        assert (weights[:, 7:] == 0).all()
        with pytest.raises(DataError, match=r"target 1 has 8 tokens.*positions end at 7"):
            engine.align([[5]], [[6] * 8])


@pytest.mark.computes
@pytest.mark.parametrize("kind", ["wide heads", "narrow values, biases"])
def test_heads_in_another_order_compute_the_same(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    config, weights = bundle.config.model, bundle.weights()
    order = tuple(reversed(range(config.num_heads)))
    changed = with_heads_first(config, weights, AligningHeads(1, order, 1))
    assert not np.array_equal(
        changed["decoder.1.cross_attention.output.weight"], weights["decoder.1.cross_attention.output.weight"]
    )
    source_BS = sample_sources(config, bundle.tokenizer)[:2]
    before, after = (greedy_translations(config, each, source_BS, 4)[1] for each in (weights, changed))
    np.testing.assert_allclose(after[1], before[1][:, list(order)], atol=1e-5)
    np.testing.assert_allclose(after[0], before[0], atol=1e-5)
