"""Server-sent events: an answer that comes piece by piece."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from transduce.serve.web.disconnection import ClientLeftError, disconnection
from transduce.serve.web.refusals import refusal_of

HEARTBEAT_SECONDS = 10.0  # without an event: then a comment shows the client, and proxies, that the service is there
Event = tuple[str, dict[str, Any]]  # its name, and its data
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter: nginx must not collect the events


async def event_stream(
    request: Request, events: AsyncGenerator[Event, None], error_event: Callable[[Exception], Event]
) -> Response:
    """Returns an answer that sends events as they come, and ends when the client disconnects.

    Args:
        request: what the client sent; its body has been read.
        events: the events.
        error_event: returns the last event for an error that comes too late for an HTTP status.

    Raises:
        Exception: the error that came before the first event.
        ClientLeftError: the client left before it.
    """
    stream = _EventStream(request, events, error_event)
    await stream.begin()
    return stream


class _EventStream(Response):
    media_type = "text/event-stream"

    def __init__(
        self, request: Request, events: AsyncGenerator[Event, None], error_event: Callable[[Exception], Event]
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._events, self._error_event = events, error_event
        self._watch = asyncio.create_task(disconnection(request))
        self._next = asyncio.create_task(self._advance())

    async def _advance(self) -> Event | None:
        return await anext(self._events, None)

    async def begin(self) -> None:
        """Waits for the first event, but not longer than for a heartbeat."""
        try:
            await self._wait()
            if self._next.done():
                self._next.result()  # raises what was wrong with the request
            elif self._watch.done():
                raise ClientLeftError
        except BaseException:
            await self._end()
            raise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            while True:
                await self._wait()
                if self._watch.done():
                    return
                if not self._next.done():
                    await _send(send, ": the service is working\n\n")
                    continue
                event = self._next.result()
                if event is None:
                    return
                await _send(send, _written(event))
                self._next = asyncio.create_task(self._advance())
        except Exception as error:
            await _send(send, _written(self._error_event(error)))
            if refusal_of(error) is None:
                raise  # into the log
        finally:
            await self._end()
            await send({"type": "http.response.body", "body": b""})

    async def _wait(self) -> None:
        tasks = (self._next, self._watch)
        await asyncio.wait(tasks, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    async def _end(self) -> None:
        for task in (self._next, self._watch):
            task.cancel()
        await asyncio.gather(self._next, self._watch, return_exceptions=True)
        await self._events.aclose()


async def _send(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _written(event: Event) -> str:
    name, data = event
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
