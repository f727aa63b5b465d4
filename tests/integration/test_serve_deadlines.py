"""Requests that end at their deadline, whatever they wait for, and what goes on behind them."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_models import untied_folder
from running_service import Events, config_of, request_of, run, running, until
from transduce.serve import service as service_module
from transduce.serve.cut_text import CutText
from transduce.serve.requests import DeadlineError
from transduce.serve.served_model import ServedModel
from transduce.translation.pipeline import TextOptions, pipeline
from transduce.translation.windows import Window

pytestmark = pytest.mark.computes

LONG = 30.0  # seconds within which anything happens on a busy machine
NEVER = 4 * LONG  # seconds of work that does not end by itself within a test


@pytest.fixture(autouse=True)
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a service look at its model folders ten times a second: tests wait for that."""
    monkeypatch.setattr(service_module, "_WATCH_SECONDS", 0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("model") / "first")


class SlowStage:
    """A stage of the pipeline that takes long for each line."""

    def __init__(self, stage: Callable[..., Any]) -> None:
        self._stage = stage
        self.started, self.ended = threading.Event(), threading.Event()

    def __call__(self, window: Window, *rest: Any) -> Any:
        try:
            return self._stage(replace(window, lines=self._slowly(window.lines)), *rest)
        finally:
            self.ended.set()

    def _slowly(self, lines: Sequence[str]) -> Iterator[str]:
        for line in lines:
            self.started.set()
            time.sleep(NEVER / 1000)
            yield line


LINES = request_of(*["A dog runs."] * 1000, text_options=TextOptions(split="always"), forbidden=["cat"])


def test_the_pipeline_ends_at_the_deadline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(config_of(folder)) as service:
            stage = SlowStage(pipeline.protect)
            monkeypatch.setattr(pipeline, "protect", stage)
            with pytest.raises(DeadlineError):
                await service.translate(replace(LINES, timeout_seconds=0.2))
            assert await asyncio.to_thread(stage.ended.wait, LONG)

    run(test)


def test_the_pipeline_ends_when_nobody_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(config_of(folder)) as service:
            stage = SlowStage(pipeline.protect)
            monkeypatch.setattr(pipeline, "protect", stage)
            asking = asyncio.create_task(service.translate(LINES))
            assert await asyncio.to_thread(stage.started.wait, LONG)
            asking.cancel()
            await asyncio.wait([asking])
            assert await asyncio.to_thread(stage.ended.wait, LONG)

    run(test)


def test_a_request_does_not_wait_longer_for_a_model_than_until_its_deadline(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Events()
    gate, num_loads = threading.Event(), 0
    config = config_of(folder)
    config = replace(config, models=(replace(config.models[0], unload_after_seconds=0.2),))
    load = ServedModel.load

    def slow_load(*arguments: Any) -> ServedModel:
        nonlocal num_loads
        num_loads += 1
        assert gate.wait(NEVER)
        return load(*arguments)

    async def test() -> None:
        async with running(config, events) as service:
            await until(lambda: "first unloaded" in events.events)
            monkeypatch.setattr(ServedModel, "load", slow_load)
            impatient = request_of("A dog runs.", timeout_seconds=0.2)
            ended = await asyncio.gather(*(service.translate(impatient) for _ in range(8)), return_exceptions=True)
            assert all(isinstance(each, DeadlineError) for each in ended)
            patient = asyncio.create_task(service.translate(request_of("A dog runs.", timeout_seconds=NEVER)))
            await asyncio.sleep(0)
            gate.set()
            assert len(await patient) == 1
            assert num_loads == 1, "who comes later waits for the load that has begun"

    run(test)


def test_the_service_answers_others_while_a_long_text_is_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, started = threading.Event(), threading.Event()

    class SlowlyCut(CutText):
        def __init__(self, *arguments: Any) -> None:
            started.set()
            assert gate.wait(LONG), "nobody else was answered"
            super().__init__(*arguments)

    async def test() -> None:
        async with running(config_of(folder)) as service:
            monkeypatch.setattr(service_module, "CutText", SlowlyCut)
            parts = service.stream(request_of("A dog runs. A man runs."))
            reading = asyncio.create_task(anext(parts))
            assert await asyncio.to_thread(started.wait, LONG)
            assert await service.translate(request_of("A dog runs."))
            gate.set()
            assert (await reading).span == (0, 11)
            await parts.aclose()

    run(test)
