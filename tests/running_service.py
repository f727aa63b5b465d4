"""The core of the service, running in the event loop of a test."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.serve.config import ModelEntry, ServeConfig
from transduce.serve.requests import Priority, TranslationRequest
from transduce.serve.service import Service


def config_of(*folders: Path, languages: str = "ab bc", **sections: Any) -> ServeConfig:
    """Returns a configuration that serves each folder from one language into another, one letter each."""
    pairs = languages.split()[: len(folders)]
    entries = [
        ModelEntry(path=str(each), source=source, target=target, threads=2)
        for each, (source, target) in zip(folders, pairs, strict=True)
    ]
    return replace(ServeConfig(), models=tuple(entries), **sections)


def request_of(*texts: str, target: str = "b", **further: Any) -> TranslationRequest:
    """Returns a request to the first model of `config_of`."""
    return TranslationRequest(texts=texts, source="a", target=target, **further)


@asynccontextmanager
async def running(config: ServeConfig, recorder: Any = None) -> AsyncIterator[Service]:
    """Yields a service that has started; checks at the end that its threads have ended."""
    before = set(threading.enumerate())
    service = Service(config, recorder)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()
        left = [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("asyncio_")]
        assert not left, "threads were left behind"


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Runs a test in an event loop."""
    asyncio.run(asyncio.wait_for(test(), 120))  # type: ignore[arg-type]


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    for _ in range(600):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen within 30 seconds")


class Events:
    """A recorder that keeps the events of models."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.num_sentences = 0

    def batch_done(self, model: str, num_sentences: int, num_tokens: int, fill: float, seconds: float) -> None:
        """Counts sentences."""
        assert 0 < fill <= 1
        assert seconds > 0
        assert num_tokens >= num_sentences
        self.num_sentences += num_sentences

    def waited(self, model: str, priority: Priority, seconds: float) -> None:
        """Checks that it is a time."""
        assert seconds >= 0

    def model_event(self, model: str, event: str) -> None:
        """Keeps the event."""
        self.events.append(f"{model} {event}")
