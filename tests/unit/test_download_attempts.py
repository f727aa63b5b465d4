"""How an attempt to download a file is made, when it counts as a failure, and how long the next one waits."""

import hashlib
import io
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request

import pytest

from transduce.__about__ import __version__
from transduce.data import download as module
from transduce.data.download import _content_range, _explain, _fetch, _Interrupted, _Limits, _remember, download
from transduce.errors import DownloadError

URL = "https://example.org/deep/a.bin"
MIB = 1 << 20
LIMITS = _Limits(URL, 10 * MIB, deadline=1e9)


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.pauses = 1000.0, list[float]()
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module.time, "sleep", self.pauses.append)


class Response:
    """An answer whose pieces take some seconds each."""

    def __init__(
        self, pieces: list[bytes], *, status: int = 200, clock: Clock | None = None, seconds: float = 0, **headers: str
    ) -> None:
        self.status, self._pieces, self._clock, self._seconds = status, iter(pieces), clock, seconds
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.length: int | None = sum(map(len, pieces))

    def __enter__(self) -> "Response":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read1(self, _: int) -> bytes:
        if self._clock:
            self._clock.now += self._seconds
        return next(self._pieces, b"")


def copied(response: Response, limits: _Limits = LIMITS) -> bytes:
    file = io.BytesIO()
    module._copy(response, file, 0, response.length, limits, "")
    return file.getvalue()


@pytest.mark.parametrize("in_a_minute", [61_440, 61_439])
def test_a_connection_is_slow_by_what_it_brought_in_the_last_minute(
    monkeypatch: pytest.MonkeyPatch, in_a_minute: int
) -> None:
    """Pieces come twice a minute. The first minute brings much, the second 60 KiB, or a byte less."""
    pieces = [b"x" * 400_000, b"x" * 600_000, b"y" * 40_000, b"y" * (in_a_minute - 40_000), b"z"]
    response = Response(pieces, clock=Clock(monkeypatch), seconds=30)
    if in_a_minute == 61_440:
        assert copied(response) == b"".join(pieces)
        return
    with pytest.raises(_Interrupted, match=r"the connection brought 61439 bytes in 60 seconds"):
        copied(response)


def test_the_deadline_holds_within_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [b"x" * 100_000] * 4
    assert copied(Response(pieces, clock=Clock(monkeypatch), seconds=60), _Limits(URL, MIB, 1240.0))
    with pytest.raises(DownloadError, match=r"not complete after 24 hours\. Run the command again to resume"):
        copied(Response(pieces, clock=Clock(monkeypatch), seconds=60), _Limits(URL, MIB, 1239.0))


def test_a_file_of_just_the_largest_size_is_taken() -> None:
    assert copied(Response([b"abc", b"de"]), _Limits(URL, 5, 1e9)) == b"abcde"
    with pytest.raises(DownloadError, match="is longer than 4 bytes: refused"):
        copied(Response([b"abc", b"de"]), _Limits(URL, 4, 1e9))


