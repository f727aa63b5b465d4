"""Metrics, access log, request ids, forwarded headers: what operators see of requests, and what they never see."""

import asyncio
import json
import logging
import re
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from transduce.errors import ConfigError
from transduce.serve.operations.access_log import ACCESS_LOG, Observation, request_id, trace_parent
from transduce.serve.operations.log import service_logs
from transduce.serve.operations.metrics import Metrics
from transduce.serve.operations.proxies import ForwardedHeaders
from transduce.serve.operations.request_record import record_of
from transduce.serve.requests import Priority, Waiting

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def translate(request: Request) -> Response:
    record = record_of(request.scope)
    record.protocol, record.key_name, record.characters, record.waiting = "own", "weblate", 12, Waiting(0.25)
    record.headers = [(b"ratelimit", b'"day";r=1;t=2')]
    return JSONResponse({"text": (await request.body()).decode()})


async def ready(request: Request) -> Response:
    return JSONResponse({}, 503 if "failing" in request.query_params else 200)


async def failing(_: Request) -> Response:
    raise ValueError("geheim")


class Stopping:
    value = False

    def __call__(self) -> bool:
        return self.value


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def stopping() -> Stopping:
    return Stopping()


@pytest.fixture
def client(metrics: Metrics, stopping: Stopping) -> TestClient:
    routes = [
        Route("/translate", translate, methods=["POST"]),
        Route("/things/{name}", translate, methods=["POST"]),
        Route("/failing", failing, methods=["POST"]),
        *(Route(path, ready) for path in ("/ready", "/health", "/metrics", "/languages")),
    ]
    app = Observation(Starlette(routes=routes), metrics, stopping)
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    ACCESS_LOG.setLevel(logging.INFO)
    yield lambda: [json.loads(record.getMessage()) for record in caplog.records if record.name == ACCESS_LOG.name]
    ACCESS_LOG.setLevel(logging.NOTSET)


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    text = metrics.exposition()[0].decode()
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            if each.name == name and each.labels == labels:
                return float(each.value)
    return None


# --- the access log -------------------------------------------------------------------------------------------


def test_a_request_has_a_line_and_nothing_of_its_text(client: TestClient, lines: Any) -> None:
    headers = {"X-Request-ID": "abc-1", "traceparent": TRACE, "Authorization": "Bearer geheim"}
    answer = client.post("/translate?q=geheim", content="geheim", headers=headers)
    assert answer.headers["x-request-id"] == "abc-1"
    assert answer.headers["ratelimit"] == '"day";r=1;t=2'
    [line] = lines()
    seconds, time = line.pop("seconds"), line.pop("time")
    assert 0 <= seconds < 60
    assert time.endswith("Z")
    assert line == {
        "request_id": "abc-1",
        "client": "testclient",
        "key": "weblate",
        "method": "POST",
        "route": "/translate",
        "protocol": "own",
        "status": 200,
        "characters": 12,
        "queue_seconds": 0.25,
        "traceparent": TRACE,
    }


