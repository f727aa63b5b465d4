"""Files and folders that are either whole or absent, also where the system has no exchange of names."""

import errno
import os
import resource
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from transduce import files
from transduce.config.checked_json import read_or_empty
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


def test_a_folder_replaces_another_and_leaves_no_other_files(target: Path) -> None:
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


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Returns the list that gets each fsync and each renaming, with the name that it was of."""
    calls: list[tuple[str, str]] = []
    replace, exchange, fsync = Path.replace, files._exchange, os.fsync

    def name_of(descriptor: int) -> str:
        found = os.fstat(descriptor)
        return next((path.name for path in seen() if os.path.samestat(path.stat(), found)), "?")

    def seen() -> list[Path]:
        return [folder, *folder.rglob("*")]

    def renamed(self: Path, target: Any) -> Path:
        calls.append(("rename", Path(target).name))
        return replace(self, target)

    def exchanged(first: Path, second: Path) -> bool:
        done = exchange(first, second)
        calls.extend([("rename", second.name)] if done else [])
        return done

    def synced(descriptor: int) -> None:
        calls.append(("sync", name_of(descriptor)))
        fsync(descriptor)

    folder = Path()
    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr(files, "_exchange", exchanged)
    monkeypatch.setattr(files.os, "fsync", synced)
    return calls


def test_what_is_written_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the name, before the call returns: a machine that loses its power keeps the old or the new, never a half."""
    monkeypatch.chdir(tmp_path)
    target = Path("target")
    calls = recorded(monkeypatch)
    files.write_text(target, "text")
    (temporary, *rest) = calls
    assert temporary[0] == "sync"
    assert temporary[1].startswith(".target.")
    assert rest == [("rename", "target"), ("sync", "")]
    for again in (False, True):  # anew, and over one that stands there
        calls.clear()
        write_folder(Path("folder"), "text")
        assert calls[0] == ("sync", "new.txt")
        assert calls[1][1].startswith(".folder.")
        assert ("rename", "folder") in calls[2:], again
        assert calls[-1] == ("sync", "")
        assert calls.index(("sync", "new.txt")) < calls.index(("rename", "folder"))


def left_by_a_killed_process(folder: Path, name: str) -> Path:
    """Returns a temporary folder that nobody holds."""
    path = folder / name
    path.mkdir()
    (path / "half.txt").touch()
    return path


def test_what_a_killed_process_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    for name in (".target.abcdefgh.part", ".target.00_00_00.old"):
        left_by_a_killed_process(tmp_path, name)
    (tmp_path / ".target.xxxxxxxx.part").touch()
    foreign = {".target.abc.part", ".other.abcdefgh.part", "target.abcdefgh.part", ".target.ABCDEFGH.part", ".target"}
    for name in foreign:
        left_by_a_killed_process(tmp_path, name)
    with files.atomic_folder(tmp_path / "target") as held, files.atomic_path(tmp_path / "target.txt") as held_file:
        files.remove_leftovers(tmp_path, "target", "target.txt")
        assert held.is_dir()
        assert held_file.is_file()
        assert {path.name for path in tmp_path.iterdir()} == foreign | {held.name, held_file.name}
    assert {path.name for path in tmp_path.iterdir()} == foreign | {"target", "target.txt"}
    files.remove_leftovers(tmp_path / "absent", "target")


def test_a_folder_stays_locked_while_another_function_writes_all_of_it(tmp_path: Path) -> None:
    with files.atomic_folder(tmp_path / "target") as outer:
        with files.atomic_folder(outer) as inner:
            (inner / "whole.txt").touch()
        files.remove_leftovers(tmp_path, "target")
        assert (outer / "whole.txt").is_file()
    assert [path.name for path in tmp_path.rglob("*")] == ["target", "whole.txt"]


def test_a_folder_replaces_a_link_to_one_and_leaves_what_it_named(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "old.txt").touch()
    (tmp_path / "target").symlink_to("old")
    with files.atomic_folder(tmp_path / "target") as folder:
        (folder / "new.txt").touch()
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {
        *("old", "old/old.txt", "target", "target/new.txt")
    }
    assert not (tmp_path / "target").is_symlink()


