"""The log of the pairs that are left out of a corpus: one JSON object a line, in `dropped.jsonl`."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

LOG_NAME = "dropped.jsonl"


@dataclass(frozen=True)
class Dropped:
    """A pair that was dropped.

    Attributes:
        location: `file:line`, `file: tree N` or `file: unit N`.
        rule: the name of the rule.
        reason: why, in words.
        source: the text.
        target: the text.
    """

    location: str
    rule: str
    reason: str
    source: str
    target: str


Log = Callable[[Dropped], object]


def ignore(dropped: Dropped) -> None:
    """Logs nothing."""


@contextlib.contextmanager
def open_log(path: Path) -> Iterator[Log]:
    """Opens a log, and yields a function that appends a pair to it."""
    with path.open("w", encoding="utf-8") as file:
        yield lambda dropped: file.write(_row(dropped))


def _row(dropped: Dropped) -> str:
    """Returns the line of a pair. A tree has the key `tree` in place of `line`, a unit `unit`."""
    file, _, position = dropped.location.rpartition(":")
    unit, _, number = position.strip().rpartition(" ")
    row = {"file": file, unit or "line": int(number), "rule": dropped.rule, "reason": dropped.reason}
    return json.dumps(row | {"source": dropped.source, "target": dropped.target}, ensure_ascii=False) + "\n"
