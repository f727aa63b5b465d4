"""Prepares docstrings, which are plain text with a little Markdown, for the reference."""

import dataclasses
import re
from typing import Any

from sphinx.application import Sphinx

from comments import comments_of

_BEFORE_NAPOLEON = 400
_OUTSIDE_CODE = re.compile(r"([*|])(?=(?:[^`]*`[^`]*`)*[^`]*$)")


def prepare(_: Sphinx, what: str, __: str, thing: Any, ___: Any, lines: list[str]) -> None:
    """Marks examples as such, protects signs of reStructuredText, and lists the fields of a dataclass."""
    if what == "data":
        lines.clear()  # those of the constant's type
        return
    fields = _fields(thing) if what == "class" and dataclasses.is_dataclass(thing) else []
    is_example, last, prepared = False, "", []
    for line in lines:
        if line.strip():
            starts = line.startswith("    ") and prepared[-1:] == [""] and not last.startswith(" ")
            if starts:
                prepared += ["::", ""]
            is_example = starts or (is_example and line.startswith(" "))
            last = line
        prepared.append(line if is_example else _OUTSIDE_CODE.sub(r"\\\1", line))
    lines[:] = [*prepared, *fields]


def _fields(kind: type) -> list[str]:
    """Returns a list of the fields that the source has comments for."""
    comments = comments_of(kind)
    explained = [field.name for field in dataclasses.fields(kind) if comments.get(field.name)]
    listed = ["* `" + name + "`: " + _OUTSIDE_CODE.sub(r"\\\1", comments[name]) for name in explained]
    return ["", *listed, ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the preparation."""
    app.connect("autodoc-process-docstring", prepare, priority=_BEFORE_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