def test_a_line_has_only_what_there_is(client: TestClient, lines: Any) -> None:
    """Nothing was queued, no trace was passed on, and the connection says nothing of its client."""
    assert client.get("/ready?failing").status_code == 503
    [line] = lines()
    assert list(line) == [
        *("time", "request_id", "client", "key", "method", "route", "protocol", "status", "seconds", "characters")
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert line["seconds"] == round(line["seconds"], 4)
    assert (line["key"], line["protocol"], line["characters"]) == ("", "", 0)


def test_times_are_told_to_a_tenth_of_a_millisecond(
    metrics: Metrics, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([10.0, 11.23456789])
    monkeypatch.setattr("transduce.serve.operations.access_log.time", SimpleNamespace(perf_counter=lambda: next(times)))

    async def application(scope: Any, receive: Any, send: Any) -> None:
        record_of(scope).waiting = Waiting(0.98765432)

    scope: Any = {"type": "http", "headers": [], "method": "GET", "client": ("10.0.0.7", 1)}
    nothing: Any = None
    asyncio.run(Observation(application, metrics, lambda: False)(scope, nothing, nothing))
    [line] = lines()
    assert (line["seconds"], line["queue_seconds"], line["client"]) == (1.2346, 0.9877, "10.0.0.7")
    labels = {"protocol": "none", "route": "unknown"}
    assert sample(metrics, "transduce_request_seconds_sum", **labels) == pytest.approx(1.23456789)


def test_requests_are_counted_while_they_are_answered_and_other_messages_pass(metrics: Metrics) -> None:
    passed: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        passed.append((scope["type"], sample(metrics, "transduce_requests_in_progress")))

    async def call(kind: str) -> None:
        scope = {"type": kind, "headers": [], "method": "POST", "client": None}
        await Observation(application, metrics, lambda: False)(scope, None, None)  # type: ignore[arg-type]

    for kind in ("http", "lifespan"):
        asyncio.run(call(kind))
    assert passed == [("http", 1), ("lifespan", 0)]
    assert sample(metrics, "transduce_requests_total", protocol="none", route="unknown", status="499") == 1


def test_of_an_address_only_the_template_is_told(client: TestClient, lines: Any, metrics: Metrics) -> None:
    client.post("/things/geheim")
    client.post("/geheim")
    assert [line["route"] for line in lines()] == ["/things/{name}", ""]
    assert [line["status"] for line in lines()] == [200, 404]
    assert b"geheim" not in metrics.exposition()[0]
    assert sample(metrics, "transduce_requests_total", protocol="none", route="unknown", status="404") == 1


def test_a_probe_has_a_line_only_if_something_is_wrong(client: TestClient, lines: Any, metrics: Metrics) -> None:
    for path in ("/ready", "/health", "/metrics"):
        assert client.get(path).status_code == 200
    assert lines() == []
    assert client.get("/ready?failing").status_code == 503
    assert client.get("/languages").status_code == 200
    assert [(line["route"], line["status"]) for line in lines()] == [("/ready", 503), ("/languages", 200)]
    assert sample(metrics, "transduce_requests_total", protocol="none", route="/ready", status="200") == 1


def test_an_application_that_fails_is_noted(client: TestClient, lines: Any, metrics: Metrics) -> None:
    assert client.post("/failing").status_code == 500
    assert "geheim" not in json.dumps(lines())
    assert lines()[0]["status"] == 500
    assert sample(metrics, "transduce_requests_in_progress") == 0


def test_a_client_that_left_is_noted(metrics: Metrics, lines: Any) -> None:
    async def abandoned(scope: Any, receive: Any, send: Any) -> None:
        raise asyncio.CancelledError

    async def call() -> None:
        scope = {"type": "http", "headers": [], "method": "POST", "client": None}
        with pytest.raises(asyncio.CancelledError):
            await Observation(abandoned, metrics, lambda: False)(scope, None, None)  # type: ignore[arg-type]

    asyncio.run(call())
    assert lines()[0]["status"] == 499
    assert sample(metrics, "transduce_requests_in_progress") == 0


def test_clients_are_sent_away_while_the_service_ends(client: TestClient, stopping: Stopping) -> None:
    assert "connection" not in client.post("/translate").headers
    stopping.value = True
    assert client.post("/translate").headers["connection"] == "close"


@pytest.mark.parametrize("given", ["a" * 128, "0af7651916cd43dd", "A.b_c-9"])
def test_a_request_id_is_kept(given: str) -> None:
    assert request_id(given) == given


@pytest.mark.parametrize("given", [None, "", "a" * 129, "a b", 'x"y', "ü", "a\nb", "{}"])
def test_a_wrong_request_id_is_replaced(given: str | None) -> None:
    made = request_id(given)
    assert len(made) == 32
    assert made != request_id(given)


@pytest.mark.parametrize("given", [TRACE, f" {TRACE} ", "cc" + TRACE[2:] + "-what-comes-later"])
def test_a_trace_parent_is_kept(given: str) -> None:
    assert trace_parent(given) == given.strip()


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "ff" + TRACE[2:],
        TRACE.upper(),
        TRACE + "-x",
        TRACE[:-1],
        "00-" + "0" * 32 + TRACE[35:],
        TRACE[:36] + "0" * 16 + "-01",
    ],
)
def test_a_wrong_trace_parent_is_dropped(given: str | None) -> None:
    assert trace_parent(given) == ""


def test_the_log_of_events_tells_no_message_of_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    with service_logs(access_log=True, quiet=False):
        logging.getLogger("transduce.serve").info("serving %s", "en→de")
        logging.getLogger("uvicorn.error").info("Started server process")
        logging.getLogger("python_multipart.multipart").warning("Expected boundary character 45, got 103 at index 2")
        try:
            raise ValueError("geheim")
        except ValueError as error:
            logging.getLogger("uvicorn.error").error("Exception in ASGI application\n", exc_info=error)
        ACCESS_LOG.info("%s", "{}")
    with service_logs(access_log=False, quiet=True):
        logging.getLogger("transduce.serve").info("serving")
        logging.getLogger("transduce.serve.web.app").warning("slow\n")
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        ACCESS_LOG.info("%s", "{}")
    assert logging.raiseExceptions
    assert logging.getLogger("transduce.serve").propagate
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "transduce: serving en→de",
        "transduce: error: Exception in ASGI application (ValueError)",
        "{}",
        "transduce: warning: slow",
        "transduce: warning: Invalid HTTP request received.",
    ]


