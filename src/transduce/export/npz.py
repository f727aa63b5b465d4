"""Reads archives of NumPy arrays (npz) without trusting them: no pickles, and no memory before the sizes are checked.

An archive is a zip of members `NAME.npy`: each a header with type and shape, then the numbers. Both the zip's directory
and the header say how large a member is: they must agree. Members may be compressed; numbers of a model shrink little,
so that an archive that grows to a multiple of its size is refused.
"""

import math
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from transduce.errors import BundleError, require_resources

Arrays = dict[str, np.ndarray]
_MOST_GROWTH = 10  # bytes of all arrays for each byte of the file
_FREE_BYTES = 1 << 20  # a small file may grow to as much
_MOST_ARRAYS, _MOST_HEADER_BYTES, _MOST_DIMENSIONS = 100_000, 10_000, 8
# A header as NumPy and Marian write it. NumPy's own reader evaluates it as Python, which a long one can exhaust.
_HEADER = re.compile(
    r"\{'descr': '([<>|]?[fiu][1248])', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,18}(?:, ?|(?=\))))*)\),? *\}\s*"
)
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_npz(path: Path, is_needed: Callable[[str], bool]) -> Arrays:
    """Returns the arrays of an archive whose name `is_needed` accepts, as they are stored.

    Raises:
        BundleError: the file is missing, damaged or far larger in memory than on the disk, or holds other things than
            arrays of numbers.
    """
    arrays: Arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _require_bounded(path, members)
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name == member.filename or name in arrays or member.compress_type not in _COMPRESSIONS:
                    raise ValueError(f"{member.filename[:80]!r} is no array, there twice, or compressed in a rare way")
                if is_needed(name):
                    with archive.open(member) as stream:
                        arrays[name] = _array(stream, member.file_size, name)
    except BundleError:
        raise
    except (OSError, ValueError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        require_resources(error, path)
        reason = (isinstance(error, OSError) and error.strerror) or str(error).strip().partition("\n")[0][:200]
        raise BundleError(f"{path}: cannot be read: {reason}. The file is damaged or cut short.") from None
    return arrays


def _require_bounded(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Raises BundleError where the directory declares more than a model of this size can hold."""
    size, total = path.stat().st_size, sum(member.file_size for member in members)
    if len(members) > _MOST_ARRAYS or total > max(_MOST_GROWTH * size, _FREE_BYTES):
        raise BundleError(
            f"{path}: {len(members):,} arrays of {total:,} bytes in a file of {size:,}: weights never shrink so much. "
            "Get it from another source."
        )


def _array(stream: IO[bytes], size: int, name: str) -> np.ndarray:
    """Reads one member of `size` bytes.

    Raises:
        ValueError: it is not an array of numbers of that size.
    """
    begin = stream.read(8)
    width = {b"\x01": 2, b"\x02": 4}.get(begin[6:7], 0)  # bytes of the header's length, by version
    length = int.from_bytes(stream.read(width), "little")
    header = stream.read(min(length, _MOST_HEADER_BYTES)).decode("latin-1")
    match = _HEADER.fullmatch(header) if begin[:6] == b"\x93NUMPY" else None
    shape = [int(part) for part in re.findall(r"\d+", match[3])] if match else []
    if match is None or len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"{name[:80]!r} is no array of numbers")
    kind = np.dtype(match[1])
    num_bytes = math.prod(shape) * kind.itemsize
    if num_bytes != size - stream.tell():
        raise ValueError(f"array {name[:80]!r} has {size - stream.tell():,} bytes, and its shape says {num_bytes:,}")
    data = bytearray(num_bytes)  # at most what the directory declares, which is bounded
    view, filled = memoryview(data), 0
    while filled < num_bytes:
        piece = stream.read(min(num_bytes - filled, 1 << 24))
        if not piece:
            raise EOFError(f"array {name[:80]!r} is cut short")
        view[filled : filled + len(piece)] = piece
        filled += len(piece)
    if stream.read(1):  # also checks the checksum
        raise ValueError(f"array {name[:80]!r} is longer than it says")
    return np.frombuffer(data, kind).reshape(shape, order="F" if match[2] == "True" else "C")
