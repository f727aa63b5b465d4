"""Where a long job writes: a file that grows beside its final name, with a journal from which the job resumes.

    big.de.partial        what is written so far; it takes the name big.de when it is whole
    big.de.partial.json   the journal: the job, lines read, bytes written, checksums of both

Rows go into the partial file, which is synced; only then is the journal replaced, atomically. Whatever the moment at
which a process dies, the journal describes bytes that are on the disk: what stands behind them is cut off, and the work
goes on from there. A compressed file gets one member (gzip) or frame (zstd) for each call of `write`, none of which
depends on the time or on what came before; so the file is the same, byte for byte, however often the job was stopped.
"""

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol, Self

from transduce import files
from transduce.errors import ConfigError, DataError
from transduce.files import zstd

_FORMAT = 1
_STDOUT = Path("-")
_BLOCK_BYTES = 1 << 20


class StreamOutput(Protocol):
    """Takes the rows of lines, some lines at a time."""

    @property
    def num_lines(self) -> int:
        """Lines of input whose rows are written."""
        ...

    def skip(self, lines: Iterator[str]) -> None:
        """Reads over the lines whose rows are written already."""
        ...

    def write(self, lines: Sequence[str], rows: Sequence[str]) -> None:
        """Writes `rows`, without line ends; they are all that is to be written for `lines` of the input."""
        ...


@contextlib.contextmanager
def open_stream(path: Path | None, job: Mapping[str, Any], *, resume: bool) -> Iterator[StreamOutput]:
    """Opens standard output (None or "-"), a pipe or device, or a file that can be resumed.

    Args:
        path: where to write; `.gz` and `.zst` are compressed.
        job: what the rows depend on, but for the lines of input: JSON values by name.
        resume: whether to go on with what an earlier run of the same job left.

    Raises:
        ConfigError: there is nothing to resume on standard output or a pipe.
        DataError: another job, or another process, is at work on this file.
    """
    if path is not None and _is_file_to_be(path):
        with ResumableOutput(path, job, resume=resume) as output:
            yield output
        return
    if resume:
        raise ConfigError("--resume goes on with a file: name it with --output.")
    if path is None or path == _STDOUT:
        yield _PlainOutput(sys.stdout.buffer)
    else:
        with path.open("wb") as file:
            yield _PlainOutput(file)


def _is_file_to_be(path: Path) -> bool:
    """Returns whether `path` is, or would be, a file that can be replaced; /dev/stdout may be a file, but is none."""
    if path == _STDOUT or path.absolute().parent == Path("/dev"):
        return False
    return not path.exists() or path.is_file()


