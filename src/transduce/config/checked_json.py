"""JSON files with a format number and a checksum of their own content, so that a change of any value is noticed."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce import files

_CHECKSUM = "checksum"


def digest(value: Any) -> str:
    """Returns the SHA-256 of a value that JSON can hold, independent of the order and layout of its file."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def write_checked(path: Path, values: Mapping[str, Any]) -> None:
    """Writes an object and its checksum, atomically."""
    files.write_json(path, {_CHECKSUM: digest(values), **values})


def read_checked(path: Path) -> dict[str, Any]:
    """Returns the object that `write_checked` wrote; an OSError passes.

    Raises:
        ValueError: it is not a JSON object, or differs from its checksum.
    """
    return without_checksum(files.read_json_object(path))


def read_or_empty(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file; an empty one where it is missing, damaged, no file or holds something else."""
    try:
        return files.read_json_object(path) if path.is_file() else {}
    except (OSError, ValueError):
        return {}


def without_checksum(values: Mapping[str, Any], *, required: bool = False) -> dict[str, Any]:
    """Returns an object without its checksum.

    Args:
        values: the object.
        required: whether it must have a checksum; version 0.1.0 wrote none.

    Raises:
        ValueError: it differs from its checksum.
    """
    found = {key: value for key, value in values.items() if key != _CHECKSUM}
    if _CHECKSUM not in values and not required:
        return found
    if values.get(_CHECKSUM) != digest(found):
        raise ValueError("its content differs from its checksum")
    return found


def format_problem(values: Mapping[str, Any], *readable: int, key: str = "format") -> str:
    """Returns why an object is of no format that is readable, "" if it is of one: 1 is neither "1" nor true."""
    found = values.get(key)
    if type(found) is int and found in readable:
        return ""
    return f"{key} {json.dumps(found)}, but this version reads {key} {' or '.join(map(str, readable))}"
