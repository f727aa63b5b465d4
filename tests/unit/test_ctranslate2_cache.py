"""A model is converted once, beside its files or in the user's cache, and anew when its weights are others."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from made_models import made_bundle
from transduce import files
from transduce.bundle import Bundle
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.ctranslate2_cache import converted
from transduce.engines.ctranslate2_model import convert_in_memory
from transduce.errors import BundleError, ConfigError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Bundle:
    return made_bundle(tmp_path / "model")


def kept(model: Bundle, quantization: str) -> Path:
    """Converts a model where there is a place for it."""
    folder = converted(model, quantization)
    assert folder is not None
    return folder


def test_a_model_is_converted_once_and_that_is_said(model: Bundle, caplog: pytest.LogCaptureFixture) -> None:
    folder = kept(model, "int8")
    assert folder.parent == model.path / "ctranslate2"
    assert folder.name.startswith("int8-")
    assert {file.name for file in folder.iterdir()} == {"model.bin", "config.json", "shared_vocabulary.json"}
    assert caplog.messages == [f"transduce: converting for CTranslate2, this once: {folder}"]
    inode = (folder / "model.bin").stat().st_ino
    assert converted(Bundle.load(model.path), "int8") == folder
    assert (folder / "model.bin").stat().st_ino == inode
    assert len(caplog.messages) == 1
    assert converted(model, "float32") != folder  # both stay
    assert folder.is_dir()


def test_new_weights_take_the_place_of_the_old(model: Bundle) -> None:
    old = [kept(model, quantization) for quantization in ("int8", "float32")]
    other = model.path / "ctranslate2" / "notes"
    other.mkdir()
    aside = shutil.move(model.path / "ctranslate2", model.path.parent / "aside")
    changed = made_bundle(model.path, seed=4)
    shutil.move(aside, model.path / "ctranslate2")
    new = kept(changed, "int8")
    assert new not in old
    assert not any(folder.exists() for folder in old)
    assert other.is_dir()


def test_a_shape_that_weights_do_not_show_counts_too(model: Bundle, tmp_path: Path) -> None:
    other = made_bundle(tmp_path / "other", layer_norm_epsilon=1e-3)
    assert other.checksums == model.checksums
    assert kept(other, "float32").name != kept(model, "float32").name


def flip(path: Path, place: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("older", [False, True])
def test_weights_changed_behind_the_configuration_are_noticed(model: Bundle, older: bool) -> None:
    """Whatever their date says: `cp -p` and archives restore old ones."""
    folder, weights = kept(model, "float32"), model.path / "model.safetensors"
    date = 10**9 if older else (folder / "model.bin").stat().st_mtime_ns + 10**10
    os.utime(weights, ns=(date, date))
    assert converted(model, "float32") == folder
    flip(weights)
    os.utime(weights, ns=(date, date))
    for quantization in ("float32", "int8"):
        with pytest.raises(BundleError, match=r"model\.safetensors: changed or damaged"):
            converted(model, quantization)


def test_weights_that_were_compared_are_not_read_again(model: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SETTLED_NANOSECONDS", 0)  # what was written a moment ago counts as settled
    converted(model, "float32")
    read: list[str] = []
    sha256 = files.sha256
    monkeypatch.setattr(files, "sha256", lambda path: (read.append(path.name), sha256(path))[1])
    monkeypatch.setattr(files, "_known_digests", {})  # as in another process
    converted(model, "float32")
    assert sorted(read) == ["config.json", "model.bin", "shared_vocabulary.json"]  # all that is computed with
    os.utime(model.path / "model.safetensors", ns=(10**9, 10**9))
    for expected in (["model.safetensors"], []):
        read.clear()
        monkeypatch.setattr(files, "_known_digests", {})
        converted(model, "float32")
        assert [name for name in read if name == "model.safetensors"] == expected


def damage_contents(folder: Path) -> None:
    flip(folder / "model.bin", 3000)


def damage_vocabulary(folder: Path) -> None:
    names = json.loads((folder / "shared_vocabulary.json").read_text())
    names[40], names[41] = names[41], names[40]
    (folder / "shared_vocabulary.json").write_text(json.dumps(names))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped bit": damage_contents,
    "a vocabulary in another order": damage_vocabulary,
    "a cut": lambda folder: os.truncate(folder / "model.bin", 5000),
    "a missing file": lambda folder: (folder / "config.json").unlink(),
    "another file": lambda folder: (folder / "vmap.txt").write_text("x\ty\n"),
    "a folder in it": lambda folder: (folder / "more").mkdir(),
    "no file": lambda folder: (shutil.rmtree(folder), folder.write_text("")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_conversion_is_made_again(model: Bundle, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    folder = kept(model, "float32")
    whole = {file.name: file.read_bytes() for file in folder.iterdir()}
    DAMAGES[damage](folder)
    if folder.is_file():
        folder.unlink()
        folder.mkdir()
    assert converted(model, "float32") == folder
    assert "converting for CTranslate2, again: what is there was not made here" in caplog.messages[-1]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole


def test_a_conversion_that_came_with_a_folder_is_not_trusted(
    model: Bundle, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kept(model, "float32")
    whole = (folder / "model.bin").read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_cache.parent / "another"))  # whoever gets the folder
    flip(folder / "model.bin", 3000)
    converted(model, "float32")
    assert (folder / "model.bin").read_bytes() == whole


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, '{"digest": 3}', '{"files": {"model.bin": 1}}'])
def test_a_damaged_record_is_no_record(model: Bundle, own_cache: Path, content: str) -> None:
    folder = kept(model, "float32")
    [record] = (own_cache / "transduce" / "ctranslate2" / "records").iterdir()
    values = record.read_text()
    record.write_text(content)
    assert converted(model, "float32") == folder
    assert json.loads(record.read_text())["files"] == json.loads(values)["files"]


def test_without_a_place_for_records_each_start_converts_and_says_so(
    model: Bundle, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    for _ in range(2):
        assert kept(model, "int8").parent == model.path / "ctranslate2"
        assert "so the next start converts again. Set XDG_CACHE_HOME" in capsys.readouterr().err


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_link_in_a_model_folder_leads_nowhere(model: Bundle, own_cache: Path, tmp_path: Path) -> None:
    valued = tmp_path / "mine" / "int8-0123456789abcdef"
    valued.mkdir(parents=True)
    (model.path / "ctranslate2").symlink_to(tmp_path / "mine")
    assert kept(model, "int8").is_relative_to(own_cache)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [valued.name]


def close(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Makes folders look as those that this user may not write to: the tests may run as root, who may."""
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not any(Path(path).is_relative_to(c) for c in folders) and access(path, mode)
    )


