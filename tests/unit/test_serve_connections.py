"""What connections may do: slow or long headers, bodies without end, answers that nobody reads, too many, idle ones."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from transduce.serve.listening import Listener, allowed_connections, listening_socket
from transduce.serve.operations.connections import BoundedProtocol
from transduce.serve.operations.metrics import Metrics
from waiting import wait_until

_LONG = 32 << 20  # bytes; more than the system keeps for a client that does not read


@dataclass
class Running:
    """A server in a thread of this process."""

    port: int
    server: uvicorn.Server

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def ask(self, path: str = "/") -> bytes:
        with self.connect() as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            return read_all(connection)

    @property
    def num_connections(self) -> int:
        return len(self.server.server_state.connections)


def read_all(connection: socket.socket) -> bytes:
    """Returns what comes until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


async def short(_: Request) -> Response:
    return PlainTextResponse("short")


async def slow(_: Request) -> Response:
    await asyncio.sleep(1.0)
    return PlainTextResponse("slow")


async def long(_: Request) -> Response:
    return PlainTextResponse(b"x" * _LONG)


async def echo(request: Request) -> Response:
    return PlainTextResponse(request.url.path.encode() + b" " + await request.body())


async def refused(_: Request) -> Response:
    return PlainTextResponse("too large", 413, {"connection": "close"})


