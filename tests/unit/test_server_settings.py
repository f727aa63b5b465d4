"""How the server is set up from its configuration: listeners, uvicorn, TLS, replicas of Ray, and the check."""

import asyncio
import http.client
import resource
import ssl
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from transduce.errors import ConfigError, MissingDependencyError
from transduce.serve import aliveness, listening, ray_app, server
from transduce.serve.aliveness import require_alive
from transduce.serve.config import BatchingConfig, ModelEntry, ServeConfig, ServerConfig
from transduce.serve.listening import Listener, ListenError, allowed_connections, tls_context
from transduce.serve.served_model import ServedModel

# --- what is built --------------------------------------------------------------------------------------------


class Application:
    """An application without models."""

    def __init__(self, config: ServeConfig) -> None:
        self.config, self.asgi = config, "asgi"
        self.metrics = SimpleNamespace(connections_refused="refused")

    def metrics_application(self) -> str:
        return "metrics"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the server was made with."""
    calls: list[Any] = []
    monkeypatch.setattr(server, "Application", Application)
    monkeypatch.setattr(server, "Server", lambda *arguments: calls.append(arguments))
    return calls


def test_the_service_and_its_metrics_have_a_listener_each(
    built: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "allowed_connections", lambda wanted: min(wanted, 50))
    settings: dict[str, Any] = {"host": "h", "port": 7, "certificate": "c.pem", "private_key": "k.pem"}
    server.build_server(ServeConfig(server=ServerConfig(**settings, metrics_port=8, max_connections=60)))
    [(application, [own, metrics])] = built
    shown = (own.app, own.host, own.port, own.certificate, own.private_key)
    assert shown == ("asgi", "h", 7, "c.pem", "k.pem")
    assert (own.connections.max_connections, own.connections.refused) == (50, "refused")
    limits = own.connections
    assert metrics == Listener(
        app="metrics", host="h", port=8, connections=limits
    )  # not encrypted: it is for the inside
    assert application.asgi == "asgi"
    assert caplog.messages == ["the system allows 50 connections (ulimit -n), not 60"]
    caplog.clear()
    server.build_server(ServeConfig(server=ServerConfig(max_connections=50)))
    [_, (_, [only])] = built
    assert (only.host, only.port, only.certificate) == ("127.0.0.1", 5000, "")
    assert caplog.messages == []


def test_uvicorn_leaves_to_the_service_what_is_its_own() -> None:
    kind = type("Connections", (), {})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    config = server._uvicorn_server(Listener(app=print, host="h", port=1, connections=kind), context).config
    assert (config.http_protocol_class, config.ssl) == (kind, context)
    assert (config.ws, config.loop, config.lifespan) == ("none", "asyncio", "on")
    assert (config.access_log, config.proxy_headers, config.server_header) == (False, False, False)
    assert (config.log_config, config.backlog) == (None, 2048)
    assert (config.timeout_keep_alive, config.timeout_graceful_shutdown) == (75, 5)


def test_threads_that_still_work_at_the_end_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exits: list[int] = []

    async def run() -> None:
        """Ends at once."""

    main, first, second = (threading.Thread(name=name) for name in ("main", "m-1", "m-0"))
    threads = [[main], [main, first, second]]
    monkeypatch.setattr(server, "build_server", lambda _: SimpleNamespace(run=run))
    monkeypatch.setattr(server, "threading", SimpleNamespace(enumerate=lambda: threads.pop(0)))
    monkeypatch.setattr(server, "os", SimpleNamespace(_exit=exits.append))
    server.serve(ServeConfig())
    assert (exits, caplog.messages) == ([1], ["ended, although these threads still work: m-0, m-1"])
    threads.extend([[], []])
    server.serve(ServeConfig())
    assert exits == [1]


# --- sockets and certificates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "wanted", "allowed", "set_to"),
    [
        ((256, 1000), 744, 744, (1000, 1000)),
        ((256, 1000), 745, 744, (1000, 1000)),
        ((356, 1000), 100, 100, None),
        ((355, 1000), 100, 100, (356, 1000)),
        ((256, 200), 100, 1, (200, 200)),  # one is better than none
        ((256, resource.RLIM_INFINITY), 5000, 5000, (5256, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 5000, 5000, None),
    ],
)
def test_connections_and_256_other_files_are_open_at_once(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: int, allowed: int, set_to: tuple[int, int] | None
) -> None:
    changes: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.getrlimit", lambda _: limits)
    monkeypatch.setattr("resource.setrlimit", lambda _, pair: changes.append(pair))
    assert allowed_connections(wanted) == allowed
    assert changes == ([] if set_to is None else [set_to])


@pytest.mark.parametrize(
    ("name", "shown"),
    [(("127.0.0.1", 7), "127.0.0.1:7"), (("::1", 7, 0, 0), "[::1]:7"), (("0.0.0.0", 80), "0.0.0.0:80")],
)
def test_an_address_is_shown_as_in_a_url(name: tuple[Any, ...], shown: str) -> None:
    listening_at: Any = SimpleNamespace(getsockname=lambda: name)
    assert listening.shown_address(listening_at) == shown


@pytest.mark.parametrize(("certificate", "scheme"), [("", "http"), ("c.pem", "https")])
def test_the_address_of_the_server_says_whether_it_is_encrypted(
    monkeypatch: pytest.MonkeyPatch, certificate: str, scheme: str
) -> None:
    monkeypatch.setattr(server, "tls_context", lambda _: "context")
    monkeypatch.setattr(
        server, "listening_socket", lambda host, port, _: SimpleNamespace(getsockname=lambda: (host, port))
    )
    monkeypatch.setattr(server, "_uvicorn_server", lambda listener, context: context)
    listeners = [Listener(app=None, host="h", port=1, certificate=certificate), Listener(app=None, host="h", port=2)]
    made = server.Server(None, listeners)  # type: ignore[arg-type]
    assert made.address == f"{scheme}://h:1"
    assert made._servers == ["context" if certificate else None, None]
    assert made._encrypted == ([(listeners[0], "context")] if certificate else [])


def test_old_versions_of_tls_are_not_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(listening, "load_certificate", lambda *arguments: loaded.append(arguments))
    listener = Listener(app=None, host="h", port=1, certificate="c.pem")
    context = tls_context(listener)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert loaded == [(context, listener)]


class Context:
    """Settings of TLS that note what they load, and may refuse it."""

    def __init__(self, loaded: list[Any], error: Exception | None = None) -> None:
        self.loaded, self.error = loaded, error

    def load_cert_chain(self, certificate: str, private_key: str, password: Any) -> None:
        assert password == ""
        self.loaded.append((certificate, private_key))
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("private_key", ["k.pem", ""])
def test_a_certificate_is_tried_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_key: str
) -> None:
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("x")
    monkeypatch.chdir(tmp_path)
    tried, used = [], list[Any]()
    monkeypatch.setattr(listening.ssl, "SSLContext", lambda _: Context(tried))
    listener = Listener(app=None, host="h", port=1, certificate="c.pem", private_key=private_key)
    listening.load_certificate(Context(used), listener)  # type: ignore[arg-type]
    assert tried == used == [("c.pem", private_key or "c.pem")]
    tried.clear()
    wrong = ssl.SSLError(1, "[X509: KEY_VALUES_MISMATCH] key values mismatch")
    wrong.reason = "KEY_VALUES_MISMATCH"
    monkeypatch.setattr(listening.ssl, "SSLContext", lambda _: Context(tried, wrong))
    with pytest.raises(
        ConfigError, match=r"server\.certificate: c\.pem and the key .* cannot be used: key values mismatch"
    ):
        listening.load_certificate(Context(used), listener)  # type: ignore[arg-type]
    assert len(used) == 1, "half of a wrong pair does not get into use"
    (tmp_path / "k.pem").unlink()
    if private_key:
        with pytest.raises(ConfigError, match=r"server\.private_key: k\.pem: No such file"):
            listening.load_certificate(Context(used), listener)  # type: ignore[arg-type]
    (tmp_path / "c.pem").unlink()
    with pytest.raises(ConfigError, match=r"server\.certificate: c\.pem: No such file"):
        listening.load_certificate(Context(used), listener)  # type: ignore[arg-type]


def test_a_reload_reads_certificates_first_and_stops_where_one_is_wrong(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Any] = []
    messages: list[str] = []

    async def reload() -> list[str]:
        events.append("reload")
        return messages

    made: Any = server.Server.__new__(server.Server)
    made._encrypted = [("one", "context"), ("two", "other")]
    made._application = SimpleNamespace(reload=reload)
    monkeypatch.setattr(server, "load_certificate", lambda *arguments: events.append(arguments))
    with caplog.at_level("INFO"):
        asyncio.run(made._reload_now())
        messages.extend(["2 keys", "m: reloaded"])
        asyncio.run(made._reload_now())
    assert events == [("context", "one"), ("other", "two"), "reload"] * 2
    assert caplog.messages == ["reload: nothing has changed", "reload: 2 keys", "reload: m: reloaded"]
    events.clear()

    def wrong(*_: object) -> None:
        raise ConfigError("c.pem: wrong.")

    monkeypatch.setattr(server, "load_certificate", wrong)
    asyncio.run(made._reload_now())
    assert (events, caplog.messages[-1]) == ([], "reload: c.pem: wrong. What was loaded before stays in use.")


# --- the check of a container ---------------------------------------------------------------------------------


class Answering:
    """A connection to a service that answers with a status, or fails."""

    made: list[Any]
    answer: int | Exception

    def __init__(self, host: str, port: int, **options: Any) -> None:
        self.made.append((type(self).__name__, host, port, options.pop("timeout"), sorted(options)))

    def request(self, method: str, path: str) -> None:
        self.made.append((method, path))
        if isinstance(self.answer, Exception):
            raise self.answer

    def getresponse(self) -> Any:
        return SimpleNamespace(status=self.answer)

    def close(self) -> None:
        self.made.append("closed")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the check has done; `Answering.answer` is what it is told."""
    Answering.made, Answering.answer = [], 200
    for name in ("HTTPConnection", "HTTPSConnection"):
        monkeypatch.setattr(http.client, name, type(name, (Answering,), {}))
    return Answering.made


