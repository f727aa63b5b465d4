"""Reads and translates the documents in the store, some at a time, while the service runs.

If the service ends while it translates a document, the document is translated again from its beginning, by this service
after its next start or by another replica. The same holds for reading.
"""

import asyncio
import contextlib
import logging
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, ParamSpec, TypeVar

from transduce.errors import TransduceError
from transduce.serve.config import AUTO, ServeConfig
from transduce.serve.documents.reader import DocumentReader
from transduce.serve.documents.translation import CancelledDocumentError, DocumentTranslation
from transduce.serve.requests import StoppingError, UnavailableError
from transduce.serve.service import Service
from transduce.serve.state.database import StateError
from transduce.serve.state.documents import (
    CHUNK_BYTES,
    DONE,
    FAILED,
    READING,
    TRANSLATING,
    UPLOADING,
    DocumentStore,
    StoredDocument,
)

LEASE_SECONDS = 20.0  # a replica that does not renew a lease for this long is considered dead
_RENEW_SECONDS = 1.0
_POLL_SECONDS = 1.0  # between two checks for documents that other replicas accepted
_UPKEEP_SECONDS = 10.0  # between two checks for documents that have expired
_IN_MEMORY_BYTES = 1 << 20  # of a result; a larger one goes to a file
_MAX_ATTEMPTS = 3  # if the service ended this often while translating a document, the document may be the reason
_LOG = logging.getLogger("transduce.serve")

CANCELLED, EXPIRED = "cancelled", "expired"  # further ways to end, besides the states
P = ParamSpec("P")
T = TypeVar("T")


