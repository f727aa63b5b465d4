"""Exports held against their model again, long after they were written."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from exported_models import make_model
from transduce.cli.main import main
from transduce.errors import ExportError, MissingDependencyError, install_command
from transduce.verification import run

pytestmark = pytest.mark.computes

QUICK = ["--quick", "--no-engines", "--device", "cpu", "--threads", "1", "--sample", "4"]
LINES = ["A dog runs.", "Two men talk.", "", "A man with a ball."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with exports of it, one of them forced, and another model with one."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("exports")
    (folder / "test.en").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    for seed, name, forms in ((1, "model", ("onnx", "huggingface", "ctranslate2")), (2, "other", ("onnx",))):
        make_model(folder / name, seed=seed)
        for form in forms:
            export(folder / name, folder / f"{name}-{form}", form)
    export(folder / "model", folder / "forced", "onnx", "--max-difference", "0", "--force")
    return folder


def export(model: Path, output: Path, form: str, *options: str) -> None:
    assert main(["export", str(model), "--format", form, "--output", str(output), "--sample", "8", *options]) == 0


@pytest.fixture
def no_other_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the checks of the model itself, which are those of `test_verify_command.py`."""
    monkeypatch.setattr(run, "CHECKS", ())


def verify(folder: Path, capsys: pytest.CaptureFixture[str], *exports: str) -> tuple[int, str]:
    capsys.readouterr()
    named = [str(folder / name) for name in exports]
    arguments = ["verify", str(folder / "model"), "--source", str(folder / "test.en"), *QUICK, "--export", *named]
    return main(arguments), capsys.readouterr().out


def test_exports_of_every_format_pass_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("model-onnx", "model-huggingface", "model-ctranslate2")
    (folder / "model-onnx" / ".gitattributes").touch()  # as downloads have them
    (folder / "model-onnx" / "README.md").write_text("edited: nothing that runs", encoding="utf-8")
    code, said = verify(folder, capsys, *names)
    assert code == 0, said
    for name in names:
        assert f"✓ export {folder / name}: files" in said
        assert f"✓ export {folder / name}: = native" in said


@pytest.mark.usefixtures("no_other_checks")
def test_an_export_of_another_model_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = verify(folder, capsys, "other-onnx")
    assert code == 1
    assert "made of another model than" in said
    assert "its model.safetensors differ" in said
    assert "other-onnx: = native" not in said  # pointless


@pytest.mark.usefixtures("no_other_checks")
def test_exchanged_weights_are_found_by_running_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(folder / "model-onnx", folder / "changed")
    certificate = folder / "changed" / "certificate.json"
    values = json.loads(certificate.read_text(encoding="utf-8"))
    for name in ("encoder.onnx", "decoder.onnx", "weights.bin"):
        (folder / "changed" / name).write_bytes((folder / "other-onnx" / name).read_bytes())
    code, said = verify(folder, capsys, "changed")
    assert code == 1
    assert "changed since it was certified" in said
    other = json.loads((folder / "other-onnx" / "certificate.json").read_text(encoding="utf-8"))
    values["export"]["sha256"] = other["export"]["sha256"]  # somebody had the checksums agree
    certificate.write_text(json.dumps(values), encoding="utf-8")
    code, said = verify(folder, capsys, "changed")
    assert code == 1
    assert f"✗ export {folder / 'changed'}: = native" in said
    assert "token agreement" in said


def test_a_folder_that_is_no_export_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["verify", str(folder / "model"), "--export", str(folder / "nowhere")]
    assert main(command) == ExportError.exit_code
    captured = capsys.readouterr()
    assert "certificate.json: cannot be read (No such file or directory): no export of a model." in captured.err
    assert not captured.out  # at once, before anything is checked


@pytest.mark.parametrize(("form", "package"), [("onnx", "onnxruntime"), ("huggingface", "transformers")])
def test_an_export_that_cannot_be_run_here_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    capsys.readouterr()
    command = ["verify", str(folder / "model"), "--export", str(folder / f"model-{form}")]
    assert main(command) == MissingDependencyError.exit_code
    captured = capsys.readouterr()
    assert f"{package} not installed" in captured.err
    assert install_command(form) in captured.err
    assert not captured.out  # at once, before anything is checked
    assert main(["export", str(folder / "model"), "--format", form, "--output", str(folder / "new")]) == 6
    assert install_command(form) in capsys.readouterr().err


@pytest.mark.usefixtures("no_other_checks")
def test_a_forced_export_says_so_and_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = verify(folder, capsys, "forced")
    assert code == 0, said
    assert "certificate: forced" in said
    assert "exported with --force" in said


@pytest.mark.usefixtures("no_other_checks")
def test_a_forced_export_that_became_worse_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(folder / "forced", folder / "worse")
    for name in ("encoder.onnx", "decoder.onnx", "weights.bin"):
        (folder / "worse" / name).write_bytes((folder / "other-onnx" / name).read_bytes())
    certificate = folder / "worse" / "certificate.json"
    values, other = (json.loads((folder / name / certificate.name).read_text()) for name in ("worse", "other-onnx"))
    values["export"]["sha256"] = other["export"]["sha256"]  # somebody had the checksums agree
    certificate.write_text(json.dumps(values), encoding="utf-8")
    code, said = verify(folder, capsys, "worse")
    assert code == 1
    assert f"✗ export {folder / 'worse'}: = native" in said
    assert "certified at 100.00%" in said
