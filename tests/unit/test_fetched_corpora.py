"""Named corpora without a server: what is kept, what is deleted, and which checksum a file must have."""

import gzip
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from transduce.data import named_corpora as module
from transduce.data.named_corpora import NAMED_CORPORA, CorpusFile, NamedCorpus, RemoteFile, fetch
from transduce.errors import DownloadError
from transduce.files import exclusive

ONE, TWO = b"one\n", b"two\n"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


FILES = {"one.gz": packed(ONE), "two.gz": packed(TWO)}


def named(monkeypatch: pytest.MonkeyPatch, **checksums: str | None) -> None:
    """Makes "toy" the name of two files; the checksum of each archive and of its text may be known."""
    files = []
    for name in ("one", "two"):
        remote = RemoteFile(f"https://example.org/{name}.gz", checksums.get(name), max_bytes=99)
        files.append(CorpusFile(f"{name}.en", remote, text_sha256=checksums.get(f"text_{name}")))
    monkeypatch.setitem(NAMED_CORPORA, "toy", NamedCorpus("A toy.", "its page", "its terms", tuple(files)))


@pytest.fixture
def downloaded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    asked: list[Any] = []

    def download(url: str, target: Path, checksum: str | None, **options: Any) -> None:
        asked.append((url, target, checksum, options))
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(FILES[target.name])

    monkeypatch.setattr(module, "download", download)
    return asked


def ledger(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "checksums.json").read_text())
    return found


def test_all_files_are_recorded_and_later_ones_must_be_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downloaded: list[Any]
) -> None:
    md5 = "md5:" + hashlib.md5(FILES["two.gz"]).hexdigest()
    named(monkeypatch, two=md5)
    folder, options = tmp_path / "data", {"max_bytes": 99, "progress": False}
    fetch("toy", folder, progress=False)
    first = [("https://example.org/one.gz", folder / "downloads/one.gz", None, options)]
    second = [("https://example.org/two.gz", folder / "downloads/two.gz", md5, options)]
    assert downloaded == first + second
    assert ledger(folder) == {name: digest(content) for name, content in FILES.items()}
    for name in ("one", "two"):
        (folder / f"{name}.en").unlink()
        (folder / f"downloads/{name}.gz").unlink()
    downloaded.clear()
    fetch("toy", folder, progress=False)
    assert [each[2] for each in downloaded] == [f"sha256:{digest(FILES['one.gz'])}", md5]
    assert [(folder / f"{name}.en").read_bytes() for name in ("one", "two")] == [ONE, TWO]


@pytest.mark.parametrize("known", [False, True])
def test_a_download_of_the_wrong_text_is_deleted_where_nothing_else_says_that_it_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downloaded: list[Any], known: bool
) -> None:
    checksum = f"sha256:{digest(FILES['one.gz'])}" if known else None
    named(monkeypatch, one=checksum, text_one=digest(b"another text"))
    with pytest.raises(DownloadError, match=r"one\.en from https://example\.org/one\.gz: .* was expected"):
        fetch("toy", tmp_path, progress=False)
    assert (tmp_path / "downloads/one.gz").exists() == known
    assert not (tmp_path / "checksums.json").exists()
    assert not (tmp_path / "one.en").exists()


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_the_files_of_a_mirror_stay_even_if_they_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downloaded: list[Any], by: str
) -> None:
    mirror, folder = tmp_path / "mirror", tmp_path / "data"
    mirror.mkdir()
    for name, content in FILES.items():
        (mirror / name).write_bytes(content)
    if by == "environment":
        monkeypatch.setenv("TRANSDUCE_MIRROR", str(mirror))
    given = {"mirror": mirror} if by == "argument" else {}
    named(monkeypatch, text_one=digest(b"another text"))
    with pytest.raises(DownloadError, match=r"was expected"):
        fetch("toy", folder, progress=False, **given)
    named(monkeypatch, text_one=digest(ONE))
    fetch("toy", folder, progress=False, **given)
    assert (folder / "one.en").read_bytes() == ONE
    assert {path.name: path.read_bytes() for path in mirror.iterdir()} == FILES
    assert not (folder / "downloads").exists()
    assert downloaded == []
    (folder / "two.en").unlink()
    (mirror / "two.gz").write_bytes(packed(ONE))  # it was another one at first
    with pytest.raises(DownloadError, match=r"two\.gz: the file has sha256"):
        fetch("toy", folder, progress=False, **given)


def test_two_processes_do_not_download_into_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downloaded: list[Any]
) -> None:
    """Both would write to the same partial files."""
    named(monkeypatch)
    with exclusive(tmp_path / "downloads"), pytest.raises(DownloadError, match=r"downloads: another process"):
        fetch("toy", tmp_path, progress=False)
    assert downloaded == []
    fetch("toy", tmp_path, progress=False)
    with exclusive(tmp_path / "downloads"):
        fetch("toy", tmp_path, progress=False)  # nothing is missing
    assert len(downloaded) == 2


def test_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downloaded: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    named(monkeypatch, two=f"sha256:{digest(FILES['two.gz'])}")
    fetch("toy", tmp_path)
    assert capsys.readouterr().out.splitlines() == [
        "toy: A toy.",
        "  from its page",
        "  terms: its terms",
        f"  one.gz: sha256 {digest(FILES['one.gz'])}, kept in {tmp_path / 'checksums.json'}",
    ]
    assert [options["progress"] for *_, options in downloaded] == [True, True]
    fetch("toy", tmp_path)
    assert capsys.readouterr().out == ""


def test_a_file_without_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downloaded: list[Any]) -> None:
    named(monkeypatch)
    monkeypatch.setitem(FILES, "one.gz", packed(b""))
    with pytest.raises(DownloadError, match=r"'one\.en' is empty\. Run the command again"):
        fetch("toy", tmp_path, progress=False)


def test_a_test_set_in_sgml_becomes_lines_unless_the_mirror_has_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed_set = io.BytesIO()
    with zipfile.ZipFile(packed_set, "w") as archive:
        archive.writestr("deep/test.sgm", '<doc><seg id="1"> A  line </seg><seg id="2">B</seg></doc>')
    file = CorpusFile("test.en", RemoteFile("https://example.org/all.zip"), "deep/test.sgm")
    monkeypatch.setitem(NAMED_CORPORA, "toy", NamedCorpus("A toy.", "-", "-", (file,)))
    for name, content, text in (
        ("all.zip", packed_set.getvalue(), "A line\nB\n"),
        ("test.en", b"a  line\n", "a  line\n"),
    ):
        mirror, folder = tmp_path / f"mirror of {name}", tmp_path / f"data of {name}"
        mirror.mkdir()
        (mirror / name).write_bytes(content)
        fetch("toy", folder, mirror=mirror, progress=False)
        assert (folder / "test.en").read_text() == text
        assert (folder / "checksums.json").exists() == (name == "all.zip")
