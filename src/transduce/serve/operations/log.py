"""The log of the service, on standard error: one line an event, in plain words; the access log as JSON lines."""

import logging
import sys

from transduce.serve.operations.access_log import ACCESS_LOG

_EVENTS = ("transduce.serve", "uvicorn.error")


class _EventFormatter(logging.Formatter):
    """Writes "transduce: MESSAGE", with the level where it is a warning or worse.

    Of an exception only the type is told: its message may have the text of a user.
    """

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        failure = f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] is not None else ""
        return f"transduce: {level}{record.getMessage().strip()}{failure}"


def configure_logs(*, access_log: bool, quiet: bool) -> None:
    """Sends the events of the service, warnings of uvicorn, and the access log to standard error.

    Args:
        access_log: whether each request has a line.
        quiet: whether of all else only warnings and errors are printed.
    """
    logging.raiseExceptions = False  # where the reader of the log is gone, its lines are lost; answers go on
    events = logging.StreamHandler(sys.stderr)
    events.setFormatter(_EventFormatter())
    for name in _EVENTS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [events], False
        logger.setLevel(logging.INFO if name == "transduce.serve" and not quiet else logging.WARNING)
    requests = logging.StreamHandler(sys.stderr)
    requests.setFormatter(logging.Formatter("%(message)s"))
    ACCESS_LOG.handlers, ACCESS_LOG.propagate = [requests], False
    ACCESS_LOG.setLevel(logging.INFO if access_log else logging.WARNING)
