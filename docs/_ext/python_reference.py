"""The reference of the Python interface: each public name, from its docstring."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

# In the order in which most readers need them.
PACKAGES = (
    "transduce",
    "transduce.config",
    "transduce.translation.pipeline",
    "transduce.translation.streams",
    "transduce.translation.documents",
    "transduce.evaluation",
    "transduce.translation.set_scores",
    "transduce.translation.robustness",
    "transduce.augmentation",
    "transduce.augmentation.student",
    "transduce.augmentation.filtering",
    "transduce.inspection",
    "transduce.treebank",
    "transduce.export",
    "transduce.verification",
    "transduce.text",
    "transduce.model",
)
_LONGEST_VALUE = 100
_EMPTY_BODY = re.compile(r":\n\s+\.\.\.$", re.MULTILINE)
_SOURCE = Path(__file__).resolve().parents[2] / "src"


def reference() -> str:
    """Returns a section for each public package."""
    return "\n\n".join(part for package in PACKAGES for part in _section(package))


def plain_reference() -> str:
    """Returns the same in plain Markdown: each name with its signature, the beginning of its docstring and its file."""
    return "\n\n".join(part for package in PACKAGES for part in _plain_section(package))


def _plain_section(package: str) -> Iterator[str]:
    yield from _head(package)
    for name in _names(package):
        thing = getattr(import_module(package), name)
        yield f"### `{name}`"
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            yield f"```python\n{name} = {_value(thing)}\n```"
            continue
        path = Path(inspect.getsourcefile(thing) or "").resolve().relative_to(_SOURCE)
        yield f"{_first(thing)} ([source](../../src/{path}))"
        yield f"```python\n{_signature(thing)}\n```"


def _head(package: str) -> Iterator[str]:
    yield f"## `{package}`"
    yield _first(import_module(package))


def _names(package: str) -> list[str]:
    return [name for name in import_module(package).__all__ if not name.startswith("__")]


def _first(thing: object) -> str:
    first, _, _ = (inspect.getdoc(thing) or "").partition("\n\n")
    return " ".join(first.split())


def _value(thing: object) -> str:
    return "..." if len(repr(thing)) > _LONGEST_VALUE else repr(thing)


def _signature(thing: Any) -> str:
    """Returns the signature as the source has it; of a class, its fields and those of its public methods."""
    [node] = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    if not isinstance(node, ast.ClassDef):
        return _head_of(node)
    node.body = [each for each in node.body if _is_public(each)]
    for number, each in enumerate(node.body):
        if isinstance(each, ast.FunctionDef):
            node.body[number] = ast.parse(_head_of(each)).body[0]
    node.body = node.body or [ast.Expr(ast.Constant(...))]
    return _EMPTY_BODY.sub(": ...", ast.unparse(node))


def _is_public(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef):
        return not node.name.startswith("_") or node.name == "__init__"
    return isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_")


def _head_of(node: ast.AST) -> str:
    assert isinstance(node, ast.FunctionDef)
    node.body = [ast.Expr(ast.Constant(...))]
    return _EMPTY_BODY.sub(": ...", ast.unparse(node))


def _section(package: str) -> Iterator[str]:
    yield from _head(package)
    names = _names(package)
    yield "\n".join(["```{eval-rst}", *(line for name in names for line in _entry(package, name)), "```"])


def _entry(package: str, name: str) -> Iterator[str]:
    thing = getattr(import_module(package), name)
    if inspect.isclass(thing):
        yield f".. autoclass:: {package}.{name}"
        yield "   :members:"
    elif inspect.isfunction(thing):
        yield f".. autofunction:: {package}.{name}"
    else:
        yield f".. autodata:: {package}.{name}"
        if len(repr(thing)) > _LONGEST_VALUE:
            yield "   :no-value:"
    yield ""
