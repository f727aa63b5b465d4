"""The access log: one line of JSON for each request. It never contains a text, a key, or a query string."""

import json
import logging
import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.serve.operations.metrics import Metrics
from transduce.serve.operations.request_record import record_of

ACCESS_LOG = logging.getLogger("transduce.access")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._\-]{1,128}")
# W3C Trace Context: version, trace id, id of the parent, flags; later versions may have more.
_TRACE_PARENT = re.compile(
    r"(?P<version>(?!ff)[0-9a-f]{2})-(?P<trace>(?!0{32})[0-9a-f]{32})-(?P<parent>(?!0{16})[0-9a-f]{16})-[0-9a-f]{2}"
    r"(?P<more>-.*)?"
)
_PROBES = {"/health", "/ready", "/metrics"}  # requested every few seconds: logged only if they fail
_ABANDONED = 499  # the client left before the answer began


class Observation:
    """Records each request in the access log and the metrics, and adds the common headers to each answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics, is_stopping: Callable[[], bool]) -> None:
        """Takes the application, the metrics, and a function that returns whether the service is stopping."""
        self._app, self._metrics, self._is_stopping = app, metrics, is_stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        headers = Headers(scope=scope)
        record = record_of(scope)
        record.request_id = request_id(headers.get("x-request-id"))
        record.trace_parent = trace_parent(headers.get("traceparent"))
        status = _ABANDONED

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                closing = [(b"connection", b"close")] if self._is_stopping() else []  # so that clients reconnect
                own = (b"x-request-id", record.request_id.encode())
                message["headers"] = [*message["headers"], own, *record.headers, *closing]
            await send(message)

        self._metrics.in_progress.inc()
        try:
            await self._app(scope, receive, observed_send)
        finally:
            self._metrics.in_progress.dec()
            seconds = time.perf_counter() - begin
            route = getattr(scope.get("route"), "path", "")
            self._metrics.answered(record.protocol, route, status, seconds, record.characters)
            if ACCESS_LOG.isEnabledFor(logging.INFO) and not (route in _PROBES and status == HTTPStatus.OK):
                ACCESS_LOG.info("%s", _line(scope, route, status, seconds))


def request_id(given: str | None) -> str:
    """Returns the request's id from the client or a proxy if it is valid; else a new one."""
    return given if given is not None and _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def trace_parent(given: str | None) -> str:
    """Returns a valid `traceparent`, or ""."""
    match = _TRACE_PARENT.fullmatch(given.strip()) if given is not None else None
    if match is None or (match["version"] == "00" and match["more"]):
        return ""
    return match[0]


def _line(scope: Scope, route: str, status: int, seconds: float) -> str:
    """Returns the JSON of a request. Its address is logged as the template of its route: it could contain anything."""
    record = record_of(scope)
    client = scope.get("client")
    values: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "request_id": record.request_id,
        "client": client[0] if client else "",
        "key": record.key_name,
        "method": scope["method"],
        "route": route,
        "protocol": record.protocol,
        "status": status,
        "seconds": round(seconds, 4),
        "characters": record.characters,
    }
    if record.waiting is not None:
        values["queue_seconds"] = round(record.waiting.seconds, 4)
    if record.trace_parent:
        values["traceparent"] = record.trace_parent
    return json.dumps(values, ensure_ascii=True)
