"""What fails beyond what is foreseen: a reload that runs out of memory, a native call that never ends."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from made_models import untied_folder
from running_service import Events, config_of, request_of, run, running, until
from served_process import write_config
from transduce.serve.assembly import Application
from transduce.serve.config import BatchingConfig, ServerConfig, StateConfig
from transduce.serve.operations.access import Access
from transduce.serve.operations.keys import Key
from transduce.serve.operations.limits import Budgets
from transduce.serve.requests import DeadlineError, StoppingError
from transduce.serve.scheduler import Scheduler
from transduce.serve.served_model import ServedModel
from transduce.serve.service import Service
from transduce.serve.state.store import open_store

pytestmark = pytest.mark.computes


class PanicError(BaseException):
    """What a native extension raises is no `Exception`."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("model") / "first")


@pytest.mark.parametrize("error", [OSError("disk"), RuntimeError("engine"), MemoryError(), PanicError("native")])
def test_a_reload_that_fails_leaves_the_model_and_the_watcher(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    events = Events()

    def failing(*_: Any) -> ServedModel:
        raise error

    async def test() -> None:
        async with running(config_of(folder), events) as service:
            with monkeypatch.context() as patch:
                patch.setattr(ServedModel, "load", failing)
                [message] = await service.reload()
            assert "the model from before stays" in message
            assert "restore the earlier folder" in message
            assert events.events == ["first loaded", "first failed"]
            assert await service.translate(request_of("A dog runs."))
            assert service._watching is not None
            assert not service._watching.done()
            assert await service.reload() == ["first: reloaded"]

    run(test)


def test_the_watcher_outlasts_whatever_is_raised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    async def test() -> None:
        async with running(config_of(folder)) as service:

            def failing() -> None:
                calls.append(1)
                raise PanicError("native")

            monkeypatch.setattr(service._models, "maintain", failing)
            await until(lambda: len(calls) == 2)

    run(test)


def test_an_engine_that_hangs_is_told_and_holds_nobody(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    compute = Scheduler._results
    hangs = True

    def hanging(self: Scheduler, batch: Any) -> Any:
        original = self._compute
        if hangs:
            monkeypatch.setattr(self, "_compute", lambda *given: gate.wait(120) and original(*given))
        return compute(self, batch)

    async def test() -> None:
        batching = BatchingConfig(max_batch_seconds=0.5)
        service = Service(config_of(folder, batching=batching, server=ServerConfig(shutdown_seconds=0.5)))
        await service.start()
        monkeypatch.setattr(Scheduler, "_results", hanging)
        assert service.hung_models() == []
        for _ in range(2):  # the second waits behind the first
            with pytest.raises(DeadlineError):
                await service.translate(replace(request_of("A dog runs."), timeout_seconds=0.2))
        await until(lambda: service.hung_models() == ["first"])
        assert await asyncio.wait_for(service.reload(), 60) == ["first: reloaded"]
        assert service.hung_models() == [], "a new model has taken its place"
        await asyncio.to_thread(service._models.maintain)  # does not wait for the one that hangs
        await asyncio.wait_for(service.stop(), 60)
        gate.set()
        await until(lambda: not [each for each in threading.enumerate() if each.name in ("closing", "first-0")])

    run(test)


def test_new_work_is_refused_while_documents_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        application = Application(config_of(folder, state=StateConfig(url="memory")))
        await application.start()
        stop, ended = application.documents.stop, asyncio.Event()

        async def slow() -> None:
            await ended.wait()
            await stop()

        monkeypatch.setattr(application.documents, "stop", slow)
        stopping = asyncio.create_task(application.stop())
        await until(lambda: application.service.stopping)
        with pytest.raises(StoppingError):
            await application.service.translate(request_of("A dog runs."))
        ended.set()
        await stopping
        await application.close()

    run(test)


def test_a_request_that_is_refused_at_the_very_end_is_not_charged(folder: Path) -> None:
    """Requests are still read after all accepted work is done, and are charged before the service refuses them."""

    async def test() -> None:
        application = Application(config_of(folder, state=StateConfig(url=str(folder / "state.db"))))
        await application.start()
        await application.stop()
        limited = Key("first", "0" * 64, characters_per_day=100)
        access = Access(None, Budgets(application.usage))
        with pytest.raises(StoppingError):
            async with access.charged({"type": "http"}, limited, 60):
                await application.service.translate(request_of("A dog runs."))
        await application.close()

    run(test)
    store = open_store(str(folder / "state.db"))
    assert store.usage("first", "0000-00-00", "9999-99-99") == 0
    store.close()


def test_the_metric_of_readiness_says_what_the_probe_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(config_of(folder, state=StateConfig(url="memory")))
    client = TestClient(application.asgi)

    def both() -> tuple[int, bool]:
        return client.get("/ready").status_code, "\ntransduce_ready 1.0\n" in client.get("/metrics").text

    async def test() -> None:
        assert both() == (503, False), "loading"
        await application.start()
        assert both() == (200, True)
        with monkeypatch.context() as patch:
            patch.setattr(application.service, "hung_models", lambda: ["first"])
            assert both() == (503, False), "hanging"
        assert both() == (200, True)
        await application.stop()
        assert both() == (503, False), "stopping"
        await application.close()

    run(test)


_HANGING_SERVICE = """
import sys, threading
from pathlib import Path
from transduce.serve.config import read_config
from transduce.serve.operations.log import service_logs
from transduce.serve.scheduler import Scheduler
from transduce.serve.server import serve
from transduce.serve.service import Service

def hang(self, batch):
    print("hangs", flush=True)
    threading.Event().wait()

Scheduler._results = hang
start = Service.start

async def start_and_ask(self):
    import asyncio
    from transduce.serve.requests import TranslationRequest
    await start(self)
    self.asking = asyncio.create_task(self.translate(TranslationRequest(texts=["A dog."], source="en", target="de")))

Service.start = start_and_ask
with service_logs(access_log=False, quiet=False):
    serve(read_config(Path(sys.argv[1]), (), {"server": {"port": 0}}))
"""


def test_a_signal_ends_a_process_whose_engine_hangs(folder: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, folder, server={"shutdown_seconds": 0.5})
    process = subprocess.Popen(
        [sys.executable, "-c", _HANGING_SERVICE, str(config)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "hangs\n"
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=90)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1
    assert "an engine does not end its work" in log
    assert "these threads still work: closing" in log