def test_a_process_killed_between_two_renamings_loses_nothing(tmp_path: Path) -> None:
    """Where names cannot be exchanged, the old folder is set aside for an instant: it gets its name back."""
    (tmp_path / ".target.abcdefgh.old" / "target").mkdir(parents=True)
    (tmp_path / ".target.abcdefgh.old" / "target" / "old.txt").write_text("old")
    files.remove_leftovers(tmp_path, "target")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert (tmp_path / "target" / "old.txt").read_text() == "old"


def test_what_was_set_aside_does_not_replace_what_is_there(tmp_path: Path) -> None:
    (tmp_path / ".target.abcdefgh.old" / "target").mkdir(parents=True)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "new.txt").touch()
    (tmp_path / ".target.ijklmnop.part").symlink_to(tmp_path / "target")  # which no process of ours makes
    files.remove_leftovers(tmp_path, "target")
    assert {path.name for path in tmp_path.iterdir()} == {"target", ".target.ijklmnop.part"}
    assert (tmp_path / "target" / "new.txt").is_file()


def test_a_file_whose_name_is_that_of_standard_output_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("x")
    with pytest.raises(DataError, match=r"^--report -: standard output cannot be used here\. Name a file"):
        files.require_free(Path("-"), overwrite=True, option="--report")
    with pytest.raises(DataError, match="exists already"):
        files.require_free(tmp_path / "-", overwrite=False)


@pytest.mark.parametrize("text", ["", "[1]", "null", '{"a": ' * 100_000, "\udcff"])
def test_anything_but_a_json_object_is_a_value_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=r"."):
        files.read_json_object(tmp_path / "a.json")


def test_a_device_or_a_pipe_in_the_place_of_a_json_file_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "zeros.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ValueError, match="larger than 64 MB"):
        files.read_json(tmp_path / "zeros.json")
    assert [read_or_empty(tmp_path / name) for name in ("zeros.json", "pipe.json")] == [{}, {}]


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    for _ in range(2):
        with files.exclusive(tmp_path / "new") as first, files.exclusive(tmp_path / "new") as second:
            assert (first, second) == (True, False)


def test_a_file_that_changed_a_moment_ago_has_no_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems note times to two seconds only: another change within them would look the same."""
    path = tmp_path / "a.txt"
    path.write_text("a")
    status = path.stat()
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    for seconds, settled in ((0.0, False), (1.9, False), (2.1, True)):
        monkeypatch.setattr(files.time, "time_ns", lambda now=changed + int(seconds * 1e9): now)
        assert (files.file_state(path) is not None) == settled


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
    with files.exclusive(folder):  # as a command that failed left it
        pass
    for free in (absent, empty, folder, Path("/dev/null"), Path("/dev/stdout")):
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


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_disk_that_is_full_is_told_with_the_name_of_what_was_being_written(tmp_path: Path, as_folder: bool) -> None:
    """A limit on file size takes the part of a full disk; the system's own error names no file."""
    write = write_folder if as_folder else files.write_text
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*/target'"):
            write(tmp_path / "target", "x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_refused_write_names_the_target_and_not_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_folder: bool
) -> None:
    def refuse(*_: Any, dir: Path, prefix: str, suffix: str) -> Any:
        raise OSError(errno.EROFS, "Read-only file system", str(Path(dir, f"{prefix}k849t8sg{suffix}")))

    monkeypatch.setattr(tempfile, "mkdtemp" if as_folder else "mkstemp", refuse)
    opened = (files.atomic_folder if as_folder else files.atomic_path)(tmp_path / "output")
    with pytest.raises(OSError, match="Read-only") as caught, opened:
        pass
    assert caught.value.filename == str(tmp_path / "output")


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_files_and_folders_have_the_rights_that_this_user_gives_to_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    monkeypatch.setattr(files, "_UMASK", umask)
    files.write_text(tmp_path / "file", "text")
    write_folder(tmp_path / "folder", "text")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~umask
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o777 & ~umask


def test_a_system_without_locks_is_one_where_nobody_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with files.exclusive(tmp_path) as first, files.exclusive(tmp_path) as second:
        assert first
        assert second


def test_a_folder_whose_lock_file_another_user_made_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def refuse_to_write(path: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "a" in mode:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, mode, *rest, **options)

    with files.exclusive(tmp_path):
        monkeypatch.setattr(Path, "open", refuse_to_write)
        with files.exclusive(tmp_path) as second:
            assert not second
    with files.exclusive(tmp_path) as alone:
        assert alone
    (tmp_path / "other").mkdir()
    with pytest.raises(PermissionError), files.exclusive(tmp_path / "other"):
        pass
