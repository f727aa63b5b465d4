"""Fills in what pages leave to the site.

A page has a comment, which GitHub does not show. When the site is built, the comment becomes Markdown:

    <!-- site: configuration -->        tables of all keys
    <!-- site: commands -->             the command line
    <!-- site: python -->               the Python interface
    <!-- site: http -->                 the HTTP interface
    <!-- site: toctree PATTERN -->      the pages that match, as chapters below this one
"""

import re

from sphinx.application import Sphinx

import command_reference
import configuration_reference
import http_reference
import python_reference

_MARK = re.compile(r"^<!-- site: (\w+) ?(.*?) -->$", re.MULTILINE)
_MADE = {
    "commands": command_reference.reference,
    "configuration": configuration_reference.reference,
    "http": http_reference.reference,
    "python": python_reference.reference,
}


def _markdown(match: re.Match[str]) -> str:
    kind, arguments = match.groups()
    if kind == "toctree":
        return "\n".join(["```{toctree}", ":glob:", ":maxdepth: 1", "", *arguments.split(), "```"])
    return _MADE[kind]()


def fill_in(_: Sphinx, page: str, source: list[str]) -> None:
    """Replaces the comments of a page; tables of results are reached from the page above them, and are no chapters."""
    source[0] = _MARK.sub(_markdown, source[0])
    if page.startswith(("benchmarks/", "experiments/")) and not page.endswith("/README"):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the replacement."""
    app.connect("source-read", fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
