"""The documents that the service gives out as they are: its description in OpenAPI, and the page at `/`."""

import base64
import functools
import hashlib
import json
import re
from importlib.resources import files

from starlette.responses import HTMLResponse, Response

from transduce.__about__ import __version__

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


@functools.lru_cache(maxsize=4)
def openapi(title: str) -> str:
    """Returns the description of all routes, as JSON, with this title."""
    document = json.loads((files("transduce.serve.web") / "openapi.json").read_text(encoding="utf-8"))
    document["info"] |= {"title": title, "version": __version__}
    return json.dumps(document, ensure_ascii=False)


class Page:
    """The page at `/`: one file, which may run its own script and style only, and ask its own server only."""

    def __init__(self) -> None:
        self._html = (files("transduce.serve.web") / "page" / "index.html").read_text(encoding="utf-8")
        hashes = {kind: _hash(content) for kind, content in _INLINE.findall(self._html)}
        self._headers = {
            "Content-Security-Policy": (
                f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; "
                "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            ),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }

    def response(self) -> Response:
        """Returns the page."""
        return HTMLResponse(self._html, headers=self._headers)


def _hash(content: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() + "'"
