"""Files and folders that are either whole or absent, also where the system has no exchange of names."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from transduce import files
from transduce.errors import BundleError, DataError


def write_folder(target: Path, text: str) -> None:
    with files.atomic_folder(target) as folder:
        (folder / "new.txt").write_text(text)


@pytest.fixture(params=[True, False], ids=["exchanged", "in two steps"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be replaced, with and without the system call for it."""
    if not request.param:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "old.txt").write_text("old")
    return tmp_path / "target"


def test_a_folder_replaces_another_and_leaves_nothing_beside_it(target: Path) -> None:
    write_folder(target, "new")
    assert [path.name for path in target.iterdir()] == ["new.txt"]
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Path.replace

    def failing(self: Path, destination: Any) -> Path:
        if self.name.endswith(".part"):
            raise OSError("the disk is gone")
        return replace(self, destination)

    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match="the disk is gone"):
        write_folder(target, "new")
    assert [path.name for path in target.iterdir()] == ["old.txt"]
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    for _ in range(2):
        with files.exclusive(tmp_path / "new") as first, files.exclusive(tmp_path / "new") as second:
            assert (first, second) == (True, False)


def test_names_change_in_one_step(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").touch()
    if not files._exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this system, or this file system, cannot exchange names")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.txt"]
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["a.txt"]
    assert not files._exchange(tmp_path / "a", tmp_path / "absent")


def test_what_could_be_lost_is_not_overwritten(tmp_path: Path) -> None:
    absent, empty, full, folder = (tmp_path / name for name in ("absent", "empty", "full", "folder"))
    empty.touch()
    full.write_text("mine")
    folder.mkdir()
    for free in (absent, empty, folder, Path("/dev/null"), Path("/dev/stdout"), Path("-")):
        files.require_free(free, overwrite=False)
    (folder / "mine").touch()
    for taken in (full, folder):
        with pytest.raises(DataError, match=rf"{taken}: exists already\. Add --overwrite .* another --output\."):
            files.require_free(taken, overwrite=False)
        files.require_free(taken, overwrite=True)
        with pytest.raises(BundleError, match=r"exists, and it is no model; it is left as it is"):
            files.require_free(taken, overwrite=True, foreign="it is no model", error=BundleError)
    with pytest.raises(DataError, match=r"to replace it\.$"):
        files.require_free(full, overwrite=False, option="")


def test_pipes_and_devices_are_written_to_and_stay(tmp_path: Path) -> None:
    assert not files.is_special(Path("/dev/shm/file"))
    assert files.is_special(Path("/dev/fd/63"))
    files.write_text(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as executor:
        read = executor.submit(pipe.read_text)
        files.write_text(pipe, "text")
        assert read.result() == "text"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
