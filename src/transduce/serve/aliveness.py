"""Whether a service runs at its address: what a container's health check asks."""

import http.client
import ssl

from transduce.errors import ConfigError
from transduce.serve.config import ServerConfig
from transduce.serve.listening import ListenError

_SECONDS = 4.0  # a busy service answers this at once
_ALL_ADDRESSES = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def require_alive(server: ServerConfig) -> None:
    """Returns if a service with these settings answers on this machine.

    Raises:
        ConfigError: it may be at any port.
        ListenError: it does not answer.
    """
    if not server.port:
        raise ConfigError("server.port = 0: is any that is free, so the service cannot be found. Give its port.")
    host = _ALL_ADDRESSES.get(server.host, server.host)
    connection = http.client.HTTPConnection(host, server.port, timeout=_SECONDS)
    if server.certificate:
        # The name in the certificate is the one that clients use.
        connection = http.client.HTTPSConnection(
            host, server.port, timeout=_SECONDS, context=ssl._create_unverified_context()
        )
    try:
        connection.request("GET", "/health")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise ListenError(f"no service answers at {host}, port {server.port}: {error}.") from None
    finally:
        connection.close()
    if status != http.client.OK:
        raise ListenError(f"what answers at {host}, port {server.port}, is not alive: status {status}.")
