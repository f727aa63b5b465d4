"""Lines and sentence pairs from files: plain, `.gz`, `.zst`; two files, one TSV or one translation memory (TMX).

Only "\\n" ends a line. U+2028, U+0085, form feeds and the like stay inside it, so that line n is the same here as for
`wc`, `sed` and other tools, and aligned files stay aligned.
"""

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import cast

from transduce.data.compression import zstd
from transduce.data.tmx import TranslationMemory, is_tmx
from transduce.errors import DataError, require_resources, suggestion
from transduce.reporting.tables import counted

STDIN = Path("-")

_BLOCK_BYTES = 1 << 20
_MAX_LINE_BYTES = 64 << 20
# How compressed files begin, under a name that does not say so.
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh91AY&SY": "bzip2",
    b"PK\x03\x04": "zip",
}


def shown_name(path: Path) -> str:
    """Returns the name of an input for messages: its path, or "standard input"."""
    return "standard input" if path == STDIN else str(path)


class LineReader:
    """Iterates over the lines of one file, and keeps track of the position in the (compressed) file.

    Attributes:
        path: the file; "-" is standard input.
        position_bytes: bytes of the file consumed so far, before decompression; 0 for a pipe.
    """

    def __init__(self, path: Path, *, replace_invalid: bool = False) -> None:
        self.path = path
        self.position_bytes = 0
        self._replace_invalid = replace_invalid  # U+FFFD for bytes that are not UTF-8
        self._num_lines = 0  # yielded, or about to be
        if path != STDIN:
            require_file(path)

    def __iter__(self) -> Iterator[str]:
        self._num_lines = 0
        for block in self._whole_lines():
            first_number = self._num_lines + 1
            if first_number == 1:
                block = block.removeprefix(codecs.BOM_UTF8)
                if kind := next((kind for begin, kind in _COMPRESSED.items() if block.startswith(begin)), ""):
                    raise DataError(
                        f"{shown_name(self.path)}: compressed by {kind}. Unpack it: of compressed files, those named "
                        ".gz (gzip) and .zst (zstd) are read."
                    )
            text, failure = self._decode(block, first_number)
            lines = text.split("\n")
            if lines[-1] == "":
                lines.pop()  # the text after the last line end is empty
            self._num_lines += len(lines)
            if b"\r" in block:
                lines = [line.removesuffix("\r") for line in lines]
            yield from lines
            if failure is not None:  # only after the good lines, so that work done on them is kept
                raise failure

    def _whole_lines(self) -> Iterator[bytes]:
        """Yields blocks that end where a line ends."""
        begun: list[bytes] = []  # of a line: to join them at each block would be quadratic
        num_bytes = 0
        for block in self.blocks():
            end = block.rfind(b"\n") + 1
            if end:
                yield b"".join([*begun, block[:end]])
                begun, num_bytes = [], 0
            begun.append(block[end:])
            num_bytes += len(begun[-1])
            if num_bytes > _MAX_LINE_BYTES:
                raise DataError(
                    f"{shown_name(self.path)}: a line is longer than {_MAX_LINE_BYTES >> 20} MiB. "
                    "Is this a text file with one sentence a line?"
                )
        if num_bytes:
            yield b"".join(begun)

    def blocks(self) -> Iterator[bytes]:
        """Yields the content of the file, decompressed, in blocks of at most 1 MiB.

        Raises:
            DataError: it cannot be opened, or is damaged.
        """
        if self.path == STDIN:
            stdin = cast(io.BufferedReader, sys.stdin.buffer)
            yield from self._read(stdin, stdin)
            return
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise DataError(f"{self.path}: cannot be opened: {error.strerror}.") from None
        with file:
            try:
                if self.path.suffix in (".gz", ".zst") and not file.peek(1):
                    raise EOFError("the file is empty")
                unpacked: io.BufferedIOBase = file
                if self.path.suffix == ".gz":
                    unpacked = gzip.GzipFile(fileobj=file)
                elif self.path.suffix == ".zst":
                    unpacked = zstd.ZstdFile(file)
                yield from self._read(unpacked, file)
            except (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError) as error:
                where = [f"after line {self._num_lines}"] if self._num_lines else []
                where += [f"within the first {file.tell()} bytes of the file"] if file.seekable() else []
                found = f" The error is {', '.join(where)}." if where else ""
                raise DataError(
                    f"{shown_name(self.path)}: damaged or cut short: {str(error).rstrip('.')}.{found} Fetch or "
                    "compress the file again."
                ) from None
            except OSError as error:  # of the disk or the network; it names no file
                require_resources(error, self.path)
                line = f" after line {self._num_lines}" if self._num_lines else ""
                raise DataError(f"{self.path}: cannot be read{line}: {error.strerror}.") from None

    def _read(self, unpacked: io.BufferedIOBase, file: io.BufferedIOBase) -> Iterator[bytes]:
        while block := unpacked.read1(_BLOCK_BYTES):  # read1: what a pipe has now, without waiting for a full block
            if file.seekable():  # a pipe has no position
                self.position_bytes = file.tell()
            yield block

    def _decode(self, block: bytes, first_number: int) -> tuple[str, DataError | None]:
        """Returns the block's lines up to the first that is not UTF-8, and the error for that line."""
        try:
            return block.decode("utf-8"), None
        except UnicodeDecodeError as error:
            if self._replace_invalid:
                return block.decode("utf-8", "replace"), None
            good = block[: block.rfind(b"\n", 0, error.start) + 1].decode("utf-8")
            number = first_number + block.count(b"\n", 0, error.start)
            offset = error.start - (block.rfind(b"\n", 0, error.start) + 1)
            utf16 = number == 1 and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # from a spreadsheet
            advice = (
                "Find the file's encoding and convert it, for example: iconv -f "
                f"{'UTF-16' if utf16 else 'LATIN1'} -t UTF-8 OLD > NEW"
            )
            if not good.isascii():  # converted as a whole, the lines before it would be damaged
                advice = "Lines before it are UTF-8: correct this one. 'transduce filter' drops such lines of a corpus."
            return good, DataError(
                f"{shown_name(self.path)}, line {number}: not UTF-8 (byte {block[error.start]:#04x} "
                f"at byte offset {offset} of the line). {advice}"
            )


