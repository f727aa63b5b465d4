"""The processes that are measured, on the core that the load generator leaves to them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
SERVICE_CORE, GENERATOR_CORE = 0, 1


@dataclass(slots=True)
class Service:
    """A running service."""

    process: subprocess.Popen[bytes]
    port: int
    ready_seconds: float  # from the start of the process

    def memory_mb(self, field: str = "VmRSS") -> float:
        """Returns a figure of /proc/PID/status, in 10^6 bytes: VmRSS is memory now, VmHWM the greatest."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{field}:"):
                return round(int(line.split()[1]) * 1024 / 1e6, 1)
        raise ProcessLookupError(f"process {self.process.pid} has no {field}")

    def processor_seconds(self) -> float:
        """Returns the processor time that the process has taken so far, all its threads together."""
        ticks = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def seconds_by_thread(self) -> dict[int, float]:
        """Returns the processor time that each thread has taken so far, by its id; the main one has the process's."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return {int(each.name): int((each / "schedstat").read_text().split()[0]) / 1e9 for each in tasks}


def free_port() -> int:
    """Returns a port that nothing listens on."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def running(
    command: Sequence[str], port: int, log: Path, core: int | None = SERVICE_CORE, *, ready: str = "/ready"
) -> Iterator[Service]:
    """Starts a service, waits until it answers the path `ready`, and ends it afterwards.

    Raises:
        RuntimeError: it ended before it was ready, or did not get ready within two minutes.
    """
    pin = [] if core is None else ["taskset", "--cpu-list", str(core)]
    with log.open("ab") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen([*pin, *command], stdout=errors, stderr=errors)
        try:
            _wait(process, port, log, ready)
            yield Service(process, port, time.perf_counter() - begin)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path, ready: str) -> None:
    end = time.perf_counter() + 120
    while time.perf_counter() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with code {process.returncode}: {log.read_text()[-2000:]}")
        try:
            status = urllib.request.urlopen(f"http://{HOST}:{port}{ready}", timeout=5).status
        except OSError:  # nothing listens yet, or the models are being loaded
            status = 0
        if status == 200:
            return
        time.sleep(0.005)
    raise RuntimeError(f"the service was not ready within two minutes: {log.read_text()[-2000:]}")


def service_command(model: Path, port: int, quantization: str, config: Path) -> list[str]:
    """Returns the command that serves a model with one thread of CTranslate2."""
    common = ["--port", str(port), "--engine", "ctranslate2", "--quantization", quantization, "--threads", "1"]
    return [sys.executable, "-m", "transduce", "serve", str(model), *common, "--config", str(config)]


def plain_command(model: Path, port: int, quantization: str, config: Path) -> list[str]:
    """Returns the command of the plain handler."""
    script = Path(__file__).with_name("plain_handler.py")
    return [sys.executable, str(script), str(model), quantization, str(port), str(config)]


def pin_generator() -> None:
    """Keeps this process, the load generator, on its own core."""
    os.sched_setaffinity(0, {GENERATOR_CORE})
