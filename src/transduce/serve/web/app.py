"""The application: all routes, and how errors are answered on each of them."""

import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.errors import TransduceError
from transduce.serve.documents.service import Documents
from transduce.serve.operations.access import AccessError
from transduce.serve.operations.connections import MAX_HEADER_BYTES
from transduce.serve.operations.log import origin
from transduce.serve.operations.request_record import record_of
from transduce.serve.service import Service
from transduce.serve.state.store import Store
from transduce.serve.web import deepl, libretranslate, own
from transduce.serve.web.backend import Backend
from transduce.serve.web.deepl_documents import DeeplDocuments
from transduce.serve.web.deepl_glossaries import DeeplGlossaries
from transduce.serve.web.deepl_multilingual import MultilingualGlossaries
from transduce.serve.web.disconnection import ClientLeftError
from transduce.serve.web.document_requests import DocumentRequests
from transduce.serve.web.libretranslate_files import LibreTranslateFiles
from transduce.serve.web.own_documents import OwnDocuments
from transduce.serve.web.refusals import Refusal, refusal_of
from transduce.serve.web.static_files import Page, openapi

_LOG = logging.getLogger(__name__)
_CLIENT_LEFT = 499  # what nginx logs for it; nobody reads it


def build_app(backend: Backend, store: Store, documents: Documents) -> Starlette:
    """Returns the application that answers requests with a service."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        documents.start()
        yield
        await documents.stop()
        await backend.detector.stop()

    glossaries, uploads = DeeplGlossaries(backend, store), DocumentRequests(backend, documents)
    routes: list[BaseRoute] = [
        *libretranslate.LibreTranslate(backend).routes(),
        *LibreTranslateFiles(uploads).routes(),
        *deepl.Deepl(backend, glossaries).routes(),
        *MultilingualGlossaries(glossaries).routes(),
        *DeeplDocuments(uploads, glossaries).routes(),
        *own.Own(backend).routes(),
        *OwnDocuments(uploads).routes(),
        *Page().routes(),
        *_routes(backend),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(UnexpectedErrors), Middleware(RequestHeads)],
        exception_handlers={
            HTTPException: _answer_http_error,
            TransduceError: _answer_error,
            ClientLeftError: _answer_nobody,
            ClientDisconnect: _answer_nobody,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # the address that it redirects to is the client's own
    return app


def _routes(backend: Backend) -> list[Route]:
    """Returns the routes that belong to no protocol."""
    service = backend.service

    async def health(_: Request) -> Response:
        return health_response(service)

    async def ready(_: Request) -> Response:
        if service.hung_models():
            return health_response(service)
        if is_ready(service):
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "stopping" if service.stopping else "loading"}, 503, {"Retry-After": "1"})

    async def api_document(_: Request) -> Response:
        return Response(openapi("Transduce"), media_type="application/json")

    async def spec(_: Request) -> Response:
        return Response(openapi(backend.config.libretranslate.title), media_type="application/json")

    return [
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/api/openapi.json", api_document, methods=["GET"]),
        Route("/spec", spec, methods=["GET"]),
    ]


def is_ready(service: Service) -> bool:
    """Returns whether new requests are to come here: what /ready answers, and what the metrics say."""
    return service.ready and not service.hung_models()


def health_response(service: Service) -> Response:
    """Returns whether the process is alive, or should be restarted because a native call hangs."""
    hung = service.hung_models()
    if not hung:
        return JSONResponse({"status": "ok"})
    reason = f"A batch takes too long. Restart the service. Models: {', '.join(hung)}."
    return JSONResponse({"status": "hung", "reason": reason}, 503, {"Retry-After": "1"})


_Wording = tuple[Callable[[AccessError], Refusal], Callable[[Refusal], Response]]
_WORDINGS: dict[str, _Wording] = {  # of each protocol, by the beginning of its paths
    "/api/": (own.access_refusal, own.error_response),
    **dict.fromkeys(("/v2/", "/v3/"), (deepl.access_refusal, deepl.error_response)),
    "/": (libretranslate.access_refusal, libretranslate.error_response),
}


def _error_response(path: str, error: TransduceError) -> Response:
    """Returns an error in the format of the protocol that the path belongs to."""
    access_refusal, error_response = next(
        (wording for start, wording in _WORDINGS.items() if path.startswith(start)), _WORDINGS["/"]
    )
    refusal = access_refusal(error) if isinstance(error, AccessError) else refusal_of(error)
    if refusal is None:
        raise error
    return error_response(refusal)


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, TransduceError)
    return _error_response(request.url.path, error)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    """Answers what the router refuses: an unknown address, or a method that an address does not have."""
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow", "")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and request.method == "OPTIONS":
        return Response(status_code=204, headers={"Allow": f"{allowed}, OPTIONS"})
    messages = {404: "There is nothing at this address.", 405: f"The method is not allowed here. Use: {allowed}."}
    message = messages.get(error.status_code, error.detail)
    code = HTTPStatus(error.status_code).name.lower()
    response = _error_response(request.url.path, Refusal(error.status_code, code, message))
    response.headers.update(error.headers or {})
    return response


async def _answer_nobody(_: Request, error: Exception) -> Response:
    return Response(status_code=_CLIENT_LEFT)


class RequestHeads:
    """Refuses requests whose headers are too long, and those of HTTP/1.1 that do not have one `Host` (RFC 9112, §3.2).

    Connections are refused while the headers come; these are of requests that came whole.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application."""
        app = self.app
        if scope["type"] == "http":
            headers = scope["headers"]
            num_bytes = sum(len(name) + len(value) for name, value in headers)
            num_hosts = sum(name == b"host" for name, _ in headers)
            if num_bytes + len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_HEADER_BYTES:
                message = (
                    f"The headers are longer than {MAX_HEADER_BYTES >> 10} KiB. Send fewer, or a text in the body."
                )
                app = _error_response(scope["path"], Refusal(431, "too_large", message))
            elif scope.get("http_version") == "1.1" and num_hosts != 1:
                message = f"The request has {num_hosts} headers 'Host'. Send one, with the host of the address."
                app = _error_response(scope["path"], Refusal(400, "wrong_host", message))
        await app(scope, receive, send)


class UnexpectedErrors:
    """Answers unhandled exceptions with 500, and logs where they were raised, without their messages, which may contain
    text of a user.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        except Exception as error:
            record = record_of(scope)
            request_id = record.request_id = record.request_id or uuid.uuid4().hex
            _LOG.error("request %s: %s", request_id, origin(error))
            if started:
                return
            message = f"The service failed. Its log has the details under the request id {request_id}."
            response = _error_response(scope["path"], Refusal(500, "internal_error", message))
            await response(scope, receive, send)