@pytest.mark.parametrize(
    ("host", "reached"),
    [("", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.7", "10.0.0.7"), ("::2", "::2")],
)
def test_the_check_asks_at_the_address_that_is_listened_at(asked: list[Any], host: str, reached: str) -> None:
    require_alive(ServerConfig(host=host, port=7))
    assert asked == [("HTTPConnection", reached, 7, 4.0, []), ("GET", "/health"), "closed"]


def test_the_check_trusts_the_service_s_own_certificate(asked: list[Any]) -> None:
    require_alive(ServerConfig(port=7, certificate="c.pem"))
    assert asked[1:] == [("HTTPSConnection", "127.0.0.1", 7, 4.0, ["context"]), ("GET", "/health"), "closed"]
    assert aliveness.ssl._create_unverified_context().verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (503, "what answers at 127.0.0.1, port 7, is not alive: status 503"),
        (201, "is not alive: status 201"),
        (ConnectionRefusedError("refused"), "no service answers at 127.0.0.1, port 7: refused"),
        (http.client.BadStatusLine("x"), "no service answers at 127.0.0.1, port 7: x"),
    ],
)
def test_what_does_not_answer_well_is_not_alive(asked: list[Any], answer: int | Exception, message: str) -> None:
    Answering.answer = answer
    with pytest.raises(ListenError, match=message):
        require_alive(ServerConfig(port=7))
    assert asked[-1] == "closed"
    with pytest.raises(ConfigError, match=r"server\.port = 0"):
        require_alive(ServerConfig(port=0))


