"""Keywords that calls of a `Translator` had in version 0.1: they work with a warning until 0.3."""

import warnings
from typing import Any

from transduce.translation.pipeline import TextOptions


def old_text_options(given: TextOptions | None, keywords: Any) -> TextOptions:
    """Returns the options that were given, or defaults; those under their old name are removed from `keywords`."""
    if "handling" not in keywords:
        return given or TextOptions()
    old: TextOptions | None = keywords.pop("handling")
    warnings.warn("handling is now text_options; the old name will be removed in 0.3.", DeprecationWarning, 3)
    return given or old or TextOptions()


def old_numbering(keywords: dict[str, Any]) -> tuple[int, str]:
    """Returns the number of the first line of a stream, and what line numbers begin with in errors."""
    first_line, origin = keywords.pop("first_line", 1), keywords.pop("origin", "")
    if keywords:
        raise TypeError(f"Translator.stream() got an unexpected keyword argument '{min(keywords)}'")
    if (first_line, origin) != (1, ""):
        message = "first_line and origin will be removed in 0.3: errors of a stream count its lines from 1."
        warnings.warn(message, DeprecationWarning, 3)
    return first_line, origin
