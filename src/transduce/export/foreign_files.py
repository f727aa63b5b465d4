"""The files of a download: a folder, or an archive that is never unpacked; both are read by name ("model/model.bin").

An archive comes from a stranger. It is refused where a name leads out of it or is a link, where two members have one
name, where it has too many files, or where they are far larger than what is stored. Members are read into memory, at
most as many bytes as the archive declares.
"""

import json
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from transduce.errors import BundleError
from transduce.export.checkpoint_files import MOST_MODEL_BYTES

_MOST_MEMBERS = 10_000
_MOST_BYTES = 32 << 30  # of all members together, unpacked
_MOST_RATIO = 100  # of a member's bytes to those stored: weights reach 2, vocabularies 5
_SMALL_BYTES = 1 << 20  # a member of this size may have any ratio
_DAMAGED = (OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error)


class ForeignFiles(ABC):
    """The files of a download, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path  # for messages

    @abstractmethod
    def names(self) -> list[str]:
        """Returns the names of all files, those in folders too."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Returns the bytes of a file; raises BundleError where it is missing."""

    @abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """Opens a file; raises what `reading` turns into a BundleError."""

    @abstractmethod
    def where(self, name: str) -> str:
        """Returns how messages name a file."""

    def within(self, folder: str) -> "ForeignFiles":
        """Returns the files in a folder of these."""
        return _Within(self, folder)

    def has(self, name: str) -> bool:
        """Returns whether there is a file of this name."""
        return name in self.names()

    @contextmanager
    def reading(self, name: str) -> Iterator[IO[bytes]]:
        """Opens a file; errors of reading it become a BundleError that names it."""
        try:
            with self.open(name) as stream:
                yield stream
        except _DAMAGED as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise BundleError(f"{self.where(name)}: cannot be read: {reason}. Download it again.") from None

    def read(self, name: str) -> bytes:
        """Returns what a small file holds; raises BundleError where it is too large, or damaged."""
        if (size := self.size(name)) > MOST_MODEL_BYTES:
            raise BundleError(f"{self.where(name)}: has {size:,} bytes: at most {MOST_MODEL_BYTES:,} are read.")
        with self.reading(name) as stream:
            return stream.read(MOST_MODEL_BYTES + 1)

    def text(self, name: str) -> str:
        """Returns the text of a small file; raises BundleError where it is no UTF-8."""
        try:
            return self.read(name).decode()
        except UnicodeDecodeError as error:
            raise BundleError(f"{self.where(name)}: damaged: not UTF-8 at byte {error.start}.") from None

    def json(self, name: str) -> Any:
        """Returns the value in a JSON file; raises BundleError where it is damaged."""
        try:
            return json.loads(self.text(name))
        except (ValueError, RecursionError) as error:
            raise BundleError(f"{self.where(name)}: damaged: {error}. Download it again.") from None

    def json_object(self, name: str) -> dict[str, Any]:
        """Returns the table in a JSON file; raises BundleError where it is damaged, or something else."""
        value = self.json(name)
        if not isinstance(value, dict):
            raise BundleError(f"{self.where(name)}: damaged: not a JSON object but {type(value).__name__}.")
        return value


class FolderFiles(ForeignFiles):
    """The files of a folder."""

    def names(self) -> list[str]:
        """Returns the names of all files, those in folders of it too."""
        return sorted(str(each.relative_to(self.path)) for each in self.path.rglob("*") if each.is_file())

    def has(self, name: str) -> bool:
        """Returns whether there is a file of this name."""
        return (self.path / name).is_file()

    def size(self, name: str) -> int:
        """Returns the bytes of a file."""
        if not self.has(name):
            raise BundleError(f"{self.path}: {name} missing. Download it again.")
        return (self.path / name).stat().st_size

    def open(self, name: str) -> IO[bytes]:
        """Opens a file."""
        return (self.path / name).open("rb")

    def where(self, name: str) -> str:
        """Returns the path of a file."""
        return str(self.path / name)


class ArchiveFiles(ForeignFiles):
    """The files of a zip archive. A folder that all of them are in is no part of their names."""

    def __init__(self, path: Path) -> None:
        """Checks all members before any is read.

        Raises:
            BundleError: it is no archive, is damaged, or is hostile.
        """
        super().__init__(path)
        try:
            self._archive = zipfile.ZipFile(path)
            members = self._archive.infolist()
        except _DAMAGED as error:
            raise BundleError(f"{path}: no archive that can be read: {error}. Download it again.") from None
        _require_safe(path, members)
        found = {member.filename: member for member in members if not member.is_dir()}
        tops = {PurePosixPath(name).parts[0] for name in found}
        top = f"{tops.pop()}/" if len(tops) == 1 and all("/" in name for name in found) else ""
        self._members = {name.removeprefix(top): member for name, member in found.items()}

    def names(self) -> list[str]:
        """Returns the names of all members that are files."""
        return sorted(self._members)

    def size(self, name: str) -> int:
        """Returns the bytes that the archive declares for a member."""
        if name not in self._members:
            raise BundleError(f"{self.path}: {name} missing in it. Download it again.")
        return self._members[name].file_size

    def open(self, name: str) -> IO[bytes]:
        """Opens a member."""
        return self._archive.open(self._members[name])

    def where(self, name: str) -> str:
        """Returns the archive's path and the member's name."""
        return f"{self.path}: {name}"


class _Within(ForeignFiles):
    def __init__(self, outer: ForeignFiles, folder: str) -> None:
        super().__init__(outer.path / folder)
        self._outer, self._prefix = outer, f"{folder}/"

    def names(self) -> list[str]:
        return [name.removeprefix(self._prefix) for name in self._outer.names() if name.startswith(self._prefix)]

    def size(self, name: str) -> int:
        return self._outer.size(self._prefix + name)

    def open(self, name: str) -> IO[bytes]:
        return self._outer.open(self._prefix + name)

    def where(self, name: str) -> str:
        return self._outer.where(self._prefix + name)


def _require_safe(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Raises BundleError, naming the member, where an archive could do harm."""
    if len(members) > _MOST_MEMBERS:
        raise BundleError(f"{path}: has {len(members):,} files: at most {_MOST_MEMBERS:,} are read.")
    total, seen = 0, set()
    for member in members:
        if reason := _harm(member) or ("occurs twice" if member.filename in seen else ""):
            raise BundleError(f"{path}: not opened: {member.filename[:80]!r} {reason}.")
        seen.add(member.filename)
        total += member.file_size
    if total > _MOST_BYTES:
        raise BundleError(f"{path}: not opened: its files have {total:,} bytes, more than the {_MOST_BYTES:,} allowed.")


def _harm(member: zipfile.ZipInfo) -> str:
    """Returns why a member is refused, in words; "" where it is not."""
    name = member.orig_filename
    parts = name.removesuffix("/").split("/")
    if not name.isprintable() or "\\" in name or ":" in name or any(part in ("", ".", "..") for part in parts):
        return "is no plain name inside of it"
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device"
    if member.flag_bits & 1:
        return "is encrypted"
    if member.file_size > max(_SMALL_BYTES, _MOST_RATIO * member.compress_size):
        return f"has {member.file_size:,} bytes, packed into {member.compress_size:,}"
    return ""
