"""A folder whose models are all served: what is found in it, and packages that are imported once."""

import hashlib
import json
import logging
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from made_models import untied_folder
from transduce import files
from transduce.errors import BundleError, ConfigError
from transduce.serve import model_folder as module
from transduce.serve.config import EngineConfig, FolderConfig
from transduce.serve.model_folder import FoundModel, by_preference, find_models
from transduce.serve.package_import import import_package


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder."""
    return untied_folder(tmp_path_factory.mktemp("made") / "model")


@pytest.fixture
def imported(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of the packages that were imported; all become the same model, those called "bad…" none."""
    names: list[str] = []

    def import_one(package: Path, model: Path, _: EngineConfig) -> None:
        names.append(package.name)
        model.mkdir(parents=True)
        if package.name.startswith("bad"):
            raise BundleError(f"{package}: its weights\nare damaged.")
        shutil.copytree(made, model, dirs_exist_ok=True)

    monkeypatch.setattr(module, "import_package", import_one)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return names


def package(folder: Path, content: str = "weights") -> Path:
    """Writes what is recognised as a package."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "marian"}', encoding="utf-8")
    (folder / "weights").write_text(content, encoding="utf-8")
    return folder


def found(folder: Path) -> list[FoundModel]:
    return find_models(FolderConfig(path=str(folder)))


def imports(place: Path) -> list[Path]:
    """Returns what a place holds, but for its lock."""
    return [path for path in place.iterdir() if path.name != ".lock"]


def test_models_are_found_one_level_down_and_no_deeper(
    tmp_path: Path, made: Path, imported: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "all"
    for name in ("en-de", "runs/model", "runs/second", ".hidden", "far/down/model"):
        shutil.copytree(made, folder / name)
    (folder / "README.md").write_text("Our models.", encoding="utf-8")
    (folder / "old.zip").write_text("no package", encoding="utf-8")
    paths = [folder / name for name in ("en-de", "runs/model", "runs/second")]
    assert found(folder) == [FoundModel(path, path) for path in paths]
    [line] = caplog.messages
    assert line.startswith(f"left out: {folder / 'far'}: no format fits")
    assert imported == []


def test_a_package_is_imported_once(tmp_path: Path, imported: list[str], caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "all"
    one, two = package(folder / "en-de"), package(folder / "de-fr" / "model", "others")
    with caplog.at_level(logging.INFO):
        second, first = found(folder)
    assert imported == ["model", "en-de"]
    assert [first.path, second.path] == [one, two]
    assert first.model.parents[1] == second.model.parents[1] == folder / ".transduce"
    assert [first.model.name, second.model.name] == ["en-de", "de-fr"]
    assert first.model.parent.name != second.model.parent.name
    places = [line for line in caplog.messages if line.startswith("importing")]
    assert places == [
        f"importing {two} (1 of 2) into {folder / '.transduce'}",
        f"importing {one} (2 of 2) into {folder / '.transduce'}",
    ]
    caplog.clear()
    assert found(folder) == [second, first]
    assert (len(imported), caplog.messages) == (2, [])


def test_two_packages_with_the_same_contents_keep_their_imports(tmp_path: Path, imported: list[str]) -> None:
    folder = tmp_path / "all"
    for name in ("a", "b", "bad"):
        package(folder / name)
    first = found(folder)
    assert [each.model.is_dir() for each in first] == [True, True]
    assert sorted(imported) == ["a", "b", "bad"]
    assert found(folder) == first
    assert sorted(imported) == ["a", "b", "bad", "bad"]


def test_the_name_of_an_import_is_a_hash_of_all_files(tmp_path: Path, imported: list[str]) -> None:
    from transduce import __version__

    folder = tmp_path / "all"
    (package(folder / "en-de") / "further").mkdir()
    (folder / "en-de" / "further" / "a").write_text("b", encoding="utf-8")
    [each] = found(folder)
    texts = (("config.json", '{"model_type": "marian"}'), ("further/a", "b"), ("weights", "weights"))
    hashed = [[name, hashlib.sha256(text.encode()).hexdigest()] for name, text in texts]
    assert each.model.parent.name == hashlib.sha256(json.dumps([__version__, hashed]).encode()).hexdigest()[:16]


@pytest.mark.parametrize("change", ["content", "name", "more"])
def test_a_package_that_has_changed_is_imported_anew(tmp_path: Path, imported: list[str], change: str) -> None:
    folder = tmp_path / "all"
    path = package(folder / "en-de")
    [before] = found(folder)
    if change == "content":
        (path / "weights").write_text("WEIGHTS", encoding="utf-8")
        os.utime(path / "weights", (1, 1))
    elif change == "name":
        (path / "weights").rename(path / "weights.bin")
    else:
        (path / "more").write_text("", encoding="utf-8")
    [after] = found(folder)
    assert (imported, after.path) == (["en-de", "en-de"], path)
    assert imports(folder / ".transduce") == [after.model.parent] != [before.model.parent]


def test_imports_of_packages_that_are_gone_are_deleted_and_nothing_else(tmp_path: Path, imported: list[str]) -> None:
    folder = tmp_path / "all"
    package(folder / "en-de"), package(folder / "en-fr", "french")
    first, second = found(folder)
    (folder / ".transduce" / "notes").mkdir()
    shutil.rmtree(folder / "en-de")
    assert found(folder) == [second]
    assert not first.model.exists()
    assert {path.name for path in imports(folder / ".transduce")} == {"notes", second.model.parent.name}


def test_imports_of_another_version_stay_as_long_as_it_runs(
    tmp_path: Path, imported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "all"
    package(folder / "en-de")
    monkeypatch.setattr(module, "_in_use", {})
    [old] = found(folder)
    of_old = module._in_use
    monkeypatch.setattr(module, "_in_use", {})  # as in another process
    monkeypatch.setattr(module, "__version__", "99.0.0")
    [new] = found(folder)
    assert new.model != old.model
    assert (old.model / "config.json").exists()
    for descriptor in of_old.values():  # it ends
        os.close(descriptor)
    assert found(folder) == [new]
    assert imports(folder / ".transduce") == [new.model.parent]


@pytest.mark.parametrize("function", ["_key", "find_package"])
@pytest.mark.parametrize("inside", ["", "more"])
def test_the_import_of_a_package_that_cannot_be_read_stays(
    tmp_path: Path,
    imported: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    function: str,
    inside: str,
) -> None:
    folder = tmp_path / "all" / inside
    package(folder / "en-de"), package(folder / "en-fr", "french"), package(folder / "gone", "other")
    first, second, third = found(tmp_path / "all")
    shutil.rmtree(folder / "gone")
    read = getattr(module, function)

    def unreadable(path: Path) -> str:
        if path.name == "en-de":
            raise PermissionError(13, "Permission denied", str(path / "weights"))
        result: str = read(path)
        return result

    monkeypatch.setattr(module, function, unreadable)
    assert found(tmp_path / "all") == [second]
    assert first.model.exists()
    assert not third.model.exists()
    [line] = caplog.messages
    assert line.startswith("left out:")
    assert str(folder / "en-de" / "weights") in line


def test_one_that_cannot_be_imported_leaves_the_others_and_nothing_behind(
    tmp_path: Path, imported: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "all"
    bad, good = package(folder / "bad"), package(folder / "good")
    [each] = found(folder)
    assert each.path == good
    assert caplog.messages == [f"left out: {bad}: its weights are damaged."], "one line"
    assert imports(folder / ".transduce") == [each.model.parent]
    found(folder)
    assert imported == ["bad", "good", "bad"], "a bad one is tried again: what it needs may be installed now"


def test_a_damaged_import_is_made_again(tmp_path: Path, imported: list[str]) -> None:
    folder = tmp_path / "all"
    package(folder / "en-de")
    [each] = found(folder)
    (each.model / "config.json").write_text("{", encoding="utf-8")
    assert found(folder) == [each]
    assert imported == ["en-de", "en-de"]


def test_of_processes_that_start_together_one_imports(
    tmp_path: Path, imported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "all"
    package(folder / "en-de")
    import_one, begun, go_on = module.import_package, threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> None:
        begun.set()
        assert go_on.wait(60)
        import_one(*arguments)

    monkeypatch.setattr(module, "import_package", slowly)
    # The second one waits: while it does, the first one ends.
    monkeypatch.setattr(files, "time", SimpleNamespace(time_ns=time.time_ns, sleep=lambda _: go_on.set()))
    with ThreadPoolExecutor() as threads:
        first = threads.submit(found, folder)
        assert begun.wait(60)
        assert found(folder) == first.result()
    assert imported == ["en-de"]


def test_imports_go_to_the_users_cache_where_the_folder_is_read_only(tmp_path: Path, imported: list[str]) -> None:
    folder = tmp_path / "all"
    package(folder / "en-de")
    (folder / ".transduce").write_text("so it is no folder", encoding="utf-8")
    [each] = found(folder)
    named = f"all-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:8]}"
    assert each.model.parents[1] == tmp_path / "cache" / "transduce" / "imports" / named
    assert found(folder) == [each]
    assert imported == ["en-de"]


def test_nothing_is_added_to_a_folder_that_may_be_that_of_argos_translate(tmp_path: Path, imported: list[str]) -> None:
    """Argos Translate and LibreTranslate end at once if theirs has a folder without metadata.json."""
    folder = tmp_path / "packages"
    package(folder / "en-fr")
    (folder / "translate-en_de-1_0").mkdir()
    (folder / "translate-en_de-1_0" / "metadata.json").write_text("{}", encoding="utf-8")
    assert [each.model.parents[2] for each in found(folder)] == 2 * [tmp_path / "cache" / "transduce" / "imports"]
    assert sorted(path.name for path in folder.iterdir()) == ["en-fr", "translate-en_de-1_0"]
    assert len(found(folder)) == len(imported) == 2


def test_where_nothing_can_be_written_the_package_is_left_out(
    tmp_path: Path, imported: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "all"
    package(folder / "en-de")
    (folder / ".transduce").symlink_to(tmp_path)  # it could lead to any place
    (tmp_path / "cache").write_text("so it is no folder", encoding="utf-8")
    assert found(folder) == []
    [line] = caplog.messages
    assert line.startswith(f"left out: {folder / 'en-de'}: {folder / '.transduce'} and ")
    assert line.endswith("cannot be written to. Set XDG_CACHE_HOME to a folder that can be.")
    assert imported == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: no such folder of models"):
        found(tmp_path / "nowhere")


def test_names_are_sorted_by_their_numbers() -> None:
    names = ["en_de-1_10", "en_de-1_9", "en_de-2", "a2b", "en_de", "a10"]
    expected = ["a2b", "a10", "en_de", "en_de-1_9", "en_de-1_10", "en_de-2"]
    assert [path.name for path in sorted(map(Path, names), key=by_preference)] == expected


# --- the process of an import ---------------------------------------------------------------------------------


def dies(*_: object) -> None:
    os._exit(9)


def test_the_end_of_the_process_is_an_error_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.serve.package_import._import", dies)
    with pytest.raises(BundleError, match=r"en-de: its import was ended \(exit status 9\)"):
        import_package(tmp_path / "en-de", tmp_path / "model", EngineConfig())


def test_what_is_wrong_with_a_package_is_told(tmp_path: Path) -> None:
    path = package(tmp_path / "en-de")
    with pytest.raises(BundleError, match=r"en-de/config.json: has no vocab_size"):
        import_package(path, tmp_path / "model", EngineConfig())
    assert not (tmp_path / "model").exists()
