"""The output of a long job: a file that grows next to its final name, with a journal from which the job resumes.

    big.de.partial        the rows so far; renamed to big.de when it is complete
    big.de.partial.json   the journal: the job, lines read, bytes written, checksums of both
    .big.de.journal.json  the journal of a complete big.de: it tells which job has written it

Rows are written to the partial file, which is synced. Only then is the journal replaced, atomically. So the journal
always describes bytes that are on the disk, whenever a process dies: bytes after them are cut off, and the work resumes
there. A compressed file gets one member (gzip) or frame (zstd) for each call of `write`. None of them depends on the
time or on the ones before, so the file is the same, byte for byte, however often the job was stopped.
"""

import contextlib
import glob
import gzip
import hashlib
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol, Self

from transduce import files
from transduce.data.compression import zstd
from transduce.errors import ConfigError, DataError, writing
from transduce.reporting.tables import counted
from transduce.translation.streams.journal import FORMAT, START_AGAIN, damaged, finished_journal, read_journal

_STDOUT = Path("-")


class StreamOutput(Protocol):
    """Takes the rows of some lines at a time."""

    @property
    def num_lines(self) -> int:
        """The number of input lines whose rows are written."""
        ...

    def skip(self, lines: Iterator[str]) -> None:
        """Skips the lines whose rows are already written."""
        ...

    def write(self, lines: Sequence[str], rows: Sequence[str]) -> None:
        """Writes `rows`, which have no line ends: all rows of these lines of the input."""
        ...


@contextlib.contextmanager
def open_stream(
    path: Path | None, job: Mapping[str, Any], *, resume: bool, overwrite: bool = False
) -> Iterator[StreamOutput]:
    """Opens standard output (None or "-"), a pipe or device, or a file that can be resumed.

    Args:
        path: where to write; `.gz` and `.zst` are compressed.
        job: what the rows depend on besides the lines of input: JSON values by name.
        resume: whether to resume the output of an earlier run of the same job; a complete one stays as it is.
        overwrite: whether to replace a file at `path`, and what an earlier run has begun there.

    Raises:
        ConfigError: there is nothing to resume on standard output or a pipe, or both `resume` and `overwrite` are set.
        DataError: a file exists at `path`, or it belongs to another job, or another process is writing it.
    """
    if resume and overwrite:
        raise ConfigError("--resume continues an output, --overwrite starts it again: give one of them.")
    if path is not None and path != _STDOUT and not files.is_special(path):
        with ResumableOutput(path, job, resume=resume, overwrite=overwrite) as output:
            yield output
        return
    if resume:
        raise ConfigError("--resume continues a file: name it with --output.")
    if path is None or path == _STDOUT:
        with writing("standard output"):
            yield _PlainOutput(sys.stdout.buffer)
    else:
        with path.open("wb", buffering=0) as file:
            try:
                yield _PlainOutput(file)
            except OSError as error:
                if error.filename is None and not isinstance(error, BrokenPipeError):  # a reader may go away
                    raise DataError(f"{path}: cannot be written: {error.strerror}.") from None
                raise


class _PlainOutput:
    """Writes rows at once."""

    def __init__(self, file: IO[bytes] | io.RawIOBase) -> None:
        self._file = file
        self.num_lines = 0

    def skip(self, lines: Iterator[str]) -> None:
        """Does nothing, as there is no earlier run."""

    def write(self, lines: Sequence[str], rows: Sequence[str]) -> None:
        """Writes rows and flushes them."""
        _write_all(self._file, _joined(rows))
        self._file.flush()
        self.num_lines += len(lines)


