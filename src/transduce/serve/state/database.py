"""What SQLite and PostgreSQL have in common here: transactions of SQL that both understand."""

import contextlib
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from transduce.errors import ConfigError
from transduce.serve.requests import UnavailableError
from transduce.serve.state.schema import MIGRATIONS

_RETRY_SECONDS = 1.0  # between attempts to connect: requests must not all wait for a database that does not answer
_CALM_SECONDS = 3.0  # without a failure, until the store counts as usable: on a full disk, only what is written fails
_TURN_SECONDS = 5.0  # a thread waits no longer for another thread's transaction
_LOG = logging.getLogger("transduce.serve")

Row = tuple[Any, ...]
Statement = Callable[..., list[Row]]  # runs an SQL statement, with `?` for each of the values that follow
Result = TypeVar("Result")


class StateError(UnavailableError):
    """The store cannot be used now. The message goes to clients: it names no path and no address."""

    def __init__(self) -> None:
        """The cause is in the log."""
        super().__init__("The service's store cannot be used now. Try again later.", retry_after_seconds=5)


class SchemaError(Exception):
    """The database was written by a later version of Transduce."""


class _LostConnectionError(Exception):
    """The connection was lost before the transaction was committed, so that it can be tried again."""


class Database(ABC):
    """One connection, which is made at first use, and again when it was lost. Threads take turns."""

    driver_error: type[Exception]  # the base of what the driver raises
    begin: str  # the statement that begins a transaction
    lock_schema = ""  # one that keeps other processes from changing the schema; "": `begin` does

    def __init__(self, shown: str) -> None:
        """Takes the name of the database in messages, without its password."""
        self.shown = shown
        self.is_failing = False
        self.keeps_schema = False  # whether an earlier version may go on with it meanwhile
        self._connection: Any = None
        self._turn = threading.Lock()
        self._failed_at = self._refused_at = float("-inf")  # to connect; to do what was wanted

    @abstractmethod
    def connect(self) -> Any:
        """Returns a new connection, which commits each statement outside a transaction by itself."""

    @abstractmethod
    def execute(self, connection: Any, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Runs a statement, with `?` for each of the values, and returns its rows."""

    @abstractmethod
    def is_lost(self, connection: Any, error: Exception) -> bool:
        """Returns whether the connection cannot be used after this error."""

    def is_replaced(self) -> bool:
        """Returns whether the connection is to a database that nobody else can find any more."""
        return False

    def require_intact(self, connection: Any) -> None:
        """Raises what the driver raises where the database is damaged; servers check theirs themselves."""
        return

    def reason(self, error: Exception) -> str:
        """Returns why the database cannot be used at the start, and what to do."""
        return _first_line(error)

    def open(self) -> None:
        """Connects at once.

        Raises:
            ConfigError: the database cannot be reached, is damaged or of a later version; the message has the details.
        """
        try:
            with self._in_turn():
                self.require_intact(self._connected())
        except (self.driver_error, SchemaError) as error:
            self.close()
            raise ConfigError(f"[state] url: {self.shown}: {self.reason(error)}") from error

    def run(self, work: Callable[[Statement], Result]) -> Result:
        """Runs `work` in one transaction and returns its result.

        Args:
            work: takes the function that runs a statement. It is called a second time where the connection was lost
                before anything was committed.

        Raises:
            StateError: the database cannot be reached, its disk is full, or it refuses a statement.
        """
        with self._in_turn():
            try:
                try:
                    result = self._attempt(work)
                except _LostConnectionError:
                    result = self._attempt(work)
            except _LostConnectionError as error:
                raise self._failure(error.__cause__ or error) from error
            except (self.driver_error, SchemaError) as error:
                raise self._failure(error) from error
            if self.is_failing and time.monotonic() - self._refused_at >= _CALM_SECONDS:
                _LOG.warning("the store %s can be used again", self.shown)
                self.is_failing = False
            return result

    def query(self, statement: str, *values: object) -> list[Row]:
        """Runs one statement in a transaction of its own; see `run`."""
        return self.run(lambda run: run(statement, *values))

    def erase_deleted(self) -> None:
        """Erases what was deleted from the log of a database that is a file; servers keep their own."""
        return

    def close(self) -> None:
        """Closes the connection; the next call makes it again."""
        with self._in_turn():
            self._disconnect()

    @contextlib.contextmanager
    def _in_turn(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=_TURN_SECONDS):
            raise StateError
        try:
            yield
        finally:
            self._turn.release()

    def _attempt(self, work: Callable[[Statement], Result]) -> Result:
        connection = self._connected()
        try:
            self.execute(connection, self.begin)
            result = work(lambda statement, *values: self.execute(connection, statement, values))
        except BaseException as error:
            if isinstance(error, self.driver_error) and self.is_lost(connection, error):
                self._disconnect()
                raise _LostConnectionError from error
            self._roll_back(connection)
            raise
        try:
            self.execute(connection, "COMMIT")
        except self.driver_error:  # committed or not, nobody knows: a second attempt could count usage twice
            self._disconnect()
            raise
        return result

    def _connected(self) -> Any:
        if self._connection is not None and self.is_replaced():
            _LOG.error(
                "the store %s was deleted or replaced while it was used: what was written to it since is lost, and "
                "what is at its place now is used",
                self.shown,
            )
            self._disconnect()
        if self._connection is None:
            if time.monotonic() - self._failed_at < _RETRY_SECONDS:
                raise StateError
            self._failed_at = time.monotonic()  # unless what follows succeeds
            connection = self.connect()
            try:
                self._migrate(connection)
            except BaseException:
                with contextlib.suppress(self.driver_error):
                    connection.close()
                raise
            self._failed_at = float("-inf")
            self._connection = connection
        return self._connection

    def _migrate(self, connection: Any) -> None:
        """Brings the schema up to date."""
        self.execute(connection, self.begin)
        if self.lock_schema:
            self.execute(connection, self.lock_schema)
        self.execute(connection, "CREATE TABLE IF NOT EXISTS transduce_schema (version BIGINT NOT NULL)")
        [(found,)] = self.execute(connection, "SELECT max(version) FROM transduce_schema")
        version = int(found or 0)
        if version > len(MIGRATIONS):
            raise SchemaError(
                f"has schema {version}, of a later version of Transduce; this one knows schemas up to "
                f"{len(MIGRATIONS)}. Install the later version, or name another database."
            )
        wanted = () if version and self.keeps_schema else MIGRATIONS[version:]
        for number, statements in enumerate(wanted, start=version + 1):
            for statement in statements:
                self.execute(connection, statement)
            self.execute(connection, "INSERT INTO transduce_schema VALUES (?)", (number,))
        self.execute(connection, "COMMIT")

    def _roll_back(self, connection: Any) -> None:
        try:
            connection.rollback()  # nothing, where no transaction has begun
        except self.driver_error:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(self.driver_error):  # it may be broken already
                connection.close()

    def _failure(self, error: BaseException) -> StateError:
        if not self.is_failing:  # one line for an outage, not one for each request
            _LOG.error("the store %s cannot be used: %s", self.shown, _first_line(error))
            self.is_failing = True
        self._refused_at = time.monotonic()
        return StateError()


def _first_line(error: BaseException) -> str:
    """Returns the first line of an error; those of PostgreSQL have several."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
