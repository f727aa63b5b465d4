"""The reference of the Python interface: each public name, from its docstring."""

import inspect
from collections.abc import Iterator
from importlib import import_module

# In the order in which most readers need them.
PACKAGES = (
    "transduce",
    "transduce.config",
    "transduce.translation.pipeline",
    "transduce.translation.streams",
    "transduce.translation.documents",
    "transduce.evaluation",
    "transduce.translation.set_scores",
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


def reference() -> str:
    """Returns a section for each public package."""
    return "\n\n".join(part for package in PACKAGES for part in _section(package))


def _section(package: str) -> Iterator[str]:
    module = import_module(package)
    first, _, _ = (inspect.getdoc(module) or "").partition("\n\n")
    yield f"## `{package}`"
    yield " ".join(first.split())
    names = [name for name in module.__all__ if not name.startswith("__")]
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