class ResumableOutput:
    """A file that is complete at the end of the `with` block, or can be resumed if the block raised.

    Attributes:
        num_lines: the number of input lines whose rows are written and synced.
        already_whole: whether an earlier run had finished the job, so that nothing is left to do.
    """

    def __init__(self, path: str | Path, job: Mapping[str, Any], *, resume: bool, overwrite: bool = False) -> None:
        """Opens the partial file of `path`, and cuts off bytes that its journal does not know; see `open_stream`."""
        path = Path(path)
        if path.is_dir():
            raise DataError(f"{path}: is a folder; name a file to write to.")
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        self.journal = path.with_name(path.name + ".partial.json")
        self.record = finished_journal(path)
        self.num_lines = 0
        self.already_whole = False
        self._job = json.loads(json.dumps(dict(job)))
        self._overwrite = overwrite
        self._read_hash, self._written_hash = hashlib.sha256(), hashlib.sha256()
        self._num_bytes = 0
        self._expected_digest = self._read_hash.hexdigest()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.partial.open("ab", buffering=0)  # nothing is left to write after a full disk
        try:
            if not files.lock(self._file.fileno(), without_locks=True):
                raise DataError(f"{path}: another process is writing it ({self.partial}).")
            self._start(resume)
        except BaseException:
            if not self._file.closed and not self._size() and not self.journal.exists():
                self.partial.unlink(missing_ok=True)
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Gives the file its name, or leaves it to be resumed; removes it if no line is done."""
        with self._file:
            if self.already_whole:
                self.partial.unlink(missing_ok=True)  # empty: it was opened for the lock
            elif kind is None:
                self._finish()
            elif self.num_lines == 0:
                self.partial.unlink(missing_ok=True)
                self.journal.unlink(missing_ok=True)

    def skip(self, lines: Iterator[str]) -> None:
        """Skips the lines that are done.

        Raises:
            DataError: they are not the lines of the earlier run.
        """
        found = 0
        for line in islice(lines, self.num_lines):
            self._read_hash.update(line.encode() + b"\n")
            found += 1
        too_many = self.already_whole and next(lines, None) is not None
        if found < self.num_lines or too_many or self._read_hash.hexdigest() != self._expected_digest:
            which = f"only {found:,}" if found < self.num_lines else "more" if too_many else "others"
            done = counted(self.num_lines, "line")
            of_it = f"all of its {done}" if self.already_whole else f"{done} of it"
            raise DataError(
                f"{self._name}: was made from another input: {of_it} are done, and this input has {which}. "
                f"Give the same input, or {START_AGAIN}."
            )

    def write(self, lines: Sequence[str], rows: Sequence[str]) -> None:
        """Writes rows, syncs them, and adds the lines to the journal."""
        data = self._packed(_joined(rows))
        try:
            _write_all(self._file, data)
            self._sync()
        except OSError as error:  # a full disk: the journal still describes the rows before these
            raise DataError(f"{self.partial}: cannot be written: {error.strerror}.") from None
        self._written_hash.update(data)
        self._num_bytes += len(data)
        for line in lines:
            self._read_hash.update(line.encode() + b"\n")
        self.num_lines += len(lines)
        self._write_journal(whole=False)

    def _start(self, resume: bool) -> None:
        files.remove_leftovers(self.path.parent, glob.escape(self.journal.name), glob.escape(self.record.name))
        if self._size() and not self.journal.is_file():
            raise DataError(
                f"{self.partial}: is not empty, and its journal {self.journal.name}, which names its job, is missing. "
                "Put that beside it, or move the file away."
            )
        state = None if self._overwrite else read_journal(self.journal)
        if state is not None and state["whole"] and not self._size() and _size_of(self.path) == state["bytes"]:
            self.journal.replace(self.record)  # the process was killed between its last two steps
            state = None
        if state is not None and (state["lines"] or state["whole"]):
            self._resume(state, resume)
            return
        # A job that was begun with `overwrite` and killed before its first line was done keeps that option.
        self._overwrite |= resume and state is not None and state["overwrite"] and state["job"] == self._job
        if resume and not self._overwrite and self.record.is_file() and self.path.is_file():
            self._compare_with_finished()
            return
        if resume and not self._overwrite and _size_of(self.path) > 0:
            raise DataError(
                f"{self.path}: exists already, and its journal {self.record.name}, which names its job, is missing. "
                f"{START_AGAIN.capitalize()}, or name another --output."
            )
        files.require_free(self.path, overwrite=self._overwrite)
        self._file.truncate(0)
        self._write_journal(whole=False)  # from now on the file belongs to this job

    def _resume(self, state: Mapping[str, Any], resume: bool) -> None:
        """Resumes the output of an earlier run, whose journal is `state`."""
        if not resume:
            lines = counted(state["lines"], "line")
            raise DataError(f"{self.partial}: an earlier run translated {lines}. Add --resume, or {START_AGAIN}.")
        self._overwrite = state["overwrite"]
        if not self._overwrite and _size_of(self.path) > 0:
            raise DataError(f"{self.path}: was created since the job was begun. Move it away, then --resume.")
        self._require_same_job(state["job"])
        if self._size() < state["bytes"]:
            raise damaged(self.partial, f"has {self._size():,} bytes, and its journal says {state['bytes']:,}")
        self._file.truncate(state["bytes"])
        with self.partial.open("rb") as written:
            self._written_hash = hashlib.file_digest(written, "sha256")
        if self._written_hash.hexdigest() != state["written_sha256"]:
            raise damaged(self.partial, "was changed since it was written")
        self.num_lines, self._num_bytes = state["lines"], state["bytes"]
        self._expected_digest = state["read_sha256"]

    def _compare_with_finished(self) -> None:
        """Checks that the file at `path` is the complete output of this job."""
        state = read_journal(self.record)
        assert state is not None  # checked by the caller
        self.already_whole = True
        self._require_same_job(state["job"])
        if _size_of(self.path) != state["bytes"] or files.sha256(self.path) != state["written_sha256"]:
            raise DataError(f"{self.path}: was changed after it was finished. Move it away, or {START_AGAIN}.")
        self.num_lines, self._expected_digest = state["lines"], state["read_sha256"]

    def _require_same_job(self, before: Mapping[str, Any]) -> None:
        for name in sorted(before.keys() | self._job.keys()):
            was, now = before.get(name), self._job.get(name)
            if was != now:
                made = "made" if self.already_whole else "begun"
                same = "with the same"
                if name == "engine" and was is not None:  # "auto" may choose another one now
                    same = f"with --engine {'auto' if 'torch for' in str(was) else str(was).partition(' ')[0]}"
                raise ConfigError(
                    f"{self._name}: was {made} with {name} = {_shown(was)}, and now {name} = {_shown(now)}. Resume "
                    f"{same}, or {START_AGAIN}."
                )

    @property
    def _name(self) -> Path:
        return self.path if self.already_whole else self.partial

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _finish(self) -> None:
        if not self._num_bytes:  # no lines: a compressed file still needs a header
            self.write([], [])
        self._sync()
        self._write_journal(whole=True)
        self.partial.replace(self.path)
        self.journal.replace(self.record)
        files.sync(self.path.parent)

    def _sync(self) -> None:
        os.fsync(self._file.fileno())

    def _write_journal(self, *, whole: bool) -> None:
        state = {
            "format": FORMAT,
            "job": self._job,
            "lines": self.num_lines,
            "bytes": self._num_bytes,
            "read_sha256": self._read_hash.hexdigest(),
            "written_sha256": self._written_hash.hexdigest(),
            "whole": whole,
            "overwrite": self._overwrite,
        }
        try:
            files.write_json(self.journal, state)
        except OSError as error:
            raise DataError(f"{self.journal}: cannot be written: {error.strerror}.") from None

    def _packed(self, data: bytes) -> bytes:
        if self.path.suffix == ".gz":
            return gzip.compress(data, compresslevel=6, mtime=0)
        if self.path.suffix == ".zst":
            # Without a checksum, damage to a frame would not be noticed; gzip always has one.
            parameter = zstd.CompressionParameter
            return zstd.compress(data, options={parameter.compression_level: 3, parameter.checksum_flag: 1})
        return data


def _size_of(path: Path) -> int:
    """Returns the size of a file in bytes; -1 if there is none."""
    return path.stat().st_size if path.is_file() else -1


def _write_all(file: IO[bytes] | io.RawIOBase, data: bytes) -> None:
    """Writes `data` to an unbuffered file, which may accept only a part of it at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _joined(rows: Sequence[str]) -> bytes:
    return "".join(row + "\n" for row in rows).encode()


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
