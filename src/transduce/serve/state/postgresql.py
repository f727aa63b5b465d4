"""State in PostgreSQL: what several replicas of the service share."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from transduce.errors import ConfigError
from transduce.serve.state.database import Database, Row

# A server that is gone without a word must not hold a request for minutes.
_SETTINGS = {
    "connect_timeout": "3",
    "tcp_user_timeout": "5000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "application_name": "transduce",
    # Of several hosts in an address, or with one name, the one that can be written to: not a standby.
    "target_session_attrs": "read-write",
}


class PostgresqlDatabase(Database):
    """A connection to a PostgreSQL server, or to a PgBouncer before it.

    PgBouncer gives each transaction another connection of its own. So nothing is kept in a session: no prepared
    statements, and the timeouts are set for each transaction.
    """

    driver_error = psycopg.Error
    begin = "BEGIN; SET LOCAL statement_timeout = 4000; SET LOCAL lock_timeout = 3000"
    # Any number that no other program uses as an advisory lock. Replicas that start at the same time wait for it.
    lock_schema = "SELECT pg_advisory_xact_lock(7205759403792794)"

    def __init__(self, url: str) -> None:
        """Takes the address, such as postgresql://user:password@host/database."""
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error as error:
            raise ConfigError(f"[state] url: {str(error).strip()}") from error
        super().__init__(f"{given.get('dbname', '')} at {given.get('host', 'localhost')}")
        self._conninfo = make_conninfo("", **(_SETTINGS | given))

    def connect(self) -> "psycopg.Connection[Any]":
        """Connects to the server."""
        return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)

    def execute(
        self, connection: "psycopg.Connection[Any]", statement: str, values: Sequence[object] = ()
    ) -> list[Row]:
        """Runs a statement; see `Database.execute`."""
        cursor = connection.execute(statement.replace("?", "%s").encode(), tuple(values) or None)
        return cursor.fetchall() if cursor.description is not None else []

    def is_lost(self, connection: "psycopg.Connection[Any]", error: Exception) -> bool:
        """Returns whether the connection is closed or broken, or its server has become a standby."""
        return connection.closed or isinstance(error, psycopg.errors.ReadOnlySqlTransaction)