def test_a_folder_that_cannot_be_written_to_has_its_conversion_in_the_users_cache(
    model: Bundle, own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    close(monkeypatch, model.path)
    folder = kept(model, "float32")
    assert folder.is_relative_to(own_cache / "transduce" / "ctranslate2")
    assert caplog.messages == [f"transduce: converting for CTranslate2, this once: {folder}"]
    assert converted(model, "float32") == folder
    assert len(caplog.messages) == 1


def test_where_nothing_can_be_written_the_model_is_converted_in_memory(
    model: Bundle, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a container that is read-only."""
    pairs = [[5, 6], [7]], [[8, 9], [10]]
    before = CTranslate2Engine.load(model, device="cpu", threads=1, quantization="int8")
    shutil.rmtree(model.path / "ctranslate2")
    close(monkeypatch, model.path, own_cache)
    assert converted(model, "int8") is None
    assert "each start converts the model for CTranslate2, in memory. Set XDG_CACHE_HOME" in capsys.readouterr().err
    engine = CTranslate2Engine.load(model, device="cpu", threads=1, quantization="int8")
    assert engine.score(*pairs) == before.score(*pairs)
    assert not list((model.path / "ctranslate2").iterdir())


def test_a_full_disk_is_a_place_that_cannot_be_written_to(
    model: Bundle, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    atomic_folder = files.atomic_folder

    @contextlib.contextmanager
    def full(target: Path) -> Iterator[Path]:
        with atomic_folder(target) as folder:
            yield folder
            if target.is_relative_to(model.path):
                raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "atomic_folder", full)
    assert kept(model, "int8").is_relative_to(own_cache)
    assert not list((model.path / "ctranslate2").iterdir())


def test_what_a_killed_conversion_left_is_swept(model: Bundle) -> None:
    left = model.path / "ctranslate2" / ".int8-0123456789abcdef.abcd1234.part"
    left.mkdir(parents=True)
    (left / "model.bin").write_bytes(b"half of it")
    folder = kept(model, "float32")
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("quantization", ["float32", "int8_float32", "int16"])
def test_in_memory_and_on_disk_are_the_same_bytes(model: Bundle, quantization: str) -> None:
    folder = kept(model, quantization)
    in_memory = convert_in_memory(model, quantization)
    assert {name: file.read() for name, file in in_memory.items()} == {
        file.name: file.read_bytes() for file in folder.iterdir()
    }


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


def test_models_of_one_name_have_places_of_their_own_in_the_users_cache(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each would delete the other's conversions, as stale."""
    models = [made_bundle(tmp_path / f"folder{seed}" / "model", seed=seed) for seed in (1, 2)]
    close(monkeypatch, *(model.path for model in models))
    folders = [kept(model, "float32") for model in models]
    assert len({folder.parent for folder in folders}) == 2
    assert all(folder.parent.parent == own_cache / "transduce" / "ctranslate2" for folder in folders)
    assert all(folder.parent.name.startswith("model-") for folder in folders)
    assert [kept(model, "float32") for model in models] == folders
    assert all(folder.is_dir() for folder in folders)


def test_without_a_cache_of_its_own_the_users_is_in_its_home(
    model: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    folder = kept(model, "float32")
    [record] = (tmp_path / "home" / ".cache" / "transduce" / "ctranslate2" / "records").iterdir()
    assert record.name == f"{folder.name}.json"