# --- models and replicas --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "options"),
    [
        (
            ModelEntry(
                path="en-de/model", engine="torch", quantization="int8", threads=3, shortlist="auto", draft="self"
            ),
            {"engine": "torch", "quantization": "int8", "threads": 3, "shortlist": "auto", "draft": "self"},
        ),
        (
            ModelEntry(path="en-de"),
            {"engine": "auto", "quantization": None, "threads": None, "shortlist": "off", "draft": ""},
        ),
    ],
)
def test_a_model_is_loaded_as_its_entry_says_and_tried(
    monkeypatch: pytest.MonkeyPatch, entry: ModelEntry, options: dict[str, Any]
) -> None:
    calls: list[Any] = []

    def load(*arguments: Any, **named: Any) -> Any:
        calls.append((arguments, named))
        return SimpleNamespace(
            tokenizer=SimpleNamespace(target_languages=()), translate=lambda texts, text_options: calls.append(texts)
        )

    monkeypatch.setattr("transduce.serve.served_model.Translator.load", load)
    monkeypatch.setattr(ServedModel, "__init__", lambda _, *arguments: calls.append(arguments))
    batching, recorder = BatchingConfig(), object()
    ServedModel.load(ModelEntry(**vars(entry) | {"source": "en"}), batching, recorder)  # type: ignore[arg-type]
    loaded, tried, (name, _, *further) = calls
    assert loaded == ((entry.path,), options)
    assert tried == ["1"]
    assert (name, further) == ("en-de", [batching, recorder, "en"]), "sentences are split as those of its source"


def test_ray_starts_as_many_replicas_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def deployment(application: Any, **options: Any) -> Any:
        calls.append(options)
        return SimpleNamespace(bind=lambda: application)

    fake = ModuleType("ray")
    fake.serve = SimpleNamespace(ingress=lambda build: lambda: build, deployment=deployment)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", fake)
    made: list[Any] = []
    monkeypatch.setattr(ray_app, "Replica", made.append)
    config = ServeConfig(batching=BatchingConfig(max_requests=99))
    monkeypatch.setattr(ray_app, "read_config", lambda path: config if path.name == "serve.toml" else None)
    ray_app.build({"config": "/srv/serve.toml", "replicas": "3"})()
    ray_app.build({"config": "/srv/serve.toml", "replicas": 1})
    ray_app.build({"config": "/srv/serve.toml"})
    shared = {"name": "transduce", "max_ongoing_requests": 99}
    assert calls == [{**shared, "num_replicas": 3}, *[{**shared, "num_replicas": 1}] * 2]
    assert made == [config]


def test_without_ray_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"serve,ray"):
        ray_app.application(ServeConfig())
