"""The store of the service: glossaries, usage by key and day, documents."""

import itertools
import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from transduce.config.home import expanded
from transduce.errors import ConfigError, DataError, MissingDependencyError, install_command
from transduce.serve.state.database import Database, Row, Statement
from transduce.serve.state.documents import DocumentStore
from transduce.serve.state.sqlite import SqliteDatabase
from transduce.serve.state.usage import add_usage

IN_MEMORY = "memory"  # the address of a store that ends with the service
_MAX_GLOSSARIES = 1000  # of a key
_MAX_GLOSSARY_CHARACTERS = 20_000_000  # of all glossaries of a key, as they are stored: a list of them reads all
_GLOSSARIES = (
    "SELECT g.id, g.owner, g.name, g.created, d.source, d.target, d.entries "
    "FROM glossaries g LEFT JOIN dictionaries d ON d.glossary = g.id WHERE g.owner = ?"
)


@dataclass(frozen=True, slots=True)
class StoredDictionary:
    """The terms of a glossary for one pair of languages."""

    source: str
    target: str
    entries: tuple[tuple[str, str], ...]  # source term, target term


@dataclass(frozen=True, slots=True)
class StoredGlossary:
    """A glossary that a client has left with the service."""

    id: str
    owner: str  # the id of the key; "" where the service needs no keys
    name: str
    dictionaries: tuple[StoredDictionary, ...]  # of different pairs of languages
    created: datetime

    def dictionary(self, source: str, target: str) -> StoredDictionary | None:
        """Returns the dictionary for two languages, or None."""
        return next((each for each in self.dictionaries if (each.source, each.target) == (source, target)), None)


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """The characters that a key has translated; days and months are those of UTC."""

    key: str  # "": clients without a key
    today: int
    month: int  # from its first day
    total: int
    since: str  # the first day with any, YYYY-MM-DD


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

    def add_glossary(self, owner: str, name: str, dictionaries: Iterable[StoredDictionary]) -> StoredGlossary:
        """Keeps a glossary and returns it with its new id.

        Raises:
            DataError: the key has too many glossaries, or the name has a character that databases refuse: NUL, or half
                of a surrogate pair.
        """
        made = StoredGlossary(str(uuid.uuid4()), owner, name, tuple(dictionaries), datetime.now(UTC))
        _require_storable(name)

        def work(run: Statement) -> StoredGlossary:
            insert = "INSERT INTO glossaries (id, owner, name, created) VALUES (?, ?, ?, ?)"
            run(insert, made.id, owner, name, made.created.timestamp())
            _write_dictionaries(run, made)
            return made

        return self._database.run(work)

    def change_glossary(
        self, owner: str, glossary_id: str, change: Callable[[StoredGlossary], StoredGlossary]
    ) -> StoredGlossary | None:
        """Changes the name and the dictionaries of a glossary of this key, and returns it; None where there is none.

        Args:
            owner: the key.
            glossary_id: its glossary.
            change: returns the changed glossary. No other replica changes it meanwhile.

        Raises:
            DataError: see `add_glossary`.
        """

        def work(run: Statement) -> StoredGlossary | None:
            lock = "UPDATE glossaries SET name = name WHERE id = ? AND owner = ?"  # on PostgreSQL, until the end
            run(lock, glossary_id, owner)
            found = _glossaries(run(f"{_GLOSSARIES} AND g.id = ? ORDER BY d.number", owner, glossary_id))
            if not found:
                return None
            changed = change(found[0])
            _require_storable(changed.name)
            run("UPDATE glossaries SET name = ? WHERE id = ?", changed.name, glossary_id)
            run("DELETE FROM dictionaries WHERE glossary = ?", glossary_id)
            _write_dictionaries(run, changed)
            return changed

        return self._database.run(work)

    def glossaries(self, owner: str) -> list[StoredGlossary]:
        """Returns the glossaries of a key, oldest first."""
        return _glossaries(self._database.query(f"{_GLOSSARIES} ORDER BY g.created, g.id, d.number", owner))

    def glossary(self, owner: str, glossary_id: str) -> StoredGlossary | None:
        """Returns a glossary of this key; None where there is none, or where it is another's."""
        found = _glossaries(self._database.query(f"{_GLOSSARIES} AND g.id = ? ORDER BY d.number", owner, glossary_id))
        return found[0] if found else None

    def dictionary(self, owner: str, glossary_id: str, source: str, target: str) -> StoredDictionary | None:
        """Returns a dictionary of a glossary of this key, or None; the glossary's other ones are not read."""
        select = f"{_GLOSSARIES} AND g.id = ? AND d.source = ? AND d.target = ?"
        found = _glossaries(self._database.query(select, owner, glossary_id, source, target))
        return found[0].dictionaries[0] if found else None

    def delete_glossary(self, owner: str, glossary_id: str) -> bool:
        """Deletes a glossary of this key; returns whether there was one."""

        def work(run: Statement) -> bool:
            deleted = run("DELETE FROM glossaries WHERE id = ? AND owner = ? RETURNING id", glossary_id, owner)
            for (identifier,) in deleted:
                run("DELETE FROM dictionaries WHERE glossary = ?", identifier)
            return bool(deleted)

        return self._database.run(work)

    # --- usage ------------------------------------------------------------------------------------------------

    def add_usage(self, day: str, characters: Mapping[str, int]) -> dict[str, int]:
        """Adds characters to the usage of keys on a day (YYYY-MM-DD, UTC), and returns their new totals of that day."""

        def work(run: Statement) -> dict[str, int]:
            totals = {}
            for owner in sorted(characters):  # one order everywhere, so that replicas never wait for each other
                _, totals[owner] = add_usage(run, day, owner, characters[owner])
            return totals

        return self._database.run(work)

    def take_usage(self, day: str, owner: str, characters: int, limit: int) -> tuple[bool, int]:
        """Adds characters to the usage of a key on a day if it is below a limit, which is above 0.

        However many replicas do so at the same time, one of them reaches the limit.

        Returns:
            Whether they were added, and the total of the day.
        """
        return self._database.run(lambda run: add_usage(run, day, owner, characters, limit))

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

    def usage_of_keys(self, today: str) -> list[KeyUsage]:
        """Returns what each key has used, by name; `today` is YYYY-MM-DD."""
        select = (
            "SELECT owner, sum(CASE WHEN day = ? THEN characters ELSE 0 END), "
            "sum(CASE WHEN day >= ? THEN characters ELSE 0 END), sum(characters), min(day) "
            "FROM usage_by_day GROUP BY owner ORDER BY owner"
        )
        found = self._database.query(select, today, f"{today[:7]}-01")
        return [KeyUsage(owner, int(day), int(month), int(total), since) for owner, day, month, total, since in found]


