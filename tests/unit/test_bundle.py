"""The model folder: whole or not at all, and errors that say what is wrong."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from transduce import files
from transduce.bundle import Bundle, save_bundle, save_metrics
from transduce.config import Config, ModelConfig
from transduce.config.tensors import read_weights
from transduce.engines.ctranslate2_model import model_arrays
from transduce.errors import BundleError, ConfigError
from transduce.model import Transformer
from transduce.text import SubwordTokenizer

TOKENIZER = SubwordTokenizer.train(["a man, a plan"] * 3, algorithm="bpe", vocab_size=265)
SHAPE = ModelConfig(
    vocab_size=TOKENIZER.vocab_size,
    num_encoder_layers=1,
    num_decoder_layers=1,
    d_model=8,
    d_ff=12,
    num_heads=2,
    d_k=4,
    d_v=4,
)
CONFIG = Config(name="small", model=SHAPE)
METRICS = {"steps": 12, "validation_bleu": 31.25}


def weights_of(seed: int, shape: ModelConfig = SHAPE) -> dict[str, np.ndarray]:
    torch.manual_seed(seed)
    return {name: weight.numpy() for name, weight in Transformer(shape).weights().items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_bundle(tmp_path / "model", CONFIG, weights_of(1), TOKENIZER, METRICS)
    return tmp_path / "model"


def test_a_folder_written_before_there_were_attention_windows_loads(folder: Path) -> None:
    values = json.loads((folder / "config.json").read_text())
    del values["config"]["model"]["attention_window"], values["config_sha256"]
    (folder / "config.json").write_text(json.dumps(values))
    assert Bundle.load(folder).config == CONFIG


def test_round_trip(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer.json", "metrics.json", "README.md")
    }
    bundle = Bundle.load(str(folder))
    bundle.verify()
    assert bundle.config == CONFIG
    assert bundle.metrics == METRICS
    assert bundle.tokenizer.encode("a man") == TOKENIZER.encode("a man")
    expected = weights_of(1)
    assert bundle.weights().keys() == expected.keys()
    for name, weight in bundle.weights().items():
        np.testing.assert_array_equal(weight, expected[name])
        assert weight.dtype == np.float32
    model = Transformer(SHAPE)
    model.load_weights(bundle.weights())
    assert np.array_equal(model.source_embedding.detach().numpy(), expected["source_embedding"])


def test_the_card_says_what_was_measured(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# small: ")
    assert "| validation_bleu | 31.25 |" in card
    assert f"| parameters | {sum(w.size for w in weights_of(1).values()):,} |" in card


def test_new_metrics_leave_all_else_in_the_folder(folder: Path, tmp_path: Path) -> None:
    bundle = Bundle.load(shutil.copytree(folder, tmp_path / "copy"))
    (bundle.path / "ctranslate2").mkdir()
    metrics = bundle.metrics | {"test_f1": 50.0}
    save_metrics(bundle, metrics)
    weights, tokenizer = bundle.weights(), bundle.tokenizer
    expected = save_bundle(tmp_path / "expected", bundle.config, weights, tokenizer, metrics)
    for file in expected.path.iterdir():
        assert (bundle.path / file.name).read_bytes() == file.read_bytes()
    assert (bundle.path / "ctranslate2").is_dir()


def test_the_card_of_a_parser_shows_how_to_parse(tmp_path: Path) -> None:
    data = replace(CONFIG.data, format="trees", source_language="en", train=(("wsj/02", "wsj/03"),))
    save_bundle(tmp_path / "model", replace(CONFIG, data=data), weights_of(1), TOKENIZER, {"test_wsj23_f1": 91.3})
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# small: en sentences → trees\n")
    assert "| test_wsj23_f1 | 91.30 |" in card
    assert "transduce parse run PATH_OF_THIS_FOLDER" in card
    assert "translate" not in card


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_one_flipped_bit_is_noticed_by_whoever_reads_the_file(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    bundle = Bundle.load(folder)
    named = rf"{name}: changed or damaged: its checksum differs from config\.json's"
    with pytest.raises(BundleError, match=named):
        bundle.verify()
    with pytest.raises(BundleError, match=named):
        _ = bundle.weights() if name == "model.safetensors" else bundle.tokenizer


@pytest.mark.parametrize("checksums", [{}, {"another": "0" * 64}, {"model.safetensors": ""}, {"model.safetensors": 3}])
def test_a_file_without_a_checksum_is_refused(folder: Path, checksums: dict[str, Any]) -> None:
    change_config(folder, sha256=checksums)
    for read in (lambda: Bundle.load(folder).weights(), lambda: Bundle.load(folder).tokenizer):
        with pytest.raises(BundleError, match=r"config\.json: (has no checksum of|damaged: 'sha256' has no checksums)"):
            read()


def test_a_changed_configuration_is_noticed(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())["config"]
    config["model"]["layer_norm_epsilon"] = 1e-5  # what neither the shapes of weights nor the schema would notice
    change_config(folder, config=config)
    with pytest.raises(BundleError, match=r"config\.json: changed or damaged: its 'config'.*'config_sha256'"):
        Bundle.load(folder)
    values = json.loads((folder / "config.json").read_text())
    del values["config_sha256"]
    (folder / "config.json").write_text(json.dumps(values))
    assert Bundle.load(folder).config.model.layer_norm_epsilon == 1e-5


@pytest.mark.parametrize("content", ["[" * 100_000, '{"format": ' + "9" * 5000 + "}", '{"format": "\\ud800"}'])
def test_json_that_python_cannot_read(folder: Path, content: str) -> None:
    for name in ("config.json", "metrics.json"):
        whole = (folder / name).read_text()
        (folder / name).write_text(content)
        with pytest.raises(BundleError, match=rf"{name}: (not a model's configuration|damaged)"):
            _ = Bundle.load(folder).metrics
        (folder / name).write_text(whole)


@pytest.mark.parametrize(
    "sizes",
    [
        {"d_ff": 10**6},
        {"vocab_size": 10**7},
        {"num_encoder_layers": 1000},
        {"num_decoder_layers": 1000},
        {"num_heads": 1000},
        {"positions": "learned", "max_positions": 10**6},
    ],
    ids=str,
)
def test_sizes_are_compared_before_anything_is_built(folder: Path, sizes: dict[str, Any]) -> None:
    bundle = Bundle.load(folder)
    huge = replace(bundle, config=replace(CONFIG, model=replace(SHAPE, **sizes)))
    with pytest.raises(BundleError, match=r"model\.safetensors: the weights do not fit the configuration"):
        huge.weights()
    with pytest.raises(BundleError, match="the weights do not fit the configuration"):
        Transformer.from_weights(huge.config.model, bundle.weights())
    with pytest.raises(BundleError, match="the weights do not fit the configuration"):
        model_arrays(huge.config.model, bundle.weights())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused_by_name(folder: Path, value: float) -> None:
    weights = dict(read_weights(folder / "model.safetensors"))
    weights["encoder.0.feed_forward.inner.bias"][[2, 5]] = value
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(
        BundleError, match=r"model\.safetensors: encoder\.0\.feed_forward\.inner\.bias: 2 of 12 numbers"
    ):
        read_weights(folder / "model.safetensors")


# --- what is missing or wrong ---------------------------------------------------------------------------------


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"absent: no such model folder\. .* and 'transduce import PATH --output"):
        Bundle.load(tmp_path / "absent")


def test_a_file_is_no_model_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").touch()
    with pytest.raises(BundleError, match=r"mine\.toml: is a file, not a model folder\.$"):
        Bundle.load(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    "missing",
    [["model.safetensors"], ["tokenizer.json"], ["config.json", "tokenizer.json"]],
)
def test_missing_files_are_all_named(folder: Path, missing: list[str]) -> None:
    for name in missing:
        (folder / name).unlink()
    with pytest.raises(BundleError, match=rf"not a model folder: {', '.join(missing)} missing\.$"):
        Bundle.load(folder)


@pytest.mark.parametrize("name", ["config.json", "decoder.yml", "model.bin", "metadata.json"])
def test_a_model_of_another_system_is_recognised(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"model_type": "marian"}')
    with pytest.raises(BundleError, match=rf"missing\..* 'transduce import {tmp_path} --output MODEL' reads it\.$"):
        Bundle.load(tmp_path)


def test_a_checkpoint_of_transformers_with_all_our_names_is_recognised(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "m2m_100"}')
    with pytest.raises(BundleError, match=rf"not a model's configuration .* 'transduce import {folder} --output"):
        Bundle.load(folder)


def test_a_package_of_argos_is_recognised(tmp_path: Path) -> None:
    package = tmp_path / "translate-en_de-1_0.argosmodel"
    package.touch()
    with pytest.raises(BundleError, match=rf"is a file, .* 'transduce import {package} --output MODEL' reads it\.$"):
        Bundle.load(package)


def test_a_run_folder_is_recognised(tmp_path: Path, folder: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    with pytest.raises(BundleError, match=rf"run folder: make a model of it with 'transduce average {run} --output"):
        Bundle.load(run)
    folder.rename(run / "model")
    with pytest.raises(BundleError, match=rf"looks like a run folder: its model is {run / 'model'}"):
        Bundle.load(run)


def test_a_checkpoint_is_recognised(tmp_path: Path, folder: Path) -> None:
    checkpoint = tmp_path / "run" / "best"
    checkpoint.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        (checkpoint / name).touch()
    with pytest.raises(BundleError, match=r"missing\. This is a checkpoint\. .transduce average RUN .*--best"):
        Bundle.load(checkpoint)


@pytest.mark.parametrize("content", ["", "{", "3", "[1]"])
def test_damaged_metrics(folder: Path, content: str) -> None:
    (folder / "metrics.json").write_text(content)
    with pytest.raises(BundleError, match=r"metrics\.json: damaged"):
        _ = Bundle.load(folder).metrics


def test_the_tokenizer_of_another_model(folder: Path) -> None:
    other = SubwordTokenizer.train(["another text"] * 3, algorithm="bpe", vocab_size=261)
    other.save(folder / "tokenizer.json")
    values = json.loads((folder / "config.json").read_text())
    change_config(folder, sha256=values["sha256"] | {"tokenizer.json": files.sha256(folder / "tokenizer.json")})
    with pytest.raises(BundleError, match=r"tokenizer\.json: has 261 pieces, but config\.json says 265"):
        _ = Bundle.load(folder).tokenizer


def test_metrics_may_be_absent(folder: Path) -> None:
    (folder / "metrics.json").unlink()
    assert Bundle.load(folder).metrics == {}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", "{}", '{"config": {}}', '{"format": 1}', '{"format": 1, "config": 3}']
)
def test_a_damaged_configuration(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(BundleError, match=r"config\.json: not a model's configuration"):
        Bundle.load(folder)


def change_config(folder: Path, **changes: Any) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | changes))


@pytest.mark.parametrize(("found", "shown"), [(2, "2"), ("1", '"1"'), (True, "true"), (1.0, r"1\.0")])
def test_a_folder_of_another_format(folder: Path, found: object, shown: str) -> None:
    change_config(folder, format=found, transduce="9.0")
    with pytest.raises(
        BundleError, match=rf"format {shown}, but this version reads format 1\. .* Transduce 9\.0 wrote"
    ):
        Bundle.load(folder)


def test_an_unknown_key_in_the_configuration(folder: Path) -> None:
    change_config(folder, config={"model": {"num_haeds": 3}})
    with pytest.raises(ConfigError, match=r"config\.json: unknown key 'model\.num_haeds'\. Did you mean 'num_heads'"):
        Bundle.load(folder)


def test_weights_that_are_cut_short(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BundleError, match=rf"{file}: cannot be read: .*damaged or cut short"):
        Bundle.load(folder).weights()
    with pytest.raises(BundleError, match="cannot be read"):
        read_weights(folder / "absent.safetensors")


def test_all_weights_that_do_not_fit_are_listed() -> None:
    weights = weights_of(1)
    del weights["encoder.0.feed_forward.inner.bias"], weights["source_embedding"]
    weights["encoder.7.surprise"] = np.zeros(3, np.float32)
    weights["decoder.0.feed_forward.outer.weight"] = np.zeros((8, 5), np.float32)
    model = Transformer(SHAPE)
    before = {name: weight.clone() for name, weight in model.weights().items()}
    with pytest.raises(BundleError) as refused:
        model.load_weights(weights, where="models/x")
    message = str(refused.value)
    assert message.startswith("models/x: the weights do not fit the configuration:")
    assert sorted(line.strip() for line in message.splitlines()[1:]) == [
        "missing: encoder.0.feed_forward.inner.bias",
        "missing: source_embedding",
        "shape of decoder.0.feed_forward.outer.weight: (8, 5), the configuration says (8, 12)",
        "unknown: encoder.7.surprise",
    ]
    assert all(torch.equal(weight, before[name]) for name, weight in model.weights().items())


# --- writing --------------------------------------------------------------------------------------------------


def test_a_folder_is_replaced_whole(folder: Path) -> None:
    (folder / "notes.txt").touch()
    shape = replace(SHAPE, d_ff=20)
    save_bundle(folder, replace(CONFIG, model=shape), weights_of(2, shape), TOKENIZER, {})
    bundle = Bundle.load(folder)
    bundle.verify()
    assert bundle.config.model.d_ff == 20
    assert bundle.metrics == {}
    assert not (folder / "notes.txt").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize(
    "failing", ["safetensors.numpy.save_file", "transduce.bundle.model_card", "transduce.bundle.to_dict"]
)
def test_a_crash_while_writing_leaves_the_old_folder_or_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def crash(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(failing, crash)
    for target in (folder, folder.parent / "another"):
        with pytest.raises(OSError, match="No space"):
            save_bundle(target, CONFIG, weights_of(2), TOKENIZER, {})
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    bundle = Bundle.load(folder)
    bundle.verify()
    assert bundle.metrics == METRICS


def test_files_can_be_read_by_others(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / "config.json").stat().st_mode & 0o777 == 0o644


def test_others_may_read_a_model_folder(tmp_path: Path) -> None:
    save_bundle(tmp_path / "model", CONFIG, weights_of(1), TOKENIZER, METRICS)
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "model").iterdir()} == {0o644}