# --- metrics --------------------------------------------------------------------------------------------------


def test_what_the_core_tells_is_counted(metrics: Metrics) -> None:
    for _ in range(2):
        metrics.batch_done("m30k", num_sentences=8, num_tokens=100, fill=0.5, seconds=0.25)
    metrics.waited("m30k", Priority.BULK, 0.3)
    metrics.model_event("m30k", "loaded")
    by_model = {"model": "m30k"}
    assert sample(metrics, "transduce_batches_total", **by_model) == 2
    assert sample(metrics, "transduce_sentences_total", **by_model) == 16
    assert sample(metrics, "transduce_source_tokens_total", **by_model) == 200
    assert sample(metrics, "transduce_engine_seconds_total", **by_model) == 0.5
    assert sample(metrics, "transduce_batch_fill_sum", **by_model) == 1
    assert sample(metrics, "transduce_queue_seconds_sum", model="m30k", priority="bulk") == 0.3
    assert sample(metrics, "transduce_model_events_total", model="m30k", event="loaded") == 1
    assert (sample(metrics, "process_resident_memory_bytes") or 0) > 10_000_000


def test_requests_are_counted_by_protocol_route_and_status(client: TestClient, metrics: Metrics) -> None:
    for _ in range(3):
        client.post("/translate", content="Hallo")
    labels = {"protocol": "own", "route": "/translate"}
    assert sample(metrics, "transduce_requests_total", **labels, status="200") == 3
    assert sample(metrics, "transduce_request_seconds_count", **labels) == 3
    assert sample(metrics, "transduce_characters_total", protocol="own") == 36


def test_times_and_shares_are_counted_in_the_bins_that_dashboards_use(metrics: Metrics) -> None:
    metrics.answered("own", "/x", 200, 0.02, 0)
    metrics.waited("m", Priority.INTERACTIVE, 0.02)
    metrics.batch_done("m", 1, 1, 0.35, 1.0)
    metrics.store_failures.inc()
    text = metrics.exposition()[0].decode()
    seconds = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "30.0", "+Inf"]
    shares = ["0.05", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0", "+Inf"]
    for name, labels, bins, first in (
        ("transduce_request_seconds", 'le="{}",protocol="own",route="/x"', seconds, 2),
        ("transduce_queue_seconds", 'le="{}",model="m",priority="interactive"', seconds, 2),
        ("transduce_batch_fill", 'le="{}",model="m"', shares, 4),
    ):
        expected = [
            f"{name}_bucket{{{labels.format(each)}}} {float(index >= first)}" for index, each in enumerate(bins)
        ]
        assert [line for line in text.splitlines() if line.startswith(f"{name}_bucket")] == expected
    assert sample(metrics, "transduce_store_failures_total") == 1


def test_two_services_count_apart() -> None:
    first, second = Metrics(), Metrics()
    first.batch_done("a", 1, 1, 1.0, 1.0)
    assert sample(second, "transduce_batches_total", model="a") is None


def test_a_watched_value_is_read_when_asked_for(metrics: Metrics) -> None:
    values = [1.0]
    metrics.watch("transduce_ready", "Whether the service is ready", lambda: values[-1])
    assert sample(metrics, "transduce_ready") == 1
    values.append(0.0)
    assert sample(metrics, "transduce_ready") == 0
    metrics.watch_by("model", "transduce_waiting_sentences", "Sentences in the queue", lambda: {"m30k": 17, "paper": 0})
    assert sample(metrics, "transduce_waiting_sentences", model="m30k") == 17
    assert sample(metrics, "transduce_waiting_sentences", model="paper") == 0
    metrics.watch_by("state", "transduce_stored_documents", "Documents", lambda: {"queued": 2, "done": 5})
    assert sample(metrics, "transduce_stored_documents", state="done") == 5


def test_ends_of_documents_and_unknown_addresses_are_counted_by_name(metrics: Metrics) -> None:
    for end in ("done", "done", "expired"):
        metrics.document_ended(end)
    assert [sample(metrics, "transduce_documents_total", end=end) for end in ("done", "expired")] == [2, 1]
    metrics.answered("", "", 404, 0.25, 0)
    metrics.answered("own", "/x", 200, 0.5, 7)
    unknown = {"protocol": "none", "route": "unknown"}
    assert sample(metrics, "transduce_requests_total", **unknown, status="404") == 1
    assert sample(metrics, "transduce_request_seconds_sum", **unknown) == 0.25
    assert sample(metrics, "transduce_characters_total", protocol="none") is None
    assert sample(metrics, "transduce_characters_total", protocol="own") == 7


def test_both_formats_of_prometheus_are_spoken(metrics: Metrics) -> None:
    assert metrics.exposition()[1].startswith("text/plain")
    text, content_type = metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


# --- proxies --------------------------------------------------------------------------------------------------


def seen_by_the_service(trusted: list[str], peer: str, **forwarded: str) -> dict[str, Any]:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope)
        assert request.client is not None
        seen = {"client": request.client.host, "scheme": request.url.scheme, "host": request.headers["host"]}
        await JSONResponse(seen)(scope, receive, send)

    headers = {f"X-Forwarded-{name.title()}": value for name, value in forwarded.items()}
    wrapped = ForwardedHeaders(application, trusted)
    seen: dict[str, Any] = (
        TestClient(wrapped, client=(peer, 1234), base_url="http://inner").get("/", headers=headers).json()
    )
    return seen


