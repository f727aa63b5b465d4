"""Downloads a file over HTTPS: interrupted downloads are resumed, temporary errors retried, checksums verified."""

import contextlib
import hashlib
import http.client
import ipaddress
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from transduce.__about__ import __version__
from transduce.errors import DownloadError
from transduce.files import sync

_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60.0
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)  # between attempts without progress; then the download fails
_PROGRESS_BYTES = 1 << 20  # an attempt that brings so much counts as progress
_MAX_ATTEMPTS = 100
_MAX_SECONDS = 24 * 3600.0  # for all attempts of one run; the next run resumes
_SLOW_SECONDS, _SLOW_BYTES = 60.0, 60 << 10  # a slower connection is closed
MAX_BYTES = 8_000_000_000  # if no other limit is known
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses that may be temporary


_RANGE = re.compile(r"bytes (\d{1,19})-\d{1,19}/(\d{1,19}|\*)", re.ASCII)


class _Interrupted(Exception):
    """This attempt failed; the next may succeed."""


@dataclass(frozen=True)
class _Limits:
    """The maximum size of a file, and the deadline (`time.monotonic`) for its download."""

    url: str
    max_bytes: int
    deadline: float

    def check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise DownloadError(f"{self.url}: is longer than {self.max_bytes} bytes: refused. Is it the right address?")

    def check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise DownloadError(f"{self.url}: not complete after {_MAX_SECONDS / 3600:.0f} hours. {advice(self.url)}")


