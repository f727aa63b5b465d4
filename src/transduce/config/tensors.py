"""Reads files of named tensors (safetensors) without trusting them, and writes them; needs NumPy only.

    8 bytes          the header's length, little-endian
    header           JSON: name → {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    data             the tensors, one after another, without gaps

A header may be wrong or hostile. It is compared with the file's length before any data is read or memory allocated, so
that no tensor is larger than its file.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.errors import BundleError, require_resources

if TYPE_CHECKING:
    import numpy as np  # imported where numbers are read: the checks start sooner without it

_MAX_HEADER_BYTES = 16 << 20  # enough for 100 000 tensors
_MAX_DIMENSIONS = 8
_PIECE_BYTES = 4 << 20  # written at once: small enough for a CPU's cache
# Type in the file → NumPy's type. bfloat16 is read as bits: the upper half of a float32.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}


@dataclass(frozen=True, slots=True)
class Stored:
    """Type, shape and position of a tensor in its file."""

    dtype: str  # a key of `_TYPES`
    shape: tuple[int, ...]
    begin: int  # bytes from the beginning of the file
    end: int


def read_header(path: Path) -> tuple[dict[str, Stored], dict[str, str]]:
    """Returns the tensors that a file declares, by name, and its metadata.

    Raises:
        BundleError: the file is missing, cut short or damaged, or has a tensor of an unsupported type.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
                raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
            values = json.loads(file.read(length).decode(), object_pairs_hook=_without_duplicates)
        if not isinstance(values, dict):
            raise ValueError("its header is no table of tensors")
        metadata = values.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("its metadata are not texts")
        tensors = {name: _stored(path, name, value, 8 + length) for name, value in values.items()}
        _require_without_gaps(tensors, 8 + length, size)
    except (OSError, ValueError, RecursionError) as error:
        require_resources(error, path)
        reason = error.strerror if isinstance(error, OSError) else error
        raise BundleError(f"{path}: cannot be read: {reason}. The file is damaged or cut short.") from None
    return tensors, metadata


def read_tensors(path: Path) -> "tuple[dict[str, np.ndarray], dict[str, str]]":
    """Returns a file's tensors and its metadata; bfloat16 becomes float32.

    Raises:
        BundleError: as `read_header` does.
    """
    import numpy as np

    tensors, metadata = read_header(path)
    arrays = {}
    try:
        with path.open("rb") as file:
            for name, stored in tensors.items():
                file.seek(stored.begin)
                array = np.fromfile(file, _TYPES[stored.dtype], math.prod(stored.shape))
                if array.nbytes != stored.end - stored.begin:
                    raise BundleError(f"{path}: cannot be read: it was cut short while it was read.")
                if stored.dtype == "BF16":
                    array = (array.astype(np.uint32) << 16).view(np.float32)
                arrays[name] = array.reshape(stored.shape)
    except OSError as error:  # such as a checkpoint that training has just removed
        require_resources(error, path)
        raise BundleError(f"{path}: cannot be read: {error.strerror}.") from None
    return arrays, metadata


def read_weights(path: Path) -> "dict[str, np.ndarray]":
    """Returns a model's weights by name, as float32.

    Raises:
        BundleError: as `read_header` does; or a number is infinite or NaN, in the file or as float32.
    """
    import numpy as np

    weights = {}
    for name, array in read_tensors(path)[0].items():
        with np.errstate(over="ignore"):
            weights[name] = array.astype(np.float32, copy=False)
    require_finite(weights, str(path))
    return weights


def require_finite(weights: "Mapping[str, np.ndarray]", where: str) -> None:
    """Raises BundleError, naming the tensor, where a number is infinite or NaN; `where` begins the message."""
    import numpy as np

    for name, array in weights.items():
        finite = np.isfinite(array)
        if not finite.all():
            broken = array.size - int(np.count_nonzero(finite))
            raise BundleError(
                f"{where}: {name}: {broken:,} of {array.size:,} numbers are infinite or NaN. "
                "Take weights from before they became so."
            )


def write_tensors(path: Path, tensors: "Mapping[str, np.ndarray]", proceed: Callable[[], None]) -> str:
    """Writes tensors piece by piece, calling `proceed` before each; returns the SHA-256 of the file.

    All but the arithmetic of `proceed` happens outside of Python's lock: other threads continue. The bytes are those
    that the safetensors library writes.

    Raises:
        BundleError: a number is infinite or NaN; names the tensor.
    """
    import numpy as np

    kinds = {np.dtype(written): kind for kind, written in _TYPES.items() if kind != "BF16"}
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header, end = {}, 0
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": kinds[array.dtype], "shape": [*array.shape], "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for start in (len(text).to_bytes(8, "little"), text):
            digest.update(start)
            file.write(start)
        for name, array in ordered:
            flat = np.ascontiguousarray(array).reshape(-1)
            step = _PIECE_BYTES // flat.itemsize
            for first in range(0, flat.size, step):
                proceed()
                piece = flat[first : first + step]
                if not np.isfinite(piece).all():
                    raise BundleError(f"{name} is not finite")
                data = piece.view(np.uint8).data
                digest.update(data)
                file.write(data)
    return digest.hexdigest()


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"its header has {name[:80]!r} twice")
        found[name] = value
    return found


def _stored(path: Path, name: str, value: Any, start: int) -> Stored:
    """Returns one tensor of the header; the data begin at byte `start`.

    Raises:
        ValueError: `value` does not describe a tensor.
        BundleError: its type is not supported.
    """
    shown = repr(name[:80])
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"its header does not say what tensor {shown} is")
    kind, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2 or len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"its header gives tensor {shown} an impossible shape or offset")
    if not isinstance(kind, str) or kind not in _TYPES:
        known = ", ".join(_TYPES)
        raise BundleError(f"{path}: tensor {shown} has type {str(kind)[:40]}; supported are {known}. Save it as F32.")
    if math.prod(shape) * int(_TYPES[kind][-1]) != offsets[1] - offsets[0]:
        raise ValueError(f"its header gives tensor {shown} {offsets[1] - offsets[0]:,} bytes, which is not its size")
    return Stored(kind, tuple(shape), start + offsets[0], start + offsets[1])


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**62 for value in values)


def _require_without_gaps(tensors: Mapping[str, Stored], start: int, size: int) -> None:
    """Raises ValueError unless the tensors fill the file from `start` to its end without gaps or overlaps."""
    for name, stored in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if stored.begin != start:
            raise ValueError(f"tensor {name[:80]!r} begins at byte {stored.begin:,}, not at {start:,}")
        start = stored.end
    if start != size:
        raise ValueError(f"its tensors end at byte {start:,}, the file at {size:,}")
