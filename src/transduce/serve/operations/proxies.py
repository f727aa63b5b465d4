"""Proxies in front of the service: only their headers about the client and its request are trusted."""

import ipaddress
import re
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from transduce.errors import ConfigError
from transduce.serve.operations.request_record import record_of

_HOST = re.compile(rb"[A-Za-z0-9.\-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")


class ForwardedHeaders:
    """Replaces client, scheme and host of a request by those that a trusted proxy forwards.

    X-Forwarded-For and -Proto are read by uvicorn: the client is the last address of X-Forwarded-For that is not a
    trusted proxy's itself. X-Forwarded-Host is read here.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        """Takes the application, and the addresses and networks of the proxies; see `require_networks`."""
        require_networks(trusted)
        self._proxies = ProxyHeadersMiddleware(app, list(trusted))  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        for end in ("client", "server"):
            if address := scope.get(end):  # a socket at "::" writes 10.0.0.7 as ::ffff:10.0.0.7
                scope[end] = (address[0].removeprefix("::ffff:"), address[1])
        client = scope.get("client")
        if scope["type"] == "http" and client and client[0] in self._proxies.trusted_hosts:
            record_of(scope).is_from_proxy = True
            scope["headers"] = _with_forwarded_host(scope["headers"])
        await self._proxies(scope, receive, send)  # type: ignore[arg-type]


def _with_forwarded_host(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    forwarded = [value for name, value in headers if name == b"x-forwarded-host"]
    if not forwarded:
        return headers
    host = forwarded[0].split(b",")[0].strip()  # the first proxy's: the host that the client requested
    if not _HOST.fullmatch(host):
        return headers
    return [*((name, value) for name, value in headers if name != b"host"), (b"host", host)]


def require_networks(trusted: Sequence[str]) -> None:
    """Raises ConfigError where an entry is no address and no network; uvicorn would silently trust nobody."""
    for entry in trusted:
        try:
            ipaddress.ip_network(entry)
        except ValueError as error:
            raise ConfigError(
                f"server.trusted_proxies: {error}. Write an address such as 10.0.0.7, or a network such as 10.0.0.0/8."
            ) from None
