"""The application as a whole: clients that leave, unexpected errors, other methods and addresses, documents."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from described_answers import DescribedClient, document
from fake_service import FakeService, fake_app
from running_app import running
from transduce.serve.config import LibretranslateConfig, LimitsConfig, ServeConfig
from transduce.serve.operations.keys import KeyRing, add_key
from transduce.serve.web import event_stream, request_body
from transduce.serve.web.detection import Detector

Message = dict[str, Any]
_JSON = [(b"content-type", b"application/json")]


class Connection:
    """A connection to the application, whose client may leave."""

    def __init__(self, app: Starlette, path: str, fields: dict[str, Any] | None) -> None:
        self.app = app
        self.scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": _JSON}
        self.received: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        if fields is not None:
            self.received.put_nowait({"type": "http.request", "body": json.dumps(fields).encode()})

    async def run(self) -> None:
        """Runs the application until it has answered."""

        async def send(message: Message) -> None:
            self.sent.append(message)

        await asyncio.wait_for(self.app(self.scope, self.received.get, send), 10)

    def leave(self) -> None:
        """Closes the connection."""
        self.received.put_nowait({"type": "http.disconnect"})

    @property
    def text(self) -> str:
        """What was sent as the body."""
        return b"".join(message.get("body", b"") for message in self.sent).decode()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Runs a test in an event loop."""

    async def awaited() -> None:
        await test()

    asyncio.run(awaited())


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/translate", {"q": "Hello", "source": "en", "target": "de"}),
        ("/v2/translate", {"text": ["Hello"], "source_lang": "EN", "target_lang": "DE"}),
        ("/api/translate", {"text": ["Hello", "Hi"], "source": "en", "target": "de"}),
        ("/api/translate", {"text": "Hello", "source": "en", "target": "de", "stream": True}),
    ],
)
def test_work_for_a_client_that_leaves_is_given_up(service: FakeService, path: str, fields: dict[str, Any]) -> None:
    async def test() -> None:
        service.gate = asyncio.Event()
        connection = Connection(fake_app(service), path, fields)
        answering = asyncio.create_task(connection.run())
        await _until(lambda: len(service.requests) == 1)
        connection.leave()
        await answering
        assert service.cancelled == 1
        assert connection.sent[0]["status"] == 499

    run(test)


