"""Fills in what pages leave to the site.

A page has a comment, which GitHub does not show. When the site is built, these comments become Markdown:

    <!-- site: toctree PATTERN -->      the pages that match, as chapters below this one

and what stands in a page from the code (`references`) is made again, as only the site can show it.
"""

import re

from sphinx.application import Sphinx

from references import made_for_site

_CHAPTERS = re.compile(r"^<!-- site: toctree (.*?) -->$", re.MULTILINE)


def _toctree(match: re.Match[str]) -> str:
    return "\n".join(["```{toctree}", ":glob:", ":maxdepth: 1", "", *match[1].split(), "```"])


def fill_in(_: Sphinx, page: str, source: list[str]) -> None:
    """Replaces the comments of a page; tables of results are reached from the page above them, and are no chapters."""
    source[0] = made_for_site(_CHAPTERS.sub(_toctree, source[0]))
    if page.startswith(("benchmarks/", "experiments/")) and not page.endswith("/README"):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the replacement."""
    app.connect("source-read", fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
