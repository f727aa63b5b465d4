"""The application over real models of random weights: what they say is noise, but the translator says the same."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette

from transduce.serve.config import ModelEntry, ServeConfig
from transduce.serve.documents.service import Documents
from transduce.serve.operations.access import Access
from transduce.serve.operations.limits import Budgets, Usage
from transduce.serve.service import Service
from transduce.serve.state.store import open_store
from transduce.serve.web.app import build_app
from transduce.serve.web.backend import Backend
from transduce.serve.web.detection import Detector

LANGUAGES = ("en", "de")


def real_app(folder: Path) -> Starlette:
    """Returns the application over the model of a folder, which translates both ways; it starts with the server."""
    pairs = (LANGUAGES, LANGUAGES[::-1])
    entries = [ModelEntry(path=str(folder), source=source, target=target, threads=1) for source, target in pairs]
    return app_of(ServeConfig(models=tuple(entries)))


def app_of(config: ServeConfig) -> Starlette:
    """Returns the application over the models of a configuration; it starts with the server."""
    service, store = Service(config), open_store("memory")
    access = Access(None, Budgets(Usage(store, lambda: None)))
    backend = Backend(service, config, access, Detector())
    app = build_app(backend, store, Documents(service, config, store.documents, access, backend.source_of))
    inner = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(starlette: Starlette) -> AsyncIterator[None]:
        await service.start()
        async with inner(starlette):
            yield
        await service.stop()
        store.close()

    app.router.lifespan_context = lifespan
    return app
