"""What is put together around the service: metrics under their names, pages of other origins, the line at start."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from fake_service import FakeService
from transduce.serve.assembly import Application
from transduce.serve.config import KeysConfig, ServeConfig, ServerConfig, StateConfig
from transduce.serve.operations.keys import add_key
from transduce.serve.operations.metrics import Metrics


def _scheduler(num_waiting: int, num_computing: int, oldest_seconds: float) -> Any:
    return SimpleNamespace(num_waiting=num_waiting, num_computing=num_computing, oldest_seconds=lambda: oldest_seconds)


def _application(num_pairs: int = 0, **server: Any) -> Any:
    """Returns an application around a service that has no models."""
    made: Any = Application.__new__(Application)
    made.config, made.metrics = ServeConfig(server=ServerConfig(**server)), Metrics()
    pairs = [SimpleNamespace(source="en", target=f"x{number}") for number in range(num_pairs)]
    schedulers = [_scheduler(3, 10, 0.5), _scheduler(4, 20, 1.5)]
    slots = [
        SimpleNamespace(name="m", loaded="a model", schedulers=schedulers),
        SimpleNamespace(name="unloaded", loaded=None, schedulers=[]),
    ]
    made.service = SimpleNamespace(
        pairs=lambda: pairs,
        ready=True,
        stopping=False,
        slots=slots,
        hung_models=list,
    )
    made.store = SimpleNamespace(is_failing=True)
    made.documents = SimpleNamespace(counts={"queued": 4, "done": 5})
    return made


@pytest.mark.parametrize(
    ("num_pairs", "line"),
    [
        (1, "en→x0"),
        (6, "en→x0, en→x1, en→x2, en→x3, en→x4, en→x5"),
        (8, "en→x0, en→x1, en→x2, en→x3, en→x4, en→x5 and 2 more"),
    ],
)
def test_the_line_at_start(num_pairs: int, line: str) -> None:
    assert _application(num_pairs).describe() == line


def test_what_is_known_at_any_time_is_in_the_metrics() -> None:
    application = _application()
    application._watch()
    text = application.metrics.exposition()[0].decode()
    for expected in (
        "transduce_ready 1.0",
        "transduce_store_failing 1.0",
        'transduce_stored_documents{state="queued"} 4.0',
        'transduce_stored_documents{state="done"} 5.0',
        'transduce_model_loaded{model="m"} 1.0',
        'transduce_waiting_sentences{model="m"} 7.0',
        'transduce_computing_sentences{model="m"} 30.0',
        'transduce_oldest_waiting_seconds{model="m"} 1.5',
        'transduce_model_loaded{model="unloaded"} 0.0',
        'transduce_waiting_sentences{model="unloaded"} 0.0',
        'transduce_oldest_waiting_seconds{model="unloaded"} 0.0',
    ):
        assert f"{expected}\n" in text
    client = TestClient(application.metrics_application())
    assert "transduce_ready 1.0" in client.get("/metrics").text
    for accepted, kind in (("", "text/plain"), ("application/openmetrics-text", "application/openmetrics-text")):
        assert client.get("/metrics", headers={"accept": accepted}).headers["content-type"].startswith(kind)
    assert client.get("/health").status_code == 200


def test_models_whose_folders_have_one_name_are_one_in_the_metrics() -> None:
    """Such as en-de/v1 and de-en/v1: none of them hides what waits for the other."""
    application = _application()
    idle = SimpleNamespace(name="m", loaded=None, schedulers=[_scheduler(0, 2, 0.0)])
    application.service.slots.append(idle)
    application._watch()
    text = application.metrics.exposition()[0].decode()
    for expected in (
        'transduce_model_loaded{model="m"} 1.0',
        'transduce_waiting_sentences{model="m"} 7.0',
        'transduce_computing_sentences{model="m"} 32.0',
        'transduce_oldest_waiting_seconds{model="m"} 1.5',
    ):
        assert f"\n{expected}\n" in text


@pytest.mark.parametrize("metrics_port", [0, 9])
@pytest.mark.parametrize("required", [True, False])
def test_parts_are_made_as_they_are_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metrics_port: int, required: bool
) -> None:
    service: Any = FakeService()
    service.slots = []
    monkeypatch.setattr("transduce.serve.assembly.Service", lambda config, metrics: service)
    secret = add_key(tmp_path / "keys.toml", "one")
    config = ServeConfig(
        server=ServerConfig(metrics_port=metrics_port),
        state=StateConfig(url="memory"),
        keys=KeysConfig(file=str(tmp_path / "keys.toml"), required=required),
    )
    application = Application(config)
    metrics = application.metrics
    assert application.documents._note_end == metrics.document_ended
    assert application.documents._reader._note_characters == metrics.translated
    assert application.usage._on_failure == metrics.store_failures.inc
    assert application.store._database.shown == "in memory"
    client = TestClient(application.asgi)
    assert client.get("/metrics").status_code == (404 if metrics_port else 200)
    fields = {"text": "a", "source": "en", "target": "de"}
    assert client.post("/api/translate", json=fields).status_code == (401 if required else 200)
    answer = client.post("/api/translate", json=fields, headers={"authorization": f"Bearer {secret}"})
    assert answer.status_code == 200
    assert application.usage.of_today("one") == 1
    shown = b'transduce_requests_total{protocol="transduce",route="/api/translate",status="200"}'
    assert shown in metrics.exposition()[0]


def _noting(events: list[str], *names: str, result: Any = None) -> Any:
    """Returns an object whose coroutines note their names."""

    def coroutine(name: str) -> Any:
        async def note() -> Any:
            events.append(name)
            return result

        return note

    return SimpleNamespace(**{name: coroutine(name) for name in names})


def test_in_which_order_things_begin_and_end() -> None:
    events: list[str] = []
    application = _application()
    application.usage = _noting(events, "load")
    application.service = _noting(events, "start", "stop")
    application.service.refuse = lambda: events.append("refuse")
    application.detector = SimpleNamespace(start=lambda: events.append("detector"))
    application.documents = _noting(events, "stop")
    application.store = SimpleNamespace(close=lambda: events.append("close"))

    async def keep_saving() -> None:
        try:
            events.append("saving")
            await asyncio.Event().wait()
        finally:
            events.append("saved")

    application.usage.keep_saving = keep_saving

    async def test() -> None:
        await application.start()
        await asyncio.sleep(0)
        await application.stop()
        await application.close()

    asyncio.run(test())
    assert events == ["load", "start", "detector", "saving", "refuse", "stop", "stop", "saved", "close"]
    application._saving = None
    asyncio.run(application.close())
    assert events[-1] == "close"


@pytest.mark.parametrize(("num_keys", "messages"), [(None, ["m"]), (1, ["1 key", "m"]), (2, ["2 keys", "m"])])
def test_a_reload_reads_keys_and_models(num_keys: int | None, messages: list[str]) -> None:
    class Keys:
        read = 0

        def reload(self) -> None:
            self.read += 1

        def __len__(self) -> int:
            assert self.read == 1
            return num_keys or 0

    application = _application()
    application.keys = None if num_keys is None else Keys()
    application.service = _noting([], "reload", result=["m"])
    assert asyncio.run(application.reload()) == messages


def test_pages_of_the_given_origins_may_ask_and_read() -> None:
    async def answer(_: Request) -> Response:
        return PlainTextResponse("done", headers={"Retry-After": "1"})

    routes = Starlette(routes=[Route("/x", answer, methods=["GET", "DELETE"])])
    application = _application(cors_origins=("https://one.example",))
    client = TestClient(application._wrapped(routes))
    own, other = ({"origin": f"https://{name}.example"} for name in ("one", "other"))
    read = client.get("/x", headers=own).headers
    assert read["access-control-allow-origin"] == "https://one.example"
    shown = {"X-Request-ID", "RateLimit", "RateLimit-Policy", "Retry-After"}
    assert set(read["access-control-expose-headers"].split(", ")) == shown
    assert "access-control-allow-origin" not in client.get("/x", headers=other).headers
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        asked = {"access-control-request-method": method, "access-control-request-headers": "authorization"}
        assert client.options("/x", headers=own | asked).status_code == 200
    without = TestClient(_application()._wrapped(routes))
    assert "access-control-allow-origin" not in without.get("/x", headers=own).headers
    application.service.stopping = True
    assert client.get("/x").headers["connection"] == "close"
