"""Parts: the files within a document whose text is translated, as a stream of pieces.

The segments of all parts go through one stream of windows, so that many small parts fill batches as one large part
does. Memory holds a window of segments, and the part that is being written.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from textwrap import shorten

from transduce.errors import DataError
from transduce.reporting.tables import counted
from transduce.translation.documents.messages import HalfCharacter
from transduce.translation.documents.segments import (
    AlignedByHand,
    Piece,
    Segment,
    SegmentError,
    has_words,
    items_of,
    keeps_tags,
    plain_text,
    segments_of,
    written,
)
from transduce.translation.pipeline.restoring import LEFT_AS_IT_WAS
from transduce.translation.result import Translation

# A window ends at this many segments or characters of the document: it is what is translated between two reports of
# progress, and has enough sentences for full batches.
WINDOW_SEGMENTS = 256
WINDOW_CHARACTERS = 1 << 16

TOO_LONG = "has a word that is longer than the model reads: left as it was, in the source language."

ALIGNED_BY_HAND = "a table whose columns are aligned by hand: left as it was. Write it with '|' between its cells."

HALF_CHARACTER = "has half of a character (a lone surrogate): left as it was, in the source language. Correct it."

_COPIED_WITH = (
    (AlignedByHand, ALIGNED_BY_HAND),
    (HalfCharacter, HALF_CHARACTER),
)  # kinds of pieces, and what to warn of

# From texts in HTML, with tags such as <x1>, to their translations with the same tags. A string is a whole one.
TranslateTexts = Callable[[Sequence[str]], Sequence[Translation | str]]


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a file."""

    encode: Callable[[str], bytes]  # turns it into bytes
    pieces: Iterable[Piece]
    remark: str = ""  # on how it was read, for a warning


ReadMember = Callable[[bytes, str], Content]  # from a member of an archive and its name for messages


@dataclass(frozen=True, slots=True)
class Part:
    """A text file, or a member of an archive."""

    name: str  # of the document and the member, for messages
    size: int  # in bytes
    content: Content


@dataclass
class Progress:
    """How far a job is, and what there is to say about its segments."""

    total: int  # bytes of all parts
    on_progress: Callable[[int, int], None] | None  # called after each window, with bytes done and in all
    warn: Callable[[str], None]
    num_segments: int = 0
    finished: int = 0  # bytes of parts that are written
    within: int = 0  # characters of the current part
    part_size: int = 0

    def begin(self, part: Part) -> None:
        """Notes that a part begins."""
        self.finished, self.within, self.part_size = self.finished + self.part_size, 0, part.size

    def report(self) -> None:
        """Calls `on_progress`, which may raise to stop the job."""
        if self.on_progress is not None:
            self.on_progress(min(self.finished + min(self.within, self.part_size), self.total), self.total)


def translate_parts(parts: Iterable[Part], translate: TranslateTexts, progress: Progress) -> Iterator[bytes]:
    """Yields the translation of each part, in order."""
    current: Part | None = None
    text = StringIO()
    for window in _windows(parts):
        _translate_window(window, translate, progress)
        for each in window:
            if isinstance(each, Part):
                if current is not None:
                    yield current.content.encode(text.getvalue())
                current, text = each, StringIO()
                progress.begin(each)
                if each.content.remark:
                    progress.warn(each.content.remark)
            else:
                progress.within += _length(each)
                text.writelines(written([each]))
        progress.report()
    if current is not None:
        yield current.content.encode(text.getvalue())


def _windows(parts: Iterable[Part]) -> Iterator[list[Part | Piece]]:
    """Yields the parts with their pieces after them, some segments at a time."""
    window: list[Part | Piece] = []
    num_segments = num_characters = 0
    for part in parts:
        window.append(part)
        for piece in _named(part):
            window.append(piece)
            num_segments += isinstance(piece, Segment)
            num_characters += _length(piece)
            if num_segments >= WINDOW_SEGMENTS or num_characters >= WINDOW_CHARACTERS:
                yield window
                window, num_segments, num_characters = [], 0, 0
    if window:
        yield window


def _named(part: Part) -> Iterator[Piece]:
    """Yields the pieces of a part; an error in one of them names the part."""
    try:
        yield from part.content.pieces
    except SegmentError as error:
        raise DataError(f"{part.name}: {error}") from None


def _translate_window(window: Sequence[Part | Piece], translate: TranslateTexts, progress: Progress) -> None:
    """Translates the segments of a window: each text once, however often it occurs."""
    pieces = [each for each in window if not isinstance(each, Part)]
    for piece in pieces:
        for kind, warning in _COPIED_WITH:
            if isinstance(piece, kind) and has_words(piece):
                progress.warn(f"{shorten(piece, 60, placeholder=' …')!r}: {warning}")
    segments = [segment for segment in segments_of(pieces) if segment.translation is None]
    texts = list(dict.fromkeys(segment.source for segment in segments))
    translations = [*translate(texts)] if texts else []
    if len(translations) != len(texts):
        raise DataError(
            f"{counted(len(texts), 'text')} given to the function, and {len(translations):,} came back: it must return "
            "one translation for each."
        )
    kept: dict[str, str] = {}
    for source, given in zip(texts, translations, strict=True):
        translation = given if isinstance(given, Translation) else Translation(given, 0.0, 0.0, (), True, False)
        is_kept = keeps_tags(items_of(source), items_of(translation.text))
        warnings = translation.warnings
        if translation.source_truncated:
            warnings = (*warnings, TOO_LONG)
        elif not is_kept:
            warnings = tuple(dict.fromkeys((*warnings, LEFT_AS_IT_WAS)))
        elif LEFT_AS_IT_WAS not in warnings or translation.text != source:  # a target next to its source stays empty
            kept[source] = translation.text
        for warning in warnings:
            progress.warn(f"{shorten(plain_text(source), 60, placeholder=' …')!r}: {warning}")
    for segment in segments:
        segment.translation = kept.get(segment.source)
    progress.num_segments += len(segments)


def _length(piece: Piece) -> int:
    return len(piece) if isinstance(piece, str) else sum(map(_length, piece.original))
