"""What is imported computes what the system that it comes from computes."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from exported_models import BASE, make_model, random_pairs
from transduce.bundle import Bundle
from transduce.errors import BundleError, ExportError
from transduce.export import export_model, import_huggingface, imports
from transduce.export.huggingface_reading import read_checkpoint
from transduce.export.native_system import NativeSystem

pytestmark = pytest.mark.computes

SOURCES, TARGETS = random_pairs(8, 16)


def scores(bundle: Bundle) -> list[Any]:
    return [forced.log_probabilities for forced in NativeSystem(bundle).force(SOURCES, TARGETS)]


ROUND_TRIPS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm, wordpiece": {"norm": "pre", "algorithm": "wordpiece"},
    "pre-norm, learned positions": {"norm": "pre", "positions": "learned", "max_positions": 40},
    "three tables": {"tie_embeddings": "none"},
    "biases": {"attention_bias": True, "norm": "pre", "tie_embeddings": "target"},
    "zero start": {"decoder_start": "zero"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a model and its export, which no test changes."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("made")
    make_model(folder / "model", layer_norm_epsilon=1e-6)
    export_model(folder / "model", folder / "export", "huggingface", sample=3)
    return folder


@pytest.fixture
def exported(made: Path, tmp_path: Path) -> tuple[Bundle, Path]:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return Bundle.load(tmp_path / "model"), tmp_path / "export"


@pytest.mark.parametrize("changes", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
def test_an_export_comes_back_bit_for_bit(tmp_path: Path, changes: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
    bundle = make_model(tmp_path / "model", **changes)
    export_model(bundle.path, tmp_path / "export", "huggingface", sample=3)
    certificate = import_huggingface(tmp_path / "export", tmp_path / "back", sample=3)
    assert certificate is not None
    assert certificate.verdict == "passed"
    back = Bundle.load(tmp_path / "back")
    assert back.config == bundle.config
    assert back.tokenizer.fingerprint == bundle.tokenizer.fingerprint
    ours, theirs = bundle.weights(), back.weights()
    assert theirs.keys() == ours.keys()
    assert all(np.array_equal(theirs[name], ours[name]) for name in ours)
    assert scores(back) == scores(bundle)


@pytest.mark.parametrize("format", ["huggingface", "onnx", "ctranslate2"])
def test_heads_for_later_tokens_stay_behind(tmp_path: Path, format: str) -> None:
    pytest.importorskip({"huggingface": "transformers", "onnx": "onnxruntime"}.get(format, format))
    bundle = make_model(tmp_path / "model", block_size=3)
    assert any(name.startswith("block_heads.") for name in bundle.weights())
    certificate = export_model(bundle.path, tmp_path / "export", format, sample=3)
    assert certificate.verdict == "passed"
    assert "the heads for later tokens (model.block_size = 3) are left out" in certificate.notes
    if format == "huggingface":
        import_huggingface(tmp_path / "export", tmp_path / "back", sample=3)
        back = Bundle.load(tmp_path / "back")
        assert back.config.model.block_size == 1
        assert scores(back) == scores(bundle)


def test_padded_heads_come_back(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    bundle = make_model(tmp_path / "model", num_heads=5, d_k=3, d_v=4, target_space_embedding=True)
    export_model(bundle.path, tmp_path / "export", "huggingface", sample=3)
    import_huggingface(tmp_path / "export", tmp_path / "back", sample=3)
    back = Bundle.load(tmp_path / "back")
    assert (back.config.model.num_heads, back.config.model.d_k, back.config.model.d_v) == (5, 3, 4)
    for a, b in zip(scores(bundle), scores(back), strict=True):
        assert b == pytest.approx(a, abs=1e-4)


def test_a_checkpoint_of_others_is_read(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    bundle, folder = exported
    (folder / "transduce.json").unlink()
    certificate = import_huggingface(folder, tmp_path / "back", sample=3)
    assert certificate is not None
    assert certificate.measured.max_difference < 1e-4
    back = Bundle.load(tmp_path / "back")
    assert back.config.model == replace(
        bundle.config.model, layer_norm_epsilon=1e-5, max_positions=1033, max_length=1033, dropout=0.1
    )


def test_a_fine_tuned_checkpoint_is_not_forced_into_its_old_shape(
    exported: tuple[Bundle, Path], tmp_path: Path
) -> None:
    """transduce.json says that there are no biases; now there are, and they must not be lost."""
    _, folder = exported
    weights = load_file(folder / "model.safetensors")
    weights["model.decoder.layers.0.encoder_attn.q_proj.bias"] += 0.3
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    certificate = import_huggingface(folder, tmp_path / "back", sample=3)
    assert certificate is not None
    assert certificate.measured.max_difference < 1e-4
    assert Bundle.load(tmp_path / "back").config.model.attention_bias


def test_padding_of_heads_that_was_fine_tuned_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    bundle = make_model(tmp_path / "model", num_heads=4, d_k=3, d_v=4)
    export_model(bundle.path, tmp_path / "export", "huggingface", sample=3)
    file = tmp_path / "export" / "model.safetensors"
    weights = load_file(file)
    for letter in "qk":
        rows = weights[f"model.encoder.layers.0.self_attn.{letter}_proj.weight"]
        assert not rows[3].any()  # of the first head, the number after its three
        rows[3] += 0.5 if letter == "q" else np.linspace(-1, 1, rows.shape[1], dtype=np.float32)
    save_file(weights, file, metadata={"format": "pt"})
    certificate = import_huggingface(tmp_path / "export", tmp_path / "back", sample=3)
    assert certificate is not None
    assert certificate.measured.max_difference < 1e-4
    assert Bundle.load(tmp_path / "back").config.model.d_k > 3


def test_a_decoder_that_starts_from_padding_and_other_ids(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    """As Marian's own: the special tokens stand last, and the decoder starts from <pad>."""
    _, folder = exported
    order = np.r_[4:300, [2, 3, 1, 0]]  # our id of each of theirs: EOS, UNK, BOS, PAD
    place = {int(ours): theirs for theirs, ours in enumerate(order)}
    weights = load_file(folder / "model.safetensors")
    weights["model.shared.weight"] = weights["model.shared.weight"][order]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", "generation_config.json"):
        values = json.loads((folder / name).read_text())
        values |= {"pad_token_id": place[0], "bos_token_id": place[1], "eos_token_id": place[2]}
        values["decoder_start_token_id"] = place[0]
        values.pop("bad_words_ids", None)
        (folder / name).write_text(json.dumps(values))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {token: place[index] for token, index in vocabulary.items()}
    for token in tokenizer["added_tokens"]:
        token["id"] = place[token["id"]]
    tokenizer["post_processor"]["special_tokens"]["</s>"]["ids"] = [place[2]]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "transduce.json").unlink()
    certificate = import_huggingface(folder, tmp_path / "back", sample=6)
    assert certificate is not None
    assert certificate.measured.lines_cut_alike == 1
    assert certificate.measured.max_difference < 1e-4
    assert certificate.measured.token_agreement == 1


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_unsupported_checkpoints_are_refused_by_name(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    _, folder = exported
    cases = [({"activation_function": "tanh"}, "tanh"), ({"model_type": "t5"}, "t5"), ({"decoder_ffn_dim": 7}, "ffn")]
    for changes, named in cases:
        before = (folder / "config.json").read_text()
        edit(folder / "config.json", **changes)
        with pytest.raises(ExportError, match=named):
            import_huggingface(folder, tmp_path / "back")
        (folder / "config.json").write_text(before)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(BundleError, match=r"pytorch_model\.bin"):
        import_huggingface(folder, tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("activation", ["swish", "silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu"])
def test_other_activations_biased_logits_and_pickled_tensors_are_read(
    exported: tuple[Bundle, Path], tmp_path: Path, activation: str
) -> None:
    """Also where transduce.json says something else: each of them once was refused."""
    _, folder = exported
    edit(folder / "config.json", activation_function=activation)
    weights = load_file(folder / "model.safetensors")
    bias = np.linspace(-3, 3, 300, dtype=np.float32)[None]
    state = {name: torch.from_numpy(array) for name, array in (weights | {"final_logits_bias": bias}).items()}
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    certificate = import_huggingface(folder, tmp_path / "back", sample=3)
    assert certificate is not None
    assert certificate.measured.max_difference < 1e-4
    assert np.array_equal(Bundle.load(tmp_path / "back").weights()["output_bias"], bias[0])


SIZES: list[tuple[dict[str, Any], str]] = [
    ({"decoder_start_token_id": None}, "has no decoder_start_token_id"),
    ({"vocab_size": None, "d_model": None}, "has no vocab_size, d_model"),
    ({"max_position_embeddings": None}, "has no max_position_embeddings"),
    ({"decoder_attention_heads": None}, "has no decoder_attention_heads"),
    ({"encoder_layers": "2"}, "encoder_layers = '2': must be a whole number"),
    ({"d_model": 0}, "d_model = 0: must be a whole number, 1 or greater"),
    ({"dropout": "much"}, "dropout = 'much': must be a number"),
    ({"decoder_start_token_id": 300}, "decoder_start_token_id = 300: must be less than 300, the vocabulary"),
    ({"d_model": 25}, "encoder_attention_heads = 3: does not divide d_model = 25"),
    ({"encoder_layers": 1}, "fc1.bias is there, but encoder_layers = 1"),
    (
        {"vocab_size": 400, "decoder_vocab_size": 400},
        "model.shared.weight has shape (300, 24), but (vocab_size, d_model) = (400, 24)",
    ),
    ({"vocab_size": 200, "decoder_vocab_size": 200}, "but (vocab_size, d_model) = (200, 24)"),
    ({"d_model": 36}, "k_proj.bias has shape (24,), but (d_model) = (36,)"),
    (
        {"encoder_ffn_dim": 41, "decoder_ffn_dim": 41},
        "fc1.weight has shape (40, 24), but (decoder_ffn_dim, d_model) = (41, 24)",
    ),
]


def test_settings_that_lack_something_or_do_not_fit_are_named(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    _, folder = exported
    before = (folder / "config.json").read_text()
    for changes, named in SIZES:
        edit(folder / "config.json", **changes)
        with pytest.raises(BundleError, match=rf"(?s)config\.json: .*{re.escape(named)}"):
            import_huggingface(folder, tmp_path / "back")
        (folder / "config.json").write_text(before)
    weights = load_file(folder / "model.safetensors")
    name = "model.encoder.layers.0.self_attn.q_proj.bias"
    save_file(weights | {name: np.zeros(23, np.float32)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BundleError, match=re.escape(f"{name} has shape (23,), but (d_model) = (24,)")):
        import_huggingface(folder, tmp_path / "back")
    (folder / "model.safetensors").unlink()  # whole weights would be read, and no index
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(BundleError, match=r"index\.json: damaged: has no 'weight_map'"):
        import_huggingface(folder, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_search_settings_that_are_not_numbers_are_named(exported: tuple[Bundle, Path]) -> None:
    _, folder = exported
    (folder / "transduce.json").unlink()
    for changes in ({"num_beams": [4]}, {"length_penalty": "long"}):
        before = (folder / "generation_config.json").read_text()
        edit(folder / "generation_config.json", **changes)
        with pytest.raises(BundleError, match=r"generation_config\.json: num_beams = .*: must be numbers"):
            read_checkpoint(folder)
        (folder / "generation_config.json").write_text(before)


def test_the_stored_configuration_of_an_export_may_be_damaged(exported: tuple[Bundle, Path]) -> None:
    """The checkpoint is then read as any other."""
    bundle, folder = exported
    for config in ([1], None, {}):
        (folder / "transduce.json").write_text(json.dumps({"config": config}))
        assert read_checkpoint(folder).config.model.d_model == bundle.config.model.d_model


@pytest.mark.parametrize("installed", [True, False])
def test_unused_weights_are_refused_by_name(
    exported: tuple[Bundle, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """Also where transformers, which would complain of them, is not installed."""
    _, folder = exported
    if not installed:
        monkeypatch.setattr(imports, "find_spec", lambda name: None)
    before = load_file(folder / "model.safetensors")
    for name in ("encoder.layers.0.self_attn.q_proj.lora_A.weight", "decoder.layer_norm.weight", "encoder.adapter"):
        save_file(before | {f"model.{name}": np.ones(24, np.float32)}, folder / "model.safetensors")
        with pytest.raises(ExportError, match=re.escape(f"does not have: model.{name}")):
            import_huggingface(folder, tmp_path / "back", sample=3)
    assert not (tmp_path / "back").exists()
    save_file(before, folder / "model.safetensors", metadata={"format": "pt"})
    assert (import_huggingface(folder, tmp_path / "back", sample=3) is not None) == installed


def test_a_missing_weight_is_named_with_its_folder(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    path = exported[1] / "model.safetensors"
    arrays = load_file(path)
    del arrays["model.encoder.layers.1.fc2.weight"]
    save_file(arrays, path)
    with pytest.raises(BundleError) as raised:
        import_huggingface(exported[1], tmp_path / "out", compare=False)
    reason = "the checkpoint has no weight 'model.encoder.layers.1.fc2.weight', which its config.json demands."
    assert str(raised.value) == f"{exported[1]}: {reason}"


def test_sentences_end_where_the_positions_of_a_checkpoint_do(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    """Also where its tokeniser and its generation_config.json would go on."""
    _, folder = exported
    (folder / "transduce.json").unlink()
    weights = load_file(folder / "model.safetensors")
    weights |= {name: array[:12].copy() for name, array in weights.items() if name.endswith("embed_positions.weight")}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    edit(folder / "config.json", max_position_embeddings=12)
    edit(folder / "generation_config.json", max_length=40, min_length=12)
    (tmp_path / "long.en").write_text("A dog runs. " * 20 + "\nTwo men talk.\n", encoding="utf-8")
    certificate = import_huggingface(folder, tmp_path / "back", sentences=tmp_path / "long.en")
    assert certificate is not None
    assert certificate.measured.max_difference < 1e-4
    assert certificate.measured.token_agreement == 1
    assert certificate.measured.target_tokens <= 2 * 12


def test_a_tokenizer_that_cannot_be_ours_is_refused(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    _, folder = exported
    (folder / "tokenizer.json").rename(folder / "aside")
    with pytest.raises(BundleError, match=r"tokenizer\.json"):
        import_huggingface(folder, tmp_path / "back")
    (folder / "tokenizer.json").write_text('{"model": {"type": "Unigram", "vocab": []}}')
    with pytest.raises(BundleError, match="type Unigram"):
        import_huggingface(folder, tmp_path / "back")


def test_an_import_replaces_nothing_but_an_import(tmp_path: Path) -> None:
    bundle = make_model(tmp_path / "model")
    with pytest.raises(BundleError, match="no import of Transduce wrote it"):
        import_huggingface(tmp_path, bundle.path)
    assert Bundle.load(bundle.path).config.model == BASE


def test_exports_and_imports_replace_their_own_kind_only_and_only_as_it_was_written(
    exported: tuple[Bundle, Path], tmp_path: Path
) -> None:
    bundle, folder = exported
    model = tmp_path / "back"
    import_huggingface(folder, model, sample=3)
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    for source in (bundle.path, model):
        with pytest.raises(ExportError, match="it is an import; it is left as it is"):
            export_model(source, model, "ctranslate2", sample=3)
    with pytest.raises(BundleError, match="it is an export; it is left as it is"):
        import_huggingface(folder, folder, sample=3)
    with pytest.raises(BundleError, match=r"exists already\. Add --overwrite"):
        import_huggingface(folder, model, sample=3)
    import_huggingface(folder, model, sample=3, overwrite=True)
    assert {path.name for path in model.iterdir()} == set(before)
    with (model / "README.md").open("a") as card:
        card.write("Which languages it knows.\n")
    with pytest.raises(BundleError, match=r"README\.md changed or came since the import"):
        import_huggingface(folder, model, sample=3)
    (model / "README.md").write_bytes(before["README.md"])
    (model / "confidence.json").write_text("{}")
    with pytest.raises(BundleError, match=r"confidence\.json changed or came since the import"):
        import_huggingface(folder, model, sample=3)
    export_model(bundle.path, folder, "huggingface", sample=3, overwrite=True)
    weights = load_file(folder / "model.safetensors")
    save_file({name: value * 2 for name, value in weights.items()}, folder / "model.safetensors")
    with pytest.raises(ExportError, match=r"model\.safetensors changed or came since the export"):
        export_model(bundle.path, folder, "huggingface", sample=3)


def test_what_a_killed_import_or_export_left_is_removed(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    bundle, folder = exported
    for name in ("back", "again"):
        (tmp_path / f".{name}.abcdefgh.part").mkdir()
        (tmp_path / f".{name}.abcdefgh.part" / "model.safetensors").touch()
    import_huggingface(folder, tmp_path / "back", compare=False)
    export_model(bundle.path, tmp_path / "again", "ctranslate2", sample=1)
    assert {path.name for path in tmp_path.iterdir()} >= {"back", "again"}
    assert not list(tmp_path.glob(".*.part"))


def test_bfloat16_and_float16_are_read(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file as load_tensors
    from safetensors.torch import save_file as save_tensors

    _, folder = exported
    tensors = load_tensors(folder / "model.safetensors")
    for kind in (torch.bfloat16, torch.float16):
        halves = {name: value.to(kind) for name, value in tensors.items()}
        save_tensors(halves, folder / "model.safetensors", metadata={"format": "pt"})
        import_huggingface(folder, tmp_path / str(kind), sample=3, threshold=0.9, max_difference=0.1)
        found = Bundle.load(tmp_path / str(kind)).weights()["source_embedding"]
        assert found.dtype == np.float32
        assert np.array_equal(
            np.sort(found, axis=None), np.sort(halves["model.shared.weight"].float().numpy(), axis=None)
        )
