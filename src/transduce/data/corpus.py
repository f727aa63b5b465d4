"""The files of a corpus, text or trees, and an iterator over their pairs in chunks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from transduce.config import DataConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.config.home import expanded
from transduce.data.progress import progress_bar
from transduce.data.readers import PairReader, require_file
from transduce.data.treebank_reader import TreeReader, treebank_files
from transduce.errors import DataError

CHUNK_PAIRS = 4096

Reader = PairReader | TreeReader


@dataclass(frozen=True)
class Part:
    """Files that are read together: two aligned files, one TSV file, a translation memory, or all files of a treebank.

    Attributes:
        paths: the files.
        trees: whether they are treebanks.
        languages: codes of source and target, "" where unknown. Only parts of the same pair are compared.
        replace_invalid: whether U+FFFD stands for bytes that are not UTF-8, which else are an error.
    """

    paths: tuple[Path, ...]
    trees: bool = False
    languages: tuple[str, str] = ("", "")
    replace_invalid: bool = False

    def open(self) -> Reader:
        """Returns a reader of the part's pairs."""
        if self.trees:
            return TreeReader(self.paths)
        return PairReader(self.paths, languages=self.languages, replace_invalid=self.replace_invalid)

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))


@dataclass(frozen=True)
class CorpusFiles:
    """The files of each split of a corpus.

    Attributes:
        train: a part for each of `DataConfig.training_corpora`.
        validation: the validation sets by name.
        test: the test sets by name.
    """

    train: tuple[Part, ...]
    validation: dict[str, Part]
    test: dict[str, Part]

    def held_out(self) -> dict[str, Part]:
        """Returns the validation sets as `validation` or `validation.NAME`, and the test sets as `test.NAME`."""
        validation = {validation_name(name): part for name, part in self.validation.items()}
        return validation | {f"test.{name}": part for name, part in self.test.items()}

    def all(self) -> list[Path]:
        """Returns every file, training first."""
        return [path for part in (*self.train, *self.held_out().values()) for path in part.paths]


def absolute(path: Path) -> Path:
    """Returns an absolute path. A link to a file keeps its own name, whose ending says how the file is read."""
    return path.resolve() if path.is_dir() else path.parent.resolve() / path.name


def validation_name(name: str) -> str:
    """Returns what reports call a validation set: that of the short form has no other name."""
    return name if name == "validation" else f"validation.{name}"


def locate(data: DataConfig, *, mirror: Path | None = None, progress: bool = True) -> CorpusFiles:
    """Returns the files that `data` names. If one is missing, `data.download` is fetched first.

    Raises:
        DataError: no training files are named, or a file is missing.
        DownloadError: the named corpus cannot be fetched.
    """
    corpora = data.training_corpora
    if not corpora:
        raise DataError(
            'data.train names no files. Give a pair of files, a TSV or a TMX, for example [["train.en", "train.de"]].'
        )
    if data.download and not all(path.exists() for path in named_files(data)):
        from transduce.data import named_corpora  # imports the network modules: only when needed

        named_corpora.fetch(data.download, expanded(data.folder), mirror=mirror, progress=progress)
    files = CorpusFiles(
        train=tuple(_part(data, each) for each in corpora),
        validation=locate_validation(data),
        test=locate_tests(data),
    )
    for path in files.all():
        require_file(path)
        if not path.is_file():
            raise DataError(f"{path}: not a regular file. The corpus is read several times: write it to a file first.")
    return files


def named_files(data: DataConfig) -> list[Path]:
    """Returns the files, or folders of treebanks, that `data` names, whether they exist or not."""
    held_out = (*data.validation_corpora, *data.test_corpora)
    return [path for sets in (data.training_corpora, held_out) for each in sets for path in _paths(data, each)]


def locate_validation(data: DataConfig) -> dict[str, Part]:
    """Returns the validation sets that `data` names.

    Raises:
        DataError: a treebank is missing.
    """
    return {each.name: _part(data, each) for each in data.validation_corpora}


def locate_tests(data: DataConfig) -> dict[str, Part]:
    """Returns the test sets that `data` names.

    Raises:
        DataError: a treebank is missing.
    """
    return {each.name: _part(data, each) for each in data.test_corpora}


def _paths(data: DataConfig, named: CorpusConfig | HeldOutSetConfig) -> tuple[Path, ...]:
    return tuple(expanded(data.folder) / expanded(name) for name in named.files)


def _part(data: DataConfig, named: CorpusConfig | HeldOutSetConfig) -> Part:
    paths = _paths(data, named)
    if data.format == "trees":
        return Part(tuple(file for path in paths for file in treebank_files(path)), trees=True)
    return Part(paths, languages=(named.source_language, named.target_language))


@dataclass(frozen=True)
class Chunk:
    """Consecutive pairs of one part of a corpus.

    Attributes:
        reader: the reader of the part.
        part: index of the part, from 0.
        start: index of the first pair in the whole corpus, from 0.
        line: line number of the first pair in its file, from 1.
        pairs: source and target.
    """

    reader: Reader
    part: int
    start: int
    line: int
    pairs: list[tuple[str, str]]

    def location(self, index: int, side: int = 0) -> str:
        """Returns where a pair of the chunk is (`Location.shown`), by its index; `side` 1 names the target's file."""
        return self.reader.location(self.line + index).shown(side)

    def locations(self, indices: Sequence[int], side: int = 0) -> list[str]:
        """Returns `file:line` of several pairs."""
        return [self.location(index, side) for index in indices]


def read_chunks(parts: Sequence[Part], label: str, *, progress: bool) -> Iterator[Chunk]:
    """Yields the pairs of all parts in order, with a progress bar of the bytes read."""
    sizes = [sum(path.stat().st_size for path in part.paths) for part in parts]
    start, finished_bytes = 0, 0
    with progress_bar(label, sum(sizes), unit="B", shown=progress) as bar:
        for number, part in enumerate(parts):
            reader = part.open()
            pairs, line = iter(reader), 1
            while chunk := list(islice(pairs, CHUNK_PAIRS)):
                yield Chunk(reader, number, start, line, chunk)
                start, line = start + len(chunk), line + len(chunk)
                bar.update(finished_bytes + reader.position_bytes - bar.n)
            finished_bytes += sizes[number]
