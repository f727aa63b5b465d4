"""Sockets, certificates, and how many connections the system allows."""

import resource
import socket
import ssl
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.errors import ConfigError, TransduceError

BACKLOG = 2048  # connections that wait to be accepted
_FURTHER_FILES = 256
_MOST_OPEN = 1 << 16
_REFUSED = 64  # connections above the limit, which get an answer once their TLS handshake is done


class ListenError(TransduceError):
    """The service cannot listen at its address."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """One address and the application that answers there."""

    app: Any
    host: str
    port: int  # 0: any that is free
    connections: type[Any] | None = None  # the class of connections; None: uvicorn's
    certificate: str = ""  # file; "": no TLS
    private_key: str = ""  # file; "": the certificate's has it

    @property
    def max_open(self) -> int:
        """How many connections may be open, those in a TLS handshake among them."""
        return _MOST_OPEN if self.connections is None else self.connections.max_connections + _REFUSED


class _BoundedSocket(socket.socket):
    """A listening socket that closes further connections at once where too many are open.

    asyncio counts a connection after its TLS handshake only, for which it waits a minute.
    """

    def __init__(self, max_open: int, *arguments: Any) -> None:
        """Takes how many may be open, and what a socket needs."""
        super().__init__(*arguments)
        self._max_open = max_open
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accepts a connection; raises ConnectionAbortedError where that was one too many."""
        connection, address = super().accept()
        if len(self._accepted) >= self._max_open:
            self._accepted = weakref.WeakSet(each for each in self._accepted if each.fileno() >= 0)  # not yet closed
        if len(self._accepted) >= self._max_open:
            connection.close()
            raise ConnectionAbortedError
        self._accepted.add(connection)
        return connection, address


def listening_socket(host: str, port: int, max_open: int = _MOST_OPEN) -> socket.socket:
    """Returns a socket that listens; connections wait until they are accepted, at most `max_open` at a time.

    Raises:
        ListenError: the address is in use, not this machine's, or not allowed.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ListenError(f"--host {host}: {_reason(error)}.") from None
    family, kind, protocol, _, address = found[0]
    listening = _BoundedSocket(max_open, family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ListenError(
            f"cannot listen at {host}, port {port}: {_reason(error)}. Choose another with --host or --port."
        ) from None
    listening.setblocking(False)
    return listening


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def shown_address(listening: socket.socket) -> str:
    """Returns host and port of a socket as they are written in a URL."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def tls_context(listener: Listener) -> ssl.SSLContext:
    """Returns the settings of TLS for a listener; raises ConfigError where its certificate cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, listener)
    return context


def load_certificate(context: ssl.SSLContext, listener: Listener) -> None:
    """Reads certificate and key for new connections; those that are open keep theirs.

    Raises:
        ConfigError: a file cannot be read, is not PEM, is encrypted, or the two do not belong together.
    """
    certificate, private_key = listener.certificate, listener.private_key or listener.certificate
    for name, path in (("certificate", certificate), ("private_key", private_key)):
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(f"server.{name}: {path}: {error.strerror}.") from None
    trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # half of a wrong pair must not get into the context in use
    try:
        for each in (trial, context):
            # A wrong password: without one, OpenSSL would ask for it in the terminal and wait.
            each.load_cert_chain(certificate, private_key, password="")
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        raise ConfigError(
            f"server.certificate: {certificate} and the key {private_key} cannot be used: {reason}. Both must be PEM; "
            "the key must belong to the certificate, and must not be encrypted."
        ) from None


def allowed_connections(wanted: int) -> int:
    """Raises the number of files that the process may open, and returns how many connections that allows."""
    needed = wanted + _FURTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, min(wanted, allowed - _FURTHER_FILES))
