"""Reports which process of a training failed, and why, to all others within seconds.

Collectives do not report it. After the death of a process, gloo names an address, NCCL waits for minutes, and neither
notices a machine that is switched off. So each process keeps a connection to the main one. The system closes it when
the process ends for any reason, and keep-alive packets detect a lost machine. A failing process sends the reason first.

    process n → main    {"token": …, "rank": 1, "host": "a"}        once, after connecting
    process n → main    {"rank": 1, "host": "a", "reason": "…"}     its failure
    main → process n    {"rank": 1, "host": "a", "reason": "…"}     the first failure
    both                {"done": true}                              after the last collective
    both                {"alive": true}                             every two seconds

A thread reports that a process is alive, also while the process computes, compiles or waits for a disk. A process that
is silent for ten seconds is stopped (SIGSTOP), or its machine is overloaded or unreachable. A warning names it, and
the training waits: it may continue. No process leaves before all have made their last collective, and the main one
leaves last, because the others may still need what ends with it, such as a store.
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
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from transduce.errors import LostPeerError, TrainingError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CONNECT_SECONDS = 60.0
_VERDICT_SECONDS = 5.0
_LEAVE_SECONDS = 60.0
_BEAT_SECONDS = 2.0
_SILENT_SECONDS = 10.0
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
    """This process's connection to the others; within it, an exception of this process is reported to them.

    The main process makes it first: the others need its `port` and `token`. A process that still waits for a failed one
    in a collective `grace_seconds` later is ended.
    """

    def __init__(self, rank: int, address: str, port: int = 0, token: int = 0, *, grace_seconds: float) -> None:
        self.rank, self.host, self._grace_seconds = rank, socket.gethostname(), grace_seconds
        self.failure: Failure | None = None
        self._known = threading.Event()
        self._timer: threading.Timer | None = None
        self._left = self._finished = False  # this process is leaving; and it has made its last collective
        self._lock = threading.Lock()
        self._peers: dict[int, _Peer] = {}  # by rank; of another process, the main one
        self._server: socket.socket | None = None
        if rank == 0:
            self.token = secrets.randbits(48)
            self._server = _listening_socket(address)
            self.port: int = self._server.getsockname()[1]
        else:
            connection = socket.create_connection((address, port), timeout=_CONNECT_SECONDS)
            connection.settimeout(None)
            _keep_alive(connection)
            self._peers[0] = _Peer(connection, 0, address)
            self._peers[0].send({"token": token, "rank": rank, "host": self.host})
        threading.Thread(target=self._watch, name="peers", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if error is None:
                self._leave()
            elif self.failure is None:
                self._fail(Failure(self.rank, self.host, _reason(error)), own=True)
        finally:
            self._left = True
            if self._timer is not None:
                self._timer.cancel()
            for peer in [*self._peers.values()]:
                with contextlib.suppress(OSError):  # closed by the other side
                    peer.connection.shutdown(socket.SHUT_WR)  # nothing more will be sent

    def finish(self) -> None:
        """Records that this process has made its last collective: from now on it needs the main process only."""
        with self._lock:
            self._finished = True
            if self._timer is not None and self.rank == 0:
                self._timer.cancel()  # of a process that failed after its own last collective
        if self.rank:
            self._send_to_all({"done": True})

    def _leave(self) -> None:
        """Waits until no process needs this one any more; see the module's docstring.

        Raises:
            LostPeerError: the main process has failed.
        """
        self.finish()
        if self.rank:
            while 0 in self._peers and not self._peers[0].is_done and self.failure is None:
                time.sleep(0.01)
            if self.failure is not None:
                raise LostPeerError(f"{self.failure}. Continue with --resume.")
            return
        for is_waited_for in (lambda peer: not peer.is_done, lambda _: True):
            deadline = time.monotonic() + _LEAVE_SECONDS
            while any(map(is_waited_for, [*self._peers.values()])) and time.monotonic() < deadline:
                time.sleep(0.01)
            self._send_to_all({"done": True})

    def check(self) -> None:
        """Raises LostPeerError if a process is known to have failed."""
        if self.failure is not None:
            raise self.error()

    def error(self, cause: object = None) -> LostPeerError:
        """Returns the error for a collective that failed because of another process; waits briefly for the reason."""
        self._known.wait(_VERDICT_SECONDS)
        if self._timer is not None:
            self._timer.cancel()
        silent = [f"{peer} does not answer" for peer in [*self._peers.values()] if peer.is_silent]
        why = self.failure or f"{'; '.join(silent) or 'the connection to another process was lost'} ({cause})"
        return LostPeerError(f"{why}.")

    # --- the thread -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Reads the messages of the others, and reports that this process is alive, until all processes have left."""
        selector = selectors.DefaultSelector()
        if self._server is not None:
            selector.register(self._server, selectors.EVENT_READ)
        for peer in self._peers.values():
            selector.register(peer.connection, selectors.EVENT_READ, peer)
        beat = time.monotonic()
        while len(selector.get_map()) > (self._server is not None) or (self._server is not None and not self._left):
            for key, _ in selector.select(timeout=_BEAT_SECONDS / 2):
                if key.fileobj is self._server:
                    connection, _ = self._server.accept()
                    _keep_alive(connection)
                    selector.register(connection, selectors.EVENT_READ, _Peer(connection))
                elif not self._read(key.data):
                    selector.unregister(key.fileobj)
                    key.data.connection.close()
            if time.monotonic() - beat >= _BEAT_SECONDS:
                self._beat(was_stopped=time.monotonic() - beat > _SILENT_SECONDS / 2)
                beat = time.monotonic()
        selector.close()
        if self._server is not None:
            self._server.close()

    def _beat(self, *, was_stopped: bool) -> None:
        """Reports that this process is alive, and warns of silent ones, unless this process was stopped itself."""
        for peer in [*self._peers.values()]:
            if was_stopped:
                peer.heard = time.monotonic()
            silent = time.monotonic() - peer.heard > _SILENT_SECONDS and not peer.is_done
            if silent != peer.is_silent:
                state = "does not answer: it is stopped, or its machine is overloaded or unreachable"
                state = f"{state}. The training waits for it" if silent else "answers again"
                print(f"warning: {peer} {state}.", file=sys.stderr, flush=True)
            peer.is_silent = silent
        self._send_to_all({"alive": True})

    def _read(self, peer: "_Peer") -> bool:
        """Handles the messages of a process; returns False at the end of the connection."""
        messages = peer.receive()
        if messages is None:
            if peer.rank is not None:
                self._peers.pop(peer.rank, None)
                if not peer.is_done:
                    self._fail(Failure(peer.rank, peer.host, _NO_REASON))
            return False
        for message in messages:
            if peer.rank is None:
                if message.get("token") != self.token:
                    return False  # not one of ours
                peer.rank, peer.host = int(message["rank"]), str(message["host"])
                self._peers[peer.rank] = peer
                if self.failure is not None:
                    peer.send(asdict(self.failure))
            elif message.get("done"):
                peer.is_done = True
            elif "reason" in message and not (self.rank and peer.is_done):
                peer.is_done = True
                self._fail(Failure(**message))
        return True

    def _fail(self, failure: Failure, *, own: bool = False) -> None:
        """Records the first failure and reports it to the others; ends this process if it does not end by itself."""
        with self._lock:
            if self.failure is not None:  # the first one counts
                return
            if self._finished and self.rank == 0 and not own:
                print(f"warning: {failure}; its part of the training was done.", file=sys.stderr, flush=True)
                return
            self.failure = failure
            if not own:
                self._timer = threading.Timer(self._grace_seconds, self._end)
                self._timer.daemon = True
                self._timer.start()
        self._send_to_all(asdict(failure), own=own)
        if not own and (self.rank == 0 or failure.rank == 0):
            print(f"warning: {failure}; the training stops.", file=sys.stderr, flush=True)
        self._known.set()

    def _send_to_all(self, message: dict[str, Any], *, own: bool = True) -> None:
        """Sends a message to the others; a failure that came from the main process is not sent back to it."""
        if self.rank and not own:
            return
        for peer in [*self._peers.values()]:
            if not peer.is_silent:  # a silent process reads nothing: sending to it could block forever
                peer.send(message)

    def _end(self) -> None:
        """Ends this process, which waits in a collective for one that has failed."""
        print(f"transduce: error: {self.failure}. Continue with --resume.", file=sys.stderr, flush=True)
        os._exit(TrainingError.exit_code)


