"""Transduce: train, evaluate and run attention-only sequence transducers.

The package is the system of *Attention Is All You Need* (Vaswani et al., 2017). Its public faces are
`transduce.Translator` and `transduce.Parser`; everything else is reached through the sub-packages or the `transduce`
command.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from transduce.__about__ import __version__

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Imports the public classes on first use, so that `import transduce` stays instant."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Lists the public classes, too, for completion in notebooks."""
    return sorted({*globals(), *__all__})
