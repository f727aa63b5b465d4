"""A service without work: what it looks for every now and then must leave nothing, or it fills the memory in days."""

import asyncio
import gc
import operator
import threading
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from made_models import untied_folder
from running_service import config_of, run, until
from transduce.serve import service
from transduce.serve.config import ServerConfig, StateConfig
from transduce.serve.documents import runner
from transduce.serve.operations import limits
from transduce.serve.server import build_server
from transduce.serve.state.documents import DocumentStore

pytestmark = pytest.mark.computes

_INTERVALS = ((runner, "_POLL_SECONDS"), (runner, "_UPKEEP_SECONDS"), (limits, "_SAVE_SECONDS"))
_ROUNDS = 200


def _new_objects() -> int:
    """Returns how many objects there are that were made after `gc.freeze`."""
    gc.collect()
    return len(gc.get_objects())


async def _counts() -> list[int]:
    """Returns how many tasks, threads and open files there are: the fewest of a moment, in which looks end."""
    samples = []
    for _ in range(10):
        await asyncio.sleep(0.02)
        threads = [each for each in threading.enumerate() if not each.name.startswith("asyncio_")]
        samples.append((len(asyncio.all_tasks()), len(threads), len(list(Path("/proc/self/fd").iterdir()))))
    return [min(column) for column in zip(*samples, strict=True)]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list open files")
def test_an_idle_service_grows_by_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    claim: Callable[..., None] = DocumentStore.claim
    monkeypatch.setattr(DocumentStore, "claim", lambda *given: looks.append("claim") or claim(*given))
    monkeypatch.setattr(service, "_WATCH_SECONDS", 0.01)
    for module, name in _INTERVALS:
        monkeypatch.setattr(module, name, 0.01)
    config = config_of(
        untied_folder(tmp_path / "model"),
        server=ServerConfig(port=0),
        state=StateConfig(url=str(tmp_path / "serve.db")),
    )

    async def rounds(address: str, number: int) -> None:
        looks.clear()
        while len(looks) < number:
            for path in ("/health", "/ready", "/metrics"):
                await asyncio.to_thread(lambda path=path: urllib.request.urlopen(address + path, timeout=60).read())

    async def test() -> None:
        server = build_server(config)
        serving = asyncio.create_task(server.run())
        await until(lambda: bool(looks))
        await rounds(server.address, _ROUNDS // 2)
        before = await _counts()
        gc.freeze()  # from here on, only later objects are counted
        await rounds(server.address, _ROUNDS)
        objects = [_new_objects()]
        for _ in range(2):  # a service makes some hundreds late, but only once
            await rounds(server.address, 2 * _ROUNDS)
            objects.append(_new_objects())
        after = await _counts()
        server._ending.set()
        await serving
        assert all(map(operator.le, after, before)), f"tasks, threads, open files: {before}, then {after}"
        grown = [later - earlier for earlier, later in pairwise(objects)]
        assert min(grown) < _ROUNDS, "something is kept of each look"

    run(test)
