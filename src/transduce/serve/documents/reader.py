"""What is found out about a document before it is translated: its size, its language, and what its key is charged."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from transduce.serve.documents.survey import DocumentFile, SurveyProcesses
from transduce.serve.operations.access import Access, day_limit_error
from transduce.serve.state.documents import NewDocument, StoredDocument

SourceOf = Callable[[str, str, str], Awaitable[str]]  # of a text, its source or "auto", and its target: its language
Queue = Callable[[str, int], Awaitable[tuple[bool, int] | None]]  # of day and limit; see `DocumentStore.queue`


class DocumentReader:
    """Reads documents, and charges their keys."""

    def __init__(
        self,
        max_characters: int,
        access: Access,
        source_of: SourceOf,
        note_characters: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        """Takes what it needs.

        Args:
            max_characters: of a document.
            access: the keys.
            source_of: finds a language, and checks the pair.
            note_characters: is called with a protocol, and the characters that `charge` has charged for it.
        """
        self._max_characters, self._access, self._source_of = max_characters, access, source_of
        self._note_characters = note_characters
        self._processes = SurveyProcesses()

    async def read(self, given: NewDocument, content: bytes) -> NewDocument:
        """Returns a document with its size and its language.

        Raises:
            DataError: it is damaged, encrypted, too large or not in its format.
            UnknownPairError: no model translates between the languages.
            StoppingError: `stop` was called.
        """
        options = given.options
        file = DocumentFile(content, given.name, options["format"], options.get("columns", ""))
        found = await self._processes.survey(file, given.target, self._max_characters)
        source = await self._source_of(found.sample, given.source, given.target)
        return replace(given, source=source, num_segments=found.num_segments, num_characters=found.num_characters)

    async def charge(self, document: StoredDocument, characters: int, queue: Queue) -> None:
        """Queues a document that was accepted before it was read, and charges its key on the day when it came.

        Args:
            document: the document.
            characters: that it has.
            queue: does both in the store, or neither.

        Raises:
            UnknownKeyError: there is no such key any more.
            DayLimitError: it has no characters left of that day.
        """
        key, day = self._access.key_named(document.owner), _day(document)
        await self._access.budgets.usage.save()  # so that the store knows all that counts towards the limit
        outcome = await queue(day, key.characters_per_day)
        if outcome is None:  # the document was deleted, or is another replica's
            return
        is_charged, total = outcome
        if not is_charged:
            raise day_limit_error(key, day)
        self._access.budgets.note_taken(key, characters, total, day)
        self._note_characters(document.protocol, characters)

    def refund(self, document: StoredDocument, characters: int) -> None:
        """Refunds characters of a document, on the day when it came."""
        self._access.budgets.refund(document.owner, characters, _day(document))

    def stop(self) -> None:
        """Ends all reading."""
        self._processes.stop()


def _day(document: StoredDocument) -> str:
    return document.created.strftime("%Y-%m-%d")
