"""The journal of an output: the job, and how much of it is done. Its content is checked, as anybody may change it."""

import sys
from pathlib import Path
from textwrap import shorten
from typing import Any

from transduce.config.checked_json import format_problem
from transduce.errors import DataError
from transduce.files import read_json_object

FORMAT = 1
START_AGAIN = "start again with --overwrite"
_JOURNAL = {
    "job": dict,
    "lines": int,
    "bytes": int,
    "read_sha256": str,
    "written_sha256": str,
    "whole": bool,
    "overwrite": bool,
}
_LONGEST_JOURNAL = 1 << 20  # bytes; a job with a hundred options needs a few thousand


def finished_journal(output: Path) -> Path:
    """Returns where the journal of a finished output is kept."""
    return output.with_name(f".{output.name}.journal.json")


def read_journal(path: Path) -> dict[str, Any] | None:
    """Returns the journal, or None if there is none; raises DataError if it is damaged."""
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > _LONGEST_JOURNAL:
            raise ValueError(f"{path.stat().st_size:,} bytes are too many")
        state = read_json_object(path)
        if problem := format_problem(state, FORMAT):
            raise ValueError(problem)
        state.setdefault("overwrite", False)  # 0.1.0 did not write it
        for name, kind in _JOURNAL.items():
            if type(state[name]) is not kind or (kind is int and not 0 <= state[name] <= sys.maxsize):
                raise ValueError(f"{name} = {shorten(repr(state[name]), 40, placeholder=' …')}")
    except KeyError as error:
        raise damaged(path, f"has no {error}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(path, f"is no journal of a translation ({error})") from None
    return state


def damaged(path: Path, what: str) -> DataError:
    """Returns the error of a file that cannot be resumed."""
    return DataError(f"{path}: {what}. {START_AGAIN.capitalize()}.")
