"""What is imported computes what the system that it comes from computes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

from exported_models import BASE, LINES, make_model, make_tokenizer, random_pairs
from transduce.bundle import Bundle
from transduce.errors import BundleError, ConfigError, ExportError
from transduce.export import export_model, import_huggingface, import_torch
from transduce.export.native import NativeSystem

SOURCES, TARGETS = ([pair[side] for pair in random_pairs(8, 16)] for side in (0, 1))


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


@pytest.fixture
def exported(tmp_path: Path) -> tuple[Bundle, Path]:
    pytest.importorskip("transformers")
    bundle = make_model(tmp_path / "model", layer_norm_epsilon=1e-6)
    export_model(bundle.path, tmp_path / "export", "huggingface", sample=3)
    return bundle, tmp_path / "export"


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


def test_padded_heads_come_back(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    bundle = make_model(tmp_path / "model", num_heads=5, d_k=3, d_v=4, target_space_embedding=True)
    export_model(bundle.path, tmp_path / "export", "huggingface", sample=3)
    import_huggingface(tmp_path / "export", tmp_path / "back", sample=3)
    back = Bundle.load(tmp_path / "back")
    assert (back.config.model.num_heads, back.config.model.d_k, back.config.model.d_v) == (5, 3, 4)
    for a, b in zip(scores(bundle), scores(back), strict=True):
        assert b == pytest.approx(a, abs=1e-4)


def test_a_checkpoint_that_is_not_ours_is_read_as_it_is(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    bundle, folder = exported
    (folder / "transduce.json").unlink()
    certificate = import_huggingface(folder, tmp_path / "back", sample=3)
    assert certificate is not None
    assert certificate.measured.max_difference < 1e-4
    back = Bundle.load(tmp_path / "back")
    assert back.config.model == replace(bundle.config.model, layer_norm_epsilon=1e-5, max_positions=1033, dropout=0.1)


def test_a_checkpoint_that_was_trained_on_is_not_forced_into_its_old_shape(
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


def test_what_cannot_be_held_is_refused_by_name(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    _, folder = exported
    cases = [({"activation_function": "swish"}, "swish"), ({"model_type": "t5"}, "t5"), ({"decoder_ffn_dim": 7}, "ffn")]
    for changes, named in cases:
        before = (folder / "config.json").read_text()
        edit(folder / "config.json", **changes)
        with pytest.raises(ExportError, match=named):
            import_huggingface(folder, tmp_path / "back")
        (folder / "config.json").write_text(before)
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {"final_logits_bias": np.ones((1, 300), np.float32)}, folder / "model.safetensors")
    with pytest.raises(ExportError, match="final_logits_bias"):
        import_huggingface(folder, tmp_path / "back")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(BundleError, match=r"pytorch_model\.bin"):
        import_huggingface(folder, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_tokenizer_that_cannot_be_ours_is_refused(exported: tuple[Bundle, Path], tmp_path: Path) -> None:
    _, folder = exported
    (folder / "tokenizer.json").rename(folder / "aside")
    with pytest.raises(BundleError, match=r"tokenizer\.json"):
        import_huggingface(folder, tmp_path / "back")
    (folder / "tokenizer.json").write_text('{"model": {"type": "Unigram", "vocab": []}}')
    with pytest.raises(BundleError, match="type Unigram"):
        import_huggingface(folder, tmp_path / "back")


# --- torch.nn.Transformer ---------------------------------------------------------------------------------------


class Sketch(nn.Module):
    """A translator as tutorials build it: PyTorch's layers, embeddings, a linear layer at the end."""

    def __init__(self, *, norm_first: bool, bias: bool = True, learned: bool = False, final_norm: bool = True) -> None:
        super().__init__()
        self.transformer = nn.Transformer(24, 3, 2, 3, 40, batch_first=True, norm_first=norm_first, bias=bias)
        if not final_norm:
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.source = nn.Embedding(300, 24)
        self.target = nn.Embedding(300, 24)
        self.generator = nn.Linear(24, 300, bias=False)
        if learned:
            self.source_positions, self.target_positions = nn.Embedding(64, 24), nn.Embedding(64, 24)
        for parameter in self.parameters():
            nn.init.normal_(parameter, 0, 0.3)


