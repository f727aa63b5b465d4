"""Documents in the store: what is to be translated, by whom, how far it is, and the files themselves.

A replica claims a document, and has it for as long as it renews its lease. If the replica dies, the lease ends, and
another claims the document. A replica can write only while the document is still its own.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Literal

from transduce.serve.state.database import Database, Row, Statement
from transduce.serve.state.usage import add_usage

STATES = ("uploading", "reading", "queued", "translating", "done", "failed")
UPLOADING, READING, QUEUED, TRANSLATING, DONE, FAILED = STATES
CHUNK_BYTES = 1 << 20  # of a file; others can use the database between two chunks
Part = Literal["source", "result"]

_UPLOAD_SECONDS = 600.0  # after which a document that is still being stored is deleted
_LONGEST_MESSAGE = 2000  # characters of what is wrong with a document
_NEVER = 1e12  # seconds since 1970
_FOREIGN_SECONDS = 86_400.0  # after which a document that no replica serves is claimed all the same, and fails
_WAITING = {  # which documents a replica may claim in order to read or to translate them
    READING: "(state = 'reading' AND leased_until < ?)",
    TRANSLATING: "(state = 'queued' OR (state = 'translating' AND leased_until < ?))",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """A document that a client has sent."""

    protocol: str  # by which it came: documents of another one cannot be seen there
    owner: str  # the name of the key; "" for clients without one
    name: str  # of the file
    source: str  # a language code, or until the document is read "auto"
    target: str
    options: Mapping[str, Any] = field(default_factory=dict)  # how it is translated
    num_segments: int = 0  # until it is read
    num_characters: int = 0  # that are translated


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument(NewDocument):
    """A document in the store, and how far it is."""

    id: str
    num_bytes: int  # of its files; of one that is done, of the result
    state: str  # one of STATES
    segments_done: int
    characters_done: int
    warnings: tuple[str, ...]
    message: str  # why it failed
    attempts: int  # how often a replica began with it
    created: datetime


# Each column has the name of its field, without "num_".
_COLUMNS = ", ".join(field.name.removeprefix("num_") for field in fields(StoredDocument))


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How much the store holds."""

    num_waiting: int  # documents that are not done
    num_waiting_of_owner: int
    num_bytes: int  # of all files


