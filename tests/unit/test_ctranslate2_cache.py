"""A model is converted once, beside its files or in the user's cache, and anew when its weights are others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from made_models import made_bundle
from transduce.bundle import Bundle
from transduce.engines.ctranslate2_cache import converted
from transduce.errors import BundleError, ConfigError


@pytest.fixture(autouse=True)
def user_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Bundle:
    return made_bundle(tmp_path / "model")


def test_a_model_is_converted_once_and_that_is_said(model: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    folder = converted(model, "int8")
    assert folder.parent == model.path / "ctranslate2"
    assert folder.name.startswith("int8-")
    assert {file.name for file in folder.iterdir()} == {"model.bin", "config.json", "shared_vocabulary.json"}
    assert capsys.readouterr().err == f"transduce: converting for CTranslate2, this once: {folder}\n"
    inode = (folder / "model.bin").stat().st_ino
    assert converted(Bundle.load(model.path), "int8") == folder
    assert (folder / "model.bin").stat().st_ino == inode
    assert capsys.readouterr().err == ""
    assert converted(model, "float32") != folder  # both stay
    assert folder.is_dir()


def test_new_weights_take_the_place_of_the_old(model: Bundle) -> None:
    old = [converted(model, quantization) for quantization in ("int8", "float32")]
    other = model.path / "ctranslate2" / "notes"
    other.mkdir()
    kept = shutil.move(model.path / "ctranslate2", model.path.parent / "aside")
    changed = made_bundle(model.path, seed=4)
    shutil.move(kept, model.path / "ctranslate2")
    new = converted(changed, "int8")
    assert new not in old
    assert not any(folder.exists() for folder in old)
    assert other.is_dir()


def test_a_shape_that_weights_do_not_show_counts_too(model: Bundle, tmp_path: Path) -> None:
    other = made_bundle(tmp_path / "other", layer_norm_epsilon=1e-3)
    assert other.checksums == model.checksums
    assert converted(other, "float32").name != converted(model, "float32").name


def test_weights_changed_behind_the_configuration_are_noticed(model: Bundle) -> None:
    folder = converted(model, "float32")
    weights = model.path / "model.safetensors"
    later = (folder / "model.bin").stat().st_mtime_ns + 10**9
    os.utime(weights, ns=(later, later))  # copied, say
    assert converted(model, "float32") == folder
    assert (folder / "model.bin").stat().st_mtime_ns > later - 10**9
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(later * 2, later * 2))
    with pytest.raises(BundleError, match=r"model\.safetensors: changed or damaged"):
        converted(model, "float32")
    with pytest.raises(BundleError, match=r"model\.safetensors: changed or damaged"):
        converted(model, "int8")


def test_a_folder_that_cannot_be_written_to_has_its_conversion_in_the_users_cache(
    model: Bundle, user_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    access = os.access
    closed = [model.path]
    monkeypatch.setattr(
        os, "access", lambda path, mode: not any(Path(path).is_relative_to(c) for c in closed) and access(path, mode)
    )
    folder = converted(model, "float32")
    assert folder.is_relative_to(user_cache / "transduce" / "ctranslate2")
    assert str(folder) in capsys.readouterr().err
    assert converted(model, "float32") == folder
    assert capsys.readouterr().err == ""
    closed.append(user_cache)
    with pytest.raises(BundleError, match="Set XDG_CACHE_HOME"):
        converted(model, "int8")


def test_a_conversion_that_fails_leaves_nothing(model: Bundle) -> None:
    with pytest.raises(ConfigError, match="no quantization 'int7'"):
        converted(model, "int7")
    (model.path / "tokenizer.json").write_text("{}")
    with pytest.raises(BundleError):
        converted(model, "int8")
    assert not list((model.path / "ctranslate2").glob("*"))


def test_processes_that_convert_at_once_all_find_a_whole_model(model: Bundle) -> None:
    program = (
        "import sys; from transduce.bundle import Bundle; from transduce.engines.ctranslate2 import CTranslate2Engine\n"
        "engine = CTranslate2Engine.load(Bundle.load(sys.argv[1]), device='cpu', threads=1)\n"
        "print(engine.score([[5, 6]], [[7]]))"
    )
    command = [sys.executable, "-c", program, str(model.path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert len(set(outputs)) == 1
    assert len(list((model.path / "ctranslate2").iterdir())) == 1
