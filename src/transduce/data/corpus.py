"""The files of a corpus, and a walk over their pairs in chunks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from transduce.config import DataConfig
from transduce.data.progress import progress_bar
from transduce.data.readers import PairReader, require_file
from transduce.errors import DataError

CHUNK_PAIRS = 4096

PathPair = tuple[Path, ...]  # two aligned files, or one TSV


@dataclass(frozen=True)
class CorpusFiles:
    """Where each split of a corpus is.

    Attributes:
        train: the parts of the training corpus.
        validation: empty if there is none.
        test: by name.
    """

    train: tuple[PathPair, ...]
    validation: PathPair
    test: dict[str, PathPair]

    def all(self) -> list[Path]:
        """Returns every file, training first."""
        return [path for paths in (*self.train, self.validation, *self.test.values()) for path in paths]


def locate(data: DataConfig, *, mirror: Path | None = None, progress: bool = True) -> CorpusFiles:
    """Returns the files that `data` names, after fetching `data.download` where one of them is absent.

    Raises:
        DataError: no training files are named, or a file is missing.
        DownloadError: the named source cannot be fetched.
    """
    if not data.train:
        raise DataError(
            'data.train names no files. Give a pair of files or a TSV, for example [["train.en", "train.de"]].'
        )
    folder = Path(data.folder).expanduser()

    def resolve(names: Sequence[str]) -> PathPair:
        return tuple(folder / Path(name).expanduser() for name in names)

    files = CorpusFiles(
        train=tuple(resolve(names) for names in data.train),
        validation=resolve(data.validation),
        test={name: resolve(names) for name, names in data.test.items()},
    )
    if data.download and not all(path.is_file() for path in files.all()):
        from transduce.data import sources  # pulls in the network modules: only where they are needed

        sources.fetch(data.download, folder, mirror=mirror, progress=progress)
    for path in files.all():
        require_file(path)
        if not path.is_file():
            raise DataError(f"{path}: not a regular file. The corpus is read several times: write it to a file first.")
    return files


@dataclass(frozen=True)
class Chunk:
    """Neighbouring pairs of one part of a corpus.

    Attributes:
        reader: of the part.
        start: number of the first pair in the whole corpus, from 0.
        line: number of the first pair in its file, from 1.
        pairs: source and target.
    """

    reader: PairReader
    start: int
    line: int
    pairs: list[tuple[str, str]]

    def place(self, index: int, side: int = 0) -> str:
        """Returns `file:line` of the pair with this index in the chunk; `side` 1 names the target's file."""
        return self.reader.where(self.line + index, side)


def read_chunks(parts: Sequence[PathPair], label: str, *, progress: bool) -> Iterator[Chunk]:
    """Yields the pairs of all parts in order, and shows how much of their bytes has been read."""
    total_bytes = sum(path.stat().st_size for paths in parts for path in paths)
    start, finished_bytes = 0, 0
    with progress_bar(label, total_bytes, unit="B", shown=progress) as bar:
        for paths in parts:
            reader = PairReader(paths)
            pairs, line = iter(reader), 1
            while chunk := list(islice(pairs, CHUNK_PAIRS)):
                yield Chunk(reader, start, line, chunk)
                start, line = start + len(chunk), line + len(chunk)
                bar.update(finished_bytes + reader.position_bytes - bar.n)
            finished_bytes += sum(path.stat().st_size for path in paths)
