"""`transduce export` and `transduce import`, as a user calls them."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exported_models import make_model
from transduce.bundle import Bundle
from transduce.cli.main import main
from transduce.data import progress
from transduce.engines.shortlist.table import Shortlist, save_shortlist
from transduce.errors import BundleError, ExportError
from transduce.export import exports
from transduce.export.certificate import Certificate
from transduce.export.imports import find_format
from transduce.files import sha256


def test_export_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setattr(progress, "_DELAY_SECONDS", 0.0)
    model, output, back = tmp_path / "model", tmp_path / "export", tmp_path / "back"
    bundle = make_model(model, norm="pre")
    (tmp_path / "test.en").write_text("A dog runs.\nTwo men talk.\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("Ein Hund rennt.\nZwei Männer reden.\n", encoding="utf-8")
    files = ["--source", str(tmp_path / "test.en"), "--reference", str(tmp_path / "test.de")]
    assert main(["export", str(model), "--format", "huggingface", "--output", str(output), *files]) == 0
    shown = capsys.readouterr()
    assert "**passed**" in shown.out
    assert "BLEU against references" in shown.out
    assert "exporting and comparing: 0" in shown.err
    card = (output / "README.md").read_text(encoding="utf-8")
    assert "AutoModelForSeq2SeqLM" in card
    assert "**passed**" in card
    said = json.loads((output / "certificate.json").read_text(encoding="utf-8"))
    assert said["original"]["sha256"] == dict(bundle.checksums)
    assert "model.safetensors" in said["export"]["sha256"]
    assert "original → export" in shown.out
    assert main(["import", str(output), "--output", str(back), *files]) == 0
    shown = capsys.readouterr()
    assert "original → import" in shown.out
    assert "importing and comparing: 0" in shown.err
    assert "imported by Transduce" in (back / "README.md").read_text(encoding="utf-8")
    said = json.loads((back / "certificate.json").read_text(encoding="utf-8"))
    assert said["verdict"] == "passed"
    assert said["original"]["sha256"] == {path.name: sha256(path) for path in output.iterdir()}
    Bundle.load(back).verify()
    assert main(["info", str(back)]) == 0


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make_model(tmp_path / "model", attention_window=4).path
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    huggingface = ["export", str(model), "--format", "huggingface"]
    cases = [
        ([*huggingface, "--output", str(tmp_path / "out")], 7, "model.attention_window = 4"),
        ([*huggingface, "--output", str(tmp_path / "mine")], 7, "no export of Transduce wrote it"),
        ([*huggingface, "--output", str(tmp_path / "out"), "--quantization", "int8"], 2, "ctranslate2 has others"),
        ([*huggingface, "--output", str(tmp_path / "out"), "--threshold", "97"], 2, "must be a number from 0 to 1"),
        ([*huggingface, "--output", str(tmp_path / "out"), "--source", str(tmp_path / "x")], 3, "no such file"),
        (["import", str(model), "--format", "torch", "--output", str(tmp_path / "out")], 2, "--description"),
        (["import", str(tmp_path / "x"), "--format", "huggingface", "--output", str(tmp_path / "out")], 4, "no such"),
        (["import", str(tmp_path / "x"), "--output", str(tmp_path / "out")], 4, "x: no such file or folder"),
        (["import", str(model), "--output", str(tmp_path / "out")], 4, "this is already a model folder"),
    ]
    for arguments, code, named in cases:
        assert main(arguments) == code, arguments
        error = capsys.readouterr().err
        assert named in error
        assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


def test_the_format_of_an_import_is_found(tmp_path: Path) -> None:
    def folder(name: str, **files: str) -> Path:
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file.replace("_", ".")).write_text(text, encoding="utf-8")
        return tmp_path / name

    (tmp_path / "mine.safetensors").touch()
    assert find_format(folder("marian", config_json='{"model_type": "marian"}')) == "huggingface"
    assert (
        find_format(folder("other", config_json='{"model_type": "bart"}')) == "huggingface"
    )  # refused when it is read
    assert find_format(tmp_path / "mine.safetensors") == "torch"
    assert find_format(folder("converted", model_bin="", config_json="{}")) == "ctranslate2"
    (tmp_path / "mine.pt").touch()
    wrong = {
        tmp_path / "mine.pt": "ends in '.pt', and nothing is unpickled",
        folder("empty"): "it is empty",
        folder("damaged", config_json="{"): "its config.json is damaged: Expecting property name",
    }
    for path, reason in wrong.items():
        with pytest.raises(BundleError, match=re.escape(reason)) as raised:
            find_format(path)
        assert "names a model_type (huggingface)" in raised.value.advice
        assert ".safetensors file (torch)" in raised.value.advice


def test_an_edited_card_is_not_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, output = make_model(tmp_path / "model").path, tmp_path / "out"
    arguments = ["export", str(model), "--format", "ctranslate2", "--output", str(output), "--sample", "3"]
    assert main(arguments) == 0
    assert main(arguments) == 7
    assert f"{output}: exists already. Add --overwrite" in capsys.readouterr().err
    arguments.append("--overwrite")
    assert main(arguments) == 0
    card = output / "README.md"
    card.write_text(text := card.read_text(encoding="utf-8") + "Made for the museum.\n", encoding="utf-8")
    capsys.readouterr()
    assert main(arguments) == 7
    assert "README.md changed or came since the export" in capsys.readouterr().err
    assert card.read_text(encoding="utf-8") == text


def test_the_shortlist_comes_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle, output = make_model(tmp_path / "model"), tmp_path / "out"
    arguments = ["export", str(bundle.path), "--output", str(output), "--sample", "3", "--shortlist", "--format"]
    assert main([*arguments, "onnx"]) == 2
    assert "--shortlist: the format 'onnx' has none" in capsys.readouterr().err
    assert main([*arguments, "ctranslate2"]) == 4
    assert "has no shortlist. Learn one" in capsys.readouterr().err
    candidates = np.full((bundle.tokenizer.vocab_size, 2), 70, dtype=np.int32)
    save_shortlist(bundle, Shortlist(candidates, np.array([60, 61], dtype=np.int32), {}, len(candidates)))
    # 8 bits without VNNI round more, which shows where weights are random.
    loosely = ["--threshold", "0.5", "--max-difference", "1"]
    assert main([*arguments, "ctranslate2", "--quantization", "int8", *loosely]) == 0
    names = bundle.tokenizer.tokens()
    first, *rest = (output / "vmap.txt").read_text(encoding="utf-8").splitlines()
    assert first == f"\t{names[60]} {names[61]}"
    assert f"{names[80]}\t{names[70]} {names[70]}" in rest
    assert "use_vmap=True" in (card := (output / "README.md").read_text(encoding="utf-8"))
    assert "in int8, an output may change with its batch" in card
    assert "may depend on the other lines of its batch" in card


def test_of_two_exports_at_once_the_second_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both begin where nothing stands; one ends while the other still compares."""
    pytest.importorskip("onnxruntime")
    model, output = make_model(tmp_path / "model").path, tmp_path / "export"
    certify = exports.certify

    def while_another_ends(*arguments: Any, **keywords: Any) -> Certificate:
        monkeypatch.setattr(exports, "certify", certify)
        exports.export_model(model, output, "ctranslate2", sample=1)
        return certify(*arguments, **keywords)

    monkeypatch.setattr(exports, "certify", while_another_ends)
    with pytest.raises(ExportError, match=r"export: exists already\. Add --overwrite"):
        exports.export_model(model, output, "onnx", sample=1)
    assert (output / "model.bin").is_file()
    assert not list(tmp_path.glob(".export*"))


def test_an_export_below_the_threshold_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    model, output = make_model(tmp_path / "model").path, tmp_path / "out"
    arguments = ["export", str(model), "--format", "onnx", "--output", str(output), "--max-difference", "0"]
    assert main(arguments) == 7
    assert "log-probabilities differ" in capsys.readouterr().err
    assert not output.exists()
    assert main([*arguments, "--force"]) == 0
    assert json.loads((output / "certificate.json").read_text(encoding="utf-8"))["verdict"] == "forced"
    assert main([*arguments[:-2], "--overwrite"]) == 0
    assert json.loads((output / "certificate.json").read_text(encoding="utf-8"))["verdict"] == "passed"
