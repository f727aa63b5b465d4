"""Extracts named files from tar, gz and zip archives that are not trusted."""

import errno
import gzip
import lzma
import posixpath
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from transduce.errors import DownloadError

_CHUNK_BYTES = 1 << 20
_MAX_MEMBERS = 100_000
_MAX_HEADER_BYTES = 1 << 20  # of the headers of one tar member, which `tarfile` reads into memory
_MAX_RATIO = 4  # of the size of all members to the allowed size of the extracted ones

_Member = tuple[str, int, Callable[[], Any] | None]  # name, size, what opens it: None for a folder or a link

_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    # The libraries raise these for invalid fields, encryption, and unknown methods:
    ValueError,
    OverflowError,
    RuntimeError,
    struct.error,
)


def extract(archive: Path, wanted: dict[str, Path], max_bytes: int) -> None:
    """Writes the member `name` of `archive` to `wanted[name]`, for each name.

    No path from the archive is ever written to. Even so, an archive is refused if any member has an absolute path or
    `..`, is a device, or is a link to outside: no corpus is packed like that. The member of a plain `.gz` file is
    called "". Archives inside an archive are not opened.

    Raises:
        DownloadError: the archive is damaged or unsafe, it has too many members, a member is missing or occurs twice,
            the extracted files exceed `max_bytes` together, or all members exceed it by far.
    """
    budget, missing = _Budget(archive, max_bytes), set(wanted)
    try:
        for name, size, open_member in _members(archive, is_plain="" in wanted):
            budget.add(name, size)
            if name not in wanted or open_member is None:
                continue
            if name not in missing:
                raise tarfile.TarError(f"member '{name}' occurs twice")
            with open_member() as source, wanted[name].open("wb") as target:
                budget.copy(source, target)
            missing.discard(name)
    except (*_DAMAGE, OSError) as error:
        # Others, such as a full disk, are not the archive's fault.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise DownloadError(f"{archive}: damaged or unsafe archive: {error}. Delete it and download again.") from None
    if missing:
        raise DownloadError(f"{archive}: has no file '{sorted(missing)[0]}'. Is this the right archive?")


def _check_member(name: str, link: str | None, regular: bool) -> None:
    """Refuses a member that could be written outside the target folder, or that links there."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    unsafe = not regular or ".." in parts or parts[:1] == ("/",) or ":" in "".join(parts[:1])
    unsafe = unsafe or not name.isprintable()
    if link is not None:
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
        unsafe = unsafe or link.startswith("/") or inside.startswith("..")
    if unsafe:
        raise tarfile.TarError(f"member {name!r} is a device, a path or a link that leads outside")


class _Budget:
    """Limits the size of what is extracted, so that a small archive cannot fill the disk."""

    def __init__(self, archive: Path, max_bytes: int) -> None:
        self._archive, self._max_bytes, self._used_bytes = archive, max_bytes, 0
        self._num_members = self._declared_bytes = 0

    def add(self, name: str, size: int) -> None:
        """Counts a member, extracted or not, with its size according to the archive."""
        self._num_members += 1
        self._declared_bytes += size
        if self._num_members > _MAX_MEMBERS:
            raise DownloadError(f"{self._archive}: has more than {_MAX_MEMBERS} members: refused at '{name}'.")
        if self._declared_bytes > _MAX_RATIO * self._max_bytes:
            most = _MAX_RATIO * self._max_bytes
            raise DownloadError(f"{self._archive}: its members have more than {most} bytes: refused at '{name}'.")

    def copy(self, source: IO[bytes] | gzip.GzipFile, target: IO[bytes]) -> None:
        while chunk := source.read(_CHUNK_BYTES):
            self._used_bytes += len(chunk)
            if self._used_bytes > self._max_bytes:
                raise DownloadError(f"{self._archive}: unpacks to more than {self._max_bytes} bytes: refused.")
            target.write(chunk)


class _TarMember(tarfile.TarInfo):
    """A member whose headers (name and attributes) are limited in length."""

    def _proc_member(self, tar: tarfile.TarFile) -> Any:
        if not (self.isreg() or self.isdir()) and self.size > _MAX_HEADER_BYTES:
            raise tarfile.TarError(f"the headers before '{self.name}' have {self.size} bytes")
        return super()._proc_member(tar)  # type: ignore[misc]


def _members(archive: Path, *, is_plain: bool) -> Iterator[_Member]:
    """Returns the members of an archive, checked; `is_plain` says that it is a plain `.gz` file."""
    if is_plain:
        return iter([("", 0, partial(gzip.open, archive))])
    return _zip_members(archive) if zipfile.is_zipfile(archive) else _tar_members(archive)


def _tar_members(archive: Path) -> Iterator[_Member]:
    with archive.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    # One pass: a compressed tar cannot be read backwards. `tarfile` itself does not compare gzip's checksum.
    with (
        gzip.open(archive, "rb") if is_gzip else archive.open("rb") as stream,
        tarfile.open(fileobj=stream, mode="r|" if is_gzip else "r|*", tarinfo=_TarMember) as tar,
    ):
        for member in tar:
            link = member.linkname if member.issym() or member.islnk() else None
            regular = member.isfile() and member.sparse is None
            _check_member(member.name, link, regular or member.isdir() or link is not None)
            open_member = partial(tar.extractfile, member) if member.isfile() else None
            yield str(PurePosixPath(member.name)), member.size, open_member
        # The checksum comes last: read on. Padding follows the members, a few kilobytes of it.
        if len(stream.read(_CHUNK_BYTES)) == _CHUNK_BYTES:
            raise tarfile.TarError("it goes on after its last member")


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            _check_member(member.filename, None, kind in (0, stat.S_IFREG, stat.S_IFDIR))
            open_member = None if member.is_dir() else partial(packed.open, member)
            yield str(PurePosixPath(member.filename)), member.file_size, open_member
