"""Files that are either whole or absent: atomic writes, checksums.

Everything that Transduce writes goes through here: to a temporary name beside the target, fsync, rename.
A crash leaves the old file or the new one, never a half of either.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd


_UMASK = os.umask(0o077)  # it can only be asked for by setting it
os.umask(_UMASK)


def make_readable(path: Path) -> None:
    """Gives a file that was made for its owner alone the rights that new files of this user have."""
    path.chmod(0o666 & ~_UMASK)


def sync_folder(folder: Path) -> None:
    """Makes renames inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Makes the contents of `path` durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yields a temporary path beside `target` to write to; on success it becomes `target`, else it is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        make_readable(temporary)
        sync_file(temporary)
        temporary.replace(target)
        sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yields a temporary folder beside `target`; on success it becomes `target`, replacing what stood there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        for file in temporary.rglob("*"):
            if file.is_file():
                sync_file(file)
        sync_folder(temporary)
        if not target.exists():
            temporary.replace(target)
        elif not _exchange(temporary, target):
            _replace_in_two_steps(temporary, target)
        sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # after an exchange, what stood there before


def _exchange(first: Path, second: Path) -> bool:
    """Makes two folders change names in one step, where the system can (Linux); returns whether it did."""
    import ctypes

    at_working_folder, exchange = -100, 2
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # another system, or an old C library
        return False
    names = (os.fsencode(first), os.fsencode(second))
    return bool(renameat2(at_working_folder, names[0], at_working_folder, names[1], exchange) == 0)


def _replace_in_two_steps(folder: Path, target: Path) -> None:
    """Sets the old folder aside for the instant in between, and puts it back should the second step fail."""
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent)) / target.name
    target.replace(aside)
    try:
        folder.replace(target)
    except BaseException:
        aside.replace(target)
        raise
    finally:
        shutil.rmtree(aside.parent)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[bool]:
    """Holds `folder` for this block alone, and yields whether it could be had; a process that dies lets go of it."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        except OSError:  # a file system without locks: nobody can tell
            free = True
        yield free


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
