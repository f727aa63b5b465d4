"""A converted model computes what ours does, and is written as CTranslate2 itself would write it."""

import json
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch

from ctranslate2_folders import read_file
from made_models import KINDS, made_bundle
from transduce.bundle import save_bundle
from transduce.config import ModelConfig
from transduce.engines import ctranslate2_model
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.ctranslate2_limits import QUANTIZATIONS, converted_bytes
from transduce.engines.ctranslate2_model import as_floats, bundle_arrays, convert, quantize
from transduce.engines.sinusoids import sinusoids
from transduce.engines.torch import TorchEngine
from transduce.errors import BundleError, ConfigError
from transduce.model.positions import sinusoids as reference_sinusoids

SOURCES = [[7, 8, 9, 200], [10, 11, 10, 8, 7, 5, 6], [4], []]
TARGETS = [[5, 6, 7], [8], [], [9, 10]]


@pytest.mark.parametrize("kind", KINDS)
def test_forced_scores_are_those_of_the_torch_engine(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    expected = TorchEngine.load(bundle, device="cpu").score(SOURCES, TARGETS)
    found = CTranslate2Engine.load(bundle, device="cpu").score(SOURCES, TARGETS)
    for ours, theirs in zip(expected, found, strict=True):
        assert theirs == pytest.approx(ours, abs=1e-4)


def test_int8_changes_scores_a_little(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model")
    every_token = [[token] for token in range(bundle.config.model.vocab_size)]
    expected, found = (
        np.array(engine.score([SOURCES[0]] * len(every_token), every_token))[:, 0]
        for engine in (
            TorchEngine.load(bundle, device="cpu"),
            CTranslate2Engine.load(bundle, device="cpu", quantization="int8"),
        )
    )
    assert 0 < np.abs(found - expected).mean() < 1  # random weights make much of little: trained ones 0.05
    assert np.corrcoef(found, expected)[0, 1] > 0.9


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
@pytest.mark.parametrize("kind", ["post-norm", "nothing tied", "attention biases", "pre-norm"])
def test_files_are_those_of_the_librarys_own_writer(tmp_path: Path, kind: str, quantization: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    convert(bundle, tmp_path / "ours", quantization)
    ours, our_aliases = read_file(tmp_path / "ours" / "model.bin")

    config = bundle.config.model
    specification = ctranslate2.specs.TransformerSpec.from_config(2, 2, pre_norm=config.norm == "pre")
    arrays, aliases = bundle_arrays(bundle)
    arrays |= {name: arrays[other] for name, other in aliases.items()}
    for name, array in arrays.items():
        *parents, attribute = name.split("/")
        layer = ctranslate2.specs.model_spec.index_spec(specification, "/".join(parents))
        if attribute != "head_dim":  # which its own converters leave out where it is d_model / heads
            setattr(layer, attribute, array.copy())
    tokens = bundle.tokenizer.tokens()
    specification.register_source_vocabulary(tokens)
    specification.register_target_vocabulary(tokens)
    specification.config.layer_norm_epsilon = config.layer_norm_epsilon
    specification.config.add_source_eos = True
    specification.validate()
    specification.optimize(quantization)
    (tmp_path / "theirs").mkdir()
    specification.save(str(tmp_path / "theirs"))
    theirs, their_aliases = read_file(tmp_path / "theirs" / "model.bin")
    header = b"\6\0\0\0\x10\0TransformerSpec\0\7\0\0\0"  # the versions of the format and of the specification
    for side in ("ours", "theirs"):
        assert (tmp_path / side / "model.bin").read_bytes().startswith(header)

    assert {name for name in ours if not name.endswith("/head_dim")} | our_aliases.keys() == (
        theirs.keys() | their_aliases.keys()
    )
    for name in theirs.keys() & ours.keys():
        assert ours[name] == theirs[name], name
    for name, other in our_aliases.items():
        assert their_aliases[name] == other
    for name in ("config.json", "shared_vocabulary.json"):
        assert json.loads((tmp_path / "ours" / name).read_text()) == json.loads(
            (tmp_path / "theirs" / name).read_text()
        )


def test_rounding_to_bfloat16_is_to_even() -> None:
    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    values[:3] = [1 + 2**-8, 1 + 3 * 2**-8, 0.0]  # two ties, and nothing
    expected = torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(as_floats(values, "bfloat16"), expected)


def test_rows_of_zeros_can_be_quantized() -> None:
    matrix = np.array([[0, 0], [1, -2]], np.float32)
    values, scales = quantize(matrix, "int8")
    assert values.tolist() == [[0, 0], [64, -127]]
    assert np.isfinite(scales).all()
    assert quantize(np.zeros((2, 2), np.float32), "int16")[0].tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_sinusoids_are_those_of_the_model(layout: Any) -> None:
    config = ModelConfig(d_model=64, sinusoid_layout=layout)
    assert np.abs(sinusoids(3000, config) - reference_sinusoids(3000, 64, layout).numpy()).max() < 1e-7


def test_what_has_no_counterpart_is_refused_by_name(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", attention_window=4)
    with pytest.raises(ConfigError, match=r"model\.attention_window = 4.*--engine torch"):
        convert(bundle, tmp_path / "converted")
    with pytest.raises(ConfigError, match=r"no quantization 'int9'\. Did you mean 'int8'"):
        convert(bundle, tmp_path / "converted", "int9")
    assert not (tmp_path / "converted").exists()


def test_weights_that_do_not_fit_are_all_named(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model")
    weights = bundle.weights()
    weights["decoder.7.query"] = weights.pop("encoder.0.feed_forward.inner.bias")
    weights["source_embedding"] = weights["source_embedding"][:-1]
    wrong = save_bundle(tmp_path / "wrong", bundle.config, weights, bundle.tokenizer, {})
    with pytest.raises(BundleError) as error:
        convert(wrong, tmp_path / "converted")
    for part in ("missing: encoder.0.feed_forward.inner.bias", "unknown: decoder.7.query", "shape of source_embedding"):
        assert part in str(error.value)
    assert not (tmp_path / "converted").exists()


@pytest.mark.parametrize("kind", ["post-norm", "pre-norm", "learned positions", "narrow keys", "nothing tied"])
def test_the_memory_that_info_shows_is_that_of_the_arrays(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    arrays, _ = bundle_arrays(bundle)
    for quantization in ("float32", "int8"):
        stored = [array for *_, array in ctranslate2_model._stored(arrays, quantization) if array.ndim]
        assert converted_bytes(bundle.config.model, int8=quantization == "int8") == sum(each.nbytes for each in stored)


def test_most_of_a_small_models_memory_in_int8_are_positions() -> None:
    """By hand, of 298 pieces, d_model 32, d_ff 64: the sinusoids alone have 2 × 4096 × 32 × 4 bytes, that is 1 MiB."""
    small = ModelConfig(vocab_size=298, d_model=32, d_ff=64, num_heads=2, d_k=16, d_v=16)
    assert 1 << 20 < converted_bytes(small, int8=True) < 1.2 * (1 << 20)
