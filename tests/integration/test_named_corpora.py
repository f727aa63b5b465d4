"""Named corpora from a server on loopback: fetched, extracted, verified, mirrored, unsafe."""

import ast
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from file_server import Server, leftovers, running_server
from made_archives import tar_of
from transduce.data import named_corpora
from transduce.data.named_corpora import NAMED_CORPORA, CorpusFile, NamedCorpus, RemoteFile, fetch, segments
from transduce.errors import ConfigError, DownloadError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with running_server(monkeypatch) as state:
        yield state


SGM = b'<refset><doc>\n<seg id="1"> A  & B. </seg>\n<seg id="2">C.</seg></doc></refset>'


@pytest.fixture
def toy(server: Server, monkeypatch: pytest.MonkeyPatch) -> NamedCorpus:
    """A source of every kind: plain gzip, a compressed tar, a test set in SGML, an unknown checksum."""
    server.files["train.en.gz"] = gzip.compress(b"one\ntwo\n")
    server.files["all.tgz"] = tar_of({"deep/train.de": b"eins\nzwei\n", "deep/test.sgm": SGM, "other": b"x"})
    archive = RemoteFile(server.url("all.tgz"), "sha256:" + hashlib.sha256(server.files["all.tgz"]).hexdigest())
    source = NamedCorpus(
        "toy",
        "here",
        "none",
        (
            CorpusFile(
                "train.en", RemoteFile(server.url("train.en.gz")), text_sha256=hashlib.sha256(b"one\ntwo\n").hexdigest()
            ),
            CorpusFile("train.de", archive, "deep/train.de"),
            CorpusFile("test.de", archive, "deep/test.sgm"),
        ),
    )
    monkeypatch.setitem(NAMED_CORPORA, "toy", source)
    return source


def texts(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in ("train.en", "train.de", "test.de")}


EXPECTED = {"train.en": "one\ntwo\n", "train.de": "eins\nzwei\n", "test.de": "A & B.\nC.\n"}


