"""How commands report errors: one line on standard error and an exit code, without a traceback.

Besides our own errors: a closed pipe, a full disk, a closed stream, a wrong encoding, too deep nesting, no memory left.
"""

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.errors import NO_MEMORY_SAID, DataError, Stopped, TransduceError

with contextlib.suppress(ImportError):  # Windows, which is refused later, does not have it
    import resource  # now: when memory is short, there may be no room for it

_SHOW = "'transduce --debug COMMAND …' shows where."
_ADVICE = {
    errno.ENOSPC: "Make room, and run the command again.",
    errno.EDQUOT: "Make room, and run the command again.",
    errno.EROFS: "Name another path.",
    errno.EACCES: "Change its permissions, or name another path.",
}
_NO_MEMORY = (
    *NO_MEMORY_SAID,
    os.strerror(errno.ENOMEM),
    "failed to map segment",  # the system's loader of libraries
    "can't start new thread",
    "could not get source code",  # `inspect`, which PyTorch's compiler uses: `linecache` drops a MemoryError
)
_LITTLE_BYTES = 128 << 20  # of address space: less than libraries need
_SETTING = re.compile(r"(?:decode\.)?(?P<key>\w+) = (?P<value>\S+): ")
# The exceptions that `report` turns into one line. Any other is a bug, and shows its traceback.
REPORTED = (TransduceError, KeyboardInterrupt, OSError, RecursionError, MemoryError, UnicodeError)


def replace_closed_streams() -> None:
    """Replaces closed standard streams (`>&-`) by streams that refuse to be read or written.

    Python sets a closed stream to None: `print` then does nothing, without an error. The next file opened would get the
    number of the closed stream, and what a library prints would land in that file.
    """
    for number, name, flags, mode in (
        (0, "stdin", os.O_WRONLY, "r"),
        (1, "stdout", os.O_RDONLY, "w"),
        (2, "stderr", os.O_WRONLY, "w"),  # messages are lost; that is no reason to stop
    ):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number and not _is_open(number):
                os.dup2(opened, number)
                os.close(opened)
                opened = number
            setattr(sys, name, open(opened, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def report(error: BaseException, options: Mapping[str, Any]) -> int:
    """Prints one line about an error (nothing for a closed pipe), and returns the exit code.

    Args:
        error: one of `REPORTED`.
        options: the command's options by name: an error in a value that came from one names that option.
    """
    of_output = _abandon_output()
    if isinstance(error, BrokenPipeError):  # `| head`
        return 141
    if isinstance(error, KeyboardInterrupt):
        _say(str(error) or "interrupted")
        return error.exit_code if isinstance(error, Stopped) else 130
    if isinstance(error, TransduceError):
        _say(f"error: {_as_typed(str(error), options)} {error.advice}".rstrip())
        return error.exit_code
    if isinstance(error, RecursionError):
        _say(f"error: an input is nested too deeply: thousands of levels of brackets. {_SHOW}")
        return DataError.exit_code
    if isinstance(error, OSError) and error.errno is None:  # a library's
        error = lack_of_memory(error) or error
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        what = f": {error}" if str(error) else ""
        _say(f"error: not enough memory{what}. Smaller batches, or a smaller model, need less. {_SHOW}")
        return 1
    if isinstance(error, UnicodeError):
        _say(f"error: {_of_encoding(error)} {_SHOW}")
        return DataError.exit_code
    assert isinstance(error, OSError)
    _say(f"error: {_of_system(error, of_output=of_output)} {_ADVICE.get(error.errno or 0, _SHOW)}")
    return 1


def lack_of_memory(error: BaseException) -> MemoryError | None:
    """Returns the lack of memory that another error comes from; None if it comes from something else.

    With little memory left almost anything can be raised. A library may not be loaded, and the module that needs it is
    then imported in part only.
    """
    said = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".removesuffix(": ")
    limit, left = _address_space()
    if left is not None and left < _LITTLE_BYTES:
        return MemoryError(f"{left >> 20} MiB are left of the limit of {limit >> 20} MiB (ulimit -v) ({said})")
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or any(text in str(cause) for text in _NO_MEMORY):
            return MemoryError(said)
        cause = cause.__cause__ or cause.__context__
    return None


def _address_space() -> tuple[int, int | None]:
    """Returns the limit of this process's address space, and what is left of it; None if there is no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    size = Path("/proc/self/statm")
    if limit == resource.RLIM_INFINITY or not size.is_file():
        return limit, None
    return limit, limit - int(size.read_text().split()[0]) * resource.getpagesize()


def _as_typed(message: str, options: Mapping[str, Any]) -> str:
    """Returns `--beam-size 0: must be …` for `decode.beam_size = 0: must be …` if that option was given."""
    setting = _SETTING.match(message)
    if setting is None or options.get(setting["key"]) is None:
        return message
    return f"--{setting['key'].replace('_', '-')} {setting['value']}: {message[setting.end() :]}"


def _say(message: str) -> None:
    with contextlib.suppress(OSError):
        print(f"transduce: {message}", file=sys.stderr)


def _abandon_output() -> bool:
    """Returns whether standard output cannot be written; if so, keeps Python from trying again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _is_output_closed() -> bool:
    try:
        os.write(sys.stdout.fileno(), b"")  # nothing; a descriptor for reading refuses even that
    except io.UnsupportedOperation:  # not a stream of the system
        return False
    except OSError as error:
        return error.errno == errno.EBADF
    return False


def _of_encoding(error: UnicodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"an input is not {error.encoding} text (byte {error.start + 1}: {error.reason}); convert it to UTF-8."
    if isinstance(error, UnicodeEncodeError):
        character = error.object[error.start]
        if "\ud800" <= character <= "\udfff":
            near = error.object[max(0, error.start - 100) : error.start + 100]  # it may be a whole text
            return f"{near!a}: a name or text is not UTF-8; rename or convert it."
        return f"the output's encoding, {error.encoding}, has no {character!a}; set PYTHONUTF8=1."
    return f"{error}; convert the input to UTF-8."


def _of_system(error: OSError, *, of_output: bool) -> str:
    if error.filename is None and error.errno == errno.EBADF:
        if of_output or _is_output_closed():
            return "standard output is closed: nothing can be written to it."
        return "standard input is closed: nothing can be read from it."
    if error.filename is None and of_output:
        return f"standard output: {error.strerror}."
    what = {
        errno.EEXIST: "this is a file, but a folder is needed; name another path",
        errno.EISDIR: "this is a folder, but a file is needed; name a file",
        errno.ENAMETOOLONG: "the name is too long",
    }.get(error.errno or 0, error.strerror)
    return f"{error.filename}: {what}." if error.filename else f"{what or error}."
