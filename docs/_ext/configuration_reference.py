"""The reference of the configuration: a table of each section of the schema, made from the schema itself."""

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from comments import comments_of
from transduce.config.ranges import flags_of, ranges_of, word_or_value
from transduce.config.schema import SECTIONS

# Keys that are arrays of tables, and what an entry is.
_ARRAYS: dict[str, Any] = {
    f"{name}.{key}": get_args(hint)[0]
    for name, section in SECTIONS.items()
    for key, hint in get_type_hints(section).items()
    if get_origin(hint) is tuple and is_dataclass(get_args(hint)[0])
}
KINDS: dict[str, Any] = {**SECTIONS, **_ARRAYS}  # what is a table of a recipe, by its name

_TYPES = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def meanings_of(section: str) -> dict[str, str]:
    """Returns what each key means: its comment in the schema, or the help of its command-line option."""
    kind: Any = KINDS[section]
    meanings = {name: text for name, text in comments_of(kind).items() if name in get_type_hints(kind)}
    for key, flag in flags_of(kind).items():
        meanings[key] = f"{flag.help} (`--{key.replace('_', '-')} {flag.metavar}`)"
    return meanings


def _type_of(hint: Any) -> str:
    words, hint = word_or_value(hint)
    if words:
        return " or ".join([*(f'`"{word}"`' for word in words), _type_of(hint)])
    if get_origin(hint) is Literal:
        return " or ".join(f'`"{value}"`' for value in get_args(hint))
    if get_origin(hint) is dict:
        return "table"
    return _TYPES.get(hint, "list")


def _written(value: Any) -> str:
    """Returns a default as a recipe has it."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return (
        f"`{value:g}`"
        if isinstance(value, float)
        else "`{}`"
        if value == {}
        else "`[]`"
        if value == ()
        else f"`{value}`"
    )


def rows(section: str) -> Iterator[str]:
    """Yields the rows of a section's table."""
    kind: Any = KINDS[section]
    hints, meanings = get_type_hints(kind), meanings_of(section)
    for field in fields(kind):
        default = field.default if field.default is not MISSING else field.default_factory()  # type: ignore[misc]
        allowed = _type_of(hints[field.name])
        if (bounds := ranges_of(kind).get(field.name)) is not None:
            allowed += f", {bounds[1]}"
        yield f"| `{section}.{field.name}` | {_written(default)} | {allowed} | {meanings[field.name]} |"


def reference() -> str:
    """Returns a heading and a table for each section, and for each key that is an array of tables."""
    head = "{.entries}\n| key | default | values | meaning |\n|---|---|---|---|"
    names = {name: f"[{name}]" for name in SECTIONS} | {name: f"[[{name}]]" for name in _ARRAYS}
    return "\n\n".join("\n".join([f"## `{name}`\n", head, *rows(section)]) for section, name in names.items())