def test_fetch(server: Server, toy: NamedCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch("toy", tmp_path / "new")
    assert texts(tmp_path / "new") == EXPECTED
    assert not leftovers(tmp_path)
    shown = capsys.readouterr().out
    assert "terms: none" in shown
    assert hashlib.sha256(server.files["train.en.gz"]).hexdigest() in shown
    assert set(json.loads((tmp_path / "new/checksums.json").read_text(encoding="utf-8"))) == {"train.en.gz", "all.tgz"}


def test_a_second_fetch_downloads_nothing(server: Server, toy: NamedCorpus, tmp_path: Path) -> None:
    fetch("toy", tmp_path, progress=False)
    server.requests.clear()
    fetch("toy", tmp_path, progress=False)
    assert server.requests == []


def test_a_missing_file_is_extracted_from_the_kept_archive(server: Server, toy: NamedCorpus, tmp_path: Path) -> None:
    fetch("toy", tmp_path, progress=False)
    (tmp_path / "train.de").unlink()
    server.requests.clear()
    fetch("toy", tmp_path, progress=False)
    assert texts(tmp_path) == EXPECTED
    assert server.requests == []


def test_an_unknown_checksum_is_remembered(server: Server, toy: NamedCorpus, tmp_path: Path) -> None:
    fetch("toy", tmp_path, progress=False)
    (tmp_path / "train.en").unlink()
    (tmp_path / "downloads/train.en.gz").unlink()
    server.files["train.en.gz"] = gzip.compress(b"one\ntwo\n", compresslevel=1, mtime=7)
    with pytest.raises(DownloadError, match="was expected"):
        fetch("toy", tmp_path, progress=False)


def test_a_wrong_text_is_refused_and_not_kept(server: Server, toy: NamedCorpus, tmp_path: Path) -> None:
    right, server.files["train.en.gz"] = server.files["train.en.gz"], gzip.compress(b"one\nthree\n")
    with pytest.raises(DownloadError, match=r"train\.en from .* was expected"):
        fetch("toy", tmp_path, progress=False)
    assert not (tmp_path / "train.en").exists()
    server.files["train.en.gz"] = right
    fetch("toy", tmp_path, progress=False)
    assert texts(tmp_path) == EXPECTED


def test_a_wrong_archive_leaves_no_file(server: Server, toy: NamedCorpus, tmp_path: Path) -> None:
    server.files["all.tgz"] = tar_of({"deep/train.de": b"falsch\n", "deep/test.sgm": SGM})
    with pytest.raises(DownloadError, match="was expected"):
        fetch("toy", tmp_path, progress=False)
    assert not (tmp_path / "train.de").exists()
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_mirror_of_archives(
    server: Server, toy: NamedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, body in server.files.items():
        (mirror / name).write_bytes(body)
    if by_variable:
        monkeypatch.setenv("TRANSDUCE_MIRROR", str(mirror))
    fetch("toy", tmp_path / "out", mirror=None if by_variable else mirror, progress=False)
    assert texts(tmp_path / "out") == EXPECTED
    assert server.requests == []


def test_a_mirror_of_files(server: Server, toy: NamedCorpus, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, text in EXPECTED.items():
        (mirror / name).write_text(text)
    fetch("toy", tmp_path / "out", mirror=mirror, progress=False)
    assert texts(tmp_path / "out") == EXPECTED
    (mirror / "train.en").write_text("changed\n")
    with pytest.raises(DownloadError, match="was expected"):
        fetch("toy", tmp_path / "out2", mirror=mirror, progress=False)


def test_a_mirror_without_the_file(toy: NamedCorpus, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"train\.en\.gz: not in the mirror folder"):
        fetch("toy", tmp_path / "out", mirror=tmp_path, progress=False)


def test_an_unknown_name_is_suggested() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'multi30k-en-de'"):
        fetch("multi30k-ende", Path("nowhere"))


def test_every_corpus_is_https_and_unambiguous() -> None:
    for corpus in NAMED_CORPORA.values():
        names = [file.name for file in corpus.files]
        assert len(set(names)) == len(names)
        for file in corpus.files:
            assert file.remote.url.startswith("https://")
            assert file.remote.checksum or file.text_sha256
            assert file.member or file.remote.name == f"{file.name}.gz"


@pytest.mark.parametrize(("name", "other"), [("wmt14-en-de", "de"), ("wmt14-en-fr", "fr")])
def test_each_file_of_wmt14_has_the_text_of_its_language(name: str, other: str) -> None:
    members = {file.name: (file.remote.name, file.member) for file in NAMED_CORPORA[name].files}
    for side, kind in (("en", "src"), (other, "ref")):
        assert members[f"newstest2013.{side}"] == ("test.tgz", f"test/newstest2013-src.{side}.sgm")
        assert members[f"newstest2014.{side}"] == (
            "test-full.tgz",
            f"test-full/newstest2014-{other}en-{kind}.{side}.sgm",
        )
        for corpus, folder in (("europarl-v7", "training/"), ("commoncrawl", ""), ("news-commentary-v9", "training/")):
            file = f"{corpus}.{other}-en.{side}"
            assert members[file][1] == f"{folder}{file}"
    for file, (_, member) in members.items():  # the others too
        assert member.removesuffix(".sgm").removesuffix(".gz").endswith(Path(file.removesuffix(".gz")).suffix)


def test_a_new_corpus_is_one_entry() -> None:
    """No other module knows a corpus by its name, except the experiments, which use those of the paper."""
    source = Path(named_corpora.__file__).parents[1]
    modules = {path for path in source.rglob("*.py") if path.relative_to(source).parts[0] != "experiments"}
    for path in modules - {Path(named_corpora.__file__)}:
        texts = {
            node.value
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant)
        }
        assert not texts & NAMED_CORPORA.keys(), path


def test_an_unsafe_archive_leaves_nothing(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["evil.tgz"] = tar_of({"good": b"good\n", "../../evil": b"evil\n"})
    source = NamedCorpus("evil", "here", "none", (CorpusFile("good", RemoteFile(server.url("evil.tgz")), "good"),))
    monkeypatch.setitem(NAMED_CORPORA, "evil", source)
    with pytest.raises(DownloadError, match="unsafe"):
        fetch("evil", tmp_path / "in" / "out", progress=False)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [".lock"]  # of the folder of downloads


def test_segments_keep_order_and_one_line_each() -> None:
    assert segments('<seg id="1">a\nb</seg><SEG id="2"> c &amp; d </SEG><seg id="3"></seg>') == ["a b", "c &amp; d", ""]


@pytest.mark.parametrize("ledger", ["{", "[]", '{"a": 1}', '{"a": "x"}', "[" * 100_000])
def test_a_damaged_checksums_file_is_named(
    ledger: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = RemoteFile(server.url("train.gz"))
    monkeypatch.setitem(NAMED_CORPORA, "toy", NamedCorpus("A toy.", "-", "-", (CorpusFile("train", remote),)))
    (tmp_path / "checksums.json").write_text(ledger)
    with pytest.raises(DownloadError, match=r"checksums\.json: damaged"):
        fetch("toy", tmp_path, progress=False)
