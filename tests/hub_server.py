"""A server on loopback that speaks the protocol of the Hugging Face Hub, and the ways in which it may fail."""

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAME = "owner/opus-mt-en-de"
PYTHON = Path(sys.executable)  # what fetches; a test may put one here that starts faster
_LARGE = (".safetensors", ".bin", ".h5", ".msgpack", ".ot", ".pt", ".spm", ".onnx")  # kept by Git LFS
_RESOLVE = re.compile(r"/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_INFO = re.compile(r"/api/models/(?P<name>[^/]+/[^/]+)(/revision/(?P<revision>[^/]+))?")
# What has a meaning for the library, or leads elsewhere.
_FOREIGN = re.compile(r"(HF|HUGGING_?FACE|TRANSFORMERS|XDG)_.*|(.*_)?proxy", re.IGNORECASE)


def git_digest(content: bytes) -> str:
    """Returns the name that Git gives to a file: `git hash-object` prints it."""
    return hashlib.sha1(b"blob " + str(len(content)).encode() + b"\0" + content).hexdigest()


@dataclass
class HubServer:
    """The commits of one repository, its requests, and the faults."""

    address: str = ""
    elsewhere: str = ""  # the same server by another name, as large files are kept elsewhere
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)  # METHOD path
    ranges: list[str] = field(default_factory=list)  # of the requests for large files
    tokens: dict[str, set[str]] = field(default_factory=dict)  # sent to each of the two hosts
    sent: Counter[str] = field(default_factory=Counter)  # bytes of each large file
    refusal: tuple[int, dict[str, str]] | None = None  # answers everything but large files
    failing: int = 0  # status that answers requests for large files
    cuts: list[int] = field(default_factory=list)  # bytes of a large file after which to hang up, first to last
    replaced: dict[str, bytes] = field(default_factory=dict)  # sent in place of a file
    sizes: dict[str, int] = field(default_factory=dict)  # listed in place of the true ones
    silent: bool = False  # accepts requests and never answers
    stopped: threading.Event = field(default_factory=threading.Event)

    def push(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Makes a commit of these files, and returns its hash."""
        digests = json.dumps({name: git_digest(content) for name, content in files.items()}, sort_keys=True)
        commit = hashlib.sha1(digests.encode()).hexdigest()
        self.commits[commit] = dict(files)
        self.branches[branch] = commit
        return commit

    def new_requests(self) -> list[str]:
        """Returns the requests since the last call."""
        found, self.requests = self.requests, []
        return found


@contextlib.contextmanager
def running_hub() -> Iterator[HubServer]:
    """Serves a repository on loopback."""
    state = HubServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urllib.parse.unquote(self.path.partition("?")[0])
            state.requests.append(f"{self.command} {url}")
            host = self.headers["Host"].partition(":")[0]
            state.tokens.setdefault(host, set()).add(self.headers.get("Authorization", ""))
            if state.silent:
                state.stopped.wait(60)
            elif url.startswith("/lfs/"):
                self.send_large(url.removeprefix("/lfs/"))
            elif state.refusal is not None:
                self.answer(*state.refusal)
            elif found := _INFO.fullmatch(url):
                self.send_info(found["name"], found["revision"] or "main")
            elif found := _RESOLVE.fullmatch(url):
                self.send_file(found["name"], found["revision"], found["file"])
            else:
                self.answer(404, {})

        do_HEAD = do_GET

        def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
            self.send_response(status)
            for key, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def find(self, name: str, revision: str) -> str | None:
            """Returns the commit, or None after the answer that there is none."""
            commit = state.branches.get(revision, revision)
            if name != NAME:
                self.answer(401, {"X-Error-Code": "RepoNotFound"})
            elif commit not in state.commits:
                self.answer(404, {"X-Error-Code": "RevisionNotFound"})
            else:
                return commit
            return None

        def send_info(self, name: str, revision: str) -> None:
            commit = self.find(name, revision)
            if commit is None:
                return
            siblings = []
            for file, content in state.commits[commit].items():
                size = state.sizes.get(file, len(content))
                each: dict[str, Any] = {"rfilename": file, "size": size, "blobId": git_digest(content)}
                if file.endswith(_LARGE):
                    each["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": size, "pointerSize": 130}
                siblings.append(each)
            body = json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode()
            self.answer(200, {"Content-Type": "application/json"}, body)

        def send_file(self, name: str, revision: str, file: str) -> None:
            commit = self.find(name, revision)
            content = state.commits[commit].get(file) if commit is not None else None
            if commit is None:
                return
            if content is None:
                self.answer(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
                return
            headers = {"X-Repo-Commit": commit}
            if not file.endswith(_LARGE):
                self.answer(200, headers | {"ETag": f'"{git_digest(content)}"'}, state.replaced.get(file, content))
                return
            digest = hashlib.sha256(content).hexdigest()
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(state.sizes.get(file, len(content)))}
            self.answer(302, headers | {"Location": f"{state.elsewhere}/lfs/{commit}/{file}"})

        def send_large(self, path: str) -> None:
            commit, _, file = path.partition("/")
            body = state.replaced.get(file, state.commits[commit][file])
            wanted = self.headers.get("Range", "")
            state.ranges.append(wanted)
            if state.failing:
                self.answer(state.failing, {})
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            self.send_response(206 if wanted else 200)
            if wanted:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            end = start + state.cuts.pop(0) if state.cuts else len(body)
            self.wfile.write(body[start:end])
            state.sent[file] += len(body[start:end])

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        port = http.server_address[1]
        state.address, state.elsewhere = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield state
        state.stopped.set()
        http.shutdown()
        thread.join()


def environment(endpoint: str, home: Path, **more: str) -> dict[str, str]:
    """Returns the environment of a process that knows this hub only; the library reads it when it is imported."""
    kept = {key: value for key, value in os.environ.items() if not _FOREIGN.fullmatch(key)}
    return kept | {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "NO_PROXY": "*"} | more


_FETCH = """
import json, sys
from transduce.errors import TransduceError
from transduce.export.hub import find_origin
try:
    found = find_origin(sys.argv[1])
    print(json.dumps({"path": str(found.path), "name": found.name} | found.recorded))
except TransduceError as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
"""


def fetch(origin: str, endpoint: str, home: Path, **more: str) -> dict[str, Any]:
    """Calls `find_origin` in a new process, and returns what it found, or its error; `said` is its standard error."""
    ended = subprocess.run(
        [PYTHON, "-c", _FETCH, origin],
        env=environment(endpoint, home, **more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found | {"said": ended.stderr}
