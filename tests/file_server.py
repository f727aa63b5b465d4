"""A file server on loopback, and the ways in which it may fail."""

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from transduce.data import download as download_module


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


@contextlib.contextmanager
def running_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serves files on loopback, without pauses between attempts."""
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
