"""Who translates the windows of a file: one translator in this process, or several workers elsewhere.

The rows of a window depend on the window and the request only, so the file is the same with any workers.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from transduce.config import DecodeConfig
from transduce.translation.pipeline import Request
from transduce.translation.streams.layouts import Layout
from transduce.translation.streams.remarks import Remark
from transduce.translation.translator import Translator
from transduce.translation.windows import Window


@dataclass(frozen=True, slots=True)
class FileRequest:
    """How the lines of a file are to be translated."""

    translation: Request
    layout: Layout
    inline_terms: bool = False  # whether texts mark required terms: see `inline_terms`


@dataclass(frozen=True, slots=True)
class Rows:
    """What is written for the lines of a window, in order, and what is reported about them."""

    rows: Sequence[str]
    warnings: Sequence[str]
    num_terms: int = 0  # required terms
    num_honoured: int = 0  # of these, those that came out where the model expected them
    num_forced: int = 0  # and those that came out elsewhere
    remarks: Mapping[Remark, Sequence[int]] = field(default_factory=dict)  # with the numbers of the lines


# Starts a window, and returns at once a function that waits for its rows, or raises its error.
Submit = Callable[[Window], Callable[[], Rows]]


@dataclass(frozen=True)
class JobFingerprint:
    """What rows depend on besides window and request. A job is resumed only with the same fingerprint."""

    checksums: Mapping[str, str]  # of the files of models and shortlist, by readable names
    engine: str
    calibration: str | None  # if confidence is requested
    independent_lines: bool = True  # whether rows do not depend on batches


def fingerprint_of(translator: Translator, request: FileRequest) -> JobFingerprint:
    """Returns the fingerprint; raises BundleError if a calibration is needed and damaged."""
    calibration, text_options = None, request.translation.text_options
    if text_options.confidence:
        from transduce.translation.pipeline.calibration import load_calibration

        calibration = repr(load_calibration(translator.bundle))
    engine = translator.engine
    return JobFingerprint(translator.checksums, engine.name, calibration, engine.independent_lines)


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


def in_order(windows: Iterable[Window], submit: Submit, ahead: int) -> Iterator[tuple[Window, Rows]]:
    """Yields each window with its rows, in order; up to `ahead` windows are translated at a time.

    If reading the windows fails, the rows of all windows read before come first: lines before a bad line are written.

    Args:
        windows: are read only as far ahead as `ahead` says.
        submit: starts a window.
        ahead: windows that are translated at a time.
    """
    waiting: deque[tuple[Window, Callable[[], Rows]]] = deque()
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
            waiting.append((window, submit(window)))
        if not waiting:
            break
        window, wait_for_rows = waiting.popleft()
        yield window, wait_for_rows()
    if failure is not None:
        raise failure
