"""What a connection may do: how many there are, how long headers may be and take, and how slowly answers are read.

uvicorn waits for ever for the headers of a request, for a client that does not read its answer, and for the rest of a
body that was refused.
"""

import asyncio
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 64 << 10  # also of headers that arrive at once: see `web.app.RequestHeads`
_MAX_DROPPED_BYTES = 16 << 20  # of a body whose request is answered already
_MAX_SENT_AHEAD = 16  # requests of a connection that wait for the answer to the one before
_REFUSAL = (
    b"HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
    b"retry-after: 1\r\nconnection: close\r\n\r\n%s"
)


class _RequestParser(httptools.HttpRequestParser):
    """Ignores a wish for another protocol, as RFC 9110, §7.8, allows: Java's client asks for HTTP/2 so.

    httptools takes what follows such headers for the other protocol, also the body of the request. So these headers are
    read a second time, without `Upgrade`.
    """

    def __init__(self, connection: "BoundedProtocol") -> None:
        self._connection = connection
        self._begin()

    def _begin(self) -> None:
        super().__init__(self._connection)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own

    @property
    def wants_upgrade(self) -> bool:
        """Whether the headers that were read last ask for another protocol."""
        return bool(self.should_upgrade()) and self.get_method() != b"CONNECT"

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        """Reads what a client sent."""
        while not self._connection.transport.is_closing():
            try:
                super().feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if not self.wants_upgrade:
                    raise
                [end] = upgrade.args  # of the headers
                data = self._connection.head_without_upgrade() + data[end:]
                self._begin()  # what it has read may have been the last request of the connection


class BoundedProtocol(HttpToolsProtocol):
    """A connection with limits; a subclass has those that are configured."""

    max_connections: ClassVar[int] = 4096
    header_seconds: ClassVar[float] = 10.0  # from the first byte of a request, or of a connection, to the last header
    answer_seconds: ClassVar[float] = 60.0  # that a client makes an answer wait in all, because it reads slowly
    rest_seconds: ClassVar[float] = 5.0  # for the rest of a body whose request is answered already
    refused: ClassVar[Any] = None  # counts connections above the limit

    _headers_due: asyncio.TimerHandle | None = None
    _answer_due: asyncio.TimerHandle | None = None
    _rest_due: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _dropped_bytes = 0
    _ends = False  # whether the connection ends with the answer that was sent last
    _reading_since = _reading_seconds = 0.0  # how long the answer has waited for its reader

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Takes what uvicorn passes."""
        super().__init__(*arguments, **named)
        self.parser: _RequestParser = _RequestParser(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            if self.refused is not None:
                self.refused.inc()
            self._refuse(b"503 Service Unavailable", b"Too many connections.")
            return
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends all waiting."""
        self._headers_arrived()
        self._answer_read()
        self._rest_arrived()
        super().connection_lost(exc)

    def _unsupported_upgrade_warning(self) -> None:
        """Logs nothing: CONNECT, which is left, is answered as any method that an address does not have."""

    def data_received(self, data: bytes) -> None:
        """Counts the bytes of headers, and of bodies that nobody reads."""
        if self._rest_due is not None:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > _MAX_DROPPED_BYTES:
                self.transport.abort()
            if self._ends:
                return
        if self._headers_due is not None:
            self._header_bytes += len(data)
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._headers_due is not None and self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(b"431 Request Header Fields Too Large", b"The headers are too long.")

    def on_message_begin(self) -> None:
        """Begins to wait for the headers of a request."""
        super().on_message_begin()
        if self._headers_due is None:
            self._header_bytes = 1  # at least
            self._await_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a header. Fields after a body are dropped: they may be endless, and nothing reads them."""
        if self._headers_due is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Ends the waiting for headers. A client that sends too many requests ahead is cut off."""
        if self.parser.wants_upgrade:
            return
        self._headers_arrived()
        if len(self.pipeline) >= _MAX_SENT_AHEAD:
            self.transport.abort()
            return
        if not self.transport.get_write_buffer_size():
            self._answer_read()
        self._reading_seconds = 0.0
        super().on_headers_complete()
        self.cycle.transport = _AnswerTransport(self)  # type: ignore[assignment]

    def on_message_complete(self) -> None:
        """Goes on with the next request."""
        if self.parser.wants_upgrade:
            return
        super().on_message_complete()
        self._rest_arrived()

    def head_without_upgrade(self) -> bytes:
        """Returns the request line and the headers that were read last, without `Upgrade`."""
        version = self.parser.get_http_version().encode()
        kept = [name + b": " + value + b"\r\n" for name, value in self.headers if name != b"upgrade"]
        return b"".join([self.parser.get_method(), b" ", self.url, b" HTTP/", version, b"\r\n", *kept, b"\r\n"])

    def on_response_complete(self) -> None:
        """Gives the client time to read what is left of the answer, and to send what is left of the body."""
        rest_is_due = self.cycle.more_body and not self.pipeline  # else the cycle is of a request sent ahead
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._await_reading()
        if rest_is_due and not self.transport.is_closing():
            self._await_rest()

    def end(self) -> None:
        """Ends the connection after an answer.

        A client that is still sending is given time to read it: the system resets a connection that is closed while
        bytes are unread, and then the client loses the answer.
        """
        if not self.cycle.more_body:
            self.transport.close()
            return
        self._ends = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._await_rest()

    def pause_writing(self) -> None:
        """Gives the client time to read: more waits for it than is kept."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._answer_read()

    def shutdown(self) -> None:
        """Closes the connection if nothing is being answered; see `HttpToolsProtocol.shutdown`."""
        super().shutdown()
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._await_reading()

    def _await_headers(self) -> None:
        self._headers_due = self.loop.call_later(self.header_seconds, self._headers_are_late)

    def _headers_arrived(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _headers_are_late(self) -> None:
        self._headers_due = None
        if self.cycle is not None and not self.cycle.response_complete:  # they are of a request sent ahead
            self._await_headers()
        elif self._header_bytes:
            self._refuse(b"408 Request Timeout", b"The headers came too slowly.")
        else:
            self.transport.close()

    def _await_rest(self) -> None:
        if self._rest_due is None:
            self._dropped_bytes = 0
            self._rest_due = self.loop.call_later(self.rest_seconds, self.transport.abort)

    def _rest_arrived(self) -> None:
        if self._rest_due is not None:
            self._rest_due.cancel()
            self._rest_due = None

    def _await_reading(self) -> None:
        if self._answer_due is None:
            self._reading_since = self.loop.time()
            self._answer_due = self.loop.call_later(self.answer_seconds - self._reading_seconds, self._answer_is_late)

    def _answer_read(self) -> None:
        if self._answer_due is not None:
            self._answer_due.cancel()
            self._answer_due = None
            self._reading_seconds += self.loop.time() - self._reading_since

    def _answer_is_late(self) -> None:
        """Ends the connection of a client that has not read; bytes that it was still to get are lost."""
        self._answer_due = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _refuse(self, status: bytes, message: bytes) -> None:
        self._headers_arrived()
        if not self.transport.is_closing():
            self.transport.write(_REFUSAL % (status, len(message), message))
            self.transport.close()


class _AnswerTransport:
    """What an answer is written to. uvicorn closes it where the connection is to end with the answer."""

    def __init__(self, connection: BoundedProtocol) -> None:
        self._connection = connection
        self.write, self.is_closing = connection.transport.write, connection.transport.is_closing

    def close(self) -> None:
        self._connection.end()
