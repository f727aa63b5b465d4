"""A pair's attention as a file for other programs: NumPy's .npz, or .json.

Both have the fields of `Attention`, under the same names, and `input_pieces`. A piece that belongs to no word has the
word -1 in an .npz, null in JSON.
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from transduce.errors import ConfigError
from transduce.files import atomic_path, write_text
from transduce.translation.result import Attention

ENDINGS = (".npz", ".json")

_WEIGHTS = ("encoder", "decoder", "cross")
_DIGITS = 6  # of a weight in JSON: float32 has about seven


def require_ending(path: Path) -> None:
    """Raises ConfigError if `path` does not end in one of `ENDINGS`."""
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"{path}: data files end in {' or '.join(ENDINGS)}.")


def write_arrays(attention: Attention, path: str | Path) -> None:
    """Writes all fields of `attention`, atomically; the ending of `path` sets the format.

    Raises:
        ConfigError: another ending.
    """
    path = Path(path)
    require_ending(path)
    values = {field.name: getattr(attention, field.name) for field in fields(attention)}
    values["input_pieces"] = attention.input_pieces
    if path.suffix.lower() == ".json":
        for name in _WEIGHTS:
            values[name] = np.round(values[name].astype(np.float64), _DIGITS).tolist()
        write_text(path, json.dumps(values, ensure_ascii=False) + "\n")
        return
    for name in ("source_words", "target_words"):
        values[name] = np.array([-1 if word is None else word for word in values[name]], np.int32)
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in values.items()}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