def test_a_service_whose_engine_hangs_asks_for_a_restart(service: FakeService, client: DescribedClient) -> None:
    assert client.get("/health").status_code == 200
    service.hung = ["m30k"]
    for path in ("/health", "/ready"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert answer.json()["status"] == "hung"
        assert "m30k" in answer.json()["reason"]


def test_languages_are_detected_while_all_threads_wait_for_the_database() -> None:
    gate = threading.Event()

    async def detected() -> Any:
        waiting = [asyncio.create_task(asyncio.to_thread(gate.wait, 60)) for _ in range(64)]
        await asyncio.sleep(0)
        try:
            detector = Detector()
            return await asyncio.wait_for(detector.guesses(["The dog runs over the grass."], ["de", "en"]), 30)
        finally:
            gate.set()
            await asyncio.gather(*waiting)
            await detector.stop()

    [[best, _]] = asyncio.run(detected())
    assert best.language == "en"


def test_a_stream_ends_when_its_client_leaves(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        fields = {"text": "One. Two. Three.", "source": "en", "target": "de", "stream": True}
        connection = Connection(fake_app(service), "/api/translate", fields)
        service.gate = asyncio.Event()
        answering = asyncio.create_task(connection.run())
        await _until(lambda: len(service.requests) == 1)
        service.gate.set()
        service.gate = asyncio.Event()
        await _until(lambda: "event: sentence" in connection.text and len(service.requests) == 2)
        connection.leave()
        await answering
        assert service.cancelled == 1
        assert "event: done" not in connection.text

    run(test)


def test_a_stream_that_waits_shows_that_the_service_is_there(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert event_stream.HEARTBEAT_SECONDS <= 20, "proxies end what is silent for 30 or 60 seconds"
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.01)

    async def test() -> None:
        service.gate = asyncio.Event()
        fields = {"text": "One.", "source": "en", "target": "de", "stream": True}
        connection = Connection(fake_app(service), "/api/translate", fields)
        answering = asyncio.create_task(connection.run())
        await _until(lambda: connection.text.count(": the service is working\n\n") >= 2)
        service.gate.set()
        await answering
        assert connection.text.endswith("}\n\n")
        assert "event: done" in connection.text

    run(test)


def test_a_client_that_leaves_before_its_body_is_sent_gets_nothing(service: FakeService) -> None:
    async def test() -> None:
        connection = Connection(fake_app(service), "/translate", None)
        connection.received.put_nowait({"type": "http.request", "body": b'{"q"', "more_body": True})
        connection.leave()
        await connection.run()
        assert connection.sent[0]["status"] == 499
        assert service.requests == []

    run(test)


def test_a_body_that_does_not_come_is_not_waited_for(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "_BODY_SECONDS", 0.05)

    async def test() -> None:
        connection = Connection(fake_app(service), "/translate", None)
        connection.received.put_nowait({"type": "http.request", "body": b'{"q"', "more_body": True})
        await connection.run()
        assert connection.sent[0]["status"] == 408

    run(test)


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/api/translate"])
def test_an_unexpected_error_is_logged_once_without_its_message(
    service: FakeService, client: DescribedClient, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    service.error = KeyError("a secret text")
    service.error.__cause__ = ValueError("another secret")
    fields = {"q": "Hello", "source": "en", "target": "de", "text": ["Hello"], "target_lang": "DE", "source_lang": "EN"}
    known = ("text", "source", "target") if path == "/api/translate" else fields.keys()
    body = {name: fields[name] for name in known}
    answer = super(DescribedClient, client).request("POST", path, json=body)
    assert answer.status_code == 500
    [record] = caplog.records
    request_id = re.search(r"request (\w+): KeyError at .*caused by ValueError", record.getMessage())
    assert request_id is not None
    assert request_id[1] in answer.text
    assert "secret" not in caplog.text + answer.text


_HOST = b"host: x\r\n"


@pytest.mark.parametrize(
    ("version", "path", "headers", "status", "message"),
    [
        (b"1.1", b"/ready", _HOST + b"a: " + b"x" * 65_000, 200, b""),
        (b"1.1", b"/languages", _HOST + b"a: " + b"x" * 100_000, 431, b'"error":"The headers are longer than 64 KiB'),
        (b"1.1", b"/languages?" + b"x" * 35_000, _HOST + b"a: " + b"x" * 35_000, 431, b"longer than 64 KiB"),
        (b"1.1", b"/api/languages", b"a: b", 400, b"The request has 0 headers 'Host'. Send one"),
        (b"1.1", b"/api/languages", _HOST + _HOST, 400, b"The request has 2 headers 'Host'"),
        (b"1.0", b"/ready", b"a: b", 200, b""),  # it came with HTTP/1.1
    ],
)
def test_heads_are_bounded_and_name_their_host(
    version: bytes, path: bytes, headers: bytes, status: int, message: bytes
) -> None:
    with running(fake_app()) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            head = headers.rstrip(b"\r\n") + b"\r\nconnection: close\r\n\r\n"
            connection.sendall(b"GET " + path + b" HTTP/" + version + b"\r\n" + head)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert message in answer


@pytest.mark.parametrize(
    ("path", "names"), [("/nothing", {"error"}), ("/v2/nothing", {"message"}), ("/api/nothing", {"error"})]
)
def test_unknown_addresses_are_answered_as_the_protocol_does(
    client: DescribedClient, path: str, names: set[str]
) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json().keys() == names
    assert client.get("/translate/").status_code == 404


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/api/translate", "/detect"])
def test_other_methods_are_told_which_to_use(client: DescribedClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert "POST" in answer.text
    options = client.options(path)
    assert (options.status_code, options.headers["allow"], options.content) == (204, "POST, OPTIONS", b"")


def test_head_is_get_without_a_body(client: DescribedClient) -> None:
    for path in ("/", "/languages", "/health", "/api/languages", "/v2/languages"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


def test_alive_and_ready(client: DescribedClient, service: FakeService) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}
    service.ready = False
    assert (client.get("/ready").status_code, client.get("/ready").json()) == (503, {"status": "loading"})
    service.stopping = True
    assert client.get("/ready").json() == {"status": "stopping"}
    assert client.get("/health").status_code == 200


def test_each_route_is_described_and_each_description_has_a_route(client: DescribedClient) -> None:
    app = client.app
    assert isinstance(app, Starlette)
    routes = {
        (route.path, method.lower())
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {
        (path, method)
        for path, operations in document()["paths"].items()
        for method in operations
        if method != "parameters"
    }
    assert routes | {("/metrics", "get")} == described  # the last is added where it has no port of its own


def test_descriptions_are_served(client: DescribedClient) -> None:
    found = client.get("/api/openapi.json").json()
    assert found["paths"] == document()["paths"]
    assert found["info"]["title"] == "Transduce"
    configured = fake_app(config=ServeConfig(libretranslate=LibretranslateConfig(title="LibreTranslate")))
    with DescribedClient(configured) as other:
        assert other.get("/spec").json()["info"]["title"] == "LibreTranslate"
        assert other.get("/api/openapi.json").json()["info"]["title"] == "Transduce"


def test_the_page_may_ask_its_own_server_only(client: DescribedClient) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.findall(r"<style|style=|<script(?![^>]*src=)|\son\w+=", answer.text)
    linked = re.findall(r'(?:src|href)="([^"]*)"', answer.text)
    assert {each.partition("/")[0] for each in linked} == {"page", "api"}
    for address in linked:
        assert client.get(f"/{address}").status_code == 200
    assert "http" not in answer.text.replace("over HTTP", "")


def test_a_browser_keeps_the_files_of_the_page_until_they_change(client: DescribedClient) -> None:
    for path in ("/", "/page/main.js", "/page/explorer.html"):
        first = client.get(path)
        again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert client.get(path, headers={"If-None-Match": '"other"'}).content == first.content
    assert client.get("/page/none.js").status_code == 404
    assert client.get("/page/..%2Fopenapi.json").status_code == 404


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/page/main.js", "text/javascript; charset=utf-8"),
        ("/page/layout.css", "text/css; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
        ("/page/explorer.html", "text/html; charset=utf-8"),
    ],
)
def test_what_browsers_are_told_of_a_file(client: DescribedClient, path: str, kind: str) -> None:
    headers = client.get(path).headers
    assert headers["content-type"] == kind
    assert (headers["cache-control"], headers["referrer-policy"]) == ("no-cache", "no-referrer")
    assert headers["x-content-type-options"] == "nosniff"
    ancestors = "'self'" if "explorer" in path else "'none'"
    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        f"frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
    )


_FIELDS = {"q": "a", "text": "a", "source": "en", "target": "de", "target_lang": "de"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("POST", path, 401) for path in ("/api/translate", "/api/alternatives", "/api/detect", "/api/attention")),
        *(("POST", path, 401) for path in ("/api/documents",)),
        *(("GET", f"/api/documents/x{end}", 401) for end in ("", "/result")),
        ("DELETE", "/api/documents/x", 401),
        *(("POST", path, 403) for path in ("/v2/translate", "/v2/languages", "/v2/usage", "/v2/glossaries")),
        *(
            ("GET", path, 403)
            for path in ("/v2/languages", "/v2/usage", "/v2/glossaries", "/v2/glossary-language-pairs")
        ),
        *(("GET", f"/v2/glossaries/x{end}", 403) for end in ("", "/entries")),
        ("DELETE", "/v2/glossaries/x", 403),
        *(("POST", path, 403) for path in ("/v2/document", "/v2/document/x", "/v2/document/x/result")),
        *(("POST", path, 400) for path in ("/translate", "/detect")),  # "Please contact the server operator"
        *(("GET", path, 200) for path in ("/", "/languages", "/frontend/settings", "/spec", "/health", "/ready")),
        *(("GET", path, 200) for path in ("/api/languages", "/api/openapi.json")),
    ],
)
def test_what_needs_a_key(tmp_path: Path, method: str, path: str, status: int) -> None:
    add_key(tmp_path / "keys.toml", "one")
    with DescribedClient(fake_app(keys=KeyRing(tmp_path / "keys.toml"))) as client:
        answer = client.request(method, path, **({"json": _FIELDS} if method == "POST" else {}))
        assert answer.status_code == status
        if status == 400:
            assert answer.json()["error"].startswith("Please contact")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/translate",
            "/detect",
            "/languages",
            "/api/translate",
            "/api/alternatives",
            "/api/detect",
            "/api/attention",
        ),
        *("/v2/translate", "/v2/languages", "/v2/glossaries", "/v2/document/x", "/v2/document/x/result"),
    ],
)
def test_bodies_are_bounded_everywhere(path: str) -> None:
    with DescribedClient(fake_app(config=ServeConfig(limits=LimitsConfig(body_bytes=100)))) as client:
        for size, is_too_large in ((100, False), (101, True)):
            body = json.dumps({"a": "b" * (size - 9)}).encode() if size == 100 else b"{" * size
            answer = client.post(path, content=body, headers={"content-type": "application/json"})
            assert (answer.status_code == 413) is is_too_large


