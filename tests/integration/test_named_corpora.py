"""Named corpora from a server on loopback: complete, resumed, wrong, refused, mirrored, unsafe."""

import ast
import gzip
import hashlib
import io
import json
import ssl
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from transduce.data import download as download_module
from transduce.data import named_corpora
from transduce.data.download import check_url, download
from transduce.data.named_corpora import NAMED_CORPORA, CorpusFile, NamedCorpus, RemoteFile, fetch, segments
from transduce.errors import ConfigError, DownloadError

BODY = bytes(range(256)) * 4000  # a megabyte
SHA256 = "sha256:" + hashlib.sha256(BODY).hexdigest()


@dataclass
class Server:
    """The files of the loopback server, and its faults."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)  # statuses to answer with first
    cut_after: list[int] = field(default_factory=list)  # bytes after which to hang up first
    ranges: bool = True
    redirect: str = ""
    answer: Callable[[BaseHTTPRequestHandler], None] | None = None  # in place of all this
    requests: list[str] = field(default_factory=list)  # the Range header of each

    def url(self, name: str) -> str:
        return f"{self.address}/{name}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download_module, "_PAUSES_SECONDS", (0.0, 0.0, 0.0))
    monkeypatch.delenv("TRANSDUCE_MIRROR", raising=False)
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            state.requests.append(wanted)
            if state.answer is not None:
                state.answer(self)
                return
            if state.redirect:
                self.send_response(302)
                self.send_header("Location", state.redirect)
                self.end_headers()
                return
            body = state.files.get(self.path.lstrip("/"))
            if state.failures or body is None:
                self.send_error(state.failures.pop(0) if state.failures else 404)
                return
            etag = '"' + hashlib.sha256(body).hexdigest()[:16] + '"'
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.ranges else 0
            if self.headers.get("If-Range", etag) != etag:
                start = 0
            if start >= len(body) > 0:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.send_header("ETag", etag)
            self.end_headers()
            end = start + state.cut_after.pop(0) if state.cut_after else len(body)
            self.wfile.write(body[start:end])

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.address = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if ".part" in p.name or p.name.startswith(".extract"))


# --- one file -------------------------------------------------------------------------------------------------


def test_whole_download(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert not leftovers(tmp_path)


def test_a_broken_connection_is_resumed(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    server.cut_after = [300_000, 200_000]
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert server.requests == ["", "bytes=300000-", "bytes=500000-"]


def test_a_tls_error_is_a_broken_connection(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["a.bin"] = BODY
    copy, times = download_module._copy, [1]

    def break_once(*arguments: Any) -> None:
        if times:
            times.clear()
            raise ssl.SSLError("record layer failure")
        copy(*arguments)

    monkeypatch.setattr(download_module, "_copy", break_once)
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert len(server.requests) == 2


def test_the_next_run_resumes(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    (tmp_path / "a.bin.part").write_bytes(BODY[:1000])
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert server.requests == ["bytes=1000-"]


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    server.ranges = False
    server.cut_after = [300_000]
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_a_complete_partial_file_is_used(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    (tmp_path / "a.bin.part").write_bytes(BODY)
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_a_partial_file_that_is_too_long_is_deleted(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    (tmp_path / "a.bin.part").write_bytes(BODY + b"more")
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_a_file_that_changed_on_the_server_starts_over(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY[::-1]
    server.cut_after = [1000]
    server.failures = []
    part = tmp_path / "a.bin.part"
    part.write_bytes(BODY[:5000])
    part.with_name(part.name + ".etag").write_text('"of another version"')
    download(server.url("a.bin"), tmp_path / "a.bin", progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY[::-1]


def test_temporary_errors_are_retried(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    server.failures = [503, 500, 429]
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_lasting_errors_give_advice(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    server.failures = [503] * 20
    with pytest.raises(DownloadError, match=r"503.*after 4 attempts.*TRANSDUCE_MIRROR"):
        download(server.url("a.bin"), tmp_path / "a.bin", progress=False)
    with pytest.raises(DownloadError, match="503"):
        download(server.url("a.bin"), tmp_path / "a.bin", progress=False)


def test_not_found_is_not_retried(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"none\.bin: the server answered 404"):
        download(server.url("none.bin"), tmp_path / "none.bin", progress=False)
    assert len(server.requests) == 1


def test_a_server_that_cannot_be_reached(tmp_path: Path, server: Server) -> None:
    with pytest.raises(DownloadError, match="cannot be reached"):
        download("http://127.0.0.1:9/a.bin", tmp_path / "a.bin", progress=False)


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY + b"!"
    with pytest.raises(DownloadError, match="was expected"):
        download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["http://example.org/a", "ftp://127.0.0.1/a", "file:///etc/passwd", "http://[::2]/a"])
def test_only_https(url: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="only https"):
        download(url, tmp_path / "a")


def test_https_and_loopback_are_allowed() -> None:
    for url in ("https://example.org/a", "http://localhost:1/a", "http://127.0.0.1/a", "http://[::1]/a"):
        check_url(url)


def test_a_redirect_to_plain_http_is_refused(server: Server, tmp_path: Path) -> None:
    server.redirect = "http://example.org/a.bin"
    with pytest.raises(DownloadError, match="only https"):
        download(server.url("a.bin"), tmp_path / "a.bin", progress=False)


# --- servers that never come to an end, or say odd things -----------------------------------------------------


def respond(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def fails(server: Server, folder: Path, match: str, **options: Any) -> None:
    with pytest.raises(DownloadError, match=match) as caught:
        download(server.url("a.bin"), folder / "a.bin", SHA256, progress=False, **options)
    assert server.url("a.bin") in str(caught.value)
    assert not (folder / "a.bin").exists()


def test_one_byte_an_attempt_is_no_progress(server: Server, tmp_path: Path) -> None:
    server.files["a.bin"] = BODY
    server.cut_after = [1] * 1000
    fails(server, tmp_path, "after 4 attempts")
    assert len(server.requests) == 4


def test_the_number_of_attempts_is_limited_despite_progress(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_module, "_PROGRESS_BYTES", 100)
    monkeypatch.setattr(download_module, "_MAX_ATTEMPTS", 7)
    server.files["a.bin"] = BODY
    server.cut_after = [200] * 1000
    fails(server, tmp_path, "after 7 attempts")
    assert (tmp_path / "a.bin.part").stat().st_size == 1400  # for the next run


def test_wrong_ranges_are_not_retried_for_ever(server: Server, tmp_path: Path) -> None:
    server.answer = lambda handler: respond(
        handler, 206, BODY[7:100], Content_Range=f"bytes 7-99/{len(BODY)}", Content_Length="93"
    )
    fails(server, tmp_path, "different range")


def test_all_attempts_together_have_a_deadline(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module, "_MAX_SECONDS", -1.0)
    server.files["a.bin"] = BODY
    server.cut_after = [500_000]
    fails(server, tmp_path, "not complete after")


def test_a_slow_connection_is_closed(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module, "_SLOW_SECONDS", 0.0)
    monkeypatch.setattr(download_module, "_SLOW_BYTES", len(BODY) + 1)  # as if the connection were slow
    server.files["a.bin"] = BODY
    fails(server, tmp_path, "the connection brought [0-9]+ bytes in 0 seconds")


@pytest.mark.parametrize("status", [201, 204, 203, 226, 299, 305, 418, 999])
def test_an_unexpected_status_is_an_error(status: int, server: Server, tmp_path: Path) -> None:
    server.answer = lambda handler: respond(handler, status, b"", Content_Length="0")
    fails(server, tmp_path, f"answered {status}")
    assert not leftovers(tmp_path)


def test_a_body_without_a_length_is_capped(server: Server, tmp_path: Path) -> None:
    server.answer = lambda handler: respond(handler, 200, BODY)
    fails(server, tmp_path, "longer than 1000 bytes: refused", max_bytes=1000)
    assert not leftovers(tmp_path) or (tmp_path / "a.bin.part").stat().st_size <= 1000


def test_a_length_beyond_the_cap_is_refused_at_once(server: Server, tmp_path: Path) -> None:
    server.answer = lambda handler: respond(handler, 200, b"", Content_Length=str(10**15))
    fails(server, tmp_path, "longer than")


@pytest.mark.parametrize("length", ["-5", "many", "٣", "5, 5"])
def test_a_length_that_is_no_number_is_none(length: str, server: Server, tmp_path: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: " + length.encode() + b"\r\n\r\n" + BODY)

    server.answer = answer
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_a_range_that_ends_early_is_continued(server: Server, tmp_path: Path) -> None:
    """A server may announce and send less than the rest of the file."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        start = int((handler.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        piece = BODY[start : start + 300_000]
        said = f"bytes {start}-{start + len(piece) - 1}/{len(BODY)}"
        respond(handler, 206, piece, Content_Range=said, Content_Length=str(len(piece)))

    server.answer = answer
    download(server.url("a.bin"), tmp_path / "a.bin", SHA256, progress=False)
    assert (tmp_path / "a.bin").read_bytes() == BODY


@pytest.mark.parametrize("ledger", ["{", "[]", '{"a": 1}', '{"a": "x"}', "[" * 100_000])
def test_a_damaged_checksums_file_is_named(
    ledger: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = RemoteFile(server.url("train.gz"))
    monkeypatch.setitem(NAMED_CORPORA, "toy", NamedCorpus("A toy.", "-", "-", (CorpusFile("train", remote),)))
    (tmp_path / "checksums.json").write_text(ledger)
    with pytest.raises(DownloadError, match=r"checksums\.json: damaged"):
        fetch("toy", tmp_path, progress=False)


# --- named sources --------------------------------------------------------------------------------------------

SGM = b'<refset><doc>\n<seg id="1"> A  & B. </seg>\n<seg id="2">C.</seg></doc></refset>'


def tar_of(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


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
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_segments_keep_order_and_one_line_each() -> None:
    assert segments('<seg id="1">a\nb</seg><SEG id="2"> c &amp; d </SEG><seg id="3"></seg>') == ["a b", "c &amp; d", ""]
