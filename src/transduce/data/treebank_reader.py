"""Treebanks as training data: files of bracketed trees, each tree a pair of a sentence and its brackets (§6.3)."""

import glob
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from transduce.config import DataConfig
from transduce.data.readers import STDIN, LineReader, Location, require_file, shown_name
from transduce.errors import DataError
from transduce.text import Tokenizer
from transduce.treebank import Tree, normalise, parse_trees
from transduce.treebank.pairs import sentence_words, to_pair
from transduce.treebank.rare_words import Spelling

SUFFIXES = (".mrg", ".ptb", ".tree", ".trees", ".parse")
"""Suffixes of tree files. In a folder, other files are ignored. ".gz" or ".zst" may follow."""

_PACKED = (".gz", ".zst")


def treebank_files(path: Path) -> list[Path]:
    """Returns the tree files that `path` names: one file, all in a folder and its subfolders, or those of a pattern.

    Raises:
        DataError: There are none.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and _has_tree_suffix(file))
        if not files:
            raise DataError(f"{path}: no tree files in this folder. Their names must end in {', '.join(SUFFIXES)}.")
        return files
    if not path.exists() and glob.has_magic(str(path)):
        found = sorted(map(Path, glob.glob(str(path), recursive=True, include_hidden=True)))  # noqa: PTH207 (absolute)
        if not found:
            raise DataError(f"{path}: no file matches this pattern.")
        return list(dict.fromkeys(file for each in found for file in treebank_files(each)))  # "**" finds folders, too
    require_file(path)
    return [path]


def _has_tree_suffix(file: Path) -> bool:
    name = file.with_suffix("") if file.suffix in _PACKED else file
    return name.suffix in SUFFIXES


def read_treebank(paths: Iterable[Path]) -> Iterator[Tree]:
    """Yields the trees of files, folders, patterns, and standard input ("-"), unchanged.

    Raises:
        DataError: There are no such files, or what `parse_trees` raises: it names file, line and column.
    """
    for path in paths:
        for file in [path] if path == STDIN else treebank_files(path):
            yield from parse_trees(LineReader(file), shown_name(file))


def read_normalised(paths: Iterable[Path]) -> Iterator[Tree]:
    """Yields the trees that `read_treebank` yields, normalised; without those that are traces only.

    Raises:
        DataError: There are none, or what `read_treebank` raises.
    """
    paths, is_empty = list(paths), True
    for tree in filter(None, map(normalise, read_treebank(paths))):
        is_empty = False
        yield tree
    if is_empty:
        raise DataError(f"{', '.join(map(shown_name, paths))}: has no trees.")


def sentence_reader(data: DataConfig, tokenizer: Tokenizer) -> Callable[[str], str]:
    """Returns a function from a source to the text that the model reads.

    A translator reads the source unchanged. A parser reads the words of the sentence with one space between them; rare
    words may be replaced by signatures (`data.rare_words`).
    """
    if data.format != "trees":
        return str
    if data.rare_words == "signatures":
        spelling = Spelling.of_pieces(tokenizer.piece_bytes(range(tokenizer.vocab_size)))
        return lambda sentence: spelling(sentence_words(sentence))
    return lambda sentence: " ".join(sentence_words(sentence))


def beginnings(pieces: Sequence[bytes]) -> tuple[list[bool], list[bool]]:
    """Returns for each piece of a vocabulary whether it begins a word, and whether it begins a leaf of brackets."""
    words = [piece.startswith(b" ") for piece in pieces]
    return words, [word and piece[1:2] not in (b"(", b")") for word, piece in zip(words, pieces, strict=True)]


class TreeReader:
    """Iterates over the trees of files as pairs of texts. A tree of traces only is a pair of empty texts.

    Attributes:
        paths: the files.
        skipped: nothing, since each tree is a pair.
    """

    skipped: tuple[int, list[str]] = (0, [])

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self._first_numbers: list[int] = []  # of each file's first tree
        self._finished_bytes = 0
        self._lines: LineReader | None = None

    @property
    def position_bytes(self) -> int:
        """Bytes of the files consumed so far, before decompression."""
        return self._finished_bytes + (self._lines.position_bytes if self._lines else 0)

    def location(self, number: int) -> Location:
        """Returns where the tree with this number (from 1, over all files) is."""
        index = bisect_right(self._first_numbers, number) - 1
        return Location((self.paths[index],) * 2, number - self._first_numbers[index] + 1, "tree")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        number = 1
        for path in self.paths:
            self._first_numbers.append(number)
            self._lines = LineReader(path)
            for tree in parse_trees(self._lines, str(path)):
                normalised = normalise(tree)
                yield to_pair(normalised) if normalised else ("", "")
                number += 1
            self._finished_bytes += self._lines.position_bytes
            self._lines = None
