"""An exported folder computes in stock `transformers` what the original computes, on every axis that it can hold."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exported_models import LINES, assert_same_logits, make_model, random_pairs
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.errors import ExportError
from transduce.export import Certificate, export_model, exports
from transduce.export.huggingface_system import HuggingFaceSystem
from transduce.export.native_system import NativeSystem

pytestmark = pytest.mark.computes

pytest.importorskip("transformers")

# The norms of transformers add 1e-5 to a variance; the paper-map says what ours add.
EXACT = {"layer_norm_epsilon": 1e-5}
SUPPORTED_MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "pre-norm, learned positions": {"norm": "pre", "positions": "learned", "max_positions": 40},
    "pre-norm, sines before cosines": {"norm": "pre", "sinusoid_layout": "concatenated"},
    "small d_k, smaller d_v": {"d_k": 4, "d_v": 2},
    "heads that do not divide d_model": {"num_heads": 5, "d_k": 3, "d_v": 4},
    "one head": {"num_heads": 1, "d_k": 24, "d_v": 24},
    "biases": {"attention_bias": True},
    "two tables": {"tie_embeddings": "target"},
    "three tables": {"tie_embeddings": "none"},
    "pre-norm, two tables": {"norm": "pre", "tie_embeddings": "target"},
    "pre-norm, three tables": {"norm": "pre", "tie_embeddings": "none"},
    "zero start": {"decoder_start": "zero"},
    "pre-norm, zero start, target space": {"norm": "pre", "decoder_start": "zero", "target_space_embedding": True},
    "target space": {"target_space_embedding": True},
    "unequal stacks": {"num_encoder_layers": 1, "num_decoder_layers": 3},
    "swish, a bias on the logits": {"activation": "swish", "output_bias": True},
    "gelu, zero start, a bias on the logits": {"activation": "gelu", "decoder_start": "zero", "output_bias": True},
    "gelu by tanh": {"activation": "gelu_tanh"},
    "gelu by a sigmoid, pre-norm, later positions": {"activation": "gelu_sigmoid", "norm": "pre", "first_position": 2},
}
UNSUPPORTED_MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "window": ({"attention_window": 4}, "model.attention_window = 4"),
    "post-norm, learned": ({"positions": "learned", "max_positions": 40}, "model.positions = 'learned'"),
    "post-norm, sines first": ({"sinusoid_layout": "concatenated"}, "model.sinusoid_layout = 'concatenated'"),
    "post-norm, later positions": ({"first_position": 2}, "model.first_position = 2"),
    "epsilon": ({"layer_norm_epsilon": 1e-3}, "model.layer_norm_epsilon = 0.001"),
    "wide heads": ({"d_k": 16}, "d_k = 16"),
}


def export(bundle: Bundle, output: Path, **changes: Any) -> Certificate:
    return export_model(bundle.path, output, "huggingface", **({"sample": 6} | changes))


@pytest.mark.parametrize("changes", SUPPORTED_MODELS.values(), ids=SUPPORTED_MODELS)
def test_logits_are_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    # For a model without a limit, transformers makes a table of 1,033 sinusoids: the first alone has none.
    limit = {"max_length": 48} if changes and "positions" not in changes else {}
    bundle = make_model(tmp_path / "model", **(EXACT | limit | changes))
    certificate = export(bundle, tmp_path / "export")
    assert certificate.verdict == "passed"
    assert certificate.measured.lines_cut_alike == 1
    assert_same_logits(bundle, HuggingFaceSystem(tmp_path / "export"))


@pytest.mark.parametrize(("changes", "named"), UNSUPPORTED_MODELS.values(), ids=UNSUPPORTED_MODELS)
def test_an_unsupported_model_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    bundle = make_model(tmp_path / "model", **changes)
    with pytest.raises(ExportError, match=named):
        export(bundle, tmp_path / "export")
    assert not (tmp_path / "export").exists()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_another_epsilon_is_a_known_difference(tmp_path: Path, norm: str) -> None:
    bundle = make_model(tmp_path / "model", norm=norm, layer_norm_epsilon=1e-6)
    certificate = export(bundle, tmp_path / "export")
    assert certificate.measured.max_difference < 1e-3
    assert any("1e-06" in note for note in certificate.notes)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_generate_finds_what_our_search_finds(tmp_path: Path, beam_size: int) -> None:
    """Without a length penalty both rank by the same sum.

    `generate` ends a hypothesis only where EOS is among the best K continuations, ours where it is among the best 2K:
    what is found is the same where a model is sure of itself.
    """
    decode = DecodeConfig(beam_size=beam_size, length_penalty=0.0, max_extra_tokens=60)
    bundle = make_model(tmp_path / "model", seed=2, sure=8.0, decode=decode, tie_embeddings="none", **EXACT)
    (tmp_path / "lines").write_text("\n".join(LINES), encoding="utf-8")
    export(bundle, tmp_path / "export", sentences=tmp_path / "lines")
    native, theirs = NativeSystem(bundle), HuggingFaceSystem(tmp_path / "export")
    ended = [line for line in LINES if len(native.translate_ids(native.encode([line]))[0]) < 60]
    assert len(ended) >= 3
    ours, other = native.translate(ended), theirs.translate(ended)
    if beam_size == 1:
        assert other == ours
        return
    assert sum(a == b for a, b in zip(ours, other, strict=True)) > len(ended) / 2
    sources = native.encode(ended)
    best, rest = (native.force(sources, native.encode(lines)) for lines in (ours, other))
    for a, b in zip(best, rest, strict=True):
        assert sum(a.log_probabilities) >= sum(b.log_probabilities) - 1e-3


def test_generate_has_the_models_own_search(tmp_path: Path) -> None:
    decode = DecodeConfig(beam_size=5, length_penalty=0.7, max_extra_tokens=9)
    bundle = make_model(tmp_path / "model", decode=decode)
    export(bundle, tmp_path / "export")
    said = json.loads((tmp_path / "export" / "generation_config.json").read_text(encoding="utf-8"))
    longest = bundle.config.data.max_tokens + 9
    assert (said["num_beams"], said["length_penalty"], said["max_length"]) == (5, 0.7, longest)


@pytest.fixture(scope="module", params=["bpe", "wordpiece"])
def tokenizers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns our tokeniser, and what AutoTokenizer makes of its export."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp(request.param)
    bundle = make_model(folder / "model", algorithm=request.param, decoder_start="zero")
    export(bundle, folder / "export")
    return bundle.tokenizer, AutoTokenizer.from_pretrained(str(folder / "export"))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SPECIAL_LIKE = st.lists(st.one_of(TEXT, st.sampled_from(["<s>", "</s>", "<pad>", "<unk>", "<start>"])), max_size=5)


@given(text=st.one_of(TEXT, SPECIAL_LIKE.map("".join)))
def test_tokenizer_gives_our_ids_and_eos_and_the_text_back(tokenizers: Any, text: str) -> None:
    ours, theirs = tokenizers
    ids = theirs(text)["input_ids"]
    assert ids == [*ours.encode(text), 2]
    assert theirs.decode(ids, skip_special_tokens=True) == text


def test_tokenizer_pads_on_the_right(tokenizers: Any) -> None:
    _, theirs = tokenizers
    batch = theirs(list(LINES), padding=True)
    assert set(batch) == {"input_ids", "attention_mask"}
    for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
        assert ids == [index if real else 0 for index, real in zip(ids, mask, strict=True)]
        assert sorted(mask, reverse=True) == mask


def test_a_damaged_export_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = exports.to_huggingface

    def damaged(*args: Any) -> dict[str, np.ndarray]:
        arrays = right(*args)
        arrays["model.encoder.layers.1.fc2.weight"][0] += 0.5
        return arrays

    monkeypatch.setattr(exports, "to_huggingface", damaged)
    bundle, output = make_model(tmp_path / "model", **EXACT), tmp_path / "export"
    with pytest.raises(ExportError, match="log-probabilities differ by") as error:
        export(bundle, output)
    assert "--force" in str(error.value)
    assert list(tmp_path.iterdir()) == [bundle.path]  # nothing is left, whole or half
    forced = export(bundle, output, force=True)
    assert forced.verdict == "forced"
    said = json.loads((output / "certificate.json").read_text())
    assert said["verdict"] == "forced"
    assert said["failures"]


def test_saved_again_by_transformers_it_is_the_same(tmp_path: Path) -> None:
    """Position tables are remade or kept, never lost: what fine-tuning writes still means the same."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    for name, changes in (("post", {}), ("pre", {"norm": "pre", "positions": "learned", "max_positions": 40})):
        bundle = make_model(tmp_path / name, **(EXACT | changes))
        export(bundle, tmp_path / f"{name}-export")
        again = tmp_path / f"{name}-again"
        AutoModelForSeq2SeqLM.from_pretrained(str(tmp_path / f"{name}-export")).save_pretrained(str(again))
        AutoTokenizer.from_pretrained(str(tmp_path / f"{name}-export")).save_pretrained(str(again))
        sources, targets = random_pairs(4, 12)
        ours, theirs = NativeSystem(bundle), HuggingFaceSystem(again)
        assert theirs.encode(LINES) == ours.encode(LINES)
        for a, b in zip(ours.force(sources, targets), theirs.force(sources, targets), strict=True):
            assert b.log_probabilities == pytest.approx(a.log_probabilities, abs=1e-4)
