"""Files that are either whole or absent: atomic writes, checksums, protection against overwriting.

Everything that Transduce writes goes through here: to a temporary name next to the target, fsync, rename.
A crash leaves the old file or the new one, never half a file. Pipes and devices are written to directly.
"""

import contextlib
import errno
import fnmatch
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from transduce.errors import DataError, TransduceError

_MAX_JSON_BYTES = 64 << 20
# A file that changed more recently may change again within one tick of the file system's clock.
_SETTLED_NANOSECONDS = 2 * 10**9

_UMASK = os.umask(0o077)  # it can only be read by setting it
os.umask(_UMASK)

# A full disk, a used-up quota, a file too large for the file system; a folder that may not be written to.
_REFUSED_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)

# A temporary name: the target's, hidden, with eight random characters from `tempfile`.
_TEMPORARY = re.compile(r"\.(?P<target>.+)\.[a-z0-9_]{8}\.(?P<kind>part|old)")
_LOCK = ".lock"  # stays in a folder that a process has locked


def make_readable(path: Path) -> None:
    """Gives a file or folder the usual permissions of new ones; `tempfile` makes them for the owner alone."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~_UMASK)


def sync(path: Path) -> None:
    """Makes the contents of a file, or renames inside a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_special(path: Path) -> bool:
    """Returns whether `path` is written to in place: a pipe, a device, or a descriptor's name such as /dev/stdout.

    The name of a descriptor is written to in place even where the descriptor is one of a regular file.
    """
    folder = path.absolute().parent
    if folder == Path("/dev") or Path("/dev/fd") in (folder, *folder.parents) or Path("/proc") in folder.parents:
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def require_free(
    path: Path, *, overwrite: bool, foreign: str = "", error: type[TransduceError] = DataError, option: str = "--output"
) -> None:
    """Refuses an output that would replace something of the user's: a file that is not empty, a folder with files.

    Args:
        path: a file or folder to be written.
        overwrite: whether the user allows it to be replaced.
        foreign: why it may not be replaced even then, such as "it is not a model folder"; "" where it may.
        error: the class of the error.
        option: the option that names the path, for the message; "" if there is none.

    Raises:
        TransduceError: an `error`; something is at `path`, and may not be replaced, or `path` is "-".
    """
    if path == Path("-"):
        raise error(f"{option} -: standard output cannot be used here. Name a file or folder.".lstrip())
    if is_special(path):
        return
    if foreign and (path.is_file() or _holds_something(path)):
        raise error(f"{path}: exists, and {foreign}; it is left as it is. Name another {option}, or delete it.")
    if not overwrite and _holds_something(path):
        instead = f", or name another {option}" if option else ""
        raise error(f"{path}: exists already. Add --overwrite to replace it{instead}.")


def _holds_something(path: Path) -> bool:
    if path.is_dir():
        return any(each.name != _LOCK for each in path.iterdir())
    return path.is_file() and path.stat().st_size > 0


