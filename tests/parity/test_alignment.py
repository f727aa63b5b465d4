"""Both engines align words alike: by the attention of the same heads."""

from pathlib import Path

import numpy as np
import pytest

from made_models import KINDS, made_bundle, made_tokenizer
from transduce.config import ModelConfig
from transduce.config.aligning_heads import AligningHeads
from transduce.engines.aligning_heads import with_heads_first
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.head_search import choose_heads, find_aligning_heads
from transduce.engines.torch import TorchEngine, load_model
from transduce.errors import ConfigError, DataError
from transduce.model import Transformer

SOURCES = [[7, 8, 9, 200], [10, 11, 10, 8, 7, 5, 6], [4], [5, 6], []]
TARGETS = [[5, 6, 7], [8], [9, 10, 11, 12, 13, 14], [], [8]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.computes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("are_named", [True, False], ids=["named heads", "no heads"])
def test_both_engines_return_the_attention_of_the_heads_of_the_folder(
    tmp_path: Path, kind: str, are_named: bool
) -> None:
    num_layers, num_heads = KINDS[kind].get("num_decoder_layers", 2), KINDS[kind].get("num_heads", 2)
    # Without heads in the folder, all of the layer in the middle: of two the first, of three the second.
    layer, heads = {1: 0, 2: 0, 3: 1}[num_layers], list(range(num_heads))
    named = AligningHeads(num_layers - 1, (num_heads - 1,)) if are_named else None
    if named:
        layer, heads = num_layers - 1, [num_heads - 1]
    bundle = made_bundle(tmp_path / "model", heads=named, **KINDS[kind])
    torch = TorchEngine.load(bundle, device="cpu")
    found = [each.align(SOURCES, TARGETS) for each in (torch, CTranslate2Engine.load(bundle, device="cpu"))]
    for source, target, *both in zip(SOURCES, TARGETS, *found, strict=True):
        for weights in both:
            assert weights.shape == (len(target), len(source))
            if source:
                cross_HTS = torch.attend(source, target).cross[layer, heads, :-1, :-1]
                np.testing.assert_allclose(weights, cross_HTS.mean(axis=0), atol=1e-5)


@pytest.mark.computes
def test_an_ensemble_aligns_as_its_first_model_and_a_quantized_one_by_the_same_heads(tmp_path: Path) -> None:
    first, second = (
        made_bundle(tmp_path / f"model{seed}", seed=seed, num_heads=4, heads=AligningHeads(1, (3, seed)))
        for seed in (1, 2)
    )
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
def test_a_model_without_a_folder_aligns_by_all_heads_of_a_layer(tmp_path: Path) -> None:
    engine = TorchEngine(load_model(made_bundle(tmp_path / "model", num_heads=4)))
    [weights] = engine.align(SOURCES[:1], TARGETS[:1])
    cross_HTS = engine.attend(SOURCES[0], TARGETS[0]).cross[0, :, :-1, :-1]
    np.testing.assert_allclose(weights, cross_HTS.mean(axis=0), atol=1e-6)


def test_the_heads_that_look_at_one_word_each_are_chosen() -> None:
    """Attention by hand: of decoder layer 2, heads 3, 1 and 4 look at the word of their own position, the more so the
    sooner they are named; all other heads look at all words alike. A head's score is its weight at these words.
    """
    length = 5
    own, even = np.eye(length, length + 1), np.full((length, length + 1), 1 / (length + 1))
    weights_LHTS = np.tile(even, (3, 4, 1, 1))
    for head, share in ((2, 0.9), (0, 0.8), (3, 0.7)):
        weights_LHTS[1, head] = share * own + (1 - share) * even
    config = ModelConfig(num_decoder_layers=3, num_heads=4)
    assert choose_heads([weights_LHTS, weights_LHTS[:, :, :3]], config) == AligningHeads(layer=1, heads=(2, 0, 3))
    assert choose_heads([], config) == AligningHeads(layer=0, heads=(0, 1, 2))  # all translations are empty
    senseless = np.full_like(weights_LHTS, np.nan)
    assert len(choose_heads([senseless], config).heads) == 3


@pytest.mark.computes
@pytest.mark.parametrize("kind", KINDS)
def test_heads_of_every_kind_of_model_are_found(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", ending=0.4, **KINDS[kind])
    config = bundle.config.model
    layer, heads, guided = find_aligning_heads(config, bundle.weights(), bundle.tokenizer)
    assert not guided
    assert 0 <= layer < config.num_decoder_layers
    assert len(heads) == len(set(heads)) == min(3, config.num_heads)


@pytest.mark.computes
def test_the_head_that_copies_the_order_of_the_source_is_found() -> None:
    """Position vectors alone, which are orthogonal: one head of the second layer attends to the word of its position.

    Its queries and keys are the position vectors; those of all other heads are 0, so they attend to all words alike.
    """
    tokenizer = made_tokenizer()
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, num_encoder_layers=1, num_decoder_layers=2, d_model=32, d_ff=8, num_heads=4,
        d_k=32, d_v=8, positions="learned", max_positions=32, norm="pre", tie_embeddings="none",
    )  # fmt: skip
    shapes = {name: weight.shape for name, weight in Transformer(config).weights().items()}
    weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    weights |= {name: np.ones(shape, np.float32) for name, shape in shapes.items() if name.endswith("norm.weight")}
    weights["encoder_norm.weight"][:] = weights["decoder_norm.weight"][:] = 1
    for side in ("source", "target"):
        weights[f"{side}_positions.table"][:] = np.eye(32)
    weights["output_embedding"][7] = 1e-3  # every output is this piece, to the limit
    for kind in ("query", "key_value"):
        weights[f"decoder.1.cross_attention.{kind}.weight"][2 * 32 : 3 * 32] = 3 * np.eye(32)
    assert find_aligning_heads(config, weights, tokenizer)[0] == 1
    assert find_aligning_heads(config, weights, tokenizer).heads[0] == 2


def test_what_is_not_read_of_a_source_has_no_weight(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", positions="learned", max_positions=8)
    for engine in (TorchEngine.load(bundle, device="cpu"), CTranslate2Engine.load(bundle, device="cpu")):
        [weights] = engine.align([list(range(4, 16))], [[5, 6, 7]])
        assert weights.shape == (3, 12)
        assert (weights[:, :7] > 0).all()
        assert (weights[:, 7:] == 0).all()
        with pytest.raises(DataError, match=r"target 1 has 8 tokens.*positions end at 7"):
            engine.align([[5]], [[6] * 8])
        with pytest.raises(DataError, match="2 sources and 1 target: give one for each"):
            engine.align([[5], [6]], [[7]])


@pytest.mark.computes
@pytest.mark.parametrize("kind", ["wide heads", "narrow values, biases"])
def test_heads_in_another_order_compute_the_same(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    config, weights = bundle.config.model, bundle.weights()
    heads = AligningHeads(1, (config.num_heads - 1,))
    order = [config.num_heads - 1, *range(config.num_heads - 1)]
    changed = with_heads_first(config, weights, heads)
    name = "decoder.1.cross_attention.output.weight"
    assert not np.array_equal(changed[name], weights[name])
    before, after = (
        TorchEngine(Transformer.from_weights(config, each)).attend(SOURCES[0], TARGETS[0]).cross
        for each in (weights, changed)
    )
    np.testing.assert_allclose(after[1], before[1][order], atol=1e-5)
    np.testing.assert_allclose(after[0], before[0], atol=1e-5)