class DocumentStore:
    """The documents of a database. Each method is one transaction; all raise StateError where the database fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, given: NewDocument, content: bytes, state: str = QUEUED) -> StoredDocument:
        """Keeps a document, which waits for its turn from now on, and returns it with its new id.

        Args:
            given: the document.
            content: its file.
            state: QUEUED, or READING where it is still to be read.
        """
        now = datetime.now(UTC)
        columns = (given.protocol, given.owner, given.name, given.source, given.target, json.dumps(given.options))
        sizes = (given.num_segments, given.num_characters)
        row = (*columns, *sizes, uuid.uuid4().hex.upper(), len(content), UPLOADING, 0, 0, "[]", "", 0, now.timestamp())
        made = replace(_document(row), state=state)
        uploading = (*row, "", 0.0, time.time() + _UPLOAD_SECONDS)
        marks = ", ".join("?" * len(uploading))
        inserted = f"INSERT INTO documents ({_COLUMNS}, runner, leased_until, expires) VALUES ({marks})"
        self._database.query(inserted, *uploading)
        for number, start in enumerate(range(0, len(content), CHUNK_BYTES)):
            chunk = content[start : start + CHUNK_BYTES]
            self._database.query("INSERT INTO document_chunks VALUES (?, 'source', ?, ?)", made.id, number, chunk)
        self._database.query("UPDATE documents SET state = ?, expires = ? WHERE id = ?", state, _NEVER, made.id)
        return made

    def occupancy(self, owner: str) -> Occupancy:
        """Returns how much the store holds, and how many documents of a key wait."""
        waiting = "state NOT IN ('done', 'failed')"
        [numbers] = self._database.query(
            f"SELECT count(*) FILTER (WHERE {waiting}), count(*) FILTER (WHERE {waiting} AND owner = ?), "
            "coalesce(sum(bytes), 0) FROM documents",
            owner,
        )
        return Occupancy(*map(int, numbers))

    def counts(self) -> dict[str, int]:
        """Returns how many documents there are of each state."""
        found: dict[str, int] = dict(self._database.query("SELECT state, count(*) FROM documents GROUP BY state"))
        return {state: int(found.get(state, 0)) for state in STATES}

    def find(self, protocol: str, owner: str | None, document_id: str) -> StoredDocument | None:
        """Returns a document of this key; None where there is none, or where it is another's.

        Args:
            protocol: by which it came.
            owner: the name of the key; None: any.
            document_id: its id.
        """
        select = f"SELECT {_COLUMNS} FROM documents WHERE id = ? AND protocol = ?"
        found = self._database.query(select, document_id, protocol)
        document = _document(found[0]) if found else None
        return document if document is not None and owner in (None, document.owner) else None

    def chunk(self, document_id: str, part: Part, number: int) -> bytes:
        """Returns a chunk of a file; b"" after its end."""
        found = self._database.query(
            "SELECT content FROM document_chunks WHERE document = ? AND part = ? AND number = ?",
            *(document_id, part, number),
        )
        return bytes(found[0][0]) if found else b""

    def content(self, document_id: str, part: Part) -> bytes:
        """Returns a file."""
        content, number = bytearray(), 0
        while chunk := self.chunk(document_id, part, number):
            content += chunk
            number += 1
        return bytes(content)

    def keep_unfinished(self, document_id: str, seconds: float) -> None:
        """Lets a document expire in so many seconds, unless it is done by then."""
        expires = "UPDATE documents SET expires = ? WHERE id = ? AND state NOT IN ('done', 'failed')"
        self._database.query(expires, time.time() + seconds, document_id)

    def delete(self, protocol: str, owner: str, document_id: str) -> StoredDocument | None:
        """Deletes a document of this key with its files; returns it as it was, or None where there was none."""
        deleted = self._deleted("id = ? AND owner = ? AND protocol = ?", document_id, owner, protocol)
        return deleted[0] if deleted else None

    def delete_expired(self) -> list[StoredDocument]:
        """Deletes the documents whose time has come, with their files; returns them."""
        return self._deleted("expires < ?", time.time())

    # --- for the replica that reads or translates a document -----------------------------------------------------

    def claim(
        self, state: str, runner: str, lease_seconds: float, serves: Callable[[str, str], bool] = lambda *_: True
    ) -> StoredDocument | None:
        """Returns the next document to be read or translated, which is this replica's from now on; None: none waits.

        That is one of a key of which the fewest are being translated; of these, the one that came first.

        Args:
            state: READING or TRANSLATING: what the replica will do.
            runner: the name of the claim, which no other has.
            lease_seconds: after which another replica may claim it, unless the lease is renewed.
            serves: whether the replica translates from one language into another; others may have other models.
        """
        now, may_be_claimed = time.time(), _WAITING[state]

        def next_id(run: Statement) -> str | None:
            waiting = run(
                f"SELECT id, source, target, created FROM documents WHERE {may_be_claimed} ORDER BY (SELECT count(*) "
                "FROM documents AS other WHERE other.owner = documents.owner AND other.state = 'translating'), "
                "created, id",
                now,
            )
            latest = now - _FOREIGN_SECONDS
            return next((id for id, *pair, created in waiting if created < latest or serves(*pair)), None)

        def work(run: Statement) -> StoredDocument | None:
            while (chosen := next_id(run)) is not None:
                claimed = run(
                    "UPDATE documents SET state = ?, runner = ?, leased_until = ?, attempts = attempts + 1,"
                    f" segments_done = 0, characters_done = 0 WHERE id = ? AND {may_be_claimed} RETURNING {_COLUMNS}",
                    *(state, runner, now + lease_seconds, chosen, now),
                )
                if claimed:
                    run("DELETE FROM document_chunks WHERE document = ? AND part = 'result'", chosen)
                    return _document(claimed[0])
            return None

        return self._database.run(work)

    def renew(self, document_id: str, runner: str, lease_seconds: float, segments: int, characters: int) -> bool:
        """Notes how much is translated, and renews the lease; returns whether the document is still this claim's."""
        changes = "leased_until = ?, segments_done = ?, characters_done = ?"
        return self._change(document_id, runner, changes, time.time() + lease_seconds, segments, characters)

    def queue(self, document_id: str, runner: str, found: NewDocument, day: str, limit: int) -> tuple[bool, int] | None:
        """Notes what a document holds, which waits to be translated from now on, and charges its key: both or neither.

        Args:
            document_id: its id.
            runner: the claim.
            found: what it holds.
            day: on which its characters count, YYYY-MM-DD.
            limit: of its key on that day; 0 for none. A key that has used it up is not charged.

        Returns:
            Whether its key was charged, and the characters of this key on that day; None where the document is not this
            claim's any more.
        """

        def work(run: Statement) -> tuple[bool, int] | None:
            if not _changed(run, document_id, runner, "runner = runner"):  # on PostgreSQL, it is locked until the end
                return None
            is_charged, total = add_usage(run, day, found.owner, found.num_characters, limit)
            if is_charged:
                changes = "state = 'queued', runner = '', attempts = 0, source = ?, segments = ?, characters = ?"
                values = (found.source, found.num_segments, found.num_characters)
                _changed(run, document_id, runner, changes, *values)
            return is_charged, total

        return self._database.run(work)

    def add_result_chunk(self, document_id: str, runner: str, number: int, chunk: bytes) -> bool:
        """Adds a chunk of the result; returns whether the document is still this claim's."""

        def work(run: Statement) -> bool:
            if not _changed(run, document_id, runner, "bytes = bytes + ?", len(chunk)):
                return False
            # It is tried again where the answer was lost.
            insert = "INSERT INTO document_chunks VALUES (?, 'result', ?, ?) ON CONFLICT DO NOTHING"
            run(insert, document_id, number, chunk)
            return True

        return self._database.run(work)

    def finish(self, document_id: str, runner: str, warnings: list[str], keep_seconds: float) -> bool:
        """Notes that the result is whole, and deletes the source; see `renew`."""
        changes = "state = 'done', segments_done = segments, characters_done = characters, warnings = ?"
        return self._end(document_id, runner, changes, json.dumps(warnings), keep_seconds)

    def fail(self, document_id: str, runner: str, message: str, keep_seconds: float) -> bool:
        """Notes that the document cannot be read or translated, and deletes its files; see `renew`."""
        # Any database stores it so.
        written = message[:_LONGEST_MESSAGE].replace("\0", "").encode(errors="replace").decode()
        return self._end(document_id, runner, "state = 'failed', message = ?", written, keep_seconds)

    def requeue(self, document_id: str, runner: str, *, counts: bool = False) -> bool:
        """Requeues a document, to be read or translated by the next claim; see `renew`.

        Args:
            document_id: its id.
            runner: the claim.
            counts: whether this was one of its attempts.
        """
        state = "CASE state WHEN 'translating' THEN 'queued' ELSE state END"
        changes = f"state = {state}, runner = '', leased_until = 0, attempts = attempts - {int(not counts)}"
        return self._change(document_id, runner, changes)

    def _change(self, document_id: str, runner: str, changes: str, *values: object) -> bool:
        return bool(self._database.run(lambda run: _changed(run, document_id, runner, changes, *values)))

    def _end(self, document_id: str, runner: str, changes: str, value: str, keep_seconds: float) -> bool:
        def work(run: Statement) -> bool:
            ended = f"{changes}, runner = '', expires = ?"
            state = _changed(run, document_id, runner, ended, value, time.time() + keep_seconds)
            if not state:
                return False
            of_result = " AND part = 'source'" if state == DONE else ""
            run(f"DELETE FROM document_chunks WHERE document = ?{of_result}", document_id)
            run(
                "UPDATE documents SET bytes = (SELECT coalesce(sum(length(content)), 0) FROM document_chunks "
                "WHERE document = documents.id) WHERE id = ?",
                document_id,
            )
            return True

        if ended := self._database.run(work):
            self._database.erase_deleted()
        return ended

    def _deleted(self, condition: str, *values: object) -> list[StoredDocument]:
        def work(run: Statement) -> list[StoredDocument]:
            rows = run(f"DELETE FROM documents WHERE {condition} RETURNING {_COLUMNS}", *values)
            deleted = list(map(_document, rows))
            for document in deleted:
                run("DELETE FROM document_chunks WHERE document = ?", document.id)
            return deleted

        if deleted := self._database.run(work):
            self._database.erase_deleted()
        return deleted


def _changed(run: Statement, document_id: str, runner: str, changes: str, *values: object) -> str:
    """Changes a document; returns its state from now on, or "" where it is not this claim's any more."""
    update = f"UPDATE documents SET {changes} WHERE id = ? AND runner = ? RETURNING state"
    found = run(update, *values, document_id, runner)
    return found[0][0] if found else ""


def _document(row: Row) -> StoredDocument:
    values = dict(zip((field.name for field in fields(StoredDocument)), row, strict=True))
    options, warnings, created = json.loads(values["options"]), json.loads(values["warnings"]), values["created"]
    read = {"options": options, "warnings": tuple(warnings), "created": datetime.fromtimestamp(created, UTC)}
    return StoredDocument(**values | read)
