"""Every error that Transduce raises on purpose.

An error names the file, line, key or tensor at fault and says what to do. The command line prints it
without a traceback and exits with the class's `exit_code`.
"""

import errno
import json
import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import metadata
from typing import Self
from urllib.parse import urlsplit
from urllib.request import url2pathname

# Too little memory, also for a thread; too many open files.
_SHORTAGES = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)

# What PyTorch's allocators and libraries say where memory runs out: those of the system, of oneDNN and of cuBLAS.
NO_MEMORY_SAID = (
    "can't allocate memory",
    "not enough memory",
    "bad_alloc",
    "could not create a primitive",
    "could not create a memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


class TransduceError(Exception):
    """Base of all errors that a user can cause and can fix.

    Attributes:
        advice: what the command line says after the message: options and programs, which mean nothing to the users of
            a service.
    """

    exit_code = 1
    advice = ""

    def with_advice(self, advice: str) -> Self:
        """Returns this error, with advice for the command line."""
        self.advice = advice
        return self


class ConfigError(TransduceError):
    """A configuration key or value is wrong: unknown key, wrong type, value out of range."""

    exit_code = 2


class DataError(TransduceError):
    """A corpus file is missing, misaligned, not UTF-8, or leaves nothing to train on."""

    exit_code = 3


class DownloadError(DataError):
    """A named corpus could not be fetched, or does not have the expected checksum."""


class TokenizerError(TransduceError):
    """A tokenizer file cannot be read, or text cannot be encoded."""

    exit_code = 3


class BundleError(TransduceError):
    """A model folder or checkpoint is incomplete, damaged, or of an unknown format."""

    exit_code = 4


class TrainingError(TransduceError):
    """Training cannot continue: loss not finite, or a run folder that does not fit the request."""

    exit_code = 5


class LostPeerError(TrainingError):
    """Another process of a training has failed; the message names it."""


class MissingDependencyError(TransduceError):
    """An optional dependency is missing; the message names the extra to install."""

    exit_code = 6


class ExportError(TransduceError):
    """Another system's format does not support a model, or the model behaves differently there."""

    exit_code = 7


class EngineError(TransduceError):
    """An engine cannot work in this process: it was forked after the engine was loaded."""


class EvaluationError(TransduceError):
    """Hypotheses and references cannot be compared: unequal line counts, or nothing to score."""

    exit_code = 3


class Stopped(KeyboardInterrupt):
    """A signal stopped a training, after a checkpoint.

    Attributes:
        exit_code: as that of a process that the signal ends.
    """

    def __init__(self, message: str, signal: int) -> None:
        """Says what was stopped, and by the number of which signal."""
        super().__init__(message)
        self.exit_code = 128 + signal


def require_resources(error: BaseException, path: object) -> None:
    """Raises another error if `error`, of reading the file at `path`, is a shortage: the file is not damaged then.

    Raises:
        MemoryError: memory ran out.
        OSError: too many files are open.
    """
    # PyArrow's errors have no number, only the system's words.
    numbers = [each for each in _SHORTAGES if os.strerror(each) in str(error) or getattr(error, "errno", None) == each]
    if isinstance(error, MemoryError) or errno.ENOMEM in numbers or errno.EAGAIN in numbers:
        raise MemoryError(f"{path} could not be read") from error
    if numbers:
        raise OSError(numbers[0], os.strerror(numbers[0]), str(path)) from error


@contextmanager
def panics_as(kind: type[TransduceError], message: str) -> Iterator[None]:
    """Raises `kind` for any error of a library in Rust: it raises plain Exception, and classes of its own if it panics.

    `message` shows the library's words where it has "{error}".
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise kind(message.replace("{error}", str(error))) from error


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Adds a path to an error of ours that does not name it."""
    try:
        yield
    except TransduceError as error:
        if str(path) not in str(error):
            raise type(error)(f"{path}: {error}").with_advice(error.advice) from error
        raise


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` for the nearest known name, or an empty string."""
    matches = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean '{matches[0]}'?" if matches else ""


def install_command(*extras: str) -> str:
    """Returns the command that installs extras from where this package came: a checkout, a wheel or a repository.

    No package index has the package, so its name alone would not do. pip writes down where it came from (PEP 610).
    """
    try:
        origin = json.loads(metadata.distribution("transduce").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:  # the source folder is on Python's path
        origin = {}
    names, url = f"[{','.join(extras)}]", origin.get("url", "")
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install --editable {shlex.quote(url2pathname(urlsplit(url).path) + names)}"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return f"pip install {shlex.quote(f'transduce{names} @ {url}' if url else f'.{names}')}"


@contextmanager
def writing(name: str) -> Iterator[None]:
    """Gives a full disk this name, where the error names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
            error.filename = name
        raise
