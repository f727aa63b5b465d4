"""The files that the service gives out as they are: its description in OpenAPI, and the page at `/`."""

import functools
import hashlib
import json
from importlib.resources import files

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
_FRAMED = "attention.html"  # shown by the page in a frame


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
        self._files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        self._tags = {name: f'"{hashlib.sha256(content).hexdigest()[:32]}"' for name, content in self._files.items()}

    def routes(self) -> list[Route]:
        """Returns a route for each file; `index.html` is at `/`."""
        return [
            Route("/" if name == "index.html" else f"/page/{name}", functools.partial(self._response, name))
            for name in sorted(self._files)
        ]

    async def _response(self, name: str, request: Request) -> Response:
        headers = {
            "Cache-Control": "no-cache",  # the browser asks each time whether its copy is still right
            "Content-Security-Policy": _POLICY.format(ancestors="'self'" if name == _FRAMED else "'none'"),
            "ETag": self._tags[name],
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        if self._tags[name] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        suffix = name[name.rindex(".") :]
        return Response(self._files[name], headers=headers, media_type=_MEDIA_TYPES[suffix])