FORWARDED = {"for": "203.0.113.9", "proto": "https", "host": "translate.example.org"}


@pytest.mark.parametrize("trusted", [["10.0.0.1"], ["10.0.0.0/8"], ["192.0.2.1", "10.0.0.0/30"]])
def test_a_trusted_proxy_is_believed(trusted: list[str]) -> None:
    seen = seen_by_the_service(trusted, "10.0.0.1", **FORWARDED)
    assert seen == {"client": "203.0.113.9", "scheme": "https", "host": "translate.example.org"}


def test_an_address_of_ipv4_is_one_at_a_socket_of_both_versions_too() -> None:
    """With host = "::", the system writes 10.0.0.1 as ::ffff:10.0.0.1 (RFC 4291, section 2.5.5.2)."""
    seen = seen_by_the_service(["10.0.0.0/8"], "::ffff:10.0.0.1", **FORWARDED)
    assert seen == {"client": "203.0.113.9", "scheme": "https", "host": "translate.example.org"}
    scope: dict[str, Any] = {"type": "http", "headers": []}
    scope |= {"client": ("::ffff:10.0.0.1", 4000), "server": ("::ffff:10.0.0.2", 5000)}

    async def application(*_: object) -> None:
        assert (scope["client"], scope["server"]) == (("10.0.0.1", 4000), ("10.0.0.2", 5000))

    unused: Any = None
    asyncio.run(ForwardedHeaders(application, [])(scope, unused, unused))


@pytest.mark.parametrize("trusted", [[], ["10.0.0.2"], ["10.1.0.0/16"]])
def test_nobody_else_is_believed(trusted: list[str]) -> None:
    seen = seen_by_the_service(trusted, "10.0.0.1", **FORWARDED)
    assert seen == {"client": "10.0.0.1", "scheme": "http", "host": "inner"}


def test_an_address_that_the_client_made_up_is_not_believed() -> None:
    """The client sent the first; the proxy added the second, from which the request came."""
    seen = seen_by_the_service(["10.0.0.1"], "10.0.0.1", **{"for": "1.2.3.4, 203.0.113.9"})
    assert seen["client"] == "203.0.113.9"


def test_a_chain_of_proxies_is_followed_to_the_client() -> None:
    seen = seen_by_the_service(
        ["10.0.0.0/8"], "10.0.0.1", **{"for": "203.0.113.9, 10.0.0.2", "host": "a.example, b.inner"}
    )
    assert (seen["client"], seen["host"]) == ("203.0.113.9", "a.example")


@pytest.mark.parametrize(
    "host", ["a-b.example", "a.example:8080", "[2001:db8::1]", "[2001:db8::1]:443", "x" * 253, "127.0.0.1:1"]
)
def test_hosts_of_all_kinds_are_taken(host: str) -> None:
    assert seen_by_the_service(["10.0.0.1"], "10.0.0.1", host=f" {host} , b.inner")["host"] == host


@pytest.mark.parametrize("host", ["", "a b", "evil.example/path", "x" * 300, "user@host", "[::1"])
def test_a_malformed_host_is_not_taken(host: str) -> None:
    assert seen_by_the_service(["10.0.0.1"], "10.0.0.1", host=host)["host"] == "inner"


@pytest.mark.parametrize("entry", ["proxy.example.org", "10.0.0.0/33", "*", "10.0.0.1/8", ""])
def test_an_entry_that_trusts_nobody_is_an_error(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.trusted_proxies: .*10\.0\.0\.0/8"):
        ForwardedHeaders(PlainTextResponse("x"), [entry])
