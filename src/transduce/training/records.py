"""Records of a training, a JSON object a line, that a resumed training continues without doubled or lost ones."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from transduce.errors import TrainingError
from transduce.files import is_special, write_text


class RecordFile:
    """A file that gets a line for each record; every record names its step.

    A resumed training makes the steps after its checkpoint again. `begin` therefore drops the records of those steps,
    which a crashed session wrote, and a line that the crash cut short. It reports other lines that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = None

    def begin(self, step: int, *, without: str = "") -> None:
        """Prepares the file for the steps after `step`; the first record creates it.

        Records of `step` itself whose "kind" is `without` are dropped too.

        Raises:
            TrainingError: it is a pipe or a device: opening it could wait for ever, or lose the records.
        """
        if is_special(self.path):
            raise TrainingError(f"{self.path}: a pipe or a device, where records of training belong. Remove it.")
        _drop_after(step, self.path, without)

    def write(self, record: dict[str, Any], *, durable: bool = False) -> None:
        """Appends a record; a `durable` one outlives a loss of power.

        Raises:
            TrainingError: the disk is full, say.
        """
        try:
            if self._file is None:
                self._file = self.path.open("a", encoding="utf-8", buffering=1)
            self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
            if durable:
                self._file.flush()
                os.fsync(self._file.fileno())
        except OSError as error:
            raise TrainingError(
                f"{self.path}: cannot be written: {error.strerror}. Make room and continue with --resume."
            ) from error

    def close(self) -> None:
        """Closes the file; an OSError passes."""
        if self._file is not None:
            self._file.close()


def _drop_after(step: int, path: Path, without: str) -> None:
    if not path.is_file():
        return
    *whole, rest = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    steps = [_step_of(line) for line in whole]
    kept = [line for line, recorded in zip(whole, steps, strict=True) if recorded is not None and recorded <= step]
    if damaged := [number for number, recorded in enumerate(steps, 1) if recorded is None]:
        print(f"warning: {path}: line {damaged[0]} is no record of a step: damaged, and left out", file=sys.stderr)
    if without:
        kept = [line for line in kept if _step_of(line) != step or json.loads(line).get("kind") != without]
    if not kept:
        path.unlink()
    elif len(kept) < len(whole) or rest:
        write_text(path, "".join(f"{line}\n" for line in kept))


def _step_of(line: str) -> int | None:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None
