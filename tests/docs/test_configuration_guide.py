"""The reference of the configuration has each key of the schema, with default, range and description."""

import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from transduce.config.ranges import flags_of, ranges_of
from transduce.config.schema import SECTIONS

_GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "configuration.md"


def comments_of(kind: type) -> dict[str, str]:
    """Returns the description of each field: the help of its option, or the comment behind or above it."""
    tokens = list(tokenize.generate_tokens(io.StringIO(inspect.getsource(kind)).readline))
    comments = {token.start[0]: token for token in tokens if token.type == tokenize.COMMENT}
    lines = inspect.getsource(kind).splitlines()
    found = {}
    for number, line in enumerate(lines, start=1):
        name = re.match(r"    (\w+): [^=]+=", line)
        if name is None:
            continue
        here, above = comments.get(number), comments.get(number - 1)
        alone = above is not None and lines[number - 2].lstrip().startswith("#")
        comment = here or (above if alone else None)
        found[name[1]] = comment.string.lstrip("# ") if comment is not None else ""
    for key, flag in flags_of(kind).items():
        found[key] = f"{flag.help} (`--{key.replace('_', '-')} {flag.metavar}`)"
    return found


def rows(section: str) -> Iterator[str]:
    """Yields the rows of a section's table."""
    kind: Any = SECTIONS[section]
    hints, comments = get_type_hints(kind), comments_of(kind)
    for field in fields(kind):
        default = field.default if field.default is not MISSING else field.default_factory()  # type: ignore[misc]
        shown = "none" if default in ((), {}, "") else str(default).lower() if isinstance(default, bool) else default
        hint = hints[field.name]
        if get_origin(hint) is Literal:
            others = [value for value in get_args(hint) if value != default]
            shown = f"{default} (or {', '.join(others)})"
        bounds = ranges_of(kind).get(field.name)
        allowed = str(bounds[1]) if bounds is not None else ""
        yield f"| `{section}.{field.name}` | {shown} | {allowed} | {comments[field.name]} |"


def reference() -> str:
    """Returns the tables, as the guide has them."""
    parts = []
    for section in SECTIONS:
        parts.append(
            f"## `[{section}]`\n\n| key | default | numbers | what |\n|---|---|---|---|\n" + "\n".join(rows(section))
        )
    return "\n\n".join(parts)


def test_the_reference_is_that_of_the_schema() -> None:
    assert reference() in _GUIDE.read_text(encoding="utf-8"), "paste what reference() returns"


@pytest.mark.parametrize("section", SECTIONS)
def test_each_key_is_explained(section: str) -> None:
    comments = comments_of(SECTIONS[section])
    assert all(comments.values()), comments
    assert comments.keys() == {field.name for field in fields(SECTIONS[section])}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_number_has_a_range(section: str) -> None:
    kind: Any = SECTIONS[section]
    numbers = {name for name, hint in get_type_hints(kind).items() if hint in (int, float)}
    assert numbers == ranges_of(kind).keys()
