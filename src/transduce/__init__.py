"""Transduce: train, evaluate and run attention-only sequence transducers.

The package is the system of *Attention Is All You Need* (Vaswani et al., 2017). Its public faces are
`transduce.Translator` and `transduce.Parser`; everything else is reached through the sub-packages or the `transduce`
command.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.parser import Parse, Parser
    from transduce.target_scores import TargetScore
    from transduce.translation import Attention, Translation
    from transduce.translator import Translator

__version__ = "0.2.0.dev0"
__all__ = ["Attention", "Parse", "Parser", "TargetScore", "Translation", "Translator", "__version__"]

_LAZY = dict.fromkeys(("Attention", "Translation"), "transduce.translation")
_LAZY["Translator"] = "transduce.translator"
_LAZY["TargetScore"] = "transduce.target_scores"
_LAZY |= dict.fromkeys(("Parse", "Parser"), "transduce.parser")


def __getattr__(name: str) -> Any:
    """Imports the public classes on first use, so that `import transduce` stays instant."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'transduce' has no attribute {name!r}")
