"""Transduce: train, evaluate and run attention-only sequence transducers.

The package is the system of *Attention Is All You Need* (Vaswani et al., 2017). Its public faces are
`transduce.Translator` and `transduce.Parser`; everything else is reached through the sub-packages or the `transduce`
command.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from transduce.__about__ import __version__

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from transduce.parser import Parse, Parser
    from transduce.translation.forced_scores import TargetScore
    from transduce.translation.result import Attention, Translation
    from transduce.translation.translator import Translator

__all__ = ["Attention", "Parse", "Parser", "TargetScore", "Translation", "Translator", "__version__"]

_LAZY = {
    "Attention": "transduce.translation.result",
    "Parse": "transduce.parser",
    "Parser": "transduce.parser",
    "TargetScore": "transduce.translation.forced_scores",
    "Translation": "transduce.translation.result",
    "Translator": "transduce.translation.translator",
}
_MOVED = {  # packages of 0.1; the old names go with 0.3
    "transduce.parsing": "transduce.treebank",
    "transduce.passages": "transduce.translation.pipeline",
    "transduce.streams": "transduce.translation.streams",
}


def __getattr__(name: str) -> Any:
    """Imports the public classes on first use, so that `import transduce` stays instant."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")


class _MovedPackages:
    """Finds and imports a package of 0.1 where it is now, with a warning (see `sys.meta_path`)."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        if fullname not in _MOVED:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(fullname, self)  # type: ignore[arg-type]  # a loader by its methods: importing the class is slow

    def create_module(self, spec: "ModuleSpec") -> None:
        return None

    def exec_module(self, module: "ModuleType") -> None:
        import warnings

        old, new = module.__name__, _MOVED[module.__name__]
        warnings.warn(f"{old} is now {new}; the old name will be removed in 0.3.", DeprecationWarning, stacklevel=2)
        sys.modules[old] = import_module(new)


sys.meta_path.append(_MovedPackages())
