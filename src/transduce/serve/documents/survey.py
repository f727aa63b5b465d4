"""What a document holds, found by reading it as the translation will read it, in a process of its own.

A file can be made to need minutes and gigabytes. That process has limits, and the service does not wait while it
computes. What it accepts, the service can read too.
"""

import asyncio
import contextlib
import io
import json
import logging
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transduce.errors import DataError, TransduceError
from transduce.serve.requests import StoppingError, UnavailableError, unchanged_text
from transduce.translation.documents import DocumentJob, Languages, columns_of, translate_document
from transduce.translation.documents.segments import plain_text
from transduce.translation.result import Translation

_LOG = logging.getLogger("transduce.serve")
_SAMPLE_CHARACTERS = 2000  # which show what language it is
_MAX_SECONDS = 120.0  # of the processor; a book takes one
_MAX_BYTES = 512 << 20  # of memory
_PATIENCE_SECONDS = 3600.0  # until the process is ended; with other work on its core it waits for long
_NICENESS = 5  # what clients wait for goes first
_AT_A_TIME = 2
_ENDED_BY_OTHERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # as when a supervisor stops all processes


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A document as a client has sent it."""

    content: bytes
    name: str
    format: str  # a name in `FORMATS`
    columns: str = ""  # of a CSV file, those that are translated


@dataclass(frozen=True, slots=True)
class Survey:
    """What a document holds."""

    num_segments: int
    num_characters: int  # that are translated
    sample: str  # the beginning of its text


def survey(file: DocumentFile, target: str, max_characters: int) -> Survey:
    """Reads a document, in this process.

    Args:
        file: the document.
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
            raise DataError(
                f"{file.name}: has more than {max_characters:,} characters to translate. Repeated paragraphs "
                "near each other count once. Split it."
            )
        return [unchanged_text(text) for text in texts]

    output: Any = _Discarded()
    job = DocumentJob(
        name=file.name, document_format=file.format, languages=Languages("", target), columns=columns_of(file.columns)
    )
    translate_document(count, file.content, output, job)
    return Survey(num_segments, num_characters, sample)


class _Discarded(io.RawIOBase):
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


class SurveyProcesses:
    """Reads documents in processes of their own, some at a time."""

    def __init__(self) -> None:
        self._running: set[asyncio.subprocess.Process] = set()
        self._free = asyncio.Semaphore(_AT_A_TIME)
        self._stopping = False

    async def survey(self, file: DocumentFile, target: str, max_characters: int) -> Survey:
        """Reads a document; see `survey`. If this is cancelled, the process ends.

        Raises:
            DataError: also where that takes too much time or memory.
            StoppingError: `stop` was called, or another program ended the process.
            UnavailableError: no process can be run now.
        """
        header = {
            "name": file.name,
            "format": file.format,
            "columns": file.columns,
            "target": target,
            "max_characters": max_characters,
            "seconds": _MAX_SECONDS,
            "bytes": _MAX_BYTES,
        }
        async with self._free:
            given = json.dumps(header).encode() + b"\n" + file.content
            try:
                returncode, output = await self._output(given)
            except OSError as error:  # memory or open files are short for a moment
                raise _unavailable(f"{error.strerror}") from None
        if self._stopping or -returncode in _ENDED_BY_OTHERS:
            raise StoppingError("The service is stopping.")
        if -returncode in (signal.SIGKILL, signal.SIGXCPU):  # the system ends what takes too long
            raise DataError(f"{file.name}: takes too much time to read. Split it.")
        if returncode > 0:
            raise _unavailable(f"exit code {returncode}")
        answer = json.loads(output) if returncode == 0 else {"failure": f"signal {-returncode}"}
        if "failure" in answer:
            _LOG.error("a document could not be read: %s", answer["failure"])
            raise DataError(f"{file.name}: cannot be read; it may be damaged. The service's log says where it failed.")
        if "error" in answer:
            raise DataError(answer["error"])
        return Survey(**answer)

    async def _output(self, given: bytes) -> tuple[int, bytes]:
        """Runs a process; returns its exit status, negative where a signal ended it, and what it wrote."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__),  # -P: imports nothing from the working directory
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # what Python says there could have text of the document
            start_new_session=True,  # an interrupt in the terminal is for the service, which then ends its processes
        )
        self._running.add(process)
        output = b""
        try:
            if not self._stopping:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    output, _ = await process.communicate(given)
        except TimeoutError:
            pass  # it is killed, which its status says then
        finally:
            _kill(process)
            returncode = await process.wait()
            self._running.discard(process)
        return returncode, output

    def stop(self) -> None:
        """Ends all processes."""
        self._stopping = True
        for process in self._running:
            _kill(process)


def _unavailable(reason: str) -> UnavailableError:
    _LOG.error("a process that reads documents cannot be run: %s", reason)
    return UnavailableError("Documents cannot be read now: a process for that cannot be run. Try again later.", 30)


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def main() -> int:
    """Reads what `SurveyProcesses` writes, and answers it."""
    header = json.loads(sys.stdin.buffer.readline())
    seconds = time.process_time() + header["seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_AS, (header["bytes"], header["bytes"]))
    os.nice(_NICENESS)
    answer: dict[str, Any]
    try:
        file = DocumentFile(sys.stdin.buffer.read(), header["name"], header["format"], header["columns"])
        answer = asdict(survey(file, header["target"], header["max_characters"]))
    except TransduceError as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": f"{header['name']}: takes too much memory to read. Split it."}
    except Exception as error:  # its message may have text of the document
        frame = traceback.extract_tb(error.__traceback__)[-1]
        answer = {"failure": f"{type(error).__name__} at {frame.filename}:{frame.lineno} {frame.name}"}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