def check_url(url: str) -> None:
    """Refuses everything but HTTPS, and HTTP to loopback addresses.

    Raises:
        DownloadError: the URL is neither.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https":
        return
    loopback = parts.hostname == "localhost"
    with contextlib.suppress(ValueError):
        loopback = loopback or ipaddress.ip_address(parts.hostname or "").is_loopback
    if parts.scheme != "http" or not loopback:
        raise DownloadError(f"{url}: only https addresses are allowed.")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to allowed addresses."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_SafeRedirects)


def download(
    url: str, target: Path, checksum: str | None = None, *, max_bytes: int = MAX_BYTES, progress: bool = True
) -> None:
    """Downloads `url` to `target`, which appears only when it is complete and verified.

    A partial download is kept in `<target>.part` for the next attempt or the next run.

    Args:
        url: the address.
        target: the file to write.
        checksum: `sha256:…` or `md5:…`; None if unknown: then only the length is checked.
        max_bytes: maximum size of the file, even if the server announces another length.
        progress: whether to show a progress bar.

    Raises:
        DownloadError: the server refuses, cannot be reached after several attempts, is too slow, or sends a wrong or
            too long file.
    """
    check_url(url)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    limits = _Limits(url, max_bytes, deadline=time.monotonic() + _MAX_SECONDS)
    failures = attempts = 0
    while True:
        before = _size(part)
        attempts += 1
        try:
            _fetch(url, part, limits, progress=progress)
            break
        except _Interrupted as error:
            # An attempt with progress does not count as a failure.
            failures = 0 if _size(part) >= before + _PROGRESS_BYTES else failures + 1
            if failures > len(_PAUSES_SECONDS) or attempts == _MAX_ATTEMPTS:
                raise DownloadError(f"{url}: {error}, after {attempts} attempts. {advice(url)}") from None
            time.sleep(_PAUSES_SECONDS[failures - 1] if failures else 0)
            limits.check_time()
        except DownloadError:
            if _size(part) > max_bytes:
                part.unlink()
            raise
    _finish(url, part, target, checksum)


def advice(url: str) -> str:
    """Returns what to do if a download fails."""
    name = url.rsplit("/", 1)[-1]
    return (
        "Run the command again to resume. Or get the file in another way, save it as "
        f"'{name}' in a folder, and set the environment variable TRANSDUCE_MIRROR to that folder."
    )


def _fetch(url: str, part: Path, limits: _Limits, *, progress: bool) -> None:
    """Makes one attempt to complete `part`."""
    have = _size(part)
    validator = part.with_name(part.name + ".etag")
    headers = {"User-Agent": f"transduce/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if validator.is_file():  # if the file has changed, the server then sends all of it
            headers["If-Range"] = validator.read_text(encoding="utf-8")
    request = urllib.request.Request(url, headers=headers)
    try:
        with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as response:
            if response.status not in (200, 206):
                raise DownloadError(f"{url}: the server answered {response.status} and no file. {advice(url)}")
            start, total = _content_range(response)
            resumed = response.status == 206 and start == have
            if response.status == 206 and not resumed:
                part.unlink(missing_ok=True)
                raise _Interrupted("the server sent a different range than requested")
            if not resumed:
                have = 0
                _remember(validator, response.headers.get("ETag", ""))
                total = response.length
            limits.check_size(total or 0)
            with part.open("ab" if resumed else "wb") as file:
                _copy(response, file, have, total, limits, part.name.removesuffix(".part") if progress else "")
    except urllib.error.HTTPError as error:
        with error:
            _explain(url, part, error)
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise DownloadError(f"{url}: the server's certificate is not valid: {error.reason}.") from None
        raise _Interrupted(f"cannot be reached ({error.reason})") from None
    except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
        raise _Interrupted(f"the connection broke ({error or type(error).__name__})") from None


def _copy(response: Any, file: IO[bytes], have: int, total: int | None, limits: _Limits, name: str) -> None:
    slow_since, slow_bytes = time.monotonic(), 0
    with tqdm(total=total, initial=have, unit="B", unit_scale=True, desc=name, disable=not name) as bar:
        while chunk := response.read1(_CHUNK_BYTES):  # read1 returns early, so that the time is checked
            have += len(chunk)
            limits.check_size(have)
            file.write(chunk)
            bar.update(len(chunk))
            slow_bytes += len(chunk)
            now = time.monotonic()
            if now - slow_since >= _SLOW_SECONDS:
                limits.check_time()
                if slow_bytes < _SLOW_BYTES:
                    raise _Interrupted(f"the connection brought {slow_bytes} bytes in {now - slow_since:.0f} seconds")
                slow_since, slow_bytes = now, 0
    if total is not None and have < total:
        raise _Interrupted(f"the connection broke at {have} of {total} bytes")


def _explain(url: str, part: Path, error: urllib.error.HTTPError) -> None:
    """Turns an HTTP error into another attempt, a success, or an error message."""
    if error.code == 416:  # our part is complete, or too long
        if (error.headers.get("Content-Range") or "").removeprefix("bytes */") == str(_size(part)):
            return
        part.unlink(missing_ok=True)
        raise _Interrupted("the partial file does not match the file on the server") from None
    if error.code in _TEMPORARY:
        raise _Interrupted(f"the server answered {error.code} {error.reason}") from None
    raise DownloadError(f"{url}: the server answered {error.code} {error.reason}. {advice(url)}") from None


def _finish(url: str, part: Path, target: Path, checksum: str | None) -> None:
    part.with_name(part.name + ".etag").unlink(missing_ok=True)
    if checksum is not None:
        try:
            verify(part, checksum, url)
        except DownloadError:
            part.unlink()
            raise
    sync(part)
    part.replace(target)
    sync(target.parent)


def verify(path: Path, checksum: str, origin: str) -> None:
    """Compares the file with `checksum`, which is `sha256:…` or `md5:…`.

    Raises:
        DownloadError: they differ; `origin` says where the file came from.
    """
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != expected:
        raise DownloadError(
            f"{origin}: the file has {algorithm} {found}, but {expected} was expected. It is damaged, or has changed "
            "on the server, and is not used. Try again, or get the file from somewhere else."
        )


def _content_range(response: Any) -> tuple[int, int | None]:
    """Returns first byte and total length from `Content-Range: bytes 100-199/200`; -1 and None if it is missing."""
    found = _RANGE.fullmatch(response.headers.get("Content-Range") or "")
    if found is None:
        return -1, None
    return int(found[1]), None if found[2] == "*" else int(found[2])


def _remember(validator: Path, etag: str) -> None:
    """Stores the ETag of this version of the file, unless it is a weak one, which does not guarantee equal bytes."""
    if etag and not etag.startswith("W/"):
        validator.write_text(etag, encoding="utf-8")
    else:
        validator.unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
