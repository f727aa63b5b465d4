"""A treebank PCFG: binarised rules with relative frequencies, and a lexicon that knows what to make of unknown words.

A constituent of more than two children is built from the left, one child at a time, by partial symbols that remember
its label and the last `horizontal` children; a label may remember the `vertical` - 1 labels above it (Klein and Manning
2003, "Accurate Unlexicalized Parsing"). With all children remembered and nothing above, probabilities are those of the
plain treebank grammar (Charniak 1996, "Tree-bank Grammars").

    (NP (DT a) (JJ big) (JJ red) (NN dog))  with horizontal 1   →   NP → ‹NP: JJ› NN, ‹NP: JJ› → ‹NP: JJ› JJ | DT JJ
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from transduce.treebank import Leaf, Node, Tree


class Symbol(NamedTuple):
    """A symbol of the binarised grammar.

    Attributes:
        kind: A constituent's label, a leaf's tag, or the left part of a constituent.
        name: The label or tag.
        ancestors: Labels above, the nearest first, as many as are remembered.
        siblings: Of a partial symbol: its last children, as many as are remembered; labels with a bracket before them.
    """

    kind: Literal["label", "tag", "partial"]
    name: str
    ancestors: tuple[str, ...] = ()
    siblings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binary:
    """A node of a binarised tree: two children, one (a unary rule), or none but a word (a tag)."""

    symbol: Symbol
    children: tuple["Binary", ...] = ()
    word: str = ""


def binarise(node: Node, horizontal: int | None, vertical: int, above: tuple[str, ...] = ()) -> Binary:
    """Returns the tree with at most two children a node.

    Args:
        node: A tree or leaf.
        horizontal: How many children a partial symbol remembers; `None` for all.
        vertical: How many labels a constituent's symbol has: its own, and those above it.
        above: The labels above the node, the nearest first.
    """
    if isinstance(node, Leaf):
        return Binary(Symbol("tag", node.tag), word=node.word)
    ancestors = above[: vertical - 1]
    children = [binarise(child, horizontal, vertical, (node.label, *above[:vertical])) for child in node.children]
    names = [child.symbol.name if child.symbol.kind == "tag" else f"({child.symbol.name}" for child in children]
    left = children[:1]
    for num_done in range(2, len(children)):
        start = 0 if horizontal is None else max(num_done - horizontal, 0)
        partial = Symbol("partial", node.label, ancestors, tuple(names[start:num_done]))
        left = [Binary(partial, (*left, children[num_done - 1]))]
    return Binary(Symbol("label", node.label, ancestors), (*left, *children[1:][-1:]))


def unbinarise(binary: Binary) -> Node:
    """Returns the tree that `binarise` made the binarised one of."""
    if binary.symbol.kind == "tag":
        return Leaf(binary.symbol.name, binary.word)
    children = list(binary.children)
    while children[0].symbol.kind == "partial":
        children[:1] = children[0].children
    return Tree(binary.symbol.name, tuple(unbinarise(child) for child in children))


@dataclass(frozen=True)
class Grammar:
    """Rules over numbered symbols: labels come first, then tags, then partial symbols. Scores are log-probabilities.

    Attributes:
        symbols: What the numbers stand for.
        num_labels: How many of them are labels.
        num_tags: How many are tags.
        roots: Of each label, that a tree begins with it.
        unary: (label, its only child, a label or a tag), rules × 2, by number.
        unary_scores: Of each unary rule.
        binary: (symbol, left child, right child), rules × 3, ordered by symbol.
        binary_scores: Of each binary rule.
    """

    symbols: tuple[Symbol, ...]
    num_labels: int
    num_tags: int
    roots: np.ndarray
    unary: np.ndarray
    unary_scores: np.ndarray
    binary: np.ndarray
    binary_scores: np.ndarray


def estimate_grammar(trees: Iterable[Tree], horizontal: int | None, vertical: int) -> Grammar:
    """Returns the grammar that makes the trees most probable: each rule's share of its left side's."""
    roots: Counter[Symbol] = Counter()
    rules: Counter[tuple[Symbol, ...]] = Counter()
    for tree in trees:
        binarised = binarise(tree, horizontal, vertical)
        roots[binarised.symbol] += 1
        rules.update(_rules(binarised))
    totals: Counter[Symbol] = Counter()
    for rule, count in rules.items():
        totals[rule[0]] += count
    kinds = ("label", "tag", "partial")
    symbols = sorted(
        {symbol for rule in rules for symbol in rule}, key=lambda symbol: (kinds.index(symbol.kind), symbol)
    )
    number = {symbol: position for position, symbol in enumerate(symbols)}
    num_labels = sum(symbol.kind == "label" for symbol in symbols)

    def table(num_children: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = sorted(
            (tuple(number[symbol] for symbol in rule), count / totals[rule[0]])
            for rule, count in rules.items()
            if len(rule) == 1 + num_children
        )
        numbers = np.array([rule for rule, _ in chosen], dtype=np.int64).reshape(-1, 1 + num_children)
        return numbers, np.log([share for _, share in chosen])

    with np.errstate(divide="ignore"):
        root_scores = np.log([roots[symbol] / roots.total() for symbol in symbols[:num_labels]])
    num_tags = sum(symbol.kind == "tag" for symbol in symbols)
    return Grammar(tuple(symbols), num_labels, num_tags, root_scores, *table(1), *table(2))


def _rules(binary: Binary) -> Iterator[tuple[Symbol, ...]]:
    """Yields each node's symbol with those of its children."""
    waiting = [binary]
    while waiting:
        node = waiting.pop()
        if node.children:
            yield (node.symbol, *(child.symbol for child in node.children))
            waiting += node.children


