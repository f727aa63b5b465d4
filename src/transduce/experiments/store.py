"""Results that a stopped command resumes from: JSON files, each rewritten whole after every new result.

`transduce paper` and `transduce sweep` keep all results of an output folder in its results.json; `transduce ablate`
keeps the result of each training in its own file, and gathers them in results.json. Every file also has the
settings of its results, so that a later call refuses results that do not compare with its own.
"""

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from transduce import files
from transduce.__about__ import __version__
from transduce.config.checked_json import format_problem
from transduce.config.differences import describe, differences
from transduce.errors import ConfigError, MissingDependencyError

RESULTS, TABLE = "results.json", "table.md"  # in every output folder
FORMAT = 1  # of files that note one


@contextlib.contextmanager
def reading(path: Path, what: str, *, remedy: str = "") -> Iterator[dict[str, Any]]:
    """Yields the JSON object of a file of results to a block that makes something of it.

    Args:
        path: the file.
        what: a noun for its content, for messages.
        remedy: a sentence that says what to do where it cannot be read.

    Raises:
        ConfigError: the file is missing, damaged or something else: for that, the block raises KeyError, TypeError or
            ValueError.
    """
    try:
        values = files.read_json_object(path)
        if "format" in values and (problem := format_problem(values, FORMAT)):
            raise ValueError(problem)
        yield values
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ConfigError(f"{path}: not {what}: {reason}. {remedy or 'Choose another --output.'}") from None


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Writes a file of results with its format and this version, atomically."""
    files.write_json(path, {"format": FORMAT, "transduce": __version__, **values})


def require_same(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    where: str,
    *,
    ignore: Collection[str] = (),
    remedy: str = "Choose another --output.",
) -> None:
    """Checks that results have the settings of what is measured now.

    Args:
        before: the settings of the results, nested.
        now: the settings of what is measured now.
        where: begins the message, such as "runs/a: holds results of".
        ignore: keys that may differ.
        remedy: a sentence that says what to do.

    Raises:
        ConfigError: something differs; names the first few keys with both values.
    """
    if changed := differences(before, now, ignore=ignore):
        raise ConfigError(f"{where} other settings: {describe(changed)}. {remedy}")


def require_folder(output: Path) -> None:
    """Checks that results can be written.

    Raises:
        ConfigError: `output` is a file.
    """
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output}: is a file; name a folder for --output.")


def say(shown: bool, line: str) -> None:
    """Prints progress on standard error, if it is shown."""
    if shown:
        print(line, file=sys.stderr, flush=True)


def draw_if_possible(draw: Callable[[], None], *, shown: bool) -> None:
    """Draws a picture of the results; where matplotlib, an extra, is not installed, says so if progress is shown."""
    try:
        draw()
    except MissingDependencyError as error:
        say(shown, f"no picture: {error}")