class DocumentRunner:
    """Reads and translates documents; `start` begins, `stop` requeues those that are not done."""

    def __init__(
        self,
        service: Service,
        config: ServeConfig,
        store: DocumentStore,
        reader: DocumentReader,
        note_end: Callable[[str], None],
    ) -> None:
        """Prepares the runner; nothing is read or translated before `start`.

        Args:
            service: translates texts.
            config: of the service.
            store: where the documents are.
            reader: reads documents that were accepted before they were read.
            note_end: is called for each document that has ended, with "done", "failed" or "expired".
        """
        self._service, self._config, self._store = service, config, store
        self._reader, self._note_end = reader, note_end
        self._threads = ThreadPoolExecutor(config.documents.running, "document")
        self._running: dict[str, Callable[[], object]] = {}  # what ends the work at each document
        self._came, self._ending = asyncio.Event(), asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.counts: Mapping[str, int] = {}  # documents in the store by state, at the last check

    def start(self) -> None:
        """Begins to read and to translate, once the service is ready."""
        states = [READING, *[TRANSLATING] * self._config.documents.running]
        workers = [asyncio.create_task(self._work(state)) for state in states]
        self._tasks = [*workers, asyncio.create_task(self._keep_up())]

    async def stop(self) -> None:
        """Cancels what is being read or translated and requeues it, for the next start or for another replica."""
        self._stopping = True
        self._came.set()
        self._ending.set()
        for end in list(self._running.values()):
            end()
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks)
        await asyncio.to_thread(self._threads.shutdown)

    def wake(self) -> None:
        """Reports that a document was accepted, so that the runner looks for it at once."""
        self._came.set()

    def cancel(self, document_id: str) -> None:
        """Ends the work on a document that was deleted, if it is read or translated here."""
        if document_id in self._running:
            self._running[document_id]()

    async def _work(self, state: str) -> None:
        while not self._stopping:
            claim, claimed = secrets.token_hex(16), None
            self._came.clear()
            try:
                if self._service.ready:
                    claimed = await asyncio.to_thread(self._store.claim, state, claim, LEASE_SECONDS, self._serves)
            except StateError:
                pass  # the store has logged it; this is tried again
            if claimed is None:
                await self._pause(self._came, _POLL_SECONDS)
            else:
                await self._handle(claimed, claim)

    def _serves(self, source: str, target: str) -> bool:
        pairs = self._service.language_pairs
        if source in (AUTO, target):  # what is in the target language already is copied
            return any(target == each for _, each in pairs)
        return (source, target) in pairs

    async def _pause(self, event: asyncio.Event, seconds: float) -> None:
        """Waits for an event, at most for these seconds."""
        if not self._stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()

    async def _handle(self, document: StoredDocument, claim: str) -> None:
        """Reads or translates a document, and records how that ended."""
        try:
            await self._attempt(document, claim)
        except (CancelledDocumentError, StoppingError):
            # The service ends, or the document is not this claim's any more.
            await self._requeue(document, claim)

    async def _attempt(self, document: StoredDocument, claim: str) -> None:
        is_reading = document.state == READING
        if document.attempts > _MAX_ATTEMPTS:
            done = "read" if is_reading else "translated"
            message = f"{document.name}: the service ended {_MAX_ATTEMPTS} times while it was being {done}."
            await self._fail(document, claim, message)
            return
        try:
            await (self._read if is_reading else self._translate)(document, claim)
        except (CancelledDocumentError, StoppingError):
            raise
        except UnavailableError as error:
            if not is_reading or document.attempts == _MAX_ATTEMPTS:
                await self._fail(document, claim, str(error))
            else:  # something is short for a moment
                await self._requeue(document, claim, counts=True)
        except TransduceError as error:
            await self._fail(document, claim, str(error))
        except Exception as error:  # other documents must go on; the message may contain text of the document
            _LOG.exception("a document could not be read or translated")
            await self._fail(document, claim, f"{document.name}: the service failed ({type(error).__name__}).")

    async def _read(self, document: StoredDocument, claim: str) -> None:
        content = await self._until_stored(self._store.content, document.id, "source")
        reading = asyncio.ensure_future(self._reader.read(document, content))
        async with self._leased(document, claim, reading.cancel, lambda: (0, 0)):
            try:
                found = await reading
            except asyncio.CancelledError:
                raise CancelledDocumentError from None
            await self._reader.charge(
                document,
                found.num_characters,
                lambda *limit_of_day: self._until_stored(self._store.queue, document.id, claim, found, *limit_of_day),
            )
            self.wake()

    async def _translate(self, document: StoredDocument, claim: str) -> None:
        loop = asyncio.get_running_loop()
        translation = DocumentTranslation(self._service, loop, document, self._config.text)
        async with self._leased(document, claim, translation.cancel, lambda: translation.progress):
            content = await self._until_stored(self._store.content, document.id, "source")
            with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as result:
                await loop.run_in_executor(self._threads, translation.run, content, result)
                await self._save(translation, claim, result)

    @contextlib.asynccontextmanager
    async def _leased(
        self, document: StoredDocument, claim: str, end: Callable[[], object], progress: Callable[[], tuple[int, int]]
    ) -> AsyncIterator[None]:
        """Renews the lease of a document within this block; calls `end` where the work at it should end."""
        self._running[document.id] = end
        renewing = asyncio.create_task(self._renew(document.id, claim, end, progress))
        if self._stopping:
            end()
        try:
            yield
        finally:
            if self._running.get(document.id) is end:  # else it is being translated already
                del self._running[document.id]
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _renew(
        self, document_id: str, claim: str, end: Callable[[], object], progress: Callable[[], tuple[int, int]]
    ) -> None:
        """Renews the lease and stores the progress; ends the work once the claim is lost."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                if not await asyncio.to_thread(self._store.renew, document_id, claim, LEASE_SECONDS, *progress()):
                    end()
                    return
            except StateError:
                continue  # the store has logged it; if the lease ends meanwhile, the next renewal fails

    async def _save(self, translation: DocumentTranslation, claim: str, result: IO[bytes]) -> None:
        document, keep = translation.document, self._config.documents.keep_seconds
        result.seek(0)
        for number, chunk in enumerate(iter(partial(result.read, CHUNK_BYTES), b"")):
            if not await self._until_stored(self._store.add_result_chunk, document.id, claim, number, chunk):
                raise CancelledDocumentError
        if await self._until_stored(self._store.finish, document.id, claim, translation.warnings, keep):
            self._note_end(DONE)

    async def _fail(self, document: StoredDocument, claim: str, message: str) -> None:
        keep = self._config.documents.keep_seconds
        if await self._until_stored(self._store.fail, document.id, claim, message, keep):
            self._note_end(FAILED)
            self._reader.refund(document, document.num_characters)

    async def _requeue(self, document: StoredDocument, claim: str, *, counts: bool = False) -> None:
        """Requeues a document; where it `counts`, this was one of its attempts."""
        try:
            await asyncio.to_thread(self._store.requeue, document.id, claim, counts=counts)
        except StateError:
            _LOG.warning("a document could not be requeued: it is claimed again when its lease has ended")
        if not self._stopping:
            await asyncio.sleep(_POLL_SECONDS)  # a service that is about to end must not claim it again at once

    async def _until_stored(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Returns the result of the store; where it fails, tries again until the service ends."""
        while True:
            try:
                return await asyncio.to_thread(work, *arguments, **named)
            except StateError:
                if self._stopping:
                    raise StoppingError("The service is stopping.") from None
                await asyncio.sleep(_POLL_SECONDS)

    async def _keep_up(self) -> None:
        """Deletes expired documents, and counts the others."""
        while not self._stopping:
            try:
                for document in await asyncio.to_thread(self._store.delete_expired):
                    self._note_end(EXPIRED)
                    if document.state not in (UPLOADING, DONE, FAILED):  # `accept` refunded the first
                        self._reader.refund(document, document.num_characters - document.characters_done)
                self.counts = await asyncio.to_thread(self._store.counts)
            except StateError:
                pass  # the store has logged it; this is tried again
            await self._pause(self._ending, _UPKEEP_SECONDS)
