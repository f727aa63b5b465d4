"""The translation of one document: its parts on a thread, its texts through the service as bulk work."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import IO, Any

from transduce.errors import DataError
from transduce.serve.requests import (
    ModelUnavailableError,
    Priority,
    StoppingError,
    TranslationRequest,
    UnavailableError,
    unchanged_text,
)
from transduce.serve.service import Service
from transduce.serve.state.documents import StoredDocument
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.documents import DocumentJob, Languages, columns_of, translate_document
from transduce.translation.documents.segments import plain_text
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Translation

REFUSE_SAME_LANGUAGE = "refuse_same_language"  # an option of documents
_WINDOW_SECONDS = 86_400.0  # for the texts that are translated together; other work may go first
_MAX_WARNINGS = 100  # that are kept
_MAX_FAILURES = 3  # of the model, one after the other
_LONGEST_PAUSE_SECONDS = 5.0  # until texts that were refused are sent again


class CancelledDocumentError(Exception):
    """The work on a document was cancelled."""


class DocumentTranslation:
    """A document while it is translated. `run` runs on a thread; everything else may be called meanwhile."""

    def __init__(
        self,
        service: Service,
        loop: asyncio.AbstractEventLoop,
        document: StoredDocument,
        text_options: TextOptions,
    ) -> None:
        """Takes the service, the loop that it runs in, the document, and the configured options of text."""
        self._service, self._loop, self.document = service, loop, document
        split = "never" if text_options.split == "never" else "always"
        changes: dict[str, Any] = {"markup": "html", "split": split, "confidence": False, "alignment": False}
        self._text_options = replace(text_options, **changes)
        self._lock = threading.Lock()
        self._texts: concurrent.futures.Future[list[Translation]] | None = None
        self._is_cancelled = False
        self._glossary: Glossary | None = None
        self.segments_done = self.characters_done = 0
        self.warnings: list[str] = []

    @property
    def progress(self) -> tuple[int, int]:
        """How many segments and characters are done."""
        return self.segments_done, self.characters_done

    def cancel(self) -> None:
        """Ends `run` soon, with CancelledDocumentError."""
        with self._lock:
            self._is_cancelled = True
            if self._texts is not None:
                self._texts.cancel()

    def run(self, content: bytes, result: IO[bytes]) -> None:
        """Translates the document, and writes the result to an open file.

        Raises:
            CancelledDocumentError: see `cancel`.
            StoppingError: the service is about to end.
            TransduceError: the document cannot be translated; the message says why.
        """
        document, options = self.document, self.document.options
        if options.get(REFUSE_SAME_LANGUAGE) and document.source == document.target:
            raise DataError(f"{document.name}: Source and target language are equal.")
        if options.get("glossary"):
            self._glossary = Glossary(options["glossary"])
        job = DocumentJob(
            name=document.name,
            document_format=options["format"],
            languages=Languages(document.source, document.target),
            columns=columns_of(options.get("columns", "")),
            on_progress=lambda *_: self._require_wanted(),
            warn=self._warn,
        )
        translate_document(self._translated, content, result, job)

    def _require_wanted(self) -> None:
        if self._is_cancelled:
            raise CancelledDocumentError

    def _warn(self, message: str) -> None:
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(message)

    def _translated(self, texts: Sequence[str]) -> Sequence[Translation]:
        if self.document.source == self.document.target:
            found: Sequence[Translation] = [unchanged_text(text) for text in texts]
        else:
            found = self._of_service(texts)
        self.segments_done += len(texts)
        self.characters_done += sum(len(plain_text(text)) for text in texts)
        return found

    def _of_service(self, texts: Sequence[str]) -> list[Translation]:
        with self._lock:
            self._require_wanted()
            self._texts = asyncio.run_coroutine_threadsafe(self._request(texts), self._loop)
        try:
            return self._texts.result()
        except concurrent.futures.CancelledError:
            raise CancelledDocumentError from None

    async def _request(self, texts: Sequence[str]) -> list[Translation]:
        """Returns the translations of texts; where the service has too much to do, they wait."""
        document = self.document
        request = TranslationRequest(
            texts=texts,
            source=document.source,
            target=document.target,
            options=document.options.get("search", {}),
            text_options=self._text_options,
            glossary=self._glossary,
            priority=Priority.BULK,
            timeout_seconds=_WINDOW_SECONDS,
        )
        failures = 0
        while True:
            try:
                return [text.best[0] for text in await self._service.translate(request)]
            except StoppingError:
                raise
            except UnavailableError as error:
                failures += isinstance(error, ModelUnavailableError)
                if failures == _MAX_FAILURES:
                    raise
                await asyncio.sleep(min(error.retry_after_seconds, _LONGEST_PAUSE_SECONDS))
