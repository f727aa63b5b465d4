"""Which process of a training failed, and why: all others know within seconds.

Collectives do not say it. After the death of a process, gloo names an address, NCCL waits for minutes, and neither
notices a machine that is switched off. So each process keeps a connection to the main one. The system closes it when
the process ends, however it ends, and keep-alive packets find a lost machine. A process that fails says why first.

    process n → main    {"token": …, "rank": 1, "host": "a"}        once, after connecting
    process n → main    {"failed": "ran out of memory …"}           or {"done": true}
    main → process n    {"rank": 1, "host": "a", "reason": "…"}     the first failure; or {"done": true}
"""

import contextlib
import json
import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from transduce.errors import LostPeerError, TrainingError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CONNECT_SECONDS = 60.0
_VERDICT_SECONDS = 5.0
_LEAVE_SECONDS = 60.0
_MAX_REASON = 2000  # characters
_KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # seconds, seconds, packets
_NO_REASON = "ended without giving a reason: it was killed, perhaps because memory ran out, or its machine is lost"


@dataclass(frozen=True)
class Failure:
    """The first process that failed."""

    rank: int
    host: str
    reason: str

    def __str__(self) -> str:
        return f"rank {self.rank} (on {self.host}) {self.reason}"


class Peers:
    """This process's connection to the others; within it, an exception of this process is told to them.

    The main process makes it first: `port` and `token` are what the others need to know. A process that waits for a
    failed one in a collective, and hears nothing, is ended after `grace_seconds`.
    """

    def __init__(self, rank: int, address: str, port: int = 0, token: int = 0, *, grace_seconds: float) -> None:
        self.rank, self.host, self._grace_seconds = rank, socket.gethostname(), grace_seconds
        self.failure: Failure | None = None
        self._known = threading.Event()
        self._timer: threading.Timer | None = None
        self._left = self._finished = False  # this process is leaving; and nothing had gone wrong
        self._lock = threading.Lock()
        self._connections: dict[int, socket.socket] = {}  # by rank; of another process, to the main one
        if rank == 0:
            self.token = secrets.randbits(48)
            self._server = _listening_socket(address)
            self.port: int = self._server.getsockname()[1]
            target: Callable[[], None] = self._serve
        else:
            connection = socket.create_connection((address, port), timeout=_CONNECT_SECONDS)
            connection.settimeout(None)
            _keep_alive(connection)
            self._connections[0] = connection
            _send(connection, {"token": token, "rank": rank, "host": self.host})
            target = lambda: self._listen(connection, address)  # noqa: E731
        threading.Thread(target=target, name="peers", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            if self.rank == 0:
                self._wait_for_others()
            self._finished = True
            self._tell_all({"done": True})
        elif self.failure is None:
            self._fail(Failure(self.rank, self.host, _reason(error)), own=True)
        self._left = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in [*self._connections.values()]:
            with contextlib.suppress(OSError):  # closed by the other side
                connection.shutdown(socket.SHUT_WR)

    def _wait_for_others(self) -> None:
        """Lets the main process leave last: what the others need to finish, such as a store, may end with it."""
        deadline = time.monotonic() + _LEAVE_SECONDS
        while self._connections and self.failure is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def check(self) -> None:
        """Raises LostPeerError if a process is known to have failed."""
        if self.failure is not None:
            raise self.error()

    def error(self, cause: object = None) -> LostPeerError:
        """Returns the error of this process where a collective failed because of another; waits a moment for why."""
        self._known.wait(_VERDICT_SECONDS)
        if self._timer is not None:
            self._timer.cancel()
        why = self.failure or f"the connection to another process was lost ({cause})"
        return LostPeerError(f"{why}.")

    # --- the main process -----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Accepts the other processes and reads what they say, until this one and all of them have left."""
        selector = selectors.DefaultSelector()
        selector.register(self._server, selectors.EVENT_READ)
        streams: dict[socket.socket, _Stream] = {}
        while streams or not self._left:
            for key, _ in selector.select(timeout=1.0):
                if key.fileobj is self._server:
                    connection, _ = self._server.accept()
                    _keep_alive(connection)
                    selector.register(connection, selectors.EVENT_READ)
                    streams[connection] = _Stream()
                    continue
                connection = key.fileobj  # type: ignore[assignment]
                if not self._read(connection, streams[connection]):
                    selector.unregister(connection)
                    del streams[connection]
                    connection.close()
        selector.close()
        self._server.close()

    def _read(self, connection: socket.socket, stream: "_Stream") -> bool:
        """Handles what a process said; returns False at the end of the connection."""
        messages = stream.receive(connection)
        if messages is None:
            if stream.rank is not None:
                self._connections.pop(stream.rank, None)
                if not stream.is_done:
                    self._fail(Failure(stream.rank, stream.host, _NO_REASON))
            return False
        for message in messages:
            if stream.rank is None:
                if message.get("token") != self.token:
                    return False  # not one of ours
                stream.rank, stream.host = int(message["rank"]), str(message["host"])
                self._connections[stream.rank] = connection
                if self.failure is not None:
                    _send(connection, asdict(self.failure))
            elif message.get("done"):
                stream.is_done = True
            elif "failed" in message:
                stream.is_done = True
                self._fail(Failure(stream.rank, stream.host, str(message["failed"])))
        return True

    # --- the others -----------------------------------------------------------------------------------------------

    def _listen(self, connection: socket.socket, address: str) -> None:
        """Reads what the main process says, until the end of its connection."""
        stream, is_done = _Stream(), False
        while (messages := stream.receive(connection)) is not None:
            for message in messages:
                if message.get("done"):
                    is_done = True
                elif not is_done:
                    self._fail(Failure(**message))
                    is_done = True
        if not is_done:
            self._fail(Failure(0, address, _NO_REASON))
        connection.close()

    # --- both -----------------------------------------------------------------------------------------------------

    def _fail(self, failure: Failure, *, own: bool = False) -> None:
        """Records the first failure and tells it to the others; ends this process if it does not end by itself."""
        with self._lock:
            if self.failure is not None or self._finished:
                return
            self.failure = failure
        self._tell_all({"failed": failure.reason} if self.rank else asdict(failure), own=own)
        if not own:
            self._timer = threading.Timer(self._grace_seconds, self._end)
            self._timer.daemon = True
            self._timer.start()
            if self.rank == 0 or failure.rank == 0:
                print(f"warning: {failure}; the training stops.", file=sys.stderr, flush=True)
        self._known.set()

    def _tell_all(self, message: dict[str, Any], *, own: bool = True) -> None:
        """Sends to the others; what another process is told by the main one it does not send back."""
        if self.rank and not own:
            return
        for connection in [*self._connections.values()]:
            with contextlib.suppress(OSError):  # it has ended, too
                _send(connection, message)

    def _end(self) -> None:
        """Ends this process, which waits in a collective for one that has failed."""
        print(f"transduce: error: {self.failure}. Continue with --resume.", file=sys.stderr, flush=True)
        os._exit(TrainingError.exit_code)


class _Stream:
    """What arrived on a connection, as messages, and who is at its other end."""

    def __init__(self) -> None:
        self.rank: int | None = None
        self.host = ""
        self.is_done = False
        self._rest = b""

    def receive(self, connection: socket.socket) -> list[dict[str, Any]] | None:
        """Waits for bytes; returns the messages that are complete, or None at the end of the connection."""
        try:
            received = connection.recv(65536)
        except OSError:  # reset, or no answer to keep-alive packets
            return None
        *lines, self._rest = (self._rest + received).split(b"\n")
        if not received or len(self._rest) > 1 << 20:
            return None
        try:
            values = [json.loads(line) for line in lines]
        except ValueError:
            return None
        return [value for value in values if isinstance(value, dict)]


def _listening_socket(address: str) -> socket.socket:
    """Listens where the others look for the main process: on this machine alone, or on all its addresses."""
    if address in _LOOPBACK:
        return socket.create_server(("127.0.0.1", 0))
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 is switched off here
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _keep_alive(connection: socket.socket) -> None:
    """Makes the system notice a lost machine in twenty seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # each system has some of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _reason(error: BaseException) -> str:
    """Returns what the others are told of an exception of this process."""
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    name = "" if isinstance(error, TrainingError) else f"{type(error).__name__}: "
    return f"failed: {name}{error}"[:_MAX_REASON].rstrip(".")
