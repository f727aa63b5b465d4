"""The store of the service: glossaries, usage by key and day, documents."""

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from transduce.errors import ConfigError, DataError, MissingDependencyError, install_command
from transduce.serve.state.database import Database, Row, Statement
from transduce.serve.state.documents import DocumentStore
from transduce.serve.state.sqlite import SqliteDatabase

IN_MEMORY = "memory"  # the address of a store that ends with the service
_MAX_GLOSSARIES = 1000  # of a key
_MAX_GLOSSARY_CHARACTERS = 20_000_000  # of all glossaries of a key, as they are stored: a list of them reads all
_GLOSSARY = "id, owner, name, source, target, entries, created"
_ADD_USAGE = (
    "INSERT INTO usage_by_day (owner, day, characters) VALUES (?, ?, ?) ON CONFLICT (owner, day) "
    "DO UPDATE SET characters = usage_by_day.characters + excluded.characters"
)


@dataclass(frozen=True, slots=True)
class StoredGlossary:
    """A glossary that a client has left with the service."""

    id: str
    owner: str  # the id of the key; "" where the service needs no keys
    name: str
    source: str
    target: str
    entries: tuple[tuple[str, str], ...]  # source term, target term
    created: datetime


class Store:
    """Glossaries, usage and documents. Each method is one transaction; all raise StateError where the database fails.

    Methods block for as long as the database takes: call them in threads.
    """

    def __init__(self, database: Database) -> None:
        """Takes a database; `open_store` chooses it by its address."""
        self._database = database
        self.documents = DocumentStore(database)

    @property
    def is_failing(self) -> bool:
        """Whether the last call failed."""
        return self._database.is_failing

    def close(self) -> None:
        """Closes the connection."""
        self._database.close()

    # --- glossaries -------------------------------------------------------------------------------------------

    def add_glossary(
        self, owner: str, name: str, source: str, target: str, entries: Iterable[tuple[str, str]]
    ) -> StoredGlossary:
        """Keeps a glossary and returns it with its new id.

        Raises:
            DataError: the key has too many glossaries, or the name has a character that databases refuse: NUL, or half
                of a surrogate pair.
        """
        if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
            raise DataError("name: must not hold NUL characters or lone surrogates.")
        now = datetime.now(UTC)
        made = StoredGlossary(str(uuid.uuid4()), owner, name, source, target, tuple(entries), now)
        listed = json.dumps(made.entries)  # ASCII: databases take any text so
        values = (made.id, owner, name, source, target, listed, made.created.timestamp())

        def work(run: Statement) -> StoredGlossary:
            count = "SELECT count(*), coalesce(sum(length(entries)), 0) FROM glossaries WHERE owner = ?"
            [(number, characters)] = run(count, owner)
            if number >= _MAX_GLOSSARIES or characters + len(listed) > _MAX_GLOSSARY_CHARACTERS:
                raise DataError(
                    f"There are {number:,} glossaries of {characters:,} characters already: at most "
                    f"{_MAX_GLOSSARIES:,} and {_MAX_GLOSSARY_CHARACTERS:,}. Delete those that are not needed."
                )
            run(f"INSERT INTO glossaries ({_GLOSSARY}) VALUES (?, ?, ?, ?, ?, ?, ?)", *values)
            return made

        return self._database.run(work)

    def glossaries(self, owner: str) -> list[StoredGlossary]:
        """Returns the glossaries of a key, oldest first."""
        found = self._database.query(f"SELECT {_GLOSSARY} FROM glossaries WHERE owner = ? ORDER BY created, id", owner)
        return [_glossary(row) for row in found]

    def glossary(self, owner: str, glossary_id: str) -> StoredGlossary | None:
        """Returns a glossary of this key; None where there is none, or where it is another's."""
        select = f"SELECT {_GLOSSARY} FROM glossaries WHERE id = ? AND owner = ?"
        found = self._database.query(select, glossary_id, owner)
        return _glossary(found[0]) if found else None

    def delete_glossary(self, owner: str, glossary_id: str) -> bool:
        """Deletes a glossary of this key; returns whether there was one."""
        delete = "DELETE FROM glossaries WHERE id = ? AND owner = ? RETURNING id"
        return bool(self._database.query(delete, glossary_id, owner))

    # --- usage ------------------------------------------------------------------------------------------------

    def add_usage(self, day: str, characters: Mapping[str, int]) -> dict[str, int]:
        """Adds characters to the usage of keys on a day (YYYY-MM-DD, UTC), and returns their new totals of that day."""

        def work(run: Statement) -> dict[str, int]:
            totals = {}
            for owner in sorted(characters):  # one order everywhere, so that replicas never wait for each other
                [(total,)] = run(f"{_ADD_USAGE} RETURNING characters", owner, day, characters[owner])
                totals[owner] = int(total)
            return totals

        return self._database.run(work)

    def take_usage(self, day: str, owner: str, characters: int, limit: int) -> tuple[bool, int]:
        """Adds characters to the usage of a key on a day if it is below a limit, which is above 0.

        However many replicas do so at the same time, one of them reaches the limit.

        Returns:
            Whether they were added, and the total of the day.
        """

        def work(run: Statement) -> tuple[bool, int]:
            below = f"{_ADD_USAGE} WHERE usage_by_day.characters < ? RETURNING characters"
            added = run(below, owner, day, characters, limit)
            if added:
                return True, int(added[0][0])
            [(total,)] = run("SELECT characters FROM usage_by_day WHERE owner = ? AND day = ?", owner, day)
            return False, int(total)

        return self._database.run(work)

    def usage(self, owner: str, first_day: str, last_day: str) -> int:
        """Returns the characters of a key from one day to another, both included."""
        [(total,)] = self._database.query(
            "SELECT coalesce(sum(characters), 0) FROM usage_by_day WHERE owner = ? AND day BETWEEN ? AND ?",
            *(owner, first_day, last_day),
        )
        return int(total)

    def usage_of_day(self, day: str) -> dict[str, int]:
        """Returns the characters of each key on a day."""
        return dict(self._database.query("SELECT owner, characters FROM usage_by_day WHERE day = ?", day))


