"""From lines to translations: everything that happens to a line before and after the search (`run_pipeline`)."""

from typing import Any

from transduce.translation.pipeline.pipeline import Request, run_pipeline
from transduce.translation.pipeline.text_options import MARKUP_KINDS, SPLIT_KINDS, TextOptions

__all__ = ["MARKUP_KINDS", "SPLIT_KINDS", "Request", "TextOptions", "run_pipeline"]


def __getattr__(name: str) -> Any:
    if name != "Handling":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import warnings

    warnings.warn("Handling is now TextOptions; the old name will be removed in 0.3.", DeprecationWarning, stacklevel=2)
    return TextOptions