class _Peer:
    """Another process: its connection, the bytes received, and its identity, known after its first message."""

    def __init__(self, connection: socket.socket, rank: int | None = None, host: str = "") -> None:
        self.connection, self.rank, self.host = connection, rank, host
        self.heard = time.monotonic()
        self.is_done = self.is_silent = False
        self._rest = b""
        self._sending = threading.Lock()

    def __str__(self) -> str:
        return f"rank {self.rank} (on {self.host})"

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message, unless the process has ended."""
        with contextlib.suppress(OSError), self._sending:
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]] | None:
        """Waits for bytes; returns the messages that are complete, or None at the end of the connection."""
        try:
            received = self.connection.recv(65536)
        except OSError:  # reset, or no answer to keep-alive packets
            return None
        self.heard = time.monotonic()
        *lines, self._rest = (self._rest + received).split(b"\n")
        if not received or len(self._rest) > 1 << 20:
            return None
        try:
            values = [json.loads(line) for line in lines]
        except ValueError:
            return None
        return [value for value in values if isinstance(value, dict)]


def _listening_socket(address: str) -> socket.socket:
    """Listens where the others connect to the main process: on this machine alone, or on all its addresses."""
    if address in _LOOPBACK:
        return socket.create_server(("127.0.0.1", 0))
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 is switched off here
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _keep_alive(connection: socket.socket) -> None:
    """Makes the system notice a lost machine in twenty seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # each system has some of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _reason(error: BaseException) -> str:
    """Returns how an exception of this process is reported to the others."""
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    name = "" if isinstance(error, TrainingError) else f"{type(error).__name__}: "
    return f"failed: {name}{error}"[:_MAX_REASON].rstrip(".")
