"""Who translates the windows of a file: one translator in this process, or several workers elsewhere.

The rows of a window depend on the window and the request only, so the file is the same with any workers.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from transduce.config import DecodeConfig
from transduce.engines.automatic import AutomaticEngine
from transduce.translation.streams.rows import FileRequest, Rows
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

Ticket = TypeVar("Ticket")


@dataclass(frozen=True)
class JobFingerprint:
    """What rows depend on besides window and request. A job is resumed only with the same fingerprint."""

    checksums: Mapping[str, str]  # of the files of models and shortlist, by readable names
    engine: str
    calibration: str | None  # if confidence is requested
    independent_lines: bool = True  # whether rows do not depend on batches


def fingerprint_of(translator: Translator, request: FileRequest) -> JobFingerprint:
    """Returns the fingerprint; raises BundleError if a calibration is needed and damaged."""
    calibration = None
    if request.translation.text.confidence:
        from transduce.translation.pipeline.calibration import load_calibration

        calibration = repr(load_calibration(translator.bundle))
    engine = translator.engine.name
    if request.translation.text.markup != "none" and isinstance(translator.engine, AutomaticEngine):
        engine += ", torch for markup"  # its attention places tags otherwise than ctranslate2 does without
    return JobFingerprint(translator.checksums, engine, calibration, translator.engine.independent_lines)


class Workers(Protocol):
    """Who translates windows."""

    def fingerprint(self, request: FileRequest) -> JobFingerprint:
        """Returns what rows depend on: the same for each worker."""
        ...

    @property
    def options(self) -> DecodeConfig:
        """The model's own decoding options."""
        ...

    def translate(self, windows: Iterable[Window], request: FileRequest) -> Iterator[tuple[Window, Rows]]:
        """Yields each window with its rows, in order; reads windows ahead only as far as there are workers for them.

        Raises:
            DataError: a line is wrong; the rows of all windows before it were yielded.
        """
        ...


class Pool(Protocol[Ticket]):
    """Translates windows elsewhere: takes a window, returns a ticket, and hands over the rows for it."""

    def submit(self, window: Window) -> Ticket:
        """Starts a window, and returns at once."""
        ...

    def result(self, ticket: Ticket) -> Rows:
        """Waits for the rows of the window with this ticket, or raises its error."""
        ...


def in_order(windows: Iterable[Window], pool: Pool[Ticket], ahead: int) -> Iterator[tuple[Window, Rows]]:
    """Yields each window with its rows, in order; up to `ahead` windows are translated at a time.

    If reading the windows fails, the rows of all windows read before come first: lines before a bad line are written.
    """
    waiting: deque[tuple[Window, Ticket]] = deque()
    reader = iter(windows)
    failure: Exception | None = None
    while True:
        while failure is None and len(waiting) < ahead:
            try:
                window = next(reader)
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            waiting.append((window, pool.submit(window)))
        if not waiting:
            break
        window, ticket = waiting.popleft()
        yield window, pool.result(ticket)
    if failure is not None:
        raise failure
