"""What a document holds, found by reading it as the translation will read it."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transduce.errors import DataError
from transduce.translation.documents import Languages, translate_document
from transduce.translation.documents.segments import plain_text
from transduce.translation.result import Translation

_SAMPLE_CHARACTERS = 2000  # which show what language it is


@dataclass(frozen=True, slots=True)
class Survey:
    """What a document holds."""

    num_segments: int
    num_characters: int  # that are translated
    sample: str  # the beginning of its text


def survey(content: bytes, name: str, document_format: str, target: str, max_characters: int) -> Survey:
    """Reads a document.

    Args:
        content: the file.
        name: of the file, for errors.
        document_format: a name in `FORMATS`.
        target: code of the language into which it will be translated.
        max_characters: that may be translated.

    Raises:
        DataError: the document is damaged, encrypted, too large or not in its format.
    """
    num_segments = num_characters = 0
    sample = ""

    def count(texts: Sequence[str]) -> list[Translation]:
        nonlocal num_segments, num_characters, sample
        for text in map(plain_text, texts):
            num_segments += 1
            num_characters += len(text)
            if len(sample) < _SAMPLE_CHARACTERS:
                sample += f"{text[:_SAMPLE_CHARACTERS]}\n"
        if num_characters > max_characters:
            raise DataError(f"{name}: has more than {max_characters:,} characters to translate. Split it.")
        return [unchanged(text) for text in texts]

    job = {"name": name, "document_format": document_format, "languages": Languages("", target)}
    translate_document(count, content, _Discarded(), **job)  # type: ignore[arg-type]
    return Survey(num_segments, num_characters, sample)


def unchanged(text: str) -> Translation:
    """Returns a text as its own translation."""
    return Translation(text, 0.0, 0.0, (), finished=True, source_truncated=False)


class _Discarded(io.RawIOBase):
    """A file that keeps nothing."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return len(data)
