"""State in an SQLite file, for one machine: several processes may share it, but no network file system can hold it."""

import contextlib
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from transduce.serve.state.database import Database, Row, StateError

_LOG_SUFFIXES = ("-wal", "-shm")  # SQLite's names for the write-ahead log and its index
_BUSY_SECONDS = 3.0  # how long a transaction waits for another process

_File = tuple[int, int]  # device and inode: another file has others, also under the same name


class SqliteDatabase(Database):
    """A file in write-ahead mode: who reads never waits, and a crash loses no committed glossary."""

    driver_error = sqlite3.Error
    begin = "BEGIN IMMEDIATE"  # takes the lock at once: a transaction that only then begins to write can fail

    def __init__(self, path: Path | None) -> None:
        """Takes the file; None is a database in memory, which ends with the service."""
        super().__init__(str(path) if path is not None else "in memory")
        self._path = path
        self._opened: dict[str, _File | None] = {}  # what the last connection has open, by the end of its name

    def connect(self) -> sqlite3.Connection:
        """Opens the file; makes it, readable for its owner only, where there is none."""
        if self._path is not None and self._path.is_dir():
            raise sqlite3.OperationalError("this is a folder; name a file.")
        try:
            self._remove_old_log()
            if self._path is not None and not self._path.exists():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.touch(mode=0o600)
        except OSError as error:
            raise sqlite3.OperationalError(f"cannot be made: {error.strerror}") from error
        connection = sqlite3.connect(
            ":memory:" if self._path is None else self._path,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _switch_to_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")  # of documents that were deleted, nothing stays in the file
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # opens the log
        except BaseException:
            connection.close()
            raise
        self._opened = {suffix: self._file_now(suffix) for suffix in ("", *_LOG_SUFFIXES)}
        return connection

    def execute(self, connection: sqlite3.Connection, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Runs a statement; see `Database.execute`."""
        return connection.execute(statement, tuple(values)).fetchall()

    def is_lost(self, connection: sqlite3.Connection, error: Exception) -> bool:
        """Returns whether the file itself is in doubt: it was replaced, or the disk failed."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind of error
        return self._path is not None and code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB)

    def require_intact(self, connection: sqlite3.Connection) -> None:
        """Reads the whole file: SQLite itself notices a damaged page only when a request needs it."""
        [(found,)] = self.execute(connection, "PRAGMA quick_check(1)")
        if found != "ok":
            error = sqlite3.DatabaseError(found.splitlines()[-1])
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error

    def erase_deleted(self) -> None:
        """Empties the write-ahead log, unless another process reads it; then a later call does."""
        with contextlib.suppress(StateError, sqlite3.Error), self._in_turn():
            if self._connection is not None:
                self.execute(self._connection, "PRAGMA wal_checkpoint(TRUNCATE)")

    def reason(self, error: Exception) -> str:
        """Returns why the database cannot be used at the start, and what to do."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return super().reason(error)
        return (
            f"is damaged, or no SQLite database ({super().reason(error)}). Stop all services that use it. Then put a "
            f"backup in its place, or what can still be read: sqlite3 {self.shown} .recover | sqlite3 new.db. If you "
            "need nothing of it, move it away, and the service makes an empty one."
        )

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self._path is not None and self._path.exists()

    def is_replaced(self) -> bool:
        """Returns whether the path has no file, or another one than the connection: SQLite itself does not notice."""
        return self._file_now("") != self._opened[""]

    def _file_now(self, suffix: str) -> _File | None:
        """Returns what is at the path with this at the end of its name, or None."""
        if self._path is None:
            return None
        try:
            found = Path(f"{self._path}{suffix}").stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _remove_old_log(self) -> None:
        """Removes the log of a file that was replaced: SQLite would write it into the new file."""
        if self._opened and self.is_replaced():
            for suffix in _LOG_SUFFIXES:
                if self._opened[suffix] is not None and self._file_now(suffix) == self._opened[suffix]:
                    Path(f"{self._path}{suffix}").unlink(missing_ok=True)


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Turns write-ahead mode on. SQLite itself does not wait here for another process that does the same."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
