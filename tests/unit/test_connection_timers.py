"""What a connection waits for, and for how long: with a clock and a transport that tests move by hand."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from transduce.serve.operations.connections import BoundedProtocol


@dataclass
class Timer:
    """What is to be called later."""

    seconds: float
    call: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class Task:
    """A task that nobody waits for."""

    def add_done_callback(self, _: object) -> None:
        """Does nothing."""


@dataclass
class Loop:
    """An event loop whose time stands still; requests are answered when a test says so."""

    now: float = 1000.0
    timers: list[Timer] = field(default_factory=list)
    answers: list[Coroutine[Any, Any, None]] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(seconds, call))
        return self.timers[-1]

    def create_task(self, answer: Coroutine[Any, Any, None], **_: object) -> Task:
        self.answers.append(answer)
        return Task()

    def answer(self) -> None:
        """Answers the request that came first."""
        with pytest.raises(StopIteration):
            self.answers.pop(0).send(None)

    @property
    def due(self) -> list[float]:
        """The seconds of what is still to be called, without what keeps an idle connection."""
        return [timer.seconds for timer in self.timers if not timer.cancelled and timer.seconds != 75]


@dataclass
class Transport:
    """Keeps what is written."""

    written: bytes = b""
    unread: int = 0
    closed: bool = False
    aborted: bool = False
    half_closed: bool = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unread

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.half_closed = True

    def pause_reading(self) -> None:
        """Does nothing."""

    resume_reading = pause_reading

    def get_extra_info(self, _: str) -> None:
        return None


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers each request with a word."""
    headers = [(b"content-length", b"4")]
    if b"last" in scope["raw_path"]:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"done"})


@dataclass
class Connection:
    """A connection with its surroundings."""

    protocol: BoundedProtocol
    loop: Loop
    transport: Transport

    def receive(self, *packets: bytes) -> None:
        for packet in packets:
            self.protocol.data_received(packet)


def connect(state: ServerState | None = None, **limits: Any) -> Connection:
    kind: Any = type("LimitedProtocol", (BoundedProtocol,), {"max_connections": 4} | limits)
    config = uvicorn.Config(application, http=kind, ws="none", log_config=None, lifespan="off", timeout_keep_alive=75)
    config.load()
    made = Connection(kind.__new__(kind), Loop(), Transport())
    made.protocol.__init__(config=config, server_state=state or ServerState(), app_state={}, _loop=made.loop)  # type: ignore[misc]
    made.protocol.connection_made(made.transport)  # type: ignore[arg-type]
    return made


GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
KIB = 1 << 10


def refusal(status: str, message: str) -> bytes:
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(message)}\r\n"
        f"retry-after: 1\r\nconnection: close\r\n\r\n{message}"
    ).encode()


def test_the_limits_where_none_are_given() -> None:
    kind = BoundedProtocol
    assert (kind.max_connections, kind.refused) == (4096, None)
    assert (kind.header_seconds, kind.answer_seconds, kind.rest_seconds) == (10.0, 60.0, 5.0)
    assert connect().loop.due == [10.0]


# --- headers --------------------------------------------------------------------------------------------------


def test_headers_may_be_64_kib_long() -> None:
    made = connect()
    made.receive(b"GET / HTTP/1.1\r\na: ", b"b" * (64 * KIB - 19))
    assert not made.transport.closed
    made.receive(b"b")
    assert made.transport.written == refusal("431 Request Header Fields Too Large", "The headers are too long.")
    assert made.transport.closed
    assert made.loop.due == []


def test_the_headers_of_each_request_are_counted_anew() -> None:
    made = connect()
    for _ in range(3):
        made.receive(b"GET / HTTP/1.1\r\na: ", b"b" * (40 * KIB))
        assert made.loop.due == [10.0]
        made.receive(b"\r\n\r\n")
        made.loop.answer()
        assert made.loop.due == []
    assert made.transport.written.count(b"done") == 3


@pytest.mark.parametrize(
    ("sent", "written"), [(b"", b""), (b"G", refusal("408 Request Timeout", "The headers came too slowly."))]
)
def test_a_client_that_has_begun_is_told_that_it_is_late(sent: bytes, written: bytes) -> None:
    made = connect()
    made.receive(*[sent] * bool(sent))
    made.loop.timers[0].call()
    assert (made.transport.written, made.transport.closed) == (written, True)


def test_a_single_byte_of_a_second_request_is_late_too() -> None:
    made = connect()
    made.receive(GET)
    made.loop.answer()
    made.receive(b"G")
    made.loop.timers[-1].call()
    assert made.transport.written.endswith(refusal("408 Request Timeout", "The headers came too slowly."))


def test_headers_that_are_sent_ahead_are_waited_for_until_the_answer_is_there() -> None:
    made = connect()
    made.receive(GET, b"GE")
    made.loop.timers[-1].call()
    assert (made.transport.closed, made.loop.timers[-1].seconds) == (False, 10.0)
    made.loop.answer()
    made.loop.timers[-2].call()
    assert made.transport.closed


