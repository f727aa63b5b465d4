"""Files in the protocol of LibreTranslate: the answer comes when the file is translated, and says where it is."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from transduce.serve.operations.keys import Key
from transduce.serve.operations.request_record import record_of
from transduce.serve.requests import UnavailableError
from transduce.serve.state.documents import DONE, FAILED, StoredDocument
from transduce.serve.web.disconnection import ClientLeftError, while_connected
from transduce.serve.web.document_requests import DocumentRequests, result_name
from transduce.serve.web.libretranslate import client_key, required_text, served_target
from transduce.serve.web.refusals import Refusal, bad_request

_PROTOCOL = "libretranslate"


class LibreTranslateFiles:
    """The routes for files."""

    def __init__(self, requests: DocumentRequests) -> None:
        self._requests, self._backend, self._documents = requests, requests.backend, requests.documents

    def routes(self) -> list[Route]:
        """Returns the routes."""
        return [
            Route("/translate_file", self.translate, methods=["POST"]),
            Route("/download_file/{document_id}/{name}", self.download, methods=["GET"]),
        ]

    async def translate(self, request: Request) -> Response:
        """POST /translate_file: translates a file, for as long as the client waits."""
        key, document = await self._accepted(request)
        try:
            found = await while_connected(request, self._documents.finished(document))
        except (ClientLeftError, UnavailableError):
            await self._documents.delete(_PROTOCOL, key, document.id)
            raise
        if found is None:
            raise UnavailableError("The file was not translated. Try again later.", 30)
        if found.state == FAILED:
            await self._documents.delete(_PROTOCOL, key, document.id)
            raise bad_request(found.message)
        address = f"{self._address(request)}/download_file/{found.id}/{quote(result_name(found), safe='')}"
        return JSONResponse({"translatedFileUrl": address})

    def _address(self, request: Request) -> str:
        """Returns the address of the service: never from a client's own `Host`, which may lead anywhere."""
        if self._backend.config.server.public_url:
            return self._backend.config.server.public_url.rstrip("/")
        if not record_of(request.scope).is_from_proxy:
            host, port = request.scope["server"]  # where the connection arrived
            shown = f"[{host}]" if ":" in host else host
            request = Request({**request.scope, "headers": [], "server": (shown, port)})
        return str(request.base_url).rstrip("/")

    async def _accepted(self, request: Request) -> tuple[Key, StoredDocument]:
        async with self._requests.uploaded(request) as upload:
            key = client_key(self._backend, request, upload.fields)
            source, target = (required_text(upload.fields, name) for name in ("source", "target"))
            languages = (source, served_target(self._backend, source, target))
            return key, await self._requests.accept(request, key, _PROTOCOL, upload, languages, {})

    async def download(self, request: Request) -> Response:
        """GET /download_file/{id}/{name}: a translated file, for whoever has its address."""
        found = await self._documents.find(_PROTOCOL, None, request.path_params["document_id"])
        if found is None or found.state != DONE:
            raise Refusal(404, "not_found", "There is no such file. Files are kept for a while only.")
        return await self._requests.file_response(found)
