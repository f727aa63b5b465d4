"""Reads `model.bin` of CTranslate2 without trusting it; needs NumPy only.

    4 bytes      version of the file's format, 4 to 6
    text         the specification, such as TransformerSpec; 4 bytes: its revision
    4 bytes      number of variables. Each: its name, rank (1 byte), sizes (4 bytes each), type (1), bytes (4), numbers
    4 bytes      number of aliases. Each: its name, and the name of the variable that it is

A text is its length (2 bytes) and its bytes; the last is zero. Every length is compared with what is left of the file
before memory is taken.
"""

import math
import os
from typing import IO

import numpy as np

from transduce.errors import BundleError

VERSIONS = range(4, 7)
_TYPES = ("<f4", "i1", "<i2", "<i4", "<f2", "<u2")  # by number; the last is bfloat16: the upper half of a float32
_BFLOAT16 = 5
_MAX_RANK = 8
_SETTING_BYTES = 4096  # larger variables are weights
_SCALE_OF_INT16 = 1000.0  # where an int16 variable has no scale


class Variables:
    """The variables of a model by name, as stored; `numbers` converts them."""

    def __init__(self, where: str) -> None:
        self.where = where  # names the file in errors
        self.version, self.specification, self.revision = 0, "", 0
        self._stored: dict[str, np.ndarray] = {}
        self._halves: set[str] = set()  # of bfloat16
        self._aliases: dict[str, str] = {}
        self._converted: dict[str, np.ndarray] = {}
        self._released: set[str] = set()

    def names(self) -> list[str]:
        """Returns all names, those of aliases too."""
        return sorted(self._stored.keys() | self._aliases.keys())

    def __contains__(self, name: str) -> bool:
        return name in self._stored or name in self._aliases

    def type_of(self, name: str) -> str:
        """Returns the stored type of a variable: "float32", "int8", "int16", "int32", "float16" or "bfloat16"."""
        name = self._aliases.get(name, name)
        return "bfloat16" if name in self._halves else self._stored[name].dtype.name

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a variable.

        Raises:
            BundleError: there is none of this name.
        """
        return self._found(name).shape

    def setting(self, name: str, default: float) -> float:
        """Returns a variable that is one number, or the default.

        Raises:
            BundleError: it has several numbers.
        """
        if name not in self:
            return default
        array = self._found(name)
        if array.size != 1 or not np.isfinite(array).all():
            raise self.damaged(f"{name} has shape {array.shape}, but is one number that is finite")
        return float(array.reshape(-1)[0])

    def text(self, name: str, default: str) -> str:
        """Returns a variable that is a text, or the default.

        Raises:
            BundleError: it is none.
        """
        if name not in self:
            return default
        try:
            return self._found(name).tobytes().decode()
        except UnicodeDecodeError:
            raise self.damaged(f"{name} is no text") from None

    def numbers(self, name: str) -> np.ndarray:
        """Returns a variable in float32; its aliases share the array.

        Integers are divided by their scale: one number for each row, or one for all. A variable in fewer bits is kept
        in float32 only.

        Raises:
            BundleError: it is missing, has no scale that fits, or has numbers that are not finite.
        """
        array, name = self._found(name), self._aliases.get(name, name)
        if name not in self._converted:
            with np.errstate(over="ignore", invalid="ignore"):
                self._converted[name] = self._in_float32(name, array)
            if not np.isfinite(self._converted[name]).all():
                raise self.damaged(f"{name} has numbers that are infinite or NaN")
            self._stored[name] = self._converted[name]
            self._halves.discard(name)
        return self._converted[name]

    def release(self, *names: str) -> None:
        """Releases some names; the memory of a variable is freed with its last one."""
        for name in names:
            variable = self._aliases.pop(name, name)
            self._released.add(name)
            if variable in self._released and variable not in self._aliases.values():
                self._stored.pop(variable, None)
                self._converted.pop(variable, None)

    def damaged(self, reason: str) -> BundleError:
        """Returns the error for a file that is damaged, to raise."""
        return BundleError(f"{self.where}: damaged: {reason}. Download it again.")

    def _found(self, name: str) -> np.ndarray:
        array = self._stored.get(self._aliases.get(name, name))
        if array is None:
            raise BundleError(f"{self.where}: has no variable '{name}', which a model of this shape has.")
        return array

    def _in_float32(self, name: str, array: np.ndarray) -> np.ndarray:
        if name in self._halves:
            return (array.astype(np.uint32) << 16).view(np.float32)
        if array.dtype.kind != "i" or array.ndim == 0 or name.endswith("_scale"):
            return array.astype(np.float32, copy=False)
        scale = self._stored.get(self._aliases.get(f"{name}_scale", f"{name}_scale"))
        if scale is None and array.dtype == np.int16:
            scale = np.array(_SCALE_OF_INT16)
        if scale is None or scale.size not in (1, len(array)):
            shape = "none" if scale is None else str(scale.shape)
            raise self.damaged(f"{name} has shape {array.shape}, and its scale has {shape}")
        if not np.isfinite(scale).all() or not scale.all():
            raise self.damaged(f"{name}_scale has numbers that are zero, infinite or NaN")
        scales = scale.astype(np.float32).reshape(-1, *(1 for _ in array.shape[1:])) if scale.size > 1 else scale
        divided: np.ndarray = np.divide(array, scales, dtype=np.float32)
        return divided


def read_variables(stream: IO[bytes], size: int, where: str, *, weights: bool = True) -> Variables:
    """Reads a `model.bin` of `size` bytes; `where` names it in errors.

    Without `weights`, numbers of large variables are passed over, and are zero.

    Raises:
        BundleError: it is damaged, or of a version that is not read.
    """
    return _Reader(stream, size, where, weights=weights).read()


class _Reader:
    def __init__(self, stream: IO[bytes], size: int, where: str, *, weights: bool) -> None:
        self._stream, self._left, self._weights = stream, size, weights
        self._found = Variables(where)

    def read(self) -> Variables:
        found = self._found
        found.version = self._number(4, "the version")
        if found.version not in VERSIONS:
            raise BundleError(
                f"{found.where}: has version {found.version} of CTranslate2's format, and versions {VERSIONS[0]} to "
                f"{VERSIONS[-1]} are read. Convert the original again, with a CTranslate2 of 1.0 to 4."
            )
        found.specification = self._text("the specification")
        found.revision = self._number(4, "the revision")
        for index in range(self._number(4, "the number of variables")):
            self._variable(f"variable {index + 1}")
        for index in range(self._number(4, "the number of aliases")):
            alias, name = (self._text(f"alias {index + 1}") for _ in range(2))
            if alias in found or name not in found._stored:
                raise found.damaged(f"the alias {alias[:80]!r} of {name[:80]!r} names no variable, or is one")
            found._aliases[alias] = name
        if self._left:
            raise found.damaged(f"{self._left:,} bytes follow its end")
        return found

    def _variable(self, what: str) -> None:
        found, name = self._found, self._text(what)
        if name in found:
            raise found.damaged(f"{name[:80]!r} occurs twice")
        rank = self._number(1, name)
        if rank > _MAX_RANK:
            raise found.damaged(f"{name[:80]!r} has {rank} axes")
        shape = tuple(self._number(4, name) for _ in range(rank))
        kind, num_bytes = self._number(1, name), self._number(4, name)
        if kind >= len(_TYPES):
            raise found.damaged(f"{name[:80]!r} has type {kind}, which there is none of")
        dtype = np.dtype(_TYPES[kind])
        if math.prod(shape) * dtype.itemsize != num_bytes:
            raise found.damaged(f"{name[:80]!r} has shape {shape}, and {num_bytes:,} bytes of {dtype.name}")
        self._require(num_bytes, name)
        if num_bytes > _SETTING_BYTES and not self._weights:
            self._stream.seek(num_bytes, os.SEEK_CUR)
            self._left -= num_bytes
            array = np.broadcast_to(np.zeros((), dtype), shape)
        else:
            array = np.empty(shape, dtype)
            self._fill(array.reshape(-1).view(np.uint8).data, name)
        found._stored[name] = array
        if kind == _BFLOAT16:
            found._halves.add(name)

    def _require(self, num_bytes: int, what: str) -> None:
        if num_bytes > self._left:
            raise self._found.damaged(f"{what[:80]!r} needs {num_bytes:,} bytes, and {self._left:,} are left")

    def _fill(self, buffer: memoryview, what: str) -> None:
        begin = 0
        while begin < len(buffer):
            num_bytes = self._stream.readinto(buffer[begin:])  # type: ignore[attr-defined]
            if not num_bytes:
                raise self._found.damaged(f"{what[:80]!r} is cut short")
            begin += num_bytes
        self._left -= len(buffer)

    def _bytes(self, num_bytes: int, what: str) -> bytes:
        self._require(num_bytes, what)
        read = bytearray(num_bytes)
        self._fill(memoryview(read), what)
        return bytes(read)

    def _number(self, num_bytes: int, what: str) -> int:
        return int.from_bytes(self._bytes(num_bytes, what), "little")

    def _text(self, what: str) -> str:
        read = self._bytes(self._number(2, what), what)
        try:
            text = read[:-1].decode()
        except UnicodeDecodeError:
            text = ""
        if read[-1:] != b"\0" or not text.isprintable() or (not text and what != "the specification"):
            raise self._found.damaged(f"{what} has no readable name")
        return text
