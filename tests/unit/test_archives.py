"""Archives that are not trusted: unsafe ones are refused, damaged and oversized ones reported."""

import contextlib
import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from made_archives import tar_of
from transduce.data import archives
from transduce.data.archives import extract
from transduce.errors import DownloadError


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


def link_out_of_a_folder(member: tarfile.TarInfo) -> None:
    member.name, member.type, member.linkname = "folder/evil", tarfile.SYMTYPE, "../../etc"  # "folder" is left as well


def hard_link_out(member: tarfile.TarInfo) -> None:
    member.type, member.linkname = tarfile.LNKTYPE, "/etc/passwd"


def device(member: tarfile.TarInfo) -> None:
    member.type = tarfile.CHRTYPE


@pytest.mark.parametrize("change", [absolute, climbing, link_out, link_out_of_a_folder, hard_link_out, device])
def test_an_unsafe_tar_is_refused(tmp_path: Path, change: Callable[[tarfile.TarInfo], None]) -> None:
    (tmp_path / "evil.tgz").write_bytes(evil_tar(change))
    with pytest.raises(DownloadError, match="unsafe"):
        extract(tmp_path / "evil.tgz", {"good": tmp_path / "out"}, 1000)
    assert not (tmp_path / "evil").exists()


def test_links_that_stay_inside_are_passed_over(tmp_path: Path) -> None:
    def link(member: tarfile.TarInfo) -> None:
        member.name, member.type, member.linkname = "folder/link", tarfile.SYMTYPE, "../good"

    (tmp_path / "a.tgz").write_bytes(evil_tar(link))
    extract(tmp_path / "a.tgz", {"good": tmp_path / "out"}, 1000)
    assert (tmp_path / "out").read_text() == "good\n"


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
    (tmp_path / "two.tgz").write_bytes(tar_of({"x": bytes(600), "y": bytes(600)}))
    with pytest.raises(DownloadError, match="unpacks to more than 1000 bytes"):
        extract(tmp_path / "two.tgz", {"x": tmp_path / "out", "y": tmp_path / "out2"}, 1000)
    (tmp_path / "a.tgz").write_bytes(tar_of({"x": b"x"}))
    with pytest.raises(DownloadError, match="has no file 'y'"):
        extract(tmp_path / "a.tgz", {"y": tmp_path / "out"}, 1000)
    (tmp_path / "half.tgz").write_bytes(tar_of({"x": bytes(range(256)) * 4000})[:2000])
    with pytest.raises(DownloadError, match="damaged"):
        extract(tmp_path / "half.tgz", {"x": tmp_path / "out"}, 10_000_000)
    (tmp_path / "text.gz").write_bytes(b"<html>not found</html>")
    with pytest.raises(DownloadError, match="damaged"):
        extract(tmp_path / "text.gz", {"": tmp_path / "out"}, 1000)


# --- what tries to fill disk or memory, and what is odd -------------------------------------------------------


def refused(folder: Path, name: str, match: str, max_bytes: int = 1000) -> None:
    with pytest.raises(DownloadError, match=match) as caught:
        extract(folder / name, {"good": folder / "out"}, max_bytes)
    assert name in str(caught.value)


def test_what_is_passed_over_counts_too(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(tar_of({"bomb": bytes(5000), "good": b"good\n"}))
    refused(tmp_path, "a.tgz", "more than 4000 bytes: refused at 'bomb'")
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("bomb", bytes(5000))
        packed.writestr("good", "good\n")
    refused(tmp_path, "a.zip", "more than 4000 bytes: refused at 'bomb'")


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_MAX_MEMBERS", 10)
    (tmp_path / "a.tar").write_bytes(tar_of({str(i): b"" for i in range(11)} | {"good": b"x"}, "w"))
    refused(tmp_path, "a.tar", "more than 10 members: refused at '10'")


def test_a_member_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of({"good": b"one", "./good": b"two"}, "w"))
    refused(tmp_path, "a.tar", "'good' occurs twice")


def test_a_tar_with_a_boundless_header_is_refused_unread(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        header = tarfile.TarInfo("attributes")
        header.type, header.size = tarfile.XHDTYPE, 3 << 20
        tar.addfile(header, io.BytesIO(bytes(3 << 20)))
    (tmp_path / "a.tgz").write_bytes(buffer.getvalue())
    refused(tmp_path, "a.tgz", "the headers before 'attributes' have 3145728 bytes", max_bytes=1 << 30)


@pytest.mark.parametrize("name", ["C:/evil", "C:evil", "a\nb", "\x1b[2Jevil", "\u202egnp.evil"])
def test_odd_names_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of({"good": b"good\n", name: b""}, "w"))
    refused(tmp_path, "a.tar", "unsafe")


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        link = zipfile.ZipInfo("good")
        link.external_attr = 0o120777 << 16
        packed.writestr(link, "/etc/passwd")
    refused(tmp_path, "a.zip", "unsafe")


def test_an_archive_in_an_archive_is_not_opened(tmp_path: Path) -> None:
    inner = tar_of({"good": b"good\n"})
    (tmp_path / "a.tar").write_bytes(tar_of({"inner.tgz": inner}, "w"))
    refused(tmp_path, "a.tar", "has no file 'good'", max_bytes=1 << 20)


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.zip", "a.txz", "a.tbz2"])
def test_damage_anywhere_is_reported(name: str, tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % i for i in range(200))
    if name == "a.zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("good", text)
        whole = buffer.getvalue()
    else:
        mode = {"a.tar": "w", "a.tgz": "w:gz", "a.txz": "w:xz", "a.tbz2": "w:bz2"}[name]
        whole = tar_of({"good": text}, mode)
    random = Random(name)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(random.randrange(1, 4)):
            damaged[random.randrange(min(len(damaged), 700))] = random.randrange(256)
        (tmp_path / name).write_bytes(damaged[: random.randrange(len(whole))] if random.random() < 0.3 else damaged)
        (tmp_path / "out").unlink(missing_ok=True)
        with contextlib.suppress(DownloadError):  # a byte that means nothing does no harm
            extract(tmp_path / name, {"good": tmp_path / "out"}, 10_000)
            assert name == "a.tar" or (tmp_path / "out").read_bytes() == text  # tar alone has no checksum of the data


def test_the_limits_of_an_archive() -> None:
    """A hundred thousand members, four times the allowed size of the extracted files, and that size."""
    budget = archives._Budget(Path("a.tar"), 10)
    for number in range(100_000):
        budget.add(f"{number}", 0)
    with pytest.raises(DownloadError, match="has more than 100000 members: refused at 'last'"):
        budget.add("last", 0)
    budget = archives._Budget(Path("a.tar"), 10)
    budget.add("one", 15)
    budget.add("two", 25)
    with pytest.raises(DownloadError, match="its members have more than 40 bytes: refused at 'three'"):
        budget.add("three", 1)
    budget.copy(io.BytesIO(b"x" * 4), io.BytesIO())
    budget.copy(io.BytesIO(b"x" * 6), io.BytesIO())
    with pytest.raises(DownloadError, match="unpacks to more than 10 bytes"):
        budget.copy(io.BytesIO(b"x"), io.BytesIO())
