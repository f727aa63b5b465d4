"""Downloads from a server on loopback: complete, resumed, wrong, refused, endless."""

import hashlib
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from file_server import Server, leftovers, running_server
from transduce.data import download as download_module
from transduce.data.download import check_url, download
from transduce.errors import DownloadError

BODY = bytes(range(256)) * 4000  # a megabyte
SHA256 = "sha256:" + hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with running_server(monkeypatch) as state:
        state.files["a.bin"] = BODY
        yield state


def fetch(server: Server, folder: Path) -> None:
    download(server.url("a.bin"), folder / "a.bin", SHA256, progress=False)
    assert (folder / "a.bin").read_bytes() == BODY


# --- one file -------------------------------------------------------------------------------------------------


def test_whole_download(server: Server, tmp_path: Path) -> None:
    fetch(server, tmp_path)
    assert not leftovers(tmp_path)


def test_a_broken_connection_is_resumed(server: Server, tmp_path: Path) -> None:
    server.cut_after = [300_000, 200_000]
    fetch(server, tmp_path)
    assert server.requests == ["", "bytes=300000-", "bytes=500000-"]


def test_a_tls_error_is_a_broken_connection(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, times = download_module._copy, [1]

    def break_once(*arguments: Any) -> None:
        if times:
            times.clear()
            raise ssl.SSLError("record layer failure")
        copy(*arguments)

    monkeypatch.setattr(download_module, "_copy", break_once)
    fetch(server, tmp_path)
    assert len(server.requests) == 2


def test_the_next_run_resumes(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY[:1000])
    fetch(server, tmp_path)
    assert server.requests == ["bytes=1000-"]


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    server.cut_after = [300_000]
    fetch(server, tmp_path)


def test_a_complete_partial_file_is_used(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY)
    fetch(server, tmp_path)


def test_a_partial_file_that_is_too_long_is_deleted(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BODY + b"more")
    fetch(server, tmp_path)


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
    server.failures = [503, 500, 429]
    fetch(server, tmp_path)


def test_lasting_errors_give_advice(server: Server, tmp_path: Path) -> None:
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
    server.cut_after = [1] * 1000
    fails(server, tmp_path, "after 4 attempts")
    assert len(server.requests) == 4


def test_the_number_of_attempts_is_limited_despite_progress(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_module, "_PROGRESS_BYTES", 100)
    monkeypatch.setattr(download_module, "_MAX_ATTEMPTS", 7)
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
    server.cut_after = [500_000]
    fails(server, tmp_path, "not complete after")


def test_a_slow_connection_is_closed(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module, "_SLOW_SECONDS", 0.0)
    monkeypatch.setattr(download_module, "_SLOW_BYTES", len(BODY) + 1)  # as if the connection were slow
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
    fetch(server, tmp_path)


def test_a_range_that_ends_early_is_continued(server: Server, tmp_path: Path) -> None:
    """A server may announce and send less than the rest of the file."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        start = int((handler.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        piece = BODY[start : start + 300_000]
        said = f"bytes {start}-{start + len(piece) - 1}/{len(BODY)}"
        respond(handler, 206, piece, Content_Range=said, Content_Length=str(len(piece)))

    server.answer = answer
    fetch(server, tmp_path)