_ENGLISH_TAG = "<span title='the house of the weather is here today'>"


@pytest.mark.parametrize(
    ("path", "fields", "with_tags"),
    [
        ("/translate", {"q": "{}", "source": "auto", "target": "en"}, {"format": "html"}),
        ("/v2/translate", {"text": ["{}"], "target_lang": "EN"}, {"tag_handling": "xml"}),
        ("/api/translate", {"text": "{}", "target": "en"}, {"markup": "html"}),
    ],
)
def test_tags_say_nothing_about_the_language_of_a_text(
    client: DescribedClient, service: FakeService, path: str, fields: dict[str, Any], with_tags: dict[str, str]
) -> None:
    """Read as text they are English, the target language: then there is nothing to translate."""
    body = json.loads(json.dumps(fields).replace("{}", f"{_ENGLISH_TAG}Haus am See</span>"))
    assert client.post(path, json=body).status_code == 200
    assert service.requests == []
    assert client.post(path, json=body | with_tags).status_code == 200
    assert [request.source for request in service.requests] == ["de"]


def test_a_body_is_read_as_it_is_announced(client: DescribedClient) -> None:
    fields = json.dumps({"q": "Hello", "source": "en", "target": "de"})
    plain = {"content-type": "application/json"}
    for encoding, status in (("Identity", 200), ("gzip", 415), ("", 415)):
        answer = client.post("/translate", content=fields, headers=plain | {"content-encoding": encoding})
        assert answer.status_code == status
    limit = ServeConfig(limits=LimitsConfig(body_bytes=len(fields)))
    with DescribedClient(fake_app(config=limit)) as exact:
        assert exact.post("/translate", content=fields, headers=plain).status_code == 200
        longer = exact.post("/translate", content=fields + " ", headers=plain)
        assert (longer.status_code, longer.headers["connection"]) == (413, "close")
        for announced in (str(len(fields) + 1), "1" + "0" * 18):
            assert (
                exact.post("/translate", content=b"", headers=plain | {"content-length": announced}).status_code == 413
            )


def test_a_service_that_is_not_ready_is_asked_again_soon(client: DescribedClient, service: FakeService) -> None:
    service.ready = False
    assert client.get("/ready").headers["retry-after"] == "1"
    service.hung = ["m30k", "paper"]
    for path in ("/ready", "/health"):
        assert client.get(path).headers["retry-after"] == "1"
        assert client.get(path).json()["reason"].endswith("Models: m30k, paper.")


def test_the_explorer_is_framed_by_the_page_only(client: DescribedClient) -> None:
    answer = client.get("/page/explorer.html")
    assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert not re.findall(r"<style|<meta http-equiv|{{", answer.text)
    for name in re.findall(r'(?:src|href)="([^":]*)"', answer.text):
        assert client.get(f"/page/{name}").status_code == 200


def test_the_page_is_small() -> None:
    folder = files("transduce.serve.web") / "page"
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) < 160_000
