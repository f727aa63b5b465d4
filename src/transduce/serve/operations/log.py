"""The log of the service, on standard error: one line an event, in plain words; the access log as JSON lines."""

import contextlib
import logging
import sys
import traceback
from collections.abc import Iterator

from transduce.serve.operations.access_log import ACCESS_LOG


class _EventFormatter(logging.Formatter):
    """Writes "transduce: MESSAGE", with the level where it is a warning or worse.

    Only the type of an exception is written: its message may contain text of a user.
    """

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        failure = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] is not None else ""
        return f"transduce: {level}{record.getMessage().strip()}{failure}"


@contextlib.contextmanager
def service_logs(*, access_log: bool, quiet: bool) -> Iterator[None]:
    """For this block, sends the events of the service, warnings of uvicorn, and the access log to standard error.

    Args:
        access_log: whether each request has a line.
        quiet: whether of all else only warnings and errors are printed.
    """
    levels = {
        "transduce.serve": (_EventFormatter(), logging.WARNING if quiet else logging.INFO),
        "uvicorn.error": (_EventFormatter(), logging.WARNING),
        "python_multipart": (_EventFormatter(), logging.CRITICAL),  # what it warns of, the client gets as an answer
        ACCESS_LOG.name: (logging.Formatter("%(message)s"), logging.INFO if access_log else logging.WARNING),
    }
    loggers = [logging.getLogger(name) for name in levels]
    before = [(each, each.handlers, each.propagate, each.level) for each in loggers]
    raised = logging.raiseExceptions
    logging.raiseExceptions = False  # where the reader of the log is gone, its lines are lost; answers go on
    for logger in loggers:
        formatter, level = levels[logger.name]
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(formatter)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    try:
        yield
    finally:
        logging.raiseExceptions = raised
        for logger, handlers, propagate, level in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)


def origin(error: BaseException) -> str:
    """Returns the type of an error and of what caused it, with the lines that raised them."""
    frames = " < ".join(
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(traceback.extract_tb(error.__traceback__))
    )
    cause = error.__cause__ or error.__context__
    return f"{type(error).__name__} at {frames}" + (f", caused by {origin(cause)}" if cause is not None else "")
