"""The process that serves, from the start to the last answer: what signals do, and in what order things end."""

import asyncio
import contextlib
import logging
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import uvicorn

from transduce.errors import TransduceError
from transduce.serve.assembly import Application
from transduce.serve.config import ServeConfig
from transduce.serve.listening import (
    BACKLOG,
    Listener,
    allowed_connections,
    listening_socket,
    load_certificate,
    shown_address,
    tls_context,
)
from transduce.serve.operations.connections import BoundedProtocol

_LOG = logging.getLogger("transduce.serve")
_KEEP_ALIVE_SECONDS = 75  # longer than load balancers keep an idle connection, so that they never reuse one that ends
_LISTEN_LONGER_SECONDS = 0.2  # at the end, so that clients that were about to send get an answer
_LINGER_SECONDS = 5  # at the end, for clients that are still sending a request, or reading an answer


class Server:
    """Serves until a signal: SIGTERM and SIGINT end it when all accepted work is answered, SIGHUP reloads."""

    def __init__(self, application: Application, listeners: Sequence[Listener]) -> None:
        """Opens the sockets and reads the certificates; the application is not started yet.

        Args:
            application: is started before it answers, and stopped at the end.
            listeners: where it listens; the address of the first is printed.

        Raises:
            ListenError: an address is in use, or not one of this machine.
            ConfigError: a certificate cannot be used.
        """
        self._application = application
        contexts = [tls_context(each) if each.certificate else None for each in listeners]
        pairs = zip(listeners, contexts, strict=True)
        self._encrypted = [(listener, context) for listener, context in pairs if context is not None]
        self._sockets = [listening_socket(each.host, each.port, each.max_open) for each in listeners]
        self._servers = list(map(_uvicorn_server, listeners, contexts))
        scheme = "https" if listeners[0].certificate else "http"
        self.address = f"{scheme}://{shown_address(self._sockets[0])}"
        self._ending = asyncio.Event()
        self._reload_wanted = False
        self._reloading: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serves until a signal; raises what starting the service raises."""
        begin = time.monotonic()
        with self._signals():
            serving = [
                asyncio.create_task(server.serve(sockets=[each]))
                for server, each in zip(self._servers, self._sockets, strict=True)
            ]
            try:
                if await self._started():
                    seconds = time.monotonic() - begin
                    _LOG.info("serving %s at %s, ready in %.1f s", self._application.describe(), self.address, seconds)
                    ended = asyncio.create_task(self._ending.wait())
                    await asyncio.wait([ended, *serving], return_when=asyncio.FIRST_COMPLETED)
                    ended.cancel()
                    _LOG.info("stopping: no new work; waiting for the answers under way")
                # New requests are refused, accepted ones are answered.
                await asyncio.gather(self._application.stop(), asyncio.sleep(_LISTEN_LONGER_SECONDS))
            finally:
                for server in self._servers:
                    server.should_exit = True
                await asyncio.gather(*serving)
                await self._application.close()
        _LOG.info("stopped")

    async def _started(self) -> bool:
        """Starts the service; returns whether it is ready, False after a signal to stop."""
        starting = asyncio.create_task(self._application.start())
        ended = asyncio.create_task(self._ending.wait())
        await asyncio.wait([starting, ended], return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not starting.done():
            starting.cancel()
            await asyncio.wait([starting])
            return False
        await starting
        return True

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers = {signal.SIGTERM: self._end, signal.SIGINT: self._end, signal.SIGHUP: self._reload_soon}
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler, number)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _end(self, number: int) -> None:
        if self._ending.is_set():  # the second time: at once
            print("transduce: stopped at once, by a second signal", file=sys.stderr, flush=True)
            os._exit(128 + number)
        self._ending.set()

    def _reload_soon(self, _: int) -> None:
        self._reload_wanted = True  # also by a signal that comes while a reload runs: that one may have read too early
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload_while_wanted())

    async def _reload_while_wanted(self) -> None:
        while self._reload_wanted:
            self._reload_wanted = False
            await self._reload_now()

    async def _reload_now(self) -> None:
        try:
            for listener, context in self._encrypted:
                load_certificate(context, listener)
            messages = await self._application.reload()
        except TransduceError as error:
            _LOG.error("reload: %s What was loaded before stays in use.", error)
        except Exception as error:  # the service goes on after any failure
            _LOG.error(
                "reload: failed: %s. What was loaded before stays in use. Fix the cause, then send SIGHUP again.",
                error,
                exc_info=error,
            )
        else:
            for message in messages or ["nothing has changed"]:
                _LOG.info("reload: %s", message)


class _QuietServer(uvicorn.Server):
    """uvicorn's server, whose signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals alone."""
        yield


def _uvicorn_server(listener: Listener, context: ssl.SSLContext | None) -> uvicorn.Server:
    config = uvicorn.Config(
        listener.app,
        http=listener.connections or "httptools",
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_LINGER_SECONDS,
    )
    config.load()
    config.ssl = context
    return _QuietServer(config)


def build_server(config: ServeConfig) -> Server:
    """Returns a server that listens already, and answers once it runs.

    Raises:
        TransduceError: an address is in use; a certificate, the keys, the store or a model cannot be used.
    """
    application = Application(config)
    try:
        return _server_of(application)
    except BaseException:
        application.store.close()
        raise


def _server_of(application: Application) -> Server:
    server = application.config.server
    connections = allowed_connections(server.max_connections)
    if connections < server.max_connections:
        _LOG.warning("the system allows %d connections (ulimit -n), not %d", connections, server.max_connections)

    class LimitedProtocol(BoundedProtocol):
        max_connections = connections
        refused = application.metrics.connections_refused

    listeners = [
        Listener(
            app=application.asgi,
            host=server.host,
            port=server.port,
            connections=LimitedProtocol,
            certificate=server.certificate,
            private_key=server.private_key,
        )
    ]
    if server.metrics_port:
        metrics = application.metrics_application()
        listeners.append(Listener(app=metrics, host=server.host, port=server.metrics_port, connections=LimitedProtocol))
    return Server(application, listeners)


def serve(config: ServeConfig) -> None:
    """Serves until a signal ends it; see `Server.run`."""
    server = build_server(config)
    before = set(threading.enumerate())
    asyncio.run(server.run())
    if left := sorted(thread.name for thread in set(threading.enumerate()) - before):
        _LOG.error("ended, although these threads still work: %s", ", ".join(left))
        os._exit(1)  # Python would wait for them