def require_file(path: Path) -> None:
    """Checks that `path` can be read: a file or a pipe.

    Raises:
        DataError: it is not; the message suggests the nearest name in its folder.
    """
    if path.is_dir():
        raise DataError(f"{path}: is a folder, not a text file.")
    if path.exists():
        return
    if not path.parent.is_dir():
        raise DataError(f"{path}: no such file: the folder {path.parent} does not exist.")
    near = suggestion(path.name, sorted(entry.name for entry in path.parent.iterdir() if entry.is_file()))
    raise DataError(f"{path}: no such file.{near}")


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a plain, `.gz` or `.zst` file, or of standard input ("-").

    Only "\\n" ends a line; one "\\r" before it and a byte order mark at the file's start are removed.

    Raises:
        DataError: the file is missing, damaged or not UTF-8, or a translation memory.
    """
    if is_tmx(path):
        raise DataError(f"{path}: a translation memory has pairs. Here a file with one text a line is needed.")
    return iter(LineReader(path))


@dataclass(frozen=True)
class Location:
    """Where a pair is.

    Attributes:
        files: of source and target, which may be the same one.
        number: of the line, tree or unit in these files, from 1.
        unit: what is counted: "line", "tree", or "unit" of a translation memory.
    """

    files: tuple[Path, Path]
    number: int
    unit: str = "line"

    def shown(self, side: int) -> str:
        """Returns `file:line`, `file: tree N` or `file: unit N`; `side` is 0 for source, 1 for target."""
        return f"{self.files[side]}:{'' if self.unit == 'line' else f' {self.unit} '}{self.number}"


class PairReader:
    """Iterates over the pairs of two aligned files, of the first two columns of a TSV file, or of a translation memory.

    Attributes:
        paths: the two files, or the one.
    """

    def __init__(
        self, paths: Sequence[Path], *, languages: tuple[str, str] = ("", ""), replace_invalid: bool = False
    ) -> None:
        """Checks that the files are there.

        Args:
            paths: two aligned files, one TSV file, or one translation memory (`.tmx`).
            languages: codes of source and target, to choose from a translation memory; "": see `data/tmx.py`.
            replace_invalid: whether U+FFFD stands for bytes of lines that are not UTF-8.

        Raises:
            DataError: it is another number of files, one is missing, or both are standard input.
        """
        if len(paths) not in (1, 2):
            raise DataError(f"{counted(len(paths), 'file')} given: name two aligned files, one TSV or one TMX file.")
        if list(paths) == [STDIN, STDIN]:
            raise DataError("Both sides are standard input (-): give one of them as a file.")
        memory = next((path for path in paths if is_tmx(path)), None)
        if memory is not None and len(paths) == 2:
            raise DataError(f"{memory}: has both sides of each pair, so it is not one of two aligned files.")
        self.paths = tuple(paths)
        self._files = (self.paths[0], self.paths[-1])
        self._readers = [LineReader(path, replace_invalid=replace_invalid) for path in paths]
        self._memory = TranslationMemory(str(memory), languages) if memory is not None else None

    @property
    def position_bytes(self) -> int:
        """Bytes of the files consumed so far, before decompression."""
        return sum(reader.position_bytes for reader in self._readers)

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of source and target of a translation memory, once it is read; else ("", "")."""
        return self._memory.languages if self._memory is not None else ("", "")

    @property
    def skipped(self) -> tuple[int, list[str]]:
        """The number of units of a translation memory that have not both languages, and where the first few are."""
        if self._memory is None:
            return 0, []
        locations = [Location(self._files, number, "unit").shown(0) for number in self._memory.skipped]
        return self._memory.num_units - self._memory.num_pairs, locations

    def location(self, number: int) -> Location:
        """Returns where the pair with this number (from 1) is."""
        if self._memory is not None:
            return Location(self._files, self._memory.unit(number), "unit")
        return Location(self._files, number)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        if self._memory is not None:
            return self._memory.pairs(self._readers[0].blocks())
        return self._columns() if len(self.paths) == 1 else self._two_files()

    def _columns(self) -> Iterator[tuple[str, str]]:
        for number, line in enumerate(self._readers[0], start=1):
            columns = line.split("\t", 2)
            if len(columns) < 2:
                raise DataError(
                    f"{shown_name(self.paths[0])}, line {number}: no tab. A TSV row is the source, a tab, and the "
                    "target; for two aligned files, name both."
                )
            yield columns[0], columns[1]

    def _two_files(self) -> Iterator[tuple[str, str]]:
        source, target = (iter(reader) for reader in self._readers)
        for number, (src, tgt) in enumerate(zip_longest(source, target)):
            if src is None or tgt is None:
                remaining = 1 + sum(1 for _ in (target if src is None else source))
                longer = number + remaining
                raise self._unequal((number, longer) if src is None else (longer, number))
            yield src, tgt

    def _unequal(self, counts: tuple[int, int]) -> DataError:
        first, second = map(shown_name, self.paths)
        where = ""
        if all(path.is_file() and path != STDIN for path in self.paths):  # a pipe has no lines left to compare
            # Imported here, since it needs NumPy: readers must start fast.
            from transduce.data.missing_lines import describe_missing_lines

            source, target = map(read_lines, self.paths)
            where = describe_missing_lines(source, target, counts, (first, second))
        return DataError(
            f"{first} has {counted(counts[0], 'line')}, {second} has {counts[1]:,}: they must be aligned line "
            f"by line.{where} Restore the missing lines, or remove the extra ones."
        )


def read_pairs(paths: Sequence[Path], *, languages: tuple[str, str] = ("", "")) -> Iterator[tuple[str, str]]:
    """Yields (source, target) from two aligned files, the first two columns of one TSV file, or a translation memory.

    Args:
        paths: the files, as for `PairReader`.
        languages: codes of source and target, to choose from a translation memory.

    Raises:
        DataError: the files differ in length, a TSV row has no tab, or what `read_lines` and `TranslationMemory` raise.
    """
    return iter(PairReader(paths, languages=languages))
