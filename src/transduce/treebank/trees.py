"""Constituency trees, and their bracketed text as in treebanks.

    (S (NP (DT The) (NN dog)) (VP (VBZ barks)))

A leaf is a part-of-speech tag over a word; everything above is a constituent. The text may have any layout: one tree a
line, or over many lines, as in the `.mrg` files of the Penn Treebank, whose outer brackets have no label.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from transduce.errors import DataError

# The label of an outer bracket without one, and of a constituent added over pieces without a common parent.
TOP = "TOP"

# Maximum levels of constituents: several times more than in any real tree, and few enough for recursion.
MAX_HEIGHT = 200

# Only ASCII white space separates, as in EVALB: a no-break space is part of a word. Most leaves are one token: it is
# faster.
_TOKEN = re.compile(r"\((?P<tag>[^()\s]+) (?P<word>[^()\s]+)\)|[()]|[^()\s]+", re.ASCII)
_ATOM = re.compile(r"[^()\s]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word and its part-of-speech tag."""

    tag: str
    word: str

    height: ClassVar[int] = 0

    def __post_init__(self) -> None:
        for name, text in (("tag", self.tag), ("word", self.word)):
            if not is_atom(text):
                raise DataError(f"{text!r} cannot be a leaf's {name}: {_WHY_NO_ATOM}")

    def __str__(self) -> str:
        return f"({self.tag} {self.word})"


@dataclass(frozen=True, slots=True)
class Tree:
    """A labelled constituent with at least one child. `str(tree)` is its bracketed text on one line.

    Attributes:
        label: The constituent's label, function tags and indices included: "NP-SBJ-1".
        children: Constituents and leaves, from left to right.
        height: Levels of constituents, this one included.

    Raises:
        DataError: There is no child, the label is invalid, or the tree is higher than `MAX_HEIGHT`.
    """

    label: str
    children: tuple["Tree | Leaf", ...]
    height: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not is_atom(self.label):
            raise DataError(f"{self.label!r} cannot be a constituent's label: {_WHY_NO_ATOM}")
        if not self.children:
            raise DataError(f"the constituent {self.label} has no children: leave it out.")
        height = 1 + max(child.height for child in self.children)
        if height > MAX_HEIGHT:
            raise DataError(f"a tree has more than {MAX_HEIGHT} levels: {_WHY_TOO_HIGH}")
        object.__setattr__(self, "height", height)

    def __str__(self) -> str:
        return f"({self.label} {' '.join(map(str, self.children))})"

    def leaves(self) -> list[Leaf]:
        """Returns the leaves from left to right."""
        leaves: list[Leaf] = []
        for child in self.children:
            leaves += (child,) if isinstance(child, Leaf) else child.leaves()
        return leaves


Node = Tree | Leaf

_WHY_NO_ATOM = "it must be non-empty, without white space and round brackets (write those as -LRB- and -RRB-)."
_WHY_TOO_HIGH = "is a closing bracket missing?"


def is_atom(text: str) -> bool:
    """Says whether `text` can be a label, a tag or a word in bracketed text."""
    return _ATOM.fullmatch(text) is not None


