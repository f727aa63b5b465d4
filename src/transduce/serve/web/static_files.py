"""The files that the service gives out as they are: its description in OpenAPI, and the page at `/`."""

import functools
import hashlib
import json
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from transduce.__about__ import __version__

_MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
)


@functools.lru_cache(maxsize=4)
def openapi(title: str) -> str:
    """Returns the description of all routes, as JSON, with this title."""
    document = json.loads((files("transduce.serve.web") / "openapi.json").read_text(encoding="utf-8"))
    document["info"] |= {"title": title, "version": __version__}
    return json.dumps(document, ensure_ascii=False)


class Page:
    """The page at `/`: its files may load what this server gives out only, and ask this server only."""

    def __init__(self) -> None:
        folder = files("transduce.serve.web") / "page"
        self._files = {file.name: StaticFile(file.name, file.read_bytes()) for file in folder.iterdir()}

    def routes(self) -> list[Route]:
        """Returns the routes of the page and of its files."""
        return [Route("/", self.start, methods=["GET"]), Route("/page/{name}", self.file, methods=["GET"])]

    async def start(self, request: Request) -> Response:
        """GET /: the page."""
        return self._files["index.html"].response(request)

    async def file(self, request: Request) -> Response:
        """GET /page/{name}: a file that the page loads."""
        name = request.path_params["name"]
        if name.startswith("explorer.") and name not in self._files:
            from transduce.inspection.explorer import explorer_files  # imported here, as NumPy is slow to import

            made = explorer_files(script="explorer_frame.js")
            self._files |= {name: StaticFile(name, text.encode(), is_framed=True) for name, text in made.items()}
        if name not in self._files:
            raise HTTPException(404)
        return self._files[name].response(request)


class StaticFile:
    """A file of the page."""

    def __init__(self, name: str, content: bytes, *, is_framed: bool = False) -> None:
        """Takes the file; `is_framed` says whether the page shows it in a frame."""
        self._content = content
        self._media_type = _MEDIA_TYPES[name[name.rindex(".") :]]
        self._headers = {
            "Cache-Control": "no-cache",  # the browser asks each time whether its copy is still right
            "Content-Security-Policy": _POLICY.format(ancestors="'self'" if is_framed else "'none'"),
            "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }

    def response(self, request: Request) -> Response:
        """Returns the file, or 304 to a browser that has it."""
        if self._headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self._headers)
        return Response(self._content, headers=self._headers, media_type=self._media_type)