class _PlainOutput:
    """Writes at once what it is given."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.num_lines = 0

    def skip(self, lines: Iterator[str]) -> None:
        """Does nothing: there is no earlier run."""

    def write(self, lines: Sequence[str], rows: Sequence[str]) -> None:
        """Writes rows and flushes them."""
        self._file.write(_joined(rows))
        self._file.flush()
        self.num_lines += len(lines)


class ResumableOutput:
    """A file under way; as a context manager, whole at the end of the block, or left to be resumed.

    Attributes:
        num_lines: lines of input whose rows are written and synced.
        already_whole: the job had come to its end before, and there is nothing left to do.
    """

    def __init__(self, path: Path, job: Mapping[str, Any], *, resume: bool) -> None:
        """Opens the partial file of `path`, and cuts off what its journal does not know; see `open_stream`."""
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        self.journal = path.with_name(path.name + ".partial.json")
        self.num_lines = 0
        self.already_whole = False
        self._job = json.loads(json.dumps(dict(job)))
        self._read_hash, self._written_hash = hashlib.sha256(), hashlib.sha256()
        self._num_bytes = 0
        self._expected_digest = self._read_hash.hexdigest()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.partial.open("ab")
        try:
            self._lock()
            self._start(resume)
        except BaseException:
            if not self._file.closed and self._file.tell() == 0 and not self.journal.exists():
                self.partial.unlink(missing_ok=True)
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Gives the file its name, or leaves it to be resumed; removes it where nothing is worth resuming."""
        with self._file:
            if self.already_whole and kind is None:
                self.partial.unlink(missing_ok=True)
                self.journal.unlink(missing_ok=True)
            elif kind is None:
                self._finish()
            elif self.num_lines == 0 and not self.already_whole:
                self.partial.unlink(missing_ok=True)
                self.journal.unlink(missing_ok=True)

    def skip(self, lines: Iterator[str]) -> None:
        """Reads over the lines that are done.

        Raises:
            DataError: they are not those that the earlier run read.
        """
        found = 0
        for line in islice(lines, self.num_lines):
            self._read_hash.update(line.encode() + b"\n")
            found += 1
        too_many = self.already_whole and next(lines, None) is not None
        if found < self.num_lines or too_many or self._read_hash.hexdigest() != self._expected_digest:
            which = f"only {found}" if found < self.num_lines else "more" if too_many else "others"
            raise DataError(
                f"{self.partial}: was made from another input: its first {self.num_lines} lines are done, and this "
                f"input has {which}. Give the same input, or start anew: delete {self.partial} and {self.journal.name}."
            )

    def write(self, lines: Sequence[str], rows: Sequence[str]) -> None:
        """Writes rows, syncs them, and notes in the journal that `lines` are done."""
        data = self._packed(_joined(rows))
        self._file.write(data)
        self._written_hash.update(data)
        self._num_bytes += len(data)
        for line in lines:
            self._read_hash.update(line.encode() + b"\n")
        self._sync()
        self.num_lines += len(lines)
        self._note(whole=False)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"{self.path}: another process is writing it ({self.partial}).") from None
        except OSError:  # a file system without locks: nobody can tell
            return

    def _start(self, resume: bool) -> None:
        for leftover in self.path.parent.glob(f".{self.journal.name}.*.part"):  # of a process that was killed
            leftover.unlink(missing_ok=True)
        state = self._read_journal()
        if state is None and self._file.tell():
            raise DataError(
                f"{self.partial}: is not empty, and {self.journal.name}, which would say of what job it is, is not "
                "there. Put that beside it, or move the file away."
            )
        renamed = state is not None and state["whole"] and not self._file.tell() and self.path.is_file()
        if state is None or (renamed and not resume) or not (state["lines"] or state["whole"]):
            self._file.truncate(0)
            self._note(whole=False)  # from here on, what is in the file is this job's
            return
        if not resume:
            raise DataError(
                f"{self.partial}: an earlier run translated {state['lines']} lines. Go on with --resume, "
                f"or start anew: delete it and {self.journal.name}."
            )
        self._require_same_job(state["job"])
        if renamed:  # and killed before the clean-up
            self.already_whole, self.num_lines, self._expected_digest = True, state["lines"], state["read_sha256"]
            return
        if self._file.tell() < state["bytes"]:
            raise self._damaged(f"has {self._file.tell()} bytes, and its journal says {state['bytes']}")
        self._file.truncate(state["bytes"])
        with self.partial.open("rb") as written:
            while block := written.read(_BLOCK_BYTES):
                self._written_hash.update(block)
        if self._written_hash.hexdigest() != state["written_sha256"]:
            raise self._damaged("was changed since it was written")
        self.num_lines, self._num_bytes = state["lines"], state["bytes"]
        self._expected_digest = state["read_sha256"]

    def _read_journal(self) -> dict[str, Any] | None:
        if not self.journal.is_file():
            return None
        try:
            state: dict[str, Any] = json.loads(self.journal.read_text(encoding="utf-8"))
            if state["format"] != _FORMAT:
                raise ValueError(f"format {state['format']}")
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(f"has a journal that cannot be read ({error})") from None
        return state

    def _require_same_job(self, before: Mapping[str, Any]) -> None:
        for name in sorted(before.keys() | self._job.keys()):
            was, now = before.get(name), self._job.get(name)
            if was != now:
                raise ConfigError(
                    f"{self.partial}: was begun with {name} = {_shown(was)}, and now {name} = {_shown(now)}. Resume "
                    f"with the same, or start anew: delete it and {self.journal.name}."
                )

    def _finish(self) -> None:
        if not self._num_bytes:  # of no lines: a compressed file is one all the same
            self.write([], [])
        self._sync()
        self._note(whole=True)
        self.partial.replace(self.path)
        files.sync_folder(self.path.parent)
        self.journal.unlink()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def _note(self, *, whole: bool) -> None:
        state = {
            "format": _FORMAT,
            "job": self._job,
            "lines": self.num_lines,
            "bytes": self._num_bytes,
            "read_sha256": self._read_hash.hexdigest(),
            "written_sha256": self._written_hash.hexdigest(),
            "whole": whole,
        }
        files.write_json(self.journal, state)

    def _packed(self, data: bytes) -> bytes:
        if self.path.suffix == ".gz":
            return gzip.compress(data, compresslevel=6, mtime=0)
        if self.path.suffix == ".zst":
            return zstd.compress(data, level=3)
        return data

    def _damaged(self, what: str) -> DataError:
        return DataError(f"{self.partial}: {what}. Start anew: delete it and {self.journal.name}.")


def _joined(rows: Sequence[str]) -> bytes:
    return "".join(row + "\n" for row in rows).encode()


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