def open_store(url: str = "", *, must_exist: bool = False) -> Store:
    """Opens the store at an address.

    Args:
        url: a file, for SQLite; "postgresql://…"; "memory" for what ends with the service; "" for the file
            transduce/serve.db in the user's folder for state ($XDG_STATE_HOME, or ~/.local/state).
        must_exist: whether a missing file is an error, and an earlier schema stays, with which a service may still be
            running: enough to read the usage. Otherwise the one is made, and the other is brought up to date.

    Raises:
        ConfigError: the database cannot be used; the message says why.
        MissingDependencyError: the extra [postgres] is needed.
    """
    database = _database(url)
    if must_exist and isinstance(database, SqliteDatabase) and not database.exists:
        raise ConfigError(
            f"[state] url: {database.shown}: no store is there. Name that of the service: --state, --config."
        )
    database.keeps_schema = must_exist
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
    if path == IN_MEMORY:
        return SqliteDatabase(None)
    return SqliteDatabase(expanded(path) if path else default_path())


def default_path() -> Path:
    """Returns the file of the store where none is configured."""
    folder = os.environ.get("XDG_STATE_HOME") or Path("~", ".local", "state").expanduser()
    return Path(folder, "transduce", "serve.db")


def _glossaries(rows: Iterable[Row]) -> list[StoredGlossary]:
    """Returns the glossaries of rows of `_GLOSSARIES`; rows of one glossary follow each other."""
    found = []
    for (identifier, owner, name, created), group in itertools.groupby(rows, lambda row: row[:4]):
        dictionaries = tuple(
            StoredDictionary(source, target, tuple((term, translation) for term, translation in json.loads(entries)))
            for *_, source, target, entries in group
            if entries is not None  # of a glossary without dictionaries
        )
        found.append(StoredGlossary(identifier, owner, name, dictionaries, datetime.fromtimestamp(created, UTC)))
    return found


def _write_dictionaries(run: Statement, glossary: StoredGlossary) -> None:
    """Writes the dictionaries of a glossary that has none yet; raises DataError where its key has too many."""
    listed = [json.dumps(each.entries) for each in glossary.dictionaries]  # ASCII: databases take any text so
    count = (
        "SELECT count(DISTINCT g.id), coalesce(sum(length(d.entries)), 0) "
        "FROM glossaries g LEFT JOIN dictionaries d ON d.glossary = g.id WHERE g.owner = ? AND g.id <> ?"
    )
    [(number, characters)] = run(count, glossary.owner, glossary.id)
    if number >= _MAX_GLOSSARIES or characters + sum(map(len, listed)) > _MAX_GLOSSARY_CHARACTERS:
        raise DataError(
            f"There are {number:,} other glossaries of {characters:,} characters already: at most "
            f"{_MAX_GLOSSARIES:,} and {_MAX_GLOSSARY_CHARACTERS:,}. Delete those that are not needed."
        )
    for index, (each, entries) in enumerate(zip(glossary.dictionaries, listed, strict=True)):
        run("INSERT INTO dictionaries VALUES (?, ?, ?, ?, ?)", glossary.id, index, each.source, each.target, entries)


def _require_storable(name: str) -> None:
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise DataError("name: must not hold NUL characters or lone surrogates.")