def open_store(url: str = "") -> Store:
    """Opens the store at an address.

    Args:
        url: a file, for SQLite; "postgresql://…"; "memory" for what ends with the service; "" for the file
            transduce/serve.db in the user's folder for state ($XDG_STATE_HOME, or ~/.local/state).

    Raises:
        ConfigError: the database cannot be used; the message says why.
        MissingDependencyError: the extra [postgres] is needed.
    """
    database = _database(url)
    database.open()
    return Store(database)


def _database(url: str) -> Database:
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from transduce.serve.state.postgresql import PostgresqlDatabase
        except ModuleNotFoundError:
            raise MissingDependencyError(
                f"psycopg is not installed. State in PostgreSQL needs: {install_command('serve', 'postgres')}"
            ) from None
        return PostgresqlDatabase(url)
    if "://" in url.removeprefix("sqlite://"):
        raise ConfigError("[state] url: must be the path of an SQLite file, 'memory', or postgresql://…")
    path = url.removeprefix("sqlite://")
    return SqliteDatabase(None if path == IN_MEMORY else Path(path).expanduser() if path else default_path())


def default_path() -> Path:
    """Returns the file of the store where none is configured."""
    folder = os.environ.get("XDG_STATE_HOME") or Path("~", ".local", "state").expanduser()
    return Path(folder, "transduce", "serve.db")


def _glossary(row: Row) -> StoredGlossary:
    identifier, owner, name, source, target, entries, created = row
    pairs = tuple((term, translation) for term, translation in json.loads(entries))
    return StoredGlossary(identifier, owner, name, source, target, pairs, datetime.fromtimestamp(created, UTC))