def test_pauses_grow_until_an_attempt_makes_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attempts without progress, one with it, and then five without it, which are too many."""
    clock, sizes = Clock(monkeypatch), iter([0, MIB - 1, MIB - 1 + MIB])

    def fetch(url: str, part: Path, *_: object, **__: object) -> None:
        part.write_bytes(b"x" * next(sizes, part.stat().st_size if part.exists() else 0))
        raise _Interrupted("broken")

    monkeypatch.setattr(module, "_fetch", fetch)
    with pytest.raises(DownloadError, match=r"a\.bin: broken, after 8 attempts\. Run the command again to resume"):
        download(URL, tmp_path / "a.bin")
    assert clock.pauses == [1, 2, 0, 1, 2, 4, 8]
    assert (tmp_path / "a.bin.part").stat().st_size == 2 * MIB - 1


def test_which_answers_may_be_temporary(tmp_path: Path) -> None:
    found, messages = [], set()
    for status in range(400, 600):
        error = HTTPError(URL, status, "reason", Message(), None)
        try:
            _explain(URL, tmp_path / "a.bin.part", error)
        except _Interrupted:
            found.append(status)
        except DownloadError as refused:
            messages.add(str(refused).replace(str(status), "N").partition(" Or ")[0])
    assert found == [408, 416, 425, 429, 500, 502, 503, 504]
    assert messages == {f"{URL}: the server answered N reason. Run the command again to resume."}


@pytest.mark.parametrize(("total", "whole"), [("bytes */3", True), ("bytes */4", False), ("", False)])
def test_a_range_that_is_refused_may_mean_that_the_file_is_whole(tmp_path: Path, total: str, whole: bool) -> None:
    part = tmp_path / "a.bin.part"
    part.write_bytes(b"abc")
    headers = Message()
    headers["Content-Range"] = total
    error = HTTPError(URL, 416, "reason", headers, None)
    if whole:
        _explain(URL, part, error)
    else:
        with pytest.raises(_Interrupted, match="does not match the file on the server"):
            _explain(URL, part, error)
    assert part.exists() == whole


@dataclass
class Server:
    """What was requested, with the seconds to wait, and the answers in order."""

    requests: list[tuple[Request, float]] = field(default_factory=list)
    answers: list[Response] = field(default_factory=list)

    def open(self, request: Request, timeout: float) -> Response:
        self.requests.append((request, timeout))
        return self.answers.pop(0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(module, "_OPENER", server)
    return server


def test_what_is_asked_of_the_server(tmp_path: Path, server: Server) -> None:
    part, etag = tmp_path / "a.part", tmp_path / "a.part.etag"
    server.answers.extend(
        [
            Response([b"abc"], ETag='"v1"'),
            Response([b"de"], status=206, Content_Range="bytes 3-4/5", ETag='"v1"'),
            Response([b"new"], ETag='W/"v2"'),
            Response([b"er"], status=206, Content_Range="bytes 3-4/*"),
        ]
    )
    for text, validator in ((b"abc", '"v1"'), (b"abcde", '"v1"'), (b"new", None), (b"newer", None)):
        _fetch(URL, part, LIMITS, progress=False)
        assert part.read_bytes() == text
        assert (etag.read_text() if etag.exists() else None) == validator
    headers = [{name.lower(): value for name, value in request.header_items()} for request, _ in server.requests]
    always = {"user-agent": f"transduce/{__version__}", "accept-encoding": "identity"}
    assert headers == [
        always,
        {**always, "range": "bytes=3-", "if-range": '"v1"'},
        {**always, "range": "bytes=5-", "if-range": '"v1"'},
        {**always, "range": "bytes=3-"},
    ]
    assert {(request.full_url, timeout) for request, timeout in server.requests} == {(URL, 60.0)}


def test_a_file_that_ends_early_is_not_whole(tmp_path: Path, server: Server) -> None:
    part = tmp_path / "a.part"
    part.write_bytes(b"abc")
    server.answers.append(Response([b"de"], status=206, Content_Range="bytes 3-5/6"))
    with pytest.raises(_Interrupted, match="the connection broke at 5 of 6 bytes"):
        _fetch(URL, part, LIMITS, progress=False)
    server.answers.append(Response([b"x"], status=206, Content_Range="bytes 4-5/6"))
    with pytest.raises(_Interrupted, match="a different range than requested"):
        _fetch(URL, part, LIMITS, progress=False)
    assert not part.exists()


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("bytes 100-199/200", (100, 200)),
        ("bytes 0-4/*", (0, None)),
        ("bytes */200", (-1, None)),
        ("items 0-4/5", (-1, None)),
        ("bytes 0-4/5 ", (-1, None)),
        (None, (-1, None)),
    ],
)
def test_ranges(header: str | None, found: tuple[int, int | None]) -> None:
    assert _content_range(Response([], **({"Content_Range": header} if header else {}))) == found


def test_a_version_is_forgotten_where_the_next_has_no_name(tmp_path: Path) -> None:
    for etag, kept in (('"a"', '"a"'), ('W/"a"', None), ('"b"', '"b"'), ("", None)):
        _remember(tmp_path / "etag", etag)
        assert ((tmp_path / "etag").read_text() if (tmp_path / "etag").exists() else None) == kept


@pytest.mark.parametrize(("given", "limit"), [({}, 8_000_000_000), ({"max_bytes": 5 * MIB}, 5 * MIB)])
def test_there_are_a_hundred_attempts_in_a_day_even_with_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, int], limit: int
) -> None:
    clock, limits = Clock(monkeypatch), list[_Limits]()

    def fetch(url: str, part: Path, found: _Limits, *, progress: bool) -> None:
        limits.append(found)
        part.touch()
        monkeypatch.setattr(module, "_size", lambda _: len(limits) * MIB)
        raise _Interrupted("broken")

    monkeypatch.setattr(module, "_fetch", fetch)
    with pytest.raises(DownloadError, match="after 100 attempts"):
        download(URL, tmp_path / "a.bin", **given)
    assert clock.pauses == [0] * 99
    assert set(limits) == {_Limits(URL, limit, clock.now + 24 * 3600)}


def test_a_file_that_is_whole_is_checked_and_moved(tmp_path: Path, server: Server) -> None:
    checksum = "md5:" + hashlib.md5(b"abc").hexdigest()
    for sent in (b"abd", b"abc"):
        server.answers.append(Response([sent], ETag='"v1"'))
        if sent == b"abd":
            with pytest.raises(DownloadError, match=r"a\.bin: the file has md5 .* was expected"):
                download(URL, tmp_path / "deep" / "a.bin", checksum, progress=False)
            assert list((tmp_path / "deep").iterdir()) == []
    download(URL, tmp_path / "deep" / "a.bin", checksum, progress=False)
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "deep").iterdir()] == [("a.bin", b"abc")]
