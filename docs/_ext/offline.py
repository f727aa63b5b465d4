"""Fails the build if a page would fetch anything from elsewhere when it is viewed."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*?\ssrc=[\"']?(?:https?:)?//[^>]*>"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon))[^>]*\shref=[\"']?(?:https?:)?//[^>]*>"
)
_IMPORTED = re.compile(r"(?:@import\s+|url\()\s*(?:url\()?[\"']?(?:https?:)?//[^)\"']*")


def check(app: Sphinx, exception: Exception | None) -> None:
    """Looks for addresses of other machines in pages and style sheets."""
    if exception is not None or app.builder.format != "html":
        return
    found = []
    for pattern, ending in ((_FETCHED, "html"), (_IMPORTED, "css")):
        for path in sorted(Path(app.outdir).rglob(f"*.{ending}")):
            found += [f"{path}: {match[0]}" for match in pattern.finditer(path.read_text(encoding="utf-8"))]
    if found:
        raise ExtensionError("The site would fetch these when it is viewed:\n" + "\n".join(found[:10]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the check."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
