"""The service as an application of Ray Serve: Ray starts replicas in its cluster, and shares requests out among them.

    serve run transduce.serve.ray_app:build config=/srv/transduce/serve.toml replicas=2

Each replica is the service of `transduce serve`, without its sockets and signals: sections [server] of the host and the
certificate do not count, and Ray stops replicas. Replicas on several machines need state in PostgreSQL.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from transduce.errors import ConfigError, MissingDependencyError, install_command, suggestion
from transduce.serve.assembly import Application
from transduce.serve.config import ServeConfig, read_config

_ARGUMENTS = ("config", "replicas")


def build(arguments: Mapping[str, Any]) -> Any:
    """Returns the Ray Serve application; Ray calls this with the arguments of `serve run`.

    Args:
        arguments: "config", the path of a serve.toml that all machines have; "replicas", how many (default: 1).

    Raises:
        ConfigError: an argument or the configuration is wrong.
        MissingDependencyError: the extra [ray] is needed.
    """
    for name in arguments:
        if name not in _ARGUMENTS:
            raise ConfigError(f"unknown argument '{name}'.{suggestion(name, _ARGUMENTS)}")
    if "config" not in arguments:
        raise ConfigError("'config' is missing: give config=/path/of/serve.toml")
    replicas = str(arguments.get("replicas", 1))
    if not replicas.isdecimal() or int(replicas) < 1:
        raise ConfigError(f"replicas = '{replicas}': must be a whole number from 1.")
    return application(read_config(Path(arguments["config"])), int(replicas))


def application(config: ServeConfig, num_replicas: int = 1) -> Any:
    """Returns the Ray Serve application for a configuration; see `build`."""
    try:
        from ray import serve
    except ImportError:
        raise MissingDependencyError(
            f"Ray Serve is not installed. This needs: {install_command('serve', 'ray')}"
        ) from None
    deployment = serve.deployment(
        serve.ingress(lambda: Replica(config))(),  # which a replica calls in its own process
        name="transduce",
        num_replicas=num_replicas,
        max_ongoing_requests=config.batching.max_requests,  # Ray's own default would keep batches small
    )
    return deployment.bind()


class Replica:
    """The application of one replica: an ASGI application that starts and stops with its lifespan."""

    def __init__(self, config: ServeConfig) -> None:
        """Opens what the service needs; see `Application`. There is no other port, so metrics are at this one."""
        self._application = Application(replace(config, server=replace(config.server, metrics_port=0)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; for the lifespan, loads the models first, and waits for accepted work at the end."""
        if scope["type"] != "lifespan":
            await self._application.asgi(scope, receive, send)
            return
        try:
            await self._application.start()
            try:
                await self._application.asgi(scope, receive, send)
            finally:
                await self._application.stop()
        finally:
            await self._application.close()
