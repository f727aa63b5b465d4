"""Pages of the package's source, and the links to them.

`model/attention.py:attend` in a page becomes a link to that line; so does "[source]" behind each name of the reference,
and a link to a file of the package.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache, cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "transduce"
_REFERENCE = re.compile(r"([\w/]+\.py)(?::([\w.]+))?")


@cache
def lines_of(file: str) -> dict[str, int]:
    """Returns where a file of the package defines each name: `function`, `Class`, `Class.method`, `CONSTANT`."""
    lines: dict[str, int] = {}
    for node in ast.parse((PACKAGE / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            lines[node.name] = node.lineno
        if isinstance(node, ast.ClassDef):
            methods = (child for child in node.body if isinstance(child, ast.FunctionDef))
            lines |= {f"{node.name}.{method.name}": method.lineno for method in methods}
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        lines |= {target.id: node.lineno for target in targets if isinstance(target, ast.Name)}
    return lines


def page_of(file: str) -> str:
    """Returns the name of the page that shows a file of the package."""
    return f"source/{file.removesuffix('.py')}"


class SourceLinks(SphinxPostTransform):
    """Makes the links."""

    default_priority = 400
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Visits the places of a page that can name source."""
        for literal in list(self.document.findall(nodes.literal)):
            match = _REFERENCE.fullmatch(literal.astext())
            if match is None or isinstance(literal.parent, nodes.reference):
                continue
            file, name = match.groups()
            if (PACKAGE / file).is_file() and (name is None or name in lines_of(file)):
                line = lines_of(file)[name] if name else 1
                literal.replace_self(self._link(file, line, literal.deepcopy()))
        for download in list(self.document.findall(addnodes.download_reference)):
            _, is_ours, file = download["reftarget"].rpartition("src/transduce/")
            if is_ours and (PACKAGE / file).is_file() and file.endswith(".py"):
                download.replace_self(self._link(file, 1, *download.children))
        for signature in list(self.document.findall(addnodes.desc_signature)):
            if (place := _place_of(signature)) is not None:
                signature += self._link(*place, nodes.inline("", "[source]", classes=["source-link"]))

    def _link(self, file: str, line: int, *children: nodes.Node) -> nodes.reference:
        uri = self.app.builder.get_relative_uri(self.env.docname, page_of(file))
        return nodes.reference("", "", *children, internal=True, refuri=f"{uri}#L-{line}")


def _place_of(signature: addnodes.desc_signature) -> tuple[str, int] | None:
    """Returns the file and line of what a signature of the reference names; None where it has no line."""
    thing: Any = import_module(signature["module"])
    for name in signature["fullname"].split("."):
        thing = getattr(thing, name, None)
    if isinstance(thing, property | cached_property):
        thing = thing.fget if isinstance(thing, property) else thing.func
    thing = inspect.unwrap(thing)
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return None
    path = Path(inspect.getsourcefile(thing) or "")
    if not path.is_relative_to(PACKAGE):
        return None
    return str(path.relative_to(PACKAGE)), inspect.getsourcelines(thing)[1]


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yields a page for each file of the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        file = str(path.relative_to(PACKAGE))
        code = path.read_text(encoding="utf-8")
        shown = app.builder.highlighter.highlight_block(code, "python", linenos="inline", lineanchors="L", nowrap=False)
        yield page_of(file), {"title": file, "body": f"<h1>{file}</h1>{shown}"}, "page.html"


def share_navigation(
    trees: dict[int, str], app: Sphinx, page: str, template: str, context: dict[str, Any], _: Any
) -> None:
    """Makes the list of all pages once for the pages of a depth: their links are the same."""
    if page.startswith("source/"):
        depth, tree = page.count("/"), context["toctree"]
        context["toctree"] = lambda **options: trees.get(depth) or trees.setdefault(depth, tree(**options))


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the pages and the links."""
    app.add_post_transform(SourceLinks)
    app.connect("html-collect-pages", pages)
    app.connect("html-page-context", partial(share_navigation, {}), priority=100)  # before the theme uses the list
    return {"parallel_read_safe": True, "parallel_write_safe": True}
