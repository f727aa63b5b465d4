"""What is noted about a request while it is answered: for the access log, metrics and headers. Never its text."""

from dataclasses import dataclass, field

from starlette.types import Scope

from transduce.serve.requests import Waiting

_NAME = "transduce.record"


@dataclass(slots=True)
class RequestRecord:
    """Filled in by what answers the request."""

    request_id: str = ""
    trace_parent: str = ""  # as W3C Trace Context has it
    protocol: str = ""  # which of the protocols it came by
    key_name: str = ""
    characters: int = 0
    waiting: Waiting | None = None  # None: nothing was queued
    is_from_proxy: bool = False  # whether a trusted proxy sent it
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)  # to be added to the answer


def record_of(scope: Scope) -> RequestRecord:
    """Returns the record of a request; makes it at first use."""
    record: RequestRecord = scope.setdefault(_NAME, RequestRecord())
    return record