_FREQUENT = 100
"""Words seen as often as this have the tags they were seen with, and no others."""

_PRIOR_WEIGHT = 1.0
"""What looks like a word says as much of its tags as this many occurrences."""

_SUFFIXES = ("ing", "ion", "ity", "ous", "ive", "est", "ed", "er", "ly", "al", "s", "y")
_NO_PLURAL = ("ss", "us", "is")


class Lexicon:
    """How probable a word is, given its tag.

    A word's tags are estimated from its occurrences and, unless it is frequent, from rare words that look like it, the
    more so the rarer it is; a word that was never seen has only these. Looks are capitals, digits, hyphens and the end
    of the word (`looks`), each more special one smoothed by the more general.
    """

    def __init__(self, trees: Iterable[Tree], tags: Sequence[str], max_rare: int) -> None:
        """Counts words.

        Args:
            trees: What to learn from.
            tags: All tags that occur, in the order of `scores`.
            max_rare: Words that occur no more often than this say what rare words are like.
        """
        self._number = {tag: position for position, tag in enumerate(tags)}
        leaves = [(leaf, position == 0) for tree in trees for position, leaf in enumerate(tree.leaves())]
        self._words: dict[str, np.ndarray] = {}
        for leaf, _ in leaves:
            self._words.setdefault(leaf.word, np.zeros(len(tags)))[self._number[leaf.tag]] += 1
        self._tag_counts: np.ndarray = np.sum(list(self._words.values()), axis=0)
        self._looks: dict[tuple[str, ...], np.ndarray] = {}
        for leaf, is_first in leaves:
            if self._words[leaf.word].sum() <= max_rare:
                for look in self._chain(leaf.word, is_first):
                    self._looks.setdefault(look, np.zeros(len(tags)))[self._number[leaf.tag]] += 1

    def scores(self, words: Sequence[str]) -> np.ndarray:
        """Returns the log-probabilities of each word given each tag, words × tags; minus infinity is impossible.

        P(word | tag) is P(tag | word) P(word) / P(tag); a word that was never seen counts as seen once.
        """
        shares = np.array([self._share(word, position == 0) for position, word in enumerate(words)])
        with np.errstate(divide="ignore"):
            return np.log(shares / self._tag_counts)

    def best_tags(self, words: Sequence[str]) -> list[str]:
        """Returns the most probable tag of each word by itself."""
        names = list(self._number)
        return [names[int(self._share(word, position == 0).argmax())] for position, word in enumerate(words)]

    def _share(self, word: str, is_first: bool) -> np.ndarray:
        """Returns P(tag | word) times the word's count, for each tag."""
        if is_first and word not in self._words and word.lower() in self._words:
            word = word.lower()
        counts = self._words.get(word)
        if counts is None:
            return self._prior(word, is_first)
        if (total := counts.sum()) >= _FREQUENT:
            return counts
        weight = _PRIOR_WEIGHT
        return total * (counts + weight * self._prior(word, is_first)) / (total + weight)

    def _prior(self, word: str, is_first: bool) -> np.ndarray:
        """Returns P(tag | looks) for each tag: of the most general look first, then of each as smoothed by the last."""
        share: np.ndarray = self._tag_counts / self._tag_counts.sum()
        for look in self._chain(word, is_first):
            if (counts := self._looks.get(look)) is not None:
                weight = _PRIOR_WEIGHT if len(look) else 0.0  # rare words have the tags of open classes
                share = (counts + weight * share) / (counts.sum() + weight)
        return share

    def _chain(self, word: str, is_first: bool) -> list[tuple[str, ...]]:
        """Returns the word's looks, from none at all to all of them."""
        full = looks(word, is_first)
        return [full[:length] for length in range(len(full) + 1)]


def looks(word: str, is_first: bool) -> tuple[str, str]:
    """Returns what tells the tag of a word that nobody knows: its shape, and its end.

    Args:
        word: The word.
        is_first: Whether it is a sentence's first, where a capital says less.
    """
    shape = "lower"
    if not any(map(str.isalpha, word)):
        shape = "digits" if any(map(str.isdigit, word)) else "signs"
    elif word.isupper() and len(word) > 1:
        shape = "capitals"
    elif word[0].isupper():
        shape = "first" if is_first else "capital"
    elif not word.islower():
        shape = "mixed"
    if shape != "digits" and any(map(str.isdigit, word)):
        shape += "+digit"
    if re.search(r"\w-\w", word):
        shape += "+hyphen"
    lowered = word.lower()
    end = next((suffix for suffix in _SUFFIXES if len(word) > len(suffix) + 2 and lowered.endswith(suffix)), "")
    return shape, "" if end == "s" and lowered.endswith(_NO_PLURAL) else end
