"""A CTranslate2 export carries a certificate of what the engine's own tests hold, in each kind of numbers."""

import json
from pathlib import Path

import ctranslate2
import pytest

from exported_models import LINES, make_model, random_pairs
from transduce.bundle import save_bundle
from transduce.config.special_ids import EOS
from transduce.engines.ctranslate2_model import convert
from transduce.errors import ConfigError
from transduce.export import export_model
from transduce.export.ctranslate2_system import CTranslate2System
from transduce.export.native_system import NativeSystem

pytestmark = pytest.mark.computes


@pytest.mark.parametrize("quantization", ["float32", "int8"])
def test_it_is_certified(tmp_path: Path, quantization: str) -> None:
    bundle, output = make_model(tmp_path / "model", norm="pre", sure=2.0), tmp_path / "export"
    certificate = export_model(bundle.path, output, "ctranslate2", quantization=quantization, sample=6)
    said = json.loads((output / "certificate.json").read_text(encoding="utf-8"))
    assert said["verdict"] == certificate.verdict == "passed"
    assert quantization in certificate.export
    assert said["thresholds"]["token_agreement"] == (0.999 if quantization == "float32" else 0.97)
    exact = certificate.measured.max_difference < 1e-4
    assert exact == (quantization == "float32")


def test_choices_are_those_of_the_logits(tmp_path: Path) -> None:
    """CTranslate2 tells no logits: a search of one step must find the most probable token after each beginning."""
    bundle, output = make_model(tmp_path / "model"), tmp_path / "export"
    export_model(bundle.path, output, "ctranslate2", sample=2)
    sources, targets = random_pairs(8, 12)
    targets[3] = []
    ours = NativeSystem(bundle).force(sources, targets)
    theirs = CTranslate2System(output, bundle, "float32").force(sources, targets)
    assert [forced.choices for forced in theirs] == [forced.choices for forced in ours]


def test_the_end_may_be_chosen_at_once(tmp_path: Path) -> None:
    """By default CTranslate2 writes at least one token."""
    bundle = make_model(tmp_path / "model", norm="pre")
    weights = bundle.weights()
    weights["decoder_norm.bias"] += 100 * weights["source_embedding"][EOS]
    bundle = save_bundle(tmp_path / "ending", bundle.config, weights, bundle.tokenizer, {})
    convert(bundle, tmp_path / "export")
    sources, targets = random_pairs(3, 6)
    ours = NativeSystem(bundle).force(sources, targets)
    theirs = CTranslate2System(tmp_path / "export", bundle, "float32").force(sources, targets)
    assert [forced.choices[0] for forced in ours] == [EOS] * 3
    assert [forced.choices for forced in theirs] == [forced.choices for forced in ours]


def test_ctranslate2_loads_it_alone(tmp_path: Path) -> None:
    """As the folder's README shows it."""
    from tokenizers import Tokenizer

    bundle, output = make_model(tmp_path / "model", sure=4.0), tmp_path / "export"
    export_model(bundle.path, output, "ctranslate2", sample=2)
    tokens = Tokenizer.from_file(str(output / "tokenizer.json")).encode(LINES[0], add_special_tokens=False).tokens
    [found] = ctranslate2.Translator(str(output)).translate_batch([tokens], beam_size=1, max_decoding_length=9)
    limited = NativeSystem(bundle).engine.translate(bundle.tokenizer.encode_batch(LINES[:1]), bundle.config.decode)
    ids = [bundle.tokenizer.tokens().index(token) for token in found.hypotheses[0]]
    assert len(limited[0][0].ids) > 0
    assert NativeSystem(bundle).force([bundle.tokenizer.encode(LINES[0])], [ids])[0].choices[: len(ids)] == ids


def test_an_unsupported_model_is_refused_by_name(tmp_path: Path) -> None:
    windowed = make_model(tmp_path / "windowed", attention_window=4)
    with pytest.raises(ConfigError, match="attention_window"):
        export_model(windowed.path, tmp_path / "out", "ctranslate2")
    with pytest.raises(ConfigError, match="int9"):
        export_model(windowed.path, tmp_path / "out", "ctranslate2", quantization="int9")
    assert not (tmp_path / "out").exists()