@pytest.mark.parametrize(("number", "aborted"), [(17, False), (18, True)])
def test_sixteen_requests_may_wait_behind_the_one_that_is_answered(number: int, aborted: bool) -> None:
    made = connect()
    made.receive(GET * number)
    assert made.transport.aborted is aborted
    for answer in made.loop.answers:
        answer.close()


def test_a_connection_above_the_limit_is_refused_and_counted() -> None:
    class Counter:
        value = 0

        def inc(self) -> None:
            self.value += 1

    state, counter = ServerState(), Counter()
    kept = [connect(state, max_connections=2, refused=counter) for _ in range(2)]
    assert [each.transport.closed for each in kept] == [False, False]
    refused = connect(state, max_connections=2, refused=counter)
    assert refused.transport.written == refusal("503 Service Unavailable", "Too many connections.")
    assert (refused.transport.closed, refused.loop.due, counter.value) == (True, [], 1)
    assert connect(state, max_connections=2).transport.closed, "without a counter too"


# --- answers that are read slowly -----------------------------------------------------------------------------


def test_all_that_an_answer_waits_for_its_reader_counts_together_and_the_next_begins_anew() -> None:
    made = connect()
    made.receive(GET)
    for seconds, left in ((20.0, 60.0), (15.0, 40.0), (5.0, 25.0)):
        made.protocol.pause_writing()
        assert made.loop.due == [left]
        made.loop.now += seconds
        made.protocol.resume_writing()
        made.loop.now += 100.0  # which it did not wait
        assert made.loop.due == []
    made.loop.answer()
    made.receive(GET)
    made.protocol.pause_writing()
    assert made.loop.due == [60.0]
    made.loop.answers.pop().close()


def test_a_client_is_given_up_where_something_is_left_to_read() -> None:
    made = connect()
    made.receive(GET)
    made.transport.unread = 1
    made.loop.answer()
    assert made.loop.due == [60.0]
    made.transport.unread = 0
    made.loop.timers[-1].call()
    assert not made.transport.aborted
    made.transport.unread = 1
    made.protocol.pause_writing()
    made.loop.timers[-1].call()
    assert made.transport.aborted


def test_at_the_end_of_the_service_an_answer_that_is_being_read_is_waited_for() -> None:
    made = connect()
    made.receive(GET)
    made.loop.answer()
    made.transport.unread = 1
    made.protocol.shutdown()
    assert (made.transport.closed, made.loop.due) == (True, [60.0])
    begun = connect()
    begun.receive(GET)
    begun.transport.unread = 1
    begun.protocol.shutdown()
    assert (begun.transport.closed, begun.loop.due) == (False, []), "it is being answered"
    begun.loop.answers.pop().close()
    idle = connect()
    idle.protocol.shutdown()
    assert (idle.transport.closed, idle.loop.due) == (True, [10.0])


# --- bodies behind their answers ------------------------------------------------------------------------------


def post(size: int, path: str = "/") -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n".encode()


@pytest.mark.parametrize("path", ["/", "/last"])
def test_of_a_body_behind_its_answer_16_mib_are_dropped(path: str) -> None:
    made = connect()
    made.receive(post(1 << 30, path))
    made.loop.answer()
    assert made.loop.due == [5.0]
    assert (made.transport.half_closed, made.transport.closed) == (path == "/last", False)
    made.receive(b"x" * (16 << 20))
    assert not made.transport.aborted
    made.receive(b"x")
    assert made.transport.aborted


def test_each_body_is_dropped_for_itself() -> None:
    made = connect()
    for _ in range(2):
        made.receive(post(10 << 20))
        made.loop.answer()
        assert made.loop.due == [5.0]
        made.receive(b"x" * (10 << 20))
        assert made.loop.due == []
    assert not made.transport.closed


def test_a_body_that_does_not_come_ends_the_connection() -> None:
    made = connect()
    made.receive(post(4))
    made.loop.answer()
    made.receive(b"re")
    made.loop.timers[-1].call()
    assert made.transport.aborted


def test_the_last_answer_closes_the_connection_at_once_where_the_body_has_come() -> None:
    made = connect()
    made.receive(post(4, "/last") + b"rest")
    made.loop.answer()
    assert (made.transport.closed, made.transport.aborted, made.transport.half_closed) == (True, False, False)
    assert made.transport.written.endswith(b"done")


def test_when_a_connection_is_lost_nothing_is_waited_for() -> None:
    made = connect()
    made.receive(post(4))
    made.loop.answer()
    made.receive(b"rest", b"G")
    made.protocol.pause_writing()
    assert made.loop.due == [10.0, 60.0]
    made.protocol.connection_lost(None)
    assert made.loop.due == []
