"""From a configuration to the application: what belongs together is put together here, and nowhere else."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from transduce.reporting.tables import counted
from transduce.serve.config import ServeConfig
from transduce.serve.documents.service import Documents
from transduce.serve.model_slot import ModelSlot
from transduce.serve.operations.access import Access
from transduce.serve.operations.access_log import Observation
from transduce.serve.operations.keys import KeyRing
from transduce.serve.operations.limits import Budgets, Usage
from transduce.serve.operations.metrics import Metrics
from transduce.serve.operations.proxies import ForwardedHeaders
from transduce.serve.service import Service
from transduce.serve.state.store import open_store
from transduce.serve.web.app import RequestHeads, build_app, health_response, is_ready
from transduce.serve.web.backend import Backend
from transduce.serve.web.detection import Detector

_SHOWN_PAIRS = 6
_READABLE_BY_PAGES = ("X-Request-ID", "RateLimit", "RateLimit-Policy", "Retry-After")


class Application:
    """The service with its keys, its store, its metrics, and the ASGI application that answers for all of them.

    It is started before requests are answered, stopped at the end, and closed after the last answer.
    """

    def __init__(self, config: ServeConfig) -> None:
        """Reads the keys, opens the store and the model folders.

        Raises:
            TransduceError: one of them cannot be used.
        """
        self.config = config
        self.metrics = Metrics()
        self.keys = KeyRing(Path(config.keys.file)) if config.keys.file else None
        self.service = Service(config, self.metrics)
        self.store = open_store(config.state.url)
        self.usage = Usage(self.store, self.metrics.store_failures.inc)
        access = Access(self.keys, Budgets(self.usage), required=config.keys.required)
        self.detector = Detector()
        backend = Backend(self.service, config, access, self.detector)
        self.documents = Documents(
            self.service,
            config,
            self.store.documents,
            access,
            backend.source_of,
            self.metrics.document_ended,
            self.metrics.translated,
        )
        routes = build_app(backend, self.store, self.documents)
        if not config.server.metrics_port:
            routes.router.routes.append(self._metrics_route())
        self.asgi = self._wrapped(routes)
        self._saving: asyncio.Task[None] | None = None
        self._watch()

    async def start(self) -> None:
        """Loads the models, and what keys have used today."""
        await self.usage.load()
        self._saving = asyncio.create_task(self.usage.keep_saving())
        await self.service.start()
        self.detector.start()  # now: the models must not wait for it

    async def stop(self) -> None:
        """Requeues documents, and waits until all other accepted work is done."""
        self.service.refuse()  # at once: the end of the documents may take a while
        await self.documents.stop()
        await self.service.stop()

    async def close(self) -> None:
        """Saves what was counted; requests that were refused until now have given back what they were charged."""
        if self._saving is not None:
            self._saving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._saving
        self.store.close()

    async def reload(self) -> Sequence[str]:
        """Reads the keys and the models again; returns what happened. Raises ConfigError where the keys are wrong."""
        messages = []
        if self.keys is not None:
            self.keys.reload()
            messages.append(counted(len(self.keys), "key"))
        return [*messages, *await self.service.reload()]

    def describe(self) -> str:
        """Returns the languages that are served, such as "en→de, en→fr"."""
        shown = [f"{pair.source}→{pair.target}" for pair in self.service.pairs()]
        more = f" and {len(shown) - _SHOWN_PAIRS} more" if len(shown) > _SHOWN_PAIRS else ""
        return ", ".join(shown[:_SHOWN_PAIRS]) + more

    def metrics_application(self) -> ASGIApp:
        """Returns the application for a port of its own: the metrics, and whether the service is alive."""

        async def health(_: Request) -> Response:
            return health_response(self.service)

        return Starlette(
            routes=[self._metrics_route(), Route("/health", health)], middleware=[Middleware(RequestHeads)]
        )

    def _metrics_route(self) -> Route:
        async def metrics(request: Request) -> Response:
            text, content_type = self.metrics.exposition(request.headers.get("accept", ""))
            return Response(text, headers={"content-type": content_type})

        return Route("/metrics", metrics)

    def _wrapped(self, app: ASGIApp) -> ASGIApp:
        server = self.config.server
        if server.cors_origins:
            app = CORSMiddleware(
                app,
                allow_origins=server.cors_origins,
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=["*"],
                expose_headers=_READABLE_BY_PAGES,
            )
        app = Observation(app, self.metrics, lambda: self.service.stopping)
        return ForwardedHeaders(app, server.trusted_proxies)

    def _watch(self) -> None:
        """Adds what is known at any time to the metrics."""
        watch, watch_by = self.metrics.watch, self.metrics.watch_by
        watch("transduce_ready", "Whether the service takes requests", lambda: is_ready(self.service))
        watch("transduce_store_failing", "Whether the store failed in the last seconds", lambda: self.store.is_failing)
        stored = "Documents in the store, by state"
        watch_by("state", "transduce_stored_documents", stored, lambda: self.documents.counts)

        def watch_models(
            name: str,
            about: str,
            value: Callable[[ModelSlot], float],
            together: Callable[[Sequence[float]], float] = sum,  # of models whose folders have the same name
        ) -> None:
            def values() -> dict[str, float]:
                found: dict[str, list[float]] = {}
                for slot in self.service.slots:
                    found.setdefault(slot.name, []).append(value(slot))
                return {model: together(each) for model, each in found.items()}

            watch_by("model", name, about, values)

        def oldest_seconds(slot: ModelSlot) -> float:
            return max((each.oldest_seconds() for each in slot.schedulers), default=0.0)

        def num_waiting(slot: ModelSlot) -> int:
            return sum(each.num_waiting for each in slot.schedulers)

        def num_computing(slot: ModelSlot) -> int:
            return sum(each.num_computing for each in slot.schedulers)

        loaded = "Whether the model is in memory"
        watch_models("transduce_model_loaded", loaded, lambda slot: slot.loaded is not None, max)
        watch_models("transduce_waiting_sentences", "Sentences in the queue", num_waiting)
        watch_models("transduce_computing_sentences", "Sentences being computed", num_computing)
        watch_models("transduce_oldest_waiting_seconds", "Age of the sentence that waits longest", oldest_seconds, max)
