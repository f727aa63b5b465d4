"""Taking named files out of tar, gz and zip archives that came from elsewhere and are not trusted."""

import gzip
import lzma
import posixpath
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from transduce.errors import DownloadError

_CHUNK_BYTES = 1 << 20


def extract(archive: Path, wanted: dict[str, Path], max_bytes: int) -> None:
    """Writes the member `name` of `archive` to `wanted[name]`, for each name.

    No path that the archive names is ever written to. Even so, an archive is refused as a whole if any member has
    an absolute path, climbs with `..`, links out, or is a device: nobody packs a corpus so. The member of a
    plain `.gz` file is called "".

    Raises:
        DownloadError: the archive is damaged or unsafe, a member is missing, or all together exceed `max_bytes`.
    """
    budget = _Budget(archive, max_bytes)
    try:
        if "" in wanted:
            with gzip.open(archive, "rb") as file, wanted[""].open("wb") as target:
                budget.copy(file, target)
            missing = set(wanted) - {""}
        elif zipfile.is_zipfile(archive):
            missing = _from_zip(archive, wanted, budget)
        else:
            missing = _from_tar(archive, wanted, budget)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DownloadError(f"{archive}: damaged or unsafe archive: {error}. Delete it and download again.") from None
    if missing:
        raise DownloadError(f"{archive}: has no file '{sorted(missing)[0]}'. Is it the right archive?")


def _check_member(name: str, link: str | None, regular: bool) -> None:
    """Refuses a member that could be written, or could lead, to outside the folder it is unpacked in."""
    unsafe = not regular or name.startswith(("/", "\\")) or ".." in PurePosixPath(name.replace("\\", "/")).parts
    if link is not None:
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
        unsafe = unsafe or link.startswith("/") or inside.startswith("..")
    if unsafe:
        raise tarfile.TarError(f"member '{name}' is a device, a path or a link that leads outside")


class _Budget:
    """Counts what comes out of an archive, so that a small file cannot fill the disk."""

    def __init__(self, archive: Path, max_bytes: int) -> None:
        self._archive, self._max_bytes, self._used_bytes = archive, max_bytes, 0

    def copy(self, source: IO[bytes] | gzip.GzipFile, target: IO[bytes]) -> None:
        while chunk := source.read(_CHUNK_BYTES):
            self._used_bytes += len(chunk)
            if self._used_bytes > self._max_bytes:
                raise DownloadError(f"{self._archive}: unpacks to more than {self._max_bytes} bytes: refused.")
            target.write(chunk)


def _from_tar(archive: Path, wanted: dict[str, Path], budget: _Budget) -> set[str]:
    missing = set(wanted)
    with tarfile.open(archive, "r|*") as tar:  # one pass: a compressed tar cannot be read backwards
        for member in tar:
            link = member.linkname if member.issym() or member.islnk() else None
            _check_member(member.name, link, member.isfile() or member.isdir() or link is not None)
            name = str(PurePosixPath(member.name))
            if name not in wanted or not member.isfile():
                continue
            source = tar.extractfile(member)
            assert source is not None  # it is a regular file
            with source, wanted[name].open("wb") as target:
                budget.copy(source, target)
            missing.discard(name)
    return missing


def _from_zip(archive: Path, wanted: dict[str, Path], budget: _Budget) -> set[str]:
    missing = set(wanted)
    with zipfile.ZipFile(archive) as packed:
        for member in packed.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            _check_member(member.filename, None, kind in (0, stat.S_IFREG, stat.S_IFDIR))
            path = PurePosixPath(member.filename)
            if str(path) in wanted and not member.is_dir():
                with packed.open(member) as source, wanted[str(path)].open("wb") as target:
                    budget.copy(source, target)
                missing.discard(str(path))
    return missing