class Endless:
    """An answer without end, which records when it was cancelled."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    async def answer(self, _: Request) -> Response:
        return StreamingResponse(self._parts())

    async def _parts(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * (64 << 10)
                await asyncio.sleep(0)  # so that the server sees a client that has gone
        finally:
            self.ended.set()


@contextlib.contextmanager
def running(*more_routes: Route, **limits: Any) -> Iterator[Running]:
    routes = [
        Route("/", short, methods=["GET", "POST"]),
        Route("/slow", slow),
        Route("/long", long),
        Route("/refused", refused, methods=["POST"]),
        Route("/echo/{name}", echo, methods=["POST"]),
    ]
    app = Starlette(routes=[*routes, *more_routes])
    config = uvicorn.Config(
        app,
        http=type("LimitedProtocol", (BoundedProtocol,), {"max_connections": 100} | limits),
        ws="none",
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    listening = listening_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield Running(port, server)
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def test_headers_that_trickle_are_cut_off() -> None:
    with running(header_seconds=0.3) as server, server.connect() as connection:
        with contextlib.suppress(ConnectionError):
            for byte in b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")
        wait_until(lambda: server.num_connections == 0)


def test_a_connection_that_says_nothing_is_closed() -> None:
    with running(header_seconds=0.2) as server, server.connect() as connection:
        assert read_all(connection) == b""
        wait_until(lambda: server.num_connections == 0)


def test_half_sent_headers_of_a_second_request_are_cut_off_too() -> None:
    with running(header_seconds=0.3) as server, server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET / HTTP/1.1\r\nhost:")
        assert b"HTTP/1.1 408 " in read_all(connection)


def test_a_request_that_is_being_answered_is_not_cut_off_by_half_of_the_next() -> None:
    with running(header_seconds=0.2) as server, server.connect() as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\nGET / HTTP/1.1\r\nho")
        answer = connection.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 408 " in answer + read_all(connection)


def test_headers_without_end_are_refused() -> None:
    with running() as server, server.connect() as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000)
        assert read_all(connection).startswith(b"HTTP/1.1 431 ")
        assert server.ask().startswith(b"HTTP/1.1 200 ")


def test_a_long_body_behind_its_headers_is_not_taken_for_headers() -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" + b"x" * 200_000)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def test_fields_behind_a_body_are_dropped() -> None:
    with running() as server, server.connect() as connection:
        headers = b"GET / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        connection.sendall(headers + b"0\r\n" + b"a: b\r\n" * 1000)  # one packet, so all of it is read at once
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        [kept] = server.server.server_state.connections
        assert [name for name, _ in kept.headers] == [b"host", b"transfer-encoding"]  # type: ignore[union-attr]


def test_a_client_that_sends_many_requests_ahead_is_cut_off() -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n" * 30)
        assert read_all(connection) == b""
        assert server.ask().startswith(b"HTTP/1.1 200 ")


def test_a_client_that_does_not_read_its_answer_is_given_up() -> None:
    with running(answer_seconds=0.3) as server, server.connect() as connection:
        connection.sendall(b"GET /long HTTP/1.1\r\nhost: x\r\n\r\n")
        wait_until(lambda: server.num_connections == 1)
        wait_until(lambda: server.num_connections == 0)
        assert len(read_all(connection)) < _LONG


def test_a_client_that_reads_steadily_but_slowly_is_given_up() -> None:
    """Each wait for it is short; all together are not."""
    endless = Endless()
    with running(Route("/endless", endless.answer), answer_seconds=2.0) as server, server.connect() as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n")
        end = time.monotonic() + 40
        with contextlib.suppress(ConnectionError):
            while not endless.ended.is_set() and time.monotonic() < end:
                connection.recv(256 << 10)
                time.sleep(0.05)
        assert endless.ended.is_set()
        wait_until(lambda: server.num_connections == 0)


def post(path: str, content_length: int, further: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {content_length}\r\n{further}\r\n".encode()


@pytest.mark.parametrize("path", ["/refused", "/"])
def test_a_body_that_trickles_behind_its_answer_is_cut_off(path: str) -> None:
    with running(rest_seconds=0.5) as server, server.connect() as connection:
        connection.sendall(post(path, 10**9))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 ")
        end = time.monotonic() + 40
        with contextlib.suppress(ConnectionError):
            while server.num_connections and time.monotonic() < end:
                connection.sendall(b"x")
                time.sleep(0.02)
        assert server.num_connections == 0


def test_a_fast_body_behind_its_answer_is_cut_off_too() -> None:
    with running(rest_seconds=600) as server, server.connect() as connection:
        connection.sendall(post("/refused", 10**12))
        assert read_all(connection).startswith(b"HTTP/1.1 413 ")
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                connection.sendall(b"x" * (1 << 20))
        wait_until(lambda: server.num_connections == 0)


def test_a_client_that_sends_a_whole_body_first_gets_the_answer_to_it() -> None:
    """A connection that is closed while bytes are unread is reset, and the answer lost."""
    with running() as server, server.connect() as connection:
        connection.sendall(post("/refused", 8 << 20))
        connection.sendall(b"x" * (8 << 20))
        time.sleep(0.3)
        assert read_all(connection).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_comes_behind_its_answer_does_not_end_the_connection() -> None:
    with running(rest_seconds=20) as server, server.connect() as connection:
        connection.sendall(post("/", 4))
        answer = b""
        while not answer.endswith(b"short"):  # head and body may come one by one
            answer += connection.recv(1 << 16)
        connection.sendall(b"rest")
        connection.sendall(post("/", 0, "connection: close\r\n"))
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_a_body_that_never_comes_behind_its_answer_ends_the_connection() -> None:
    with running(rest_seconds=0.5) as server, server.connect() as connection:
        connection.sendall(post("/", 4) + b"re")
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: server.num_connections == 0)


# What java.net.http of Java 17 sends where no HTTP version is chosen, as it was recorded.
JAVA = (
    b"POST /echo/%d HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\n%s\r\nHost: 127.0.0.1:5000\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\nUpgrade: h2c\r\n"
    b"User-Agent: Java-http-client/17.0.15\r\nContent-Type: application/json\r\n\r\n"
)


@pytest.mark.parametrize("size", [1, 7, 300, 100_000])
def test_a_wish_for_another_protocol_is_ignored(size: int) -> None:
    """Requests one after the other, in pieces of any size: none loses its body."""
    sent = JAVA % (1, b"Content-Length: 10") + b"0123456789"
    sent += JAVA % (2, b"Transfer-encoding: chunked") + b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
    sent += JAVA.replace(b"h2c", b"websocket") % (3, b"Content-Length: 0")
    sent += JAVA % (4, b"Content-Length: 3\r\nExpect: 100-continue") + b"end"
    sent += b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with running() as server, server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(sent), size):
            connection.sendall(sent[start : start + size])
        answers = read_all(connection)
    bodies = [part.partition(b"\r\n\r\n")[2] for part in answers.split(b"HTTP/1.1 200 OK")[1:]]
    assert [body.removesuffix(b"HTTP/1.1 100 Continue\r\n\r\n") for body in bodies] == [
        b"/echo/1 0123456789",
        b"/echo/2 abcd",
        b"/echo/3 ",
        b"/echo/4 end",
        b"short",
    ]


@pytest.mark.parametrize(
    ("old", "new"), [(b"HTTP/1.1", b"HTTP/1.0"), (b"HTTP2-Settings\r\n", b"close\r\n")], ids=["HTTP/1.0", "close"]
)
def test_a_wish_for_another_protocol_in_the_last_request_is_ignored_too(old: bytes, new: bytes) -> None:
    body = b"x" * 100_000
    with running() as server, server.connect() as connection:
        connection.sendall((JAVA % (1, b"Content-Length: 100000")).replace(old, new, 1) + body)
        assert read_all(connection).endswith(b"/echo/1 " + body)


def test_many_wishes_for_another_protocol_in_one_packet_end_the_connection() -> None:
    with running() as server, server.connect() as connection:
        connection.sendall(JAVA % (1, b"Content-Length: 1") + b"1" + JAVA % (2, b"Content-Length: 0") * 100)
        assert read_all(connection).count(b"HTTP/1.1") <= 1
        assert server.ask().startswith(b"HTTP/1.1 200 ")


def test_a_client_that_reads_gets_a_long_answer() -> None:
    with running(answer_seconds=20) as server:
        head, _, body = server.ask("/long").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert len(body) == _LONG


def test_connections_above_the_limit_are_refused_and_counted() -> None:
    metrics = Metrics()
    with running(max_connections=3, refused=metrics.connections_refused) as server, contextlib.ExitStack() as stack:
        kept = [stack.enter_context(server.connect()) for _ in range(3)]
        wait_until(lambda: server.num_connections == 3)
        with server.connect() as one_more:
            assert read_all(one_more).startswith(b"HTTP/1.1 503 ")
        assert b"transduce_connections_refused_total 1.0" in metrics.exposition()[0]
        kept[0].close()
        wait_until(lambda: server.num_connections == 2)
        assert server.ask().startswith(b"HTTP/1.1 200 ")


def test_connections_that_are_open_count_before_any_handshake() -> None:
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(listening_socket("127.0.0.1", 0, max_open=2))

        def client() -> socket.socket:
            return stack.enter_context(socket.create_connection(listening.getsockname(), timeout=30))

        clients = [client() for _ in range(3)]
        accepted = [stack.enter_context(listening.accept()[0]) for _ in range(2)]
        with pytest.raises(ConnectionAbortedError):
            listening.accept()
        assert clients[2].recv(1) == b""
        accepted[0].close()
        client()
        stack.enter_context(listening.accept()[0])
    assert Listener(app=None, host="h", port=1, connections=BoundedProtocol).max_open == 4096 + 64


def test_a_thousand_idle_connections_cost_nothing() -> None:
    if allowed_connections(2500) < 2500:  # both ends of each are in this process
        pytest.skip("the system allows too few open files: raise ulimit -n")
    with running(max_connections=1500, header_seconds=60) as server, contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(server.connect())
        wait_until(lambda: server.num_connections == 1000)
        assert len(server.server.server_state.tasks) == 0  # no task, and no thread, waits for them
        assert threading.active_count() < 10
        for _ in range(20):
            assert server.ask().startswith(b"HTTP/1.1 200 ")
        stack.close()
        wait_until(lambda: server.num_connections == 0)
