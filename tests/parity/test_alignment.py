"""Both engines align words alike: by the attention of the same heads."""

from pathlib import Path

import numpy as np
import pytest

from made_models import KINDS, made_bundle
from transduce.config import DecodeConfig, ModelConfig
from transduce.config.special_ids import EOS
from transduce.engines.aligning_heads import (
    AligningHeads,
    aligning_heads,
    sample_sources,
    with_heads_first,
)
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.numpy_model import greedy_translations
from transduce.engines.torch import TorchEngine, load_model
from transduce.errors import ConfigError, DataError

SOURCES = [[7, 8, 9, 200], [10, 11, 10, 8, 7, 5, 6], [4], [5, 6], []]
TARGETS = [[5, 6, 7], [8], [9, 10, 11, 12, 13, 14], [], [8]]
WINDOWS = {f"window of {width}": {"attention_window": width} for width in (1, 5)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.computes
@pytest.mark.parametrize("kind", [*KINDS, *WINDOWS])
def test_the_forward_pass_in_numpy_is_that_of_the_model(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **(KINDS | WINDOWS)[kind])
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
def test_both_engines_return_the_attention_of_the_chosen_heads(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    layer, order, count = aligning_heads(bundle.config.model, bundle.weights(), bundle.tokenizer)
    torch = TorchEngine.load(bundle, device="cpu")
    found = [each.align(SOURCES, TARGETS) for each in (torch, CTranslate2Engine.load(bundle, device="cpu"))]
    for source, target, *both in zip(SOURCES, TARGETS, *found, strict=True):
        for weights in both:
            assert weights.shape == (len(target), len(source))
            if source:
                cross_HTS = torch.attend(source, target).cross[layer, list(order[:count]), :-1, :-1]
                np.testing.assert_allclose(weights, cross_HTS.mean(axis=0), atol=1e-5)


@pytest.mark.computes
def test_an_ensemble_aligns_as_its_first_model_and_a_quantized_one_by_the_same_heads(tmp_path: Path) -> None:
    first, second = (made_bundle(tmp_path / f"model{seed}", seed=seed, num_heads=4) for seed in (1, 2))
    expected = TorchEngine.load(first, device="cpu").align(SOURCES, TARGETS)
    both = TorchEngine.load(first, device="cpu", others=[second])
    for weights, one in zip(both.align(SOURCES, TARGETS), expected, strict=True):
        np.testing.assert_array_equal(weights, one)
    for precision in ("int8", "bfloat16"):
        try:
            engine = TorchEngine.load(first, device="cpu", precision=precision)  # type: ignore[arg-type]
        except ConfigError:
            continue  # this processor does not have it
        for weights, one in zip(engine.align(SOURCES, TARGETS), expected, strict=True):
            np.testing.assert_allclose(weights, one, atol=0.05)


@pytest.mark.computes
def test_a_model_without_a_folder_aligns_by_heads_of_one_layer(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", num_heads=4)
    engine = TorchEngine(load_model(bundle))
    layer, order, count = aligning_heads(bundle.config.model, bundle.weights(), None)
    [weights] = engine.align(SOURCES[:1], TARGETS[:1])
    cross_HTS = engine.attend(SOURCES[0], TARGETS[0]).cross[layer, list(order[:count]), :-1, :-1]
    np.testing.assert_allclose(weights, cross_HTS.mean(axis=0), atol=1e-6)


def test_the_heads_that_look_at_one_word_each_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention by hand: of decoder layer 2, heads 3, 1 and 4 look at the word of their own position, the more so the
    sooner they are named; all other heads look at all words alike. A head's score is its weight at these words.
    """
    length = 5
    own, even = np.eye(length, length + 1), np.full((length, length + 1), 1 / (length + 1))
    weights_LBHTS = np.tile(even, (3, 2, 4, 1, 1))
    for head, share in ((2, 0.9), (0, 0.8), (3, 0.7)):
        weights_LBHTS[1, :, head] = share * own + (1 - share) * even
    made = (np.full((2, length), 9), weights_LBHTS)
    monkeypatch.setattr("transduce.engines.aligning_heads.greedy_translations", lambda *given: made)
    found = aligning_heads(ModelConfig(vocab_size=300, num_heads=4), {}, None)
    assert found == AligningHeads(layer=1, order=(2, 0, 3, 1), num_aligning=3)


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
