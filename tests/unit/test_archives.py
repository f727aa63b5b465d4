"""Archives that are not trusted: unsafe ones are refused, damaged and oversized ones reported."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from transduce.data.archives import extract
from transduce.errors import DownloadError


def tar_of(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def evil_tar(change: Callable[[tarfile.TarInfo], None]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        good = tarfile.TarInfo("good")
        good.size = 5
        tar.addfile(good, io.BytesIO(b"good\n"))
        evil = tarfile.TarInfo("evil")
        change(evil)
        tar.addfile(evil, io.BytesIO(b""))
    return buffer.getvalue()


def absolute(member: tarfile.TarInfo) -> None:
    member.name = "/tmp/evil"


def climbing(member: tarfile.TarInfo) -> None:
    member.name = "a/../../evil"


def link_out(member: tarfile.TarInfo) -> None:
    member.type, member.linkname = tarfile.SYMTYPE, "../../etc/passwd"


def hard_link_out(member: tarfile.TarInfo) -> None:
    member.type, member.linkname = tarfile.LNKTYPE, "/etc/passwd"


def device(member: tarfile.TarInfo) -> None:
    member.type = tarfile.CHRTYPE


@pytest.mark.parametrize("change", [absolute, climbing, link_out, hard_link_out, device])
def test_an_unsafe_tar_is_refused(tmp_path: Path, change: Callable[[tarfile.TarInfo], None]) -> None:
    (tmp_path / "evil.tgz").write_bytes(evil_tar(change))
    with pytest.raises(DownloadError, match="unsafe"):
        extract(tmp_path / "evil.tgz", {"good": tmp_path / "out"}, 1000)
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("name", ["../evil", "/evil", "a\\..\\..\\evil"])
def test_an_unsafe_zip_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("good", "good\n")
        packed.writestr(name, "evil\n")
    with pytest.raises(DownloadError, match="unsafe"):
        extract(tmp_path / "a.zip", {"good": tmp_path / "good"}, 100)


def test_zip_tar_and_gzip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("deep/x", "zip\n")
    (tmp_path / "a.tar").write_bytes(tar_of({"./deep/x": b"tar\n"}, "w"))
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"gz\n"))
    for name, member, text in (("a.zip", "deep/x", "zip\n"), ("a.tar", "deep/x", "tar\n"), ("a.gz", "", "gz\n")):
        extract(tmp_path / name, {member: tmp_path / "out"}, 100)
        assert (tmp_path / "out").read_text() == text


def test_too_large_missing_and_damaged(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(DownloadError, match="more than 1000 bytes"):
        extract(tmp_path / "bomb.gz", {"": tmp_path / "out"}, 1000)
    (tmp_path / "a.tgz").write_bytes(tar_of({"x": b"x"}))
    with pytest.raises(DownloadError, match="has no file 'y'"):
        extract(tmp_path / "a.tgz", {"y": tmp_path / "out"}, 1000)
    (tmp_path / "half.tgz").write_bytes(tar_of({"x": bytes(range(256)) * 4000})[:2000])
    with pytest.raises(DownloadError, match="damaged"):
        extract(tmp_path / "half.tgz", {"x": tmp_path / "out"}, 10_000_000)
    (tmp_path / "text.gz").write_bytes(b"<html>not found</html>")
    with pytest.raises(DownloadError, match="damaged"):
        extract(tmp_path / "text.gz", {"": tmp_path / "out"}, 1000)
