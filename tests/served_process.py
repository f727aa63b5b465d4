"""A service in a process of its own, for tests: `transduce serve` with what is configured, at a port of its choice."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_START_SECONDS = 120.0
# The command, which computes some sentences, and then none that somebody waits for until a file is there.
_HELD = """
import sys, time
from pathlib import Path
from transduce.cli.main import main
from transduce.serve.scheduler import Scheduler

compute, gate, free = Scheduler._results, Path(sys.argv[1]), int(sys.argv[2])
num_computed = 0

def held(self, batch):
    global num_computed
    if num_computed >= free:
        while not gate.exists() and any(sentence.call.is_open for sentence in batch.sentences):
            time.sleep(0.01)
    num_computed += len(batch.sentences)
    return compute(self, batch)

Scheduler._results = held
sys.exit(main(sys.argv[3:]))
"""


@dataclass(frozen=True)
class Answer:
    """What the service answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Serving:
    """A running service."""

    def __init__(
        self, arguments: list[str], gate: Path | None = None, free: int = 0, python: str | Path = sys.executable
    ) -> None:
        """Starts the process; `wait_until_ready` waits for it.

        With `gate`, it computes `free` sentences, and others once there is such a file. Until then it holds them as
        long as somebody waits for them.
        """
        program = ["-m", "transduce.cli.main"] if gate is None else ["-c", _HELD, str(gate), str(free)]
        self.process = subprocess.Popen(
            [python, *program, "serve", "--port", "0", *arguments],
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.address = ""
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.append(line.rstrip("\n"))

    @property
    def events(self) -> list[str]:
        """The lines of the log that are not requests."""
        return [line for line in list(self._lines) if not line.startswith("{")]

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The lines of the access log."""
        return [json.loads(line) for line in list(self._lines) if line.startswith("{")]

    @property
    def log(self) -> str:
        """All lines."""
        return "\n".join(self._lines)

    def wait_until_ready(self) -> None:
        """Waits until the service says where it serves."""

        def is_ready() -> bool:
            found = re.search(r"serving .+ at (https?://\S+), ready in", self.log)
            self.address = found[1] if found else ""
            return found is not None

        self.wait_until(is_ready, _START_SECONDS)

    def wait_until(self, condition: Callable[[], bool], seconds: float = 60.0, pause: float = 0.02) -> None:
        """Waits for something to happen while the process runs; looks again after each pause."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, self.events
            assert time.monotonic() < deadline, self.events
            time.sleep(pause)

    def connection(self) -> http.client.HTTPConnection:
        """Returns a connection of its own."""
        parts = urlsplit(self.address)
        assert parts.hostname is not None
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)

    def ask(
        self, path: str, fields: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Sends a request: a POST of JSON where there are fields, else a GET."""
        with contextlib.closing(self.connection()) as connection:
            return ask(connection, path, fields, headers)

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Sends a signal, and returns the exit code."""
        self.process.send_signal(number)
        return self.wait(seconds)

    def wait(self, seconds: float = 60.0) -> int:
        """Waits for the end, and returns the exit code."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code


def ask(
    connection: http.client.HTTPConnection,
    path: str,
    fields: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Sends a request over a connection; see `Serving.ask`."""
    if fields is None:
        connection.request("GET", path, headers=dict(headers or {}))
    else:
        sent = {"Content-Type": "application/json"} | dict(headers or {})
        connection.request("POST", path, json.dumps(fields), sent)
    response = connection.getresponse()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def write_config(folder: Path, model: Path, **sections: Mapping[str, Any]) -> Path:
    """Writes a serve.toml for a model from English into German, with further sections, and returns its path."""
    lines = ["[[models]]", f"path = {json.dumps(str(model))}", 'source = "en"', 'target = "de"']
    for name, values in ({"state": {"url": str(folder / "serve.db")}} | sections).items():
        lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    path = folder / "serve.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@contextlib.contextmanager
def serving(
    config: Path, *arguments: str, gate: Path | None = None, free: int = 0, python: str | Path = sys.executable
) -> Iterator[Serving]:
    """Yields a service that is ready; it is stopped, if need be by force, at the end. For `gate` see `Serving`."""
    started = Serving(["--config", str(config), *arguments], gate, free, python)
    try:
        started.wait_until_ready()
        yield started
    finally:
        if started.process.poll() is None:
            started.process.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.process.kill()
            started.wait(20)
        assert started.process.stderr is not None
        started.process.stderr.close()