TORCH: dict[str, tuple[dict[str, Any], str]] = {
    "post-norm": ({"norm_first": False}, "norm_first = false"),
    "post-norm, no final norms": ({"norm_first": False, "final_norm": False}, "norm_first = false"),
    "pre-norm": ({"norm_first": True}, 'norm_first = true\npositions = "concatenated"'),
    "no biases": ({"norm_first": True, "bias": False}, "norm_first = true"),
    "unscaled": ({"norm_first": False}, 'norm_first = false\nembedding_scale = "none"'),
    "learned positions": (
        {"norm_first": True, "learned": True},
        'norm_first = true\npositions = "learned"\n'
        'source_positions = "source_positions.weight"\ntarget_positions = "target_positions.weight"',
    ),
}
NAMES = """num_heads = 3
source_embedding = "source.weight"
target_embedding = "target.weight"
output = "generator.weight"
prefix = "transformer."
"""


def write_state(folder: Path, description: str, **options: Any) -> tuple[Path, Path, Path]:
    """Writes a random model, its description and a tokeniser."""
    torch.manual_seed(1)
    state = {name: tensor.numpy() for name, tensor in Sketch(**options).state_dict().items()}
    paths = folder / "state.safetensors", folder / "state.toml", folder / "tokenizer.json"
    save_file(state, paths[0])
    paths[1].write_text(NAMES + description, encoding="utf-8")
    make_tokenizer().save(paths[2])
    return paths


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize(("options", "description"), TORCH.values(), ids=TORCH)
def test_a_torch_transformer_computes_the_same_here(tmp_path: Path, options: dict[str, Any], description: str) -> None:
    certificate = import_torch(*write_state(tmp_path, description, **options), tmp_path / "model", sample=6)
    assert certificate is not None
    assert certificate.measured.token_agreement == 1
    assert certificate.measured.max_difference < 2e-3
    assert certificate.measured.mean_difference < 1e-4
    bundle = Bundle.load(tmp_path / "model")
    added = not options["norm_first"] and options.get("final_norm", True)
    model = bundle.config.model
    assert (model.num_encoder_layers, model.num_decoder_layers) == (2 + added, 3 + added)
    assert len(NativeSystem(bundle).translate(LINES)) == len(LINES)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_a_wrong_description_is_noticed(tmp_path: Path) -> None:
    state, _, tokenizer = write_state(tmp_path, "", norm_first=False)
    cases: list[tuple[str, type[Exception], str]] = [
        (NAMES + "norm_frist = true", ConfigError, "norm_first"),
        (NAMES + 'num_layers = "2"', ConfigError, "unknown key"),
        (NAMES.replace("num_heads = 3", 'num_heads = "3"'), ConfigError, "must be of type int"),
        (NAMES.replace("num_heads = 3", "num_heads = 5"), ExportError, "does not divide"),
        (NAMES.replace('"generator.weight"', '"lm_head.weight"'), BundleError, r"no lm_head\.weight"),
        (NAMES.replace('prefix = "transformer."', ""), BundleError, "prefix"),
        (NAMES + 'activation = "gelu"', ConfigError, "relu"),
        (NAMES.replace('output = "generator.weight"', 'output = "target.weight"'), BundleError, r"generator\.weight"),
    ]
    for text, kind, named in cases:
        (tmp_path / "wrong.toml").write_text(text, encoding="utf-8")
        with pytest.raises(kind, match=named):
            import_torch(state, tmp_path / "wrong.toml", tokenizer, tmp_path / "model")
    assert not (tmp_path / "model").exists()


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
    import_huggingface(folder, model, sample=3)  # again
    assert {path.name for path in model.iterdir()} == set(before)
    (model / "confidence.json").write_text("{}")
    with pytest.raises(BundleError, match=r"confidence\.json changed or came since the import"):
        import_huggingface(folder, model, sample=3)
    export_model(bundle.path, folder, "huggingface", sample=3)  # again
    weights = load_file(folder / "model.safetensors")
    save_file({name: value * 2 for name, value in weights.items()}, folder / "model.safetensors")
    with pytest.raises(ExportError, match=r"model\.safetensors changed or came since the export"):
        export_model(bundle.path, folder, "huggingface", sample=3)


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


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_a_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    state, description, _ = write_state(tmp_path, "", norm_first=False)
    for text in ("{", "[]", '{"model": {"type": "BPE", "vocab": {}}}'):
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(BundleError, match=r"tokenizer\.json: "):
            import_torch(state, description, tmp_path, tmp_path / "model")
    assert not (tmp_path / "model").exists()