def escape_brackets(word: str) -> str:
    """Returns `word` as treebanks write it: round brackets as -LRB- and -RRB-."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def unescape_brackets(word: str) -> str:
    """Returns `word` as people write it: -LRB- and -RRB- as round brackets."""
    return word.replace("-LRB-", "(").replace("-RRB-", ")")


def read_trees(path: str | Path) -> Iterator[Tree]:
    """Yields the trees of a UTF-8 file, read lazily.

    Raises:
        DataError: The file cannot be read, is not UTF-8, or what `parse_trees` raises.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="\n") as file:
            yield from parse_trees(file, str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not UTF-8 (byte {error.object[error.start]:#04x}). Find the file's encoding and convert it, for "
            "example: iconv -f LATIN1 -t UTF-8 OLD > NEW"
        ) from None


def parse_trees(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yields the trees of bracketed text in any layout. An outer bracket without a label is called `TOP`.

    Args:
        lines: The text, line by line, with or without line ends.
        name: The name of the text for errors, such as its file name.

    Raises:
        DataError: Brackets are unbalanced, or do not make a tree; names line and column, from 1.
    """
    reader = _Reader(name)
    for node, location in reader.nodes(lines):
        if isinstance(node, Leaf):
            raise reader.error(f"the leaf {node} is in no constituent. Put it into one: ({TOP} {node})", location)
        yield node


def parse_line(line: str, name: str, number: int = 1) -> list[Node]:
    """Returns everything on one line: usually a tree, but also several trees, leaves, or nothing.

    Args:
        line: Bracketed text.
        name: The name of the text for errors.
        number: The line's number in it.

    Raises:
        DataError: As `parse_trees`; a tree that continues beyond the line is an error as well.
    """
    return [node for node, _ in _Reader(name).nodes([line], number)]


_Location = tuple[int, int]  # line and column, from 1


@dataclass(slots=True)
class _Bracket:
    """An open bracket."""

    location: _Location
    texts: list[str] = field(default_factory=list)  # a label, or a tag and a word
    children: list[Node] = field(default_factory=list)


class _Reader:
    """Reads bracketed text, and keeps track of line and column."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._location = (0, 0)
        self._open: list[_Bracket] = []
        self._next_tree = 0  # a line where another tree seems to begin, inside this one

    def nodes(self, lines: Iterable[str], first_number: int = 1) -> Iterator[tuple[Node, _Location]]:
        """Yields each outermost node and where it begins."""
        for number, line in enumerate(lines, start=first_number):
            for match in _TOKEN.finditer(line):
                self._location = number, match.start() + 1
                token = match[0]
                node: Node | None = None
                if token[0] == "(":
                    self._begin()
                    if len(token) > 1:
                        bracket, node = self._open.pop(), Leaf(match["tag"], match["word"])
                elif token != ")":
                    self._add_text(token)
                else:
                    bracket, node = self._end()
                if node is None:
                    continue
                if self._open:
                    self._open[-1].children.append(node)
                else:
                    yield node, bracket.location
        if self._open:
            message = f"this bracket is never closed. Add the missing ')'.{self._guess()}"
            raise self.error(message, self._open[-1].location)

    def _begin(self) -> None:
        line, column = self._location
        if not self._open:
            self._next_tree = 0
        elif column == 1 and not self._next_tree:
            self._next_tree = line
        if len(self._open) > MAX_HEIGHT:
            raise self.error(f"more than {MAX_HEIGHT} brackets are open: {_WHY_TOO_HIGH}{self._guess()}")
        if self._open and len(self._open[-1].texts) == 2:
            leaf = " ".join(self._open[-1].texts)
            raise self.error(
                f"a bracket within the leaf '({leaf}'. Close the leaf first, or give the word its own tag."
            )
        self._open.append(_Bracket(self._location))

    def _add_text(self, text: str) -> None:
        """Adds a label, tag or word."""
        if not self._open:
            raise self.error(f"stray text {text!r} outside the brackets. Is this a file of bracketed trees?")
        bracket = self._open[-1]
        if bracket.children:
            raise self.error(f"{text!r} has no tag. A word is written with one: (TAG {text})")
        if len(bracket.texts) == 2:
            leaf = " ".join(bracket.texts)
            raise self.error(f"{text!r} is a second word in the leaf '({leaf}'. A leaf is a tag and one word.")
        bracket.texts.append(text)

    def _end(self) -> tuple[_Bracket, Node]:
        """Closes the innermost bracket, and returns it with its node."""
        if not self._open:
            raise self.error("this bracket closes nothing. Remove it, or add the '(' missing before it.")
        bracket = self._open.pop()
        match bracket.texts, bracket.children:
            case [tag, word], []:
                return bracket, Leaf(tag, word)
            case [label], []:
                raise self.error(f"'({label})' has a tag or a word, not both. A leaf is (TAG word).", bracket.location)
            case [], []:
                raise self.error("brackets with nothing inside. Remove them.", bracket.location)
            case [], _ if self._open:
                raise self.error("a constituent without a label. Write it after the bracket: (NP …)", bracket.location)
        return bracket, Tree(bracket.texts[0] if bracket.texts else TOP, tuple(bracket.children))

    def _guess(self) -> str:
        """Returns a guess where a closing bracket is missing, if there is one."""
        return f" Perhaps before line {self._next_tree}: another tree seems to begin there." if self._next_tree else ""

    def error(self, message: str, location: _Location | None = None) -> DataError:
        """Returns an error at a location, or where the reader is."""
        line, column = location or self._location
        return DataError(f"{self._name}, line {line}, column {column}: {message}")
