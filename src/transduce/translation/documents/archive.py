"""ZIP archives in which some members are replaced; everything else is copied as it is.

Nothing is extracted, so names of members cannot lead anywhere. Members that are not translated are copied without being
decompressed. What is decompressed is bounded, also where an archive gives wrong sizes.
"""

import contextlib
import copy
import lzma
import shutil
import struct
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from transduce.errors import DataError
from transduce.translation.documents.refused_files import other_format, refuse_other_kinds

MAX_MEMBERS = 20_000
MAX_MEMBER_BYTES = 64 << 20  # of a member whose text is translated, decompressed
MAX_TEXT_BYTES = 256 << 20  # of all of them
MAX_UNPACKED_BYTES = 512 << 20  # of all members, unless they are hardly smaller as they are: videos, photographs
_USUAL_RATIO = 10

_LOCAL_HEADER_BYTES = 30
_ENCRYPTED = 0x1
_SIZES_FOLLOW = 0x8  # the local header has no sizes: they are after the data
_COPY_BYTES = 1 << 20
# What Python's module raises for damaged archives.
DAMAGE = (
    BadZipFile,
    EOFError,
    IndexError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zlib.error,
)


class Archive:
    """An archive that is read."""

    def __init__(self, file: IO[bytes], name: str, title: str) -> None:
        """Reads the directory of an archive.

        Args:
            file: the archive.
            name: its name, for errors.
            title: of its format, such as "DOCX", for errors.

        Raises:
            DataError: it is no archive, damaged or encrypted, or has too many members.
        """
        self.name, self.title, self._file = name, title, file
        head = file.read(8)
        file.seek(0)
        if not head:
            raise DataError(f"{name}: is empty.")
        refuse_other_kinds(head, name)
        if not head.startswith(b"PK"):
            raise other_format(f"{name}: is not {title}, or is damaged.")
        with self._reading(name):
            self.zip = _opened(file)
        self.members = self.zip.infolist()
        if len(self.members) > MAX_MEMBERS:
            raise DataError(f"{name}: has more than {MAX_MEMBERS:,} files; no usual {title} file has.")
        if any(member.flag_bits & _ENCRYPTED for member in self.members):
            raise DataError(f"{name}: is encrypted. Save it without a password.")
        num_bytes = file.seek(0, 2)
        if sum(member.compress_size for member in self.members) > num_bytes:
            raise DataError(f"{name}: is damaged: its files overlap. Get the file again.")
        unpacked = sum(member.file_size for member in self.members)
        if unpacked > max(MAX_UNPACKED_BYTES, _USUAL_RATIO * num_bytes):
            largest = max(self.members, key=lambda member: member.file_size)
            raise DataError(
                f"{name}: unpacked it is larger than {MAX_UNPACKED_BYTES >> 20} MB, and more than {_USUAL_RATIO} times "
                f"its size. Take out what is large, such as {largest.filename[:100]}."
            )
        self._num_of_name = Counter(member.filename for member in self.members)
        self._num_bytes = 0
        self._read: set[str] = set()  # members that count in it: some are read twice

    def member(self, name: str) -> ZipInfo | None:
        """Returns the member of this name, if there is one."""
        return next((member for member in self.members if member.filename == name), None)

    def name_of(self, member: ZipInfo) -> str:
        """Returns the name of a member for messages."""
        return f"{self.name}, {member.filename}"

    def read(self, member: ZipInfo) -> bytes:
        """Returns the content of a member.

        Raises:
            DataError: it is damaged, too large, or compressed as the format does not allow.
        """
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):  # others may unpack to gigabytes at once
            raise DataError(f"{self.name_of(member)}: its compression is not that of {self.title}. Save it again.")
        if self._num_of_name[member.filename] > 1:
            raise DataError(
                f"{self.name}: has more than one {member.filename}. Save it again with the program it is from."
            )
        self._num_bytes += 0 if member.filename in self._read else member.file_size
        self._read.add(member.filename)
        if member.file_size > MAX_MEMBER_BYTES or self._num_bytes > MAX_TEXT_BYTES:
            limit = (MAX_MEMBER_BYTES if member.file_size > MAX_MEMBER_BYTES else MAX_TEXT_BYTES) >> 20
            raise DataError(f"{self.name_of(member)}: unpacked it is larger than {limit} MB. Split the document.")
        with self._reading(self.name_of(member)):
            return self.zip.read(member)

    def require_text(self, name: str) -> bytes:
        """Returns the content of a member that each file of this format has.

        Raises:
            DataError: there is none.
        """
        member = self.member(name)
        if member is None:
            raise other_format(f"{self.name}: is not {self.title}: it has no {name}.")
        return self.read(member)

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            raise DataError(f"{name}: is damaged or incomplete ({error}). Get the file again.") from None

    def write(self, names: Collection[str], translated: Iterator[bytes], output: IO[bytes]) -> None:
        """Writes the archive with translated members: all keep their order, names, dates and compression.

        Args:
            names: of the members that are translated.
            translated: their new contents, in the order of the archive's members.
            output: an empty file. It is the same, byte for byte, if no member has changed.
        """
        has_changed = False
        with ZipFile(output, "w") as target:
            target.comment = self.zip.comment
            for member in self.members:
                data = next(translated) if member.filename in names else None
                with self._reading(self.name_of(member)):
                    is_same = data is None or self.zip.read(member) == data
                if data is None or is_same:
                    self._copy(member, target, output)
                else:
                    has_changed = True
                    changed = copy.copy(member)
                    target.writestr(changed, data)
                    changed.external_attr = member.external_attr
        if not has_changed:
            for file in (self._file, output):
                file.seek(0)
            output.truncate()
            shutil.copyfileobj(self._file, output)

    def _copy(self, member: ZipInfo, target: ZipFile, sink: IO[bytes]) -> None:
        """Copies a member into the archive that is written to `sink`, without decompressing it."""
        source = self._file
        with self._reading(self.name_of(member)):
            source.seek(member.header_offset)
            header = source.read(_LOCAL_HEADER_BYTES)
            if len(header) < _LOCAL_HEADER_BYTES or not header.startswith(b"PK\x03\x04"):
                raise BadZipFile("no header")
            name_bytes, extra_bytes = struct.unpack("<HH", header[26:30])
            source.seek(name_bytes + extra_bytes, 1)
        copied = copy.copy(member)
        copied.flag_bits &= ~_SIZES_FOLLOW
        copied.header_offset = sink.tell()
        sink.write(copied.FileHeader())
        left = member.compress_size
        while left:
            chunk = source.read(min(left, _COPY_BYTES))
            if not chunk:
                raise DataError(f"{self.name_of(member)}: is damaged or incomplete: ends early. Get the file again.")
            sink.write(chunk)
            left -= len(chunk)
        target.filelist.append(copied)
        target.NameToInfo[copied.filename] = copied
        target.start_dir = sink.tell()


def _opened(file: IO[bytes]) -> ZipFile:
    """Returns an archive whose names are read as UTF-8 if all are: many programs do not say that theirs are."""
    try:
        return ZipFile(file, metadata_encoding="utf-8")
    except UnicodeDecodeError:
        file.seek(0)
        return ZipFile(file)