@contextlib.contextmanager
def atomic_path(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Yields a temporary path to write to; on success it becomes `target`, else it is removed.

    If `target` is a pipe or a device, the bytes are copied into it. A `private` file can be read by its owner only.
    """
    if is_special(target):
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder, f"output{target.suffix}")
            yield temporary
            with temporary.open("rb") as written, target.open("wb") as sink:
                shutil.copyfileobj(written, sink)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with _naming(target), _temporary(target, folder=False) as temporary:
        yield temporary
        if not private:
            make_readable(temporary)
        sync(temporary)
        temporary.replace(target)
        sync(target.parent)


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yields a temporary folder next to `target`; on success it replaces `target`."""
    if _TEMPORARY.fullmatch(target.name) and target.is_dir():  # such a folder itself, which has to stay locked
        yield target
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with _naming(target), _temporary(target, folder=True) as temporary:
        yield temporary
        make_readable(temporary)
        for file in filter(Path.is_file, temporary.rglob("*")):
            sync(file)
        sync(temporary)
        if not target.exists():
            temporary.replace(target)
        elif not _exchange(temporary, target):
            _replace_in_two_steps(temporary, target)
        sync(target.parent)


@contextlib.contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Puts the name of `target` into the error of a refused write: `write` names no file, `mkdtemp` a temporary one."""
    try:
        yield
    except OSError as error:
        is_temporary = isinstance(error.filename, str) and _TEMPORARY.fullmatch(Path(error.filename).name) is not None
        if error.errno in _REFUSED_WRITES and (error.filename is None or is_temporary):
            error.filename = str(target)
        raise


@contextlib.contextmanager
def _temporary(target: Path, *, folder: bool, suffix: str = ".part") -> Iterator[Path]:
    """Yields a new file or folder next to `target`, locked while in use; removes it at the end if it is still there."""
    while True:
        if folder:
            name = tempfile.mkdtemp(prefix=f".{target.name}.", suffix=suffix, dir=target.parent)
        else:
            created, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=suffix, dir=target.parent)
            os.close(created)
        path = Path(name)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # another process removed it before it was locked
            continue
        if lock(descriptor, without_locks=True) and path.exists():
            break
        os.close(descriptor)
    try:
        yield path
    finally:
        _remove(path)
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path, *targets: str) -> None:
    """Removes temporary files and folders that killed processes left in `folder`.

    A process holds a lock on what it is writing: only what no process writes is removed. A folder that was moved aside,
    and never replaced, gets its name back.

    Args:
        folder: where to look; it need not exist.
        targets: the names of what was being written, or patterns such as "step-*".
    """
    for path in [*folder.iterdir()] if folder.is_dir() else []:
        match = _TEMPORARY.fullmatch(path.name)
        if match is None or path.is_symlink() or not any(fnmatch.fnmatchcase(match["target"], t) for t in targets):
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:  # removed meanwhile, or another user's
            continue
        try:
            if lock(descriptor, without_locks=False):
                aside, target = path / match["target"], folder / match["target"]
                if match["kind"] == "old" and aside.exists() and not target.exists():
                    aside.replace(target)
                _remove(path)
        finally:
            os.close(descriptor)


def _exchange(first: Path, second: Path) -> bool:
    """Exchanges the names of two folders in one step, where the system can (Linux); returns whether it did."""
    import ctypes

    at_working_folder, exchange = -100, 2
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # another system, or an old C library
        return False
    return bool(renameat2(at_working_folder, bytes(first), at_working_folder, bytes(second), exchange) == 0)


def _replace_in_two_steps(folder: Path, target: Path) -> None:
    """Moves the old folder aside between the two steps, and puts it back if the second step fails."""
    with _temporary(target, folder=True, suffix=".old") as temporary:
        aside = temporary / target.name
        target.replace(aside)
        try:
            folder.replace(target)
        except BaseException:
            aside.replace(target)
            raise


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[bool]:
    """Locks `folder` for this block, and yields whether that worked; the lock ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _LOCK
    try:
        file: IO[bytes] = path.open("ab")  # a lock on NFS needs a file that is open for writing
    except PermissionError:
        if not path.exists():
            raise
        file = path.open("rb")  # another user made it
    with file:
        yield lock(file.fileno(), without_locks=True)


@contextlib.contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Locks `folder` for this block, after the processes that have locked it before."""
    while True:
        with exclusive(folder) as alone:
            if alone:
                yield
                return
        time.sleep(0.1)


def lock(descriptor: int, *, without_locks: bool, shared: bool = False) -> bool:
    """Locks an open file or folder until it is closed; returns whether that worked.

    Several processes may hold a `shared` lock. `without_locks` is returned where the system, or the file system, has no
    locks.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return without_locks
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return without_locks
    return True


def write_text(path: Path, text: str) -> None:
    """Writes `text` as UTF-8, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def sha256(path: Path) -> str:
    """Returns the file's SHA-256 as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_state(path: Path) -> tuple[int, ...] | None:
    """Returns device, inode, size and times of a file, which change when its content does.

    None where it changed a moment ago: it could change again and look the same.
    """
    status = path.stat()
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _SETTLED_NANOSECONDS:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


_known_digests: dict[tuple[int, ...], str] = {}


def cached_sha256(path: Path) -> str:
    """Returns the file's SHA-256, computed once in a process for each state of a file (`file_state`).

    Digests are not kept for later processes, on purpose. A disk error leaves size and times as they were, so a digest
    from before would hide it. Hashing is cheap compared with loading (a quarter of a second for 250 MB).
    """
    before = file_state(path)
    if before in _known_digests:
        return _known_digests[before]
    digest = sha256(path)
    if before is not None and file_state(path) == before:  # else it has changed since
        _known_digests[before] = digest
    return digest


def read_json(path: Path) -> Any:
    """Reads a JSON file of moderate size; an OSError passes.

    Raises:
        ValueError: it is not JSON, nested too deeply, too large, or has text that UTF-8 cannot encode.
    """
    with path.open("rb") as file:
        content = file.read(_MAX_JSON_BYTES + 1)  # a device such as /dev/zero has no size
    if len(content) > _MAX_JSON_BYTES:
        raise ValueError(f"larger than {_MAX_JSON_BYTES >> 20} MB")
    text = content.decode("utf-8")
    try:
        value = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads a JSON file that holds an object; raises as `read_json`, and ValueError for any other value."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object but {type(value).__name__}")
    return value
