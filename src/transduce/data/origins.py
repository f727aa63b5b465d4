"""Where the training pairs of a prepared folder come from: file and line of each source and target.

    lines.bin       for each row of train.arrow, the number of its line, tree or unit, from 1; int32, little-endian
    manifest.json   under "training_files", which rows were read from which files

Pairs that were left out have no row, so the number of a row does not say its line.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transduce.data.batching import Indices
from transduce.data.prepared import LINES, read_manifest
from transduce.data.readers import Location

_TYPE = "<i4"


@dataclass(frozen=True)
class FileRows:
    """The rows that were read from two aligned files, one TSV or TMX file, or one treebank: up to the next `first_row`.

    Attributes:
        source: path of the source's file.
        target: path of the target's file, which may be the same one.
        unit: what the pairs of the file are counted by, "line", "tree" or "unit".
        first_row: the first row, from 0.
    """

    source: str
    target: str
    unit: str
    first_row: int


class Origins:
    """Collects where the rows of a store come from.

    Attributes:
        files: which rows were read from which files.
    """

    def __init__(self) -> None:
        self.files: list[FileRows] = []
        self._lines = array("i")
        self._last: tuple[Path, Path] | None = None

    def add(self, locations: Iterable[Location]) -> None:
        """Adds rows, in the order of the store."""
        for location in locations:
            if location.files != self._last:
                self._last = location.files
                source, target = map(str, location.files)
                self.files.append(FileRows(source, target, location.unit, len(self._lines)))
            self._lines.append(location.number)

    def save_lines(self, path: Path) -> None:
        """Writes the numbers of all rows."""
        np.asarray(self._lines, _TYPE).tofile(path)


def origins(folder: Path, rows: Indices) -> Sequence[tuple[str, str] | tuple[None, None]]:
    """Returns file and line of the source and of the target of each row, for example ("train.en:7", "train.de:7").

    They are None where the folder does not say: earlier versions did not note them.

    Raises:
        DataError: the manifest of the folder is damaged.
    """
    manifest = read_manifest(folder) or {}
    files = [FileRows(**each) for each in manifest.get("training_files", ())]
    if not files or not (folder / LINES).is_file():
        return [(None, None)] * len(rows)
    numbers = np.memmap(folder / LINES, _TYPE, "r")[rows].tolist()
    of_files = np.searchsorted([each.first_row for each in files], rows, side="right") - 1
    found = []
    for index, number in zip(of_files.tolist(), numbers, strict=True):
        location = Location((Path(files[index].source), Path(files[index].target)), number, files[index].unit)
        found.append((location.shown(0), location.shown(1)))
    return found
