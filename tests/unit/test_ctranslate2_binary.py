"""What is read of a `model.bin` of CTranslate2, whose bytes are written here by hand."""

import io
import struct
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from transduce.errors import BundleError
from transduce.export.ctranslate2_binary import Variables, read_variables

KINDS = {"<f4": 0, "|i1": 1, "<i2": 2}


def text(value: str) -> bytes:
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"


def variables(stored: Sequence[tuple[str, np.ndarray]], aliases: Mapping[str, str] | None = None) -> Variables:
    parts = [struct.pack("<I", 6), text("TransformerSpec"), struct.pack("<II", 7, len(stored))]
    for name, array in stored:
        head = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        parts += [text(name), head, struct.pack("<BI", KINDS[array.dtype.str], array.nbytes), array.tobytes()]
    parts.append(struct.pack("<I", len(aliases or {})))
    parts += [text(alias) + text(name) for alias, name in (aliases or {}).items()]
    content = b"".join(parts)
    return read_variables(io.BytesIO(content), len(content), "m/model.bin")


ROWS = np.array([[1000, -500], [250, 0]], np.int16)
FLOATS = np.ones((2, 2), np.float32)


def test_integers_are_divided_by_their_scale() -> None:
    scales = ("w_scale", np.array([500, 125], np.float32))
    assert variables([("w", ROWS)]).numbers("w").tolist() == [[1, -0.5], [0.25, 0]]  # CTranslate2's: 1000 for int16
    assert variables([("w", ROWS), scales]).numbers("w").tolist() == [[2, -1], [2, 0]]
    assert variables([("w", ROWS.astype(np.int8)), scales]).numbers("w").tolist() == [
        [np.float32(-24 / 500), np.float32(12 / 500)],  # 1000 and -500 in eight bits
        [np.float32(-6 / 125), 0],
    ]
    with pytest.raises(BundleError, match=r"m/model\.bin: damaged: w has shape \(2, 2\), and its scale has none"):
        variables([("w", ROWS.astype(np.int8))]).numbers("w")


@pytest.mark.parametrize("scale", [0.0, np.inf, np.nan])
def test_a_scale_that_is_no_divisor_is_refused(scale: float) -> None:
    with pytest.raises(BundleError, match="w_scale has numbers that are zero, infinite or NaN"):
        variables([("w", ROWS), ("w_scale", np.array([1, scale], np.float32))]).numbers("w")


def test_no_name_stands_twice() -> None:
    with pytest.raises(BundleError, match="'w' occurs twice"):
        variables([("w", FLOATS), ("w", FLOATS)])
    for aliases in ({"w": "v"}, {"a": "b"}, {"w": "w"}):
        with pytest.raises(BundleError, match="names no variable, or is one"):
            variables([("w", FLOATS), ("v", FLOATS)], aliases)


def test_a_variable_lasts_as_long_as_one_of_its_names() -> None:
    found = variables([("w", FLOATS)], {"first": "w", "second": "w"})
    assert found.names() == ["first", "second", "w"]
    found.release("w", "first")
    assert found.numbers("second").tolist() == FLOATS.tolist()
    found.release("second")
    with pytest.raises(BundleError, match="has no variable 'w'"):
        found.numbers("w")
