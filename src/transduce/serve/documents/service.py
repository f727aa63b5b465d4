"""What the protocols do with documents: accept them, report their progress, return results, delete."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping

from starlette.types import Scope

from transduce.serve.config import ServeConfig
from transduce.serve.documents.reader import DocumentReader, SourceOf
from transduce.serve.documents.runner import CANCELLED, DocumentRunner
from transduce.serve.operations.access import Access, LimitError
from transduce.serve.operations.keys import Key
from transduce.serve.requests import OverloadedError, StoppingError
from transduce.serve.service import Service
from transduce.serve.state.documents import DONE, FAILED, QUEUED, READING, DocumentStore, NewDocument, StoredDocument

_READING_SECONDS = 1.0  # after which a document is accepted before it is read
_MAX_READING = 16  # that are being received or read; further ones are refused
_RETRY_SECONDS = 30
_POLL_SECONDS = 0.2
_ABANDONED_SECONDS = 60.0  # after which a document that nobody waits for any more is deleted


class Documents:
    """The documents of all clients."""

    def __init__(
        self,
        service: Service,
        config: ServeConfig,
        store: DocumentStore,
        access: Access,
        source_of: SourceOf,
        note_end: Callable[[str], None] = lambda _: None,
        note_characters: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        """Takes what it needs.

        For metrics, `note_end` is called for each document with how it ended, and `note_characters` with protocol and
        characters of each that is charged after it was accepted.
        """
        self.config, self._store, self._access, self._note_end = config, store, access, note_end
        self._reader = DocumentReader(config.limits.document_characters, access, source_of, note_characters)
        self._runner = DocumentRunner(service, config, store, self._reader, note_end)
        self._num_reading = 0
        self._adding = asyncio.Lock()
        self._stopping = False

    def start(self) -> None:
        """Begins to read and to translate what waits, once the service is ready."""
        self._runner.start()

    async def stop(self) -> None:
        """Ends what is read or translated now, and requeues it."""
        self._stopping = True
        self._reader.stop()
        await self._runner.stop()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many documents the store has of each state, as known here."""
        return self._runner.counts

    def __enter__(self) -> None:
        """Counts a document that is being received or read; raises OverloadedError where there are too many."""
        if self._num_reading >= _MAX_READING:
            raise OverloadedError("Too many documents are being sent. Try again later.", _RETRY_SECONDS)
        self._num_reading += 1

    def __exit__(self, *_: object) -> None:
        self._num_reading -= 1

    async def accept(self, scope: Scope, key: Key, given: NewDocument, content: bytes) -> StoredDocument:
        """Keeps a document that is to be translated, and charges the key with its characters.

        One that takes longer to read is accepted first; then the errors of reading are noted with it.

        Args:
            scope: of the request.
            key: the client's.
            given: the document, which was not read yet.
            content: its file.

        Raises:
            DataError, UnknownPairError: see `DocumentReader.read`.
            LimitError: the key has no characters left, or too many of its documents wait.
            OverloadedError: too many documents wait, or they are too large in all.
            StateError: the store fails.
        """
        await self._require_room(key, len(content))
        try:
            async with asyncio.timeout(_READING_SECONDS):
                found = await self._reader.read(given, content)
        except TimeoutError:
            self._access.require_characters(key)
            made = await self._add(key, given, content, READING)
        else:
            async with self._access.charged(scope, key, found.num_characters):
                made = await self._add(key, found, content, QUEUED)
        self._runner.wake()
        return made

    async def _add(self, key: Key, document: NewDocument, content: bytes, state: str) -> StoredDocument:
        async with self._adding:  # one after the other: documents that are sent at the same time count, too
            await self._require_room(key, len(content))
            return await asyncio.to_thread(self._store.add, document, content, state)

    async def _require_room(self, key: Key, num_bytes: int) -> None:
        limits = self.config.documents
        occupancy = await asyncio.to_thread(self._store.occupancy, key.name)
        if key.name and occupancy.num_waiting_of_owner >= limits.waiting_per_key:
            raise LimitError(f"{occupancy.num_waiting_of_owner} documents of this key wait already.", _RETRY_SECONDS)
        if occupancy.num_waiting >= limits.waiting:
            raise OverloadedError("Too many documents wait already. Try again later.", _RETRY_SECONDS)
        if occupancy.num_bytes + num_bytes > limits.stored_bytes:
            raise OverloadedError("There is no room for more documents now. Try again later.", _RETRY_SECONDS)

    async def find(self, protocol: str, key: Key | None, document_id: str) -> StoredDocument | None:
        """Returns a document of this key; None where there is none, or where it is another's.

        Args:
            protocol: by which the document came.
            key: None, where whoever knows the id may have it.
            document_id: its id.
        """
        owner = key.name if key is not None else None
        return await asyncio.to_thread(self._store.find, protocol, owner, document_id)

    async def finished(self, document: StoredDocument) -> StoredDocument | None:
        """Waits until a document has ended, and returns it; None if it was deleted.

        It expires soon after this is cancelled, so that it is not translated for nobody.

        Raises:
            StoppingError: the service ends.
        """
        due = 0.0
        while (found := await self.find(document.protocol, None, document.id)) is not None:
            if found.state in (DONE, FAILED):
                return found
            if self._stopping:
                raise StoppingError("The service is stopping.", _RETRY_SECONDS)
            if time.monotonic() >= due:
                due = time.monotonic() + _ABANDONED_SECONDS / 4
                await asyncio.to_thread(self._store.keep_unfinished, document.id, _ABANDONED_SECONDS)
            await asyncio.sleep(_POLL_SECONDS)
        return None

    async def result(self, document: StoredDocument) -> AsyncIterator[bytes]:
        """Yields the result of a document that is done, in pieces."""
        number = 0
        while chunk := await asyncio.to_thread(self._store.chunk, document.id, "result", number):
            yield chunk
            number += 1

    async def delete(self, protocol: str, key: Key, document_id: str) -> bool:
        """Ends the translation of a document and deletes it; returns whether there was one."""
        deleted = await asyncio.to_thread(self._store.delete, protocol, key.name, document_id)
        if deleted is None:
            return False
        if deleted.state not in (DONE, FAILED):
            self._note_end(CANCELLED)
            self._reader.refund(deleted, deleted.num_characters - deleted.characters_done)
        self._runner.cancel(document_id)
        return True
