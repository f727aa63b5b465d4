"""The source code of a training: all modules that its process can import, so that a table never mixes two programs."""

import ast
import contextlib
import gc
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from transduce.engines.model_source import syntax_digest

_PACKAGE = "transduce"
_WORKER = f"{_PACKAGE}.experiments.ablation.worker"
_ROOT = Path(__file__).parents[3]
_DIGITS = 12
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")  # where a statement has others: no expression imports


@cache
def training_source() -> str:
    """Returns a digest of the modules that a training reaches, without comments and docstrings.

    "" where the installation has no source files.
    """
    with _no_collections():
        sources = reached(_WORKER)
        return hashlib.sha256(syntax_digest(sources).encode()).hexdigest()[:_DIGITS] if sources else ""


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Leaves out collections, which would go through all syntax trees again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def reached(start: str) -> dict[str, ast.Module]:
    """Returns the syntax tree of a module and of all of ours that it imports, also inside functions, by name."""
    sources: dict[str, ast.Module] = {}
    left = [start]
    while left:
        name = left.pop()
        if name.partition(".")[0] != _PACKAGE:  # an installation has its libraries in the same folder
            continue
        path = _ROOT / name.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name not in sources and path.is_file():
            sources[name] = ast.parse(path.read_bytes())
            left += [name.rpartition(".")[0], *_imports(sources[name])]
    return dict(sorted(sources.items()))


def _imports(node: ast.AST) -> Iterator[str]:
    """Yields the names that are imported, which may be of modules; not those for type checkers only."""
    for child in (each for block in _BLOCKS for each in getattr(node, block, ())):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module is not None:
            yield child.module
            yield from (f"{child.module}.{each.name}" for each in child.names)
        elif isinstance(child, ast.Import):
            yield from (each.name for each in child.names)
        else:
            yield from _imports(child)
