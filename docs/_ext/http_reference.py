"""The reference of the HTTP interface, from its OpenAPI document."""

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

_METHODS = ("get", "post", "put", "patch", "delete")
_FIELDS = "{.entries}\n| field | type | meaning |\n|---|---|---|"


def document() -> dict[str, Any]:
    """Returns the OpenAPI document."""
    text = (files("transduce.serve.web") / "openapi.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def reference() -> str:
    """Returns a section for each protocol, with a part for each of its operations."""
    described = document()
    return "\n\n".join(part for tag in described["tags"] for part in _section(described, tag))


def _section(described: dict[str, Any], tag: dict[str, str]) -> Iterator[str]:
    yield f"## {tag['x-displayName']}"
    yield tag["description"]
    for path, operations in described["paths"].items():
        for method in _METHODS:
            if tag["name"] in operations.get(method, {}).get("tags", ()):
                yield from _operation(described, path, method, operations)


def _operation(described: dict[str, Any], path: str, method: str, operations: dict[str, Any]) -> Iterator[str]:
    operation = operations[method]
    yield f"### `{method.upper()} {path}`"
    yield f"{operation['summary']}. {operation.get('description', '')}".strip()
    asked = [*operations.get("parameters", ()), *operation.get("parameters", ())]
    rows = [_row(each["name"], _resolved(described, each["schema"])) for each in map(_resolver(described), asked)]
    contents = operation.get("requestBody", {}).get("content", {})
    for kind in list(contents)[:1]:  # forms have the fields of JSON
        rows += _rows(described, contents[kind]["schema"], asked=True)
    if rows:
        yield "\n".join([_FIELDS, *rows])
    refused = []
    for status, response in operation["responses"].items():
        response = _resolved(described, response)
        if int(status) >= 400:
            refused.append(status)
            continue
        yield f"Answer {status}: {response['description']}"
        schema = response.get("content", {}).get("application/json", {}).get("schema", {})
        if rows := list(_rows(described, schema)):
            yield "\n".join([_FIELDS, *rows])
    if refused:
        yield f"Refused with {', '.join(refused)}."


def _resolver(described: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda value: _resolved(described, value)


def _resolved(described: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Returns what a reference means, with what stands beside the reference."""
    if "$ref" not in value:
        return value
    found: Any = described
    for name in value["$ref"].split("/")[1:]:
        found = found[name]
    return {**_resolved(described, found), **{key: each for key, each in value.items() if key != "$ref"}}


def _rows(described: dict[str, Any], schema: dict[str, Any], path: str = "", *, asked: bool = False) -> Iterator[str]:
    """Yields a row for each field of an object, and of the objects in it: `a[].b` is a field of each item of `a`."""
    schema = _resolved(described, schema)
    if isinstance(schema.get("items"), dict):
        yield from _rows(described, schema["items"], f"{path}[]")
        return
    for name, given in schema.get("properties", {}).items():
        field = _resolved(described, given)
        here = f"{path}.{name}".lstrip(".")
        yield _row(here, field, required=asked and name in schema.get("required", ()))
        yield from _rows(described, field, here)


def _row(name: str, field: dict[str, Any], *, required: bool = False) -> str:
    meaning = field.get("description", "")
    if "default" in field:
        meaning = f"{meaning} Default: `{json.dumps(field['default'])}`.".strip()
    return f"| `{name}`{', required' if required else ''} | {_type(field)} | {meaning} |"


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(each) for each in field["anyOf"]))
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2].lower()
    kinds = field.get("type", "any")
    kind = " or ".join([kinds] if isinstance(kinds, str) else kinds)
    bounds = {"minimum": "from", "exclusiveMinimum": "greater than", "maximum": "to"}
    return " ".join([kind, *(f"{word} {_number(field[key])}" for key, word in bounds.items() if key in field)])


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
