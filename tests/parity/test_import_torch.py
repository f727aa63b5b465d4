"""What is imported from torch.nn.Transformer computes what that computes."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

from exported_models import LINES, make_tokenizer
from transduce.bundle import Bundle
from transduce.errors import BundleError, ConfigError, ExportError
from transduce.export import Certificate, import_torch, imports
from transduce.export.huggingface_tokenizer import read_tokenizer
from transduce.export.native_system import NativeSystem
from transduce.export.torch_description import TorchDescription, read_description
from transduce.export.torch_reading import read_state
from transduce.export.torch_system import TorchSystem

pytestmark = pytest.mark.computes


class Sketch(nn.Module):
    """A translator as tutorials build it: PyTorch's layers, embeddings, a linear layer at the end."""

    def __init__(
        self,
        *,
        norm_first: bool,
        bias: bool = True,
        learned: bool = False,
        final_norm: bool = True,
        output_bias: bool = False,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.transformer = nn.Transformer(
            24, 3, 2, 3, 40, batch_first=True, norm_first=norm_first, bias=bias, activation=activation
        )
        if not final_norm:
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.source = nn.Embedding(300, 24)
        self.target = nn.Embedding(300, 24)
        self.generator = nn.Linear(24, 300, bias=output_bias)
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
    "another epsilon": ({"norm_first": False, "final_norm": False}, "norm_first = false\nlayer_norm_eps = 0.05"),
    "gelu": ({"norm_first": False, "activation": "gelu"}, 'activation = "gelu"'),
    "a bias of the output": (
        {"norm_first": True, "output_bias": True},
        'norm_first = true\noutput_bias = "generator.bias"',
    ),
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
    paths = write_state(tmp_path, description, **options)
    certificate = import_torch(*paths, tmp_path / "model", sample=6)
    assert certificate is not None
    assert certificate.original_sha256 == {"state.safetensors": hashlib.sha256(paths[0].read_bytes()).hexdigest()}
    assert certificate.measured.token_agreement == 1
    assert certificate.measured.max_difference < 2e-3
    assert certificate.measured.mean_difference < 1e-4
    bundle = Bundle.load(tmp_path / "model")
    added = not options["norm_first"] and options.get("final_norm", True)
    assert bundle.config.name == "model"
    assert bundle.metrics["imported_from"] == str(paths[0])
    assert (bundle.metrics["import_verdict"], bundle.metrics["import_token_agreement"]) == ("passed", 1)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "imported by Transduce" in card
    assert certificate.to_markdown() in card
    assert json.loads((tmp_path / "model" / "certificate.json").read_text())["verdict"] == "passed"
    model = bundle.config.model
    assert (model.num_encoder_layers, model.num_decoder_layers) == (2 + added, 3 + added)
    assert model.layer_norm_epsilon == (0.05 if "layer_norm_eps" in description else 1e-5)
    assert len(NativeSystem(bundle).translate(LINES)) == len(LINES)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize(("name", "reason"), [("thesis.tex", "no import of Transduce wrote it"), ("", "--overwrite")])
def test_a_folder_that_appears_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    """It is a user's own, or another import that began when this one did and ended before."""
    paths, output = write_state(tmp_path, "", norm_first=False), tmp_path / "model"
    certify = imports.certify

    def while_it_appears(*arguments: Any, **keywords: Any) -> Certificate:
        monkeypatch.setattr(imports, "certify", certify)
        if name:
            output.mkdir()
            (output / name).touch()
        else:
            import_torch(*paths, output, sample=1)
        return certify(*arguments, **keywords)

    monkeypatch.setattr(imports, "certify", while_it_appears)
    with pytest.raises(BundleError, match=reason):
        import_torch(*paths, output, sample=2)
    assert (output / (name or "certificate.json")).is_file()
    assert not list(tmp_path.glob(".model*"))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_a_wrong_description_is_noticed(tmp_path: Path) -> None:
    state, _, tokenizer = write_state(tmp_path, "", norm_first=False)
    cases: list[tuple[str, type[Exception], str]] = [
        (NAMES + "norm_frist = true", ConfigError, "norm_first"),
        (NAMES + 'num_layers = "2"', ConfigError, "unknown key"),
        (NAMES.replace("num_heads = 3", 'num_heads = "3"'), ConfigError, "num_heads = '3': must be a whole number"),
        (NAMES.replace("num_heads = 3", "num_heads = 5"), ExportError, "does not divide"),
        (NAMES.replace('"generator.weight"', '"lm_head.weight"'), BundleError, r"no lm_head\.weight"),
        (NAMES.replace('prefix = "transformer."', ""), BundleError, "prefix"),
        (NAMES + 'activation = "swish"', ConfigError, "relu"),
        (NAMES + 'output_bias = "generator.weight"', ExportError, r"generator\.weight has the shape \(300, 24\)"),
        (NAMES.replace('output = "generator.weight"', 'output = "target.weight"'), BundleError, r"generator\.weight"),
    ]
    for text, kind, named in cases:
        (tmp_path / "wrong.toml").write_text(text, encoding="utf-8")
        with pytest.raises(kind, match=named):
            import_torch(state, tmp_path / "wrong.toml", tokenizer, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("is_installed", [True, False])
def test_a_final_norm_with_a_large_epsilon_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    """What is normalised already has another variance. Where torch is not installed, no certificate would say so."""
    if not is_installed:
        monkeypatch.setattr(imports, "find_spec", lambda name: None)
    paths = write_state(tmp_path, "norm_first = false\nlayer_norm_eps = 0.001", norm_first=False)
    with pytest.raises(ExportError, match=r"layer_norm_eps = 0\.001 with a final norm in post-norm: at most 0\.0001"):
        import_torch(*paths, tmp_path / "model", sample=2)
    paths[1].write_text(NAMES + "norm_first = false\nlayer_norm_eps = 0.0001", encoding="utf-8")
    assert (import_torch(*paths, tmp_path / "model", sample=2) is not None) is is_installed


NOT_OF_LAYERS = (
    "transformer.encoder.pos.weight",
    "transformer.encoder.layers.0.self_attn.bias_k",
    "transformer.decoder.layers.1.adapter.weight",
    "transformer.decoder.layers.adapter.weight",
    "transformer.encoder.layers.1.norm3.weight",
)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("name", NOT_OF_LAYERS)
def test_unused_weights_are_refused_by_name(tmp_path: Path, name: str) -> None:
    paths = write_state(tmp_path, "", norm_first=False)
    save_file(load_file(paths[0]) | {name: np.ones((4, 24), np.float32)}, paths[0])
    with pytest.raises(BundleError, match=re.escape(name)):
        import_torch(*paths, tmp_path / "model", sample=2)
    assert not (tmp_path / "model").exists()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("name", ["encoder.layers.0.norm1.weight", "encoder.layers.0.linear1.weight"])
def test_weights_that_are_missing_are_named(tmp_path: Path, name: str) -> None:
    paths = write_state(tmp_path, "", norm_first=False)
    state = load_file(paths[0])
    del state[f"transformer.{name}"]
    save_file(state, paths[0])
    with pytest.raises(BundleError, match=re.escape(f"the state dict has no '{name}'")):
        import_torch(*paths, tmp_path / "model", sample=2)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_biases_of_some_layers_only_are_refused_by_name(tmp_path: Path) -> None:
    """Whether there are any is told by the first layer: those of others would be lost."""
    paths = write_state(tmp_path, "norm_first = true", norm_first=True, bias=False)
    before = load_file(paths[0])
    for name, size in (("layers.1.linear1.bias", 40), ("layers.1.self_attn.in_proj_bias", 72), ("norm.bias", 24)):
        save_file(before | {f"transformer.decoder.{name}": np.ones(size, np.float32)}, paths[0])
        with pytest.raises(BundleError, match=re.escape(f"transformer.decoder.{name}")):
            import_torch(*paths, tmp_path / "model", sample=2)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_a_table_that_is_named_may_lie_in_the_encoder(tmp_path: Path) -> None:
    state, description, tokenizer = write_state(tmp_path, "", norm_first=False)
    arrays, name = load_file(state), "transformer.encoder.embedding.weight"
    arrays[name] = arrays.pop("source.weight")
    save_file(arrays, state)
    description.write_text(description.read_text().replace("source.weight", name))
    certificate = import_torch(state, description, tokenizer, tmp_path / "model", sample=2)
    assert certificate is not None
    assert certificate.measured.token_agreement == 1


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_the_layers_of_torch_take_all_weights_or_none(tmp_path: Path) -> None:
    state, description, _ = write_state(tmp_path, "", norm_first=False)
    arrays = load_file(state)
    parts = read_state(arrays, read_description(description))
    more = replace(parts, arrays=parts.arrays | {"encoder.pos.weight": np.ones((4, 24), np.float32)})
    with pytest.raises(BundleError, match=r"torch\.nn\.Transformer has no encoder\.pos\.weight"):
        TorchSystem(more, np.arange(300), make_tokenizer())


@pytest.fixture
def foreign(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Returns a state dict, a description without a start, and a tokeniser whose special tokens stand last."""
    state, description, tokenizer = write_state(tmp_path, "", norm_first=False)
    definition = json.loads(tokenizer.read_text(encoding="utf-8"))
    vocabulary = definition["model"]["vocab"]
    definition["model"]["vocab"] = {token: (index + 296) % 300 for token, index in vocabulary.items()}
    tokenizer.write_text(json.dumps(definition), encoding="utf-8")
    return state, description, tokenizer


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize(
    ("described", "named"),
    [
        ('decoder_start = "<start>"', "decoder_start = '<start>'"),
        ('bos_token = "[BOS]"', "bos_token = '[BOS]'"),
        ('decoder_start = "<pad>"\nbos_token = "[BOS]"', "bos_token = '[BOS]'"),
        ('decoder_start = "[BOS]"\nbos_token = "[BOS]"', "decoder_start = '[BOS]'"),
    ],
)
def test_a_start_token_that_the_tokenizer_does_not_have_is_refused(
    foreign: tuple[Path, Path, Path], tmp_path: Path, described: str, named: str
) -> None:
    state, description, tokenizer = foreign
    description.write_text(f"{NAMES}\n{described}", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"{re.escape(named)}: .*tokenizer\.json has no such token"):
        import_torch(state, description, tokenizer, tmp_path / "model", sample=2)
    assert not (tmp_path / "model").exists()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_a_decoder_starts_from_the_token_that_is_described(foreign: tuple[Path, Path, Path]) -> None:
    known = {"num_heads": 3, "source_embedding": "a", "target_embedding": "b", "output": "c"}
    for start, bos_token, expected in (
        ("", "<s>", [296, 297, 298, 299]),
        ("<s>", "[BOS]", [296, 297, 298, 299]),  # bos_token is not needed
        ("<pad>", "<s>", [297, 296, 298, 299]),
    ):
        roles = TorchDescription(**known, bos_token=bos_token).roles  # type: ignore[arg-type]
        assert read_tokenizer(foreign[2], roles, start, 300).order[:4].tolist() == expected


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_a_bias_of_the_output_stays_with_its_tokens(foreign: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """The special tokens are the last four there, and the first four here."""
    save_file(load_file(foreign[0]) | {"generator.bias": np.arange(300, dtype=np.float32)}, foreign[0])
    foreign[1].write_text(f'{NAMES}output_bias = "generator.bias"', encoding="utf-8")
    import_torch(*foreign, tmp_path / "model", sample=2)
    bias = load_file(tmp_path / "model" / "model.safetensors")["output_bias"]
    assert bias.tolist() == [296, 297, 298, 299, *range(296)]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_a_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    state, description, _ = write_state(tmp_path, "", norm_first=False)
    damaged = ("{", "[]", '{"model": {"type": "BPE", "vocab": {}}}', '{"model": {"type": "BPE"}}')
    damaged += ('{"model": {"type": "BPE", "vocab": {"a": "0"}}}', '{"model": {"type": "BPE", "vocab": {"a": null}}}')
    damaged += tuple(
        f'{{"added_tokens": {added}, "model": {{"type": "BPE", "vocab": {{}}}}}}' for added in ("null", '["a"]', "[{}]")
    )
    for text in damaged:
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(BundleError, match=r"tokenizer\.json: "):
            import_torch(state, description, tmp_path, tmp_path / "model")
    assert not (tmp_path / "model").exists()
