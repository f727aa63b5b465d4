"""The server around a service of its own making: signals while it starts, failures, and reloads."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from starlette.applications import Starlette

from transduce.errors import BundleError, ConfigError
from transduce.serve.listening import Listener, ListenError, allowed_connections, listening_socket
from transduce.serve.server import Server


@dataclass
class Service:
    """Notes what happens to it."""

    on_start: Callable[[], None] = lambda: None
    events: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None
    reload_gate: asyncio.Event | None = None
    reload_error: Exception | None = None

    async def start(self) -> None:
        self.events.append("start")
        self.on_start()
        if self.gate is not None:
            await self.gate.wait()
        self.events.append("ready")

    async def stop(self) -> None:
        self.events.append("stop")

    async def close(self) -> None:
        self.events.append("close")

    def describe(self) -> str:
        return "en→de"

    async def reload(self) -> Sequence[str]:
        self.events.append("reload")
        if self.reload_gate is not None:
            await self.reload_gate.wait()
        if self.reload_error is not None:
            raise self.reload_error
        return ["done"]


def server_of(service: Service) -> Server:
    listener = Listener(app=Starlette(), host="127.0.0.1", port=0)
    return Server(service, [listener])  # type: ignore[arg-type]


def send(number: int, *, after: float = 0.0) -> Callable[[], None]:
    return lambda: asyncio.get_running_loop().call_later(after, os.kill, os.getpid(), number) and None


async def run(service: Service) -> None:
    await asyncio.wait_for(server_of(service).run(), 30)


def test_a_signal_while_the_service_starts_ends_it() -> None:
    async def story() -> Service:
        service = Service(on_start=send(signal.SIGTERM), gate=asyncio.Event())
        await run(service)
        return service

    assert asyncio.run(story()).events == ["start", "stop", "close"]


def test_a_signal_ends_it_and_gives_signals_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    service = Service(on_start=send(signal.SIGTERM, after=0.3))
    asyncio.run(run(service))
    assert service.events == ["start", "ready", "stop", "close"]
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


def test_a_service_that_cannot_start_ends_the_server_with_its_error() -> None:
    def failing() -> None:
        raise BundleError("damaged")

    with pytest.raises(BundleError, match="damaged"):
        asyncio.run(run(Service(on_start=failing)))


def test_a_signal_during_a_reload_reloads_once_more() -> None:
    async def story() -> Service:
        service = Service(reload_gate=asyncio.Event())
        running = asyncio.create_task(run(service))
        for event in ("ready", "reload"):
            while event not in service.events:
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)  # the third: two come while the first is worked on
        await asyncio.sleep(0.2)
        assert service.events.count("reload") == 1
        assert service.reload_gate is not None
        service.reload_gate.set()
        await asyncio.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        return service

    assert asyncio.run(story()).events == ["start", "ready", "reload", "reload", "stop", "close"]


def test_a_reload_that_fails_is_reported_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        service = Service(reload_error=ConfigError("keys.toml: wrong."))
        running = asyncio.create_task(run(service))
        while "ready" not in service.events:
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)
        await running

    with caplog.at_level(logging.INFO):
        asyncio.run(story())
    assert "reload: keys.toml: wrong. What was loaded before stays in use." in caplog.text
    assert "stopped" in caplog.text


@pytest.mark.parametrize("error", [OSError("disk"), RuntimeError("engine"), MemoryError("full")])
def test_a_reload_that_fails_unexpectedly_is_reported_too(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> Service:
        service = Service(reload_error=error)
        running = asyncio.create_task(run(service))
        while "ready" not in service.events:
            await asyncio.sleep(0.01)
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGHUP)
            while caplog.text.count("then send SIGHUP again") < count:
                await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        return service

    with caplog.at_level(logging.INFO):
        service = asyncio.run(story())
    assert service.events == ["start", "ready", "reload", "reload", "stop", "close"]
    assert f"reload: failed: {error}." in caplog.text


def test_a_port_is_taken_from_the_moment_the_socket_is_made() -> None:
    with listening_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port}: Address already in use"):
            listening_socket("127.0.0.1", port)


def test_ipv6_is_listened_at() -> None:
    try:
        listening = listening_socket("::1", 0)
    except ListenError:
        pytest.skip("this system has no IPv6")
    with listening:
        assert listening.family == socket.AF_INET6


def test_as_many_connections_as_files_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"set": (0, 0)}
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 1000))
    monkeypatch.setattr("resource.setrlimit", lambda _, pair: limits.update(set=pair))
    assert allowed_connections(100) == 100
    assert limits["set"] == (356, 1000)
    assert allowed_connections(4096) == 1000 - 256
    assert limits["set"] == (1000, 1000)
