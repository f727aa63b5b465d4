"""Turns any output of a parser into a tree over the words of its input.

A search may be cut off, or a model may forget a bracket or miscount the words. The paper's authors (Vinyals et al.
2015, section 3.1) added brackets at the beginning or the end of such output until it was balanced. `repair` does this
too, and corrects other errors. Well-formed output is unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from transduce.errors import DataError
from transduce.treebank.linearise import LEAF, require_a_tag_each
from transduce.treebank.trees import MAX_HEIGHT, TOP, Leaf, Node, Tree, is_atom


def repair(tokens: Sequence[str], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """Returns a tree over exactly `words`: the tree that `tokens` describe, or one close to it.

    The rules apply from left to right, and each makes the smallest change:

    1. Too many leaves: the last ones are dropped. Too few: the missing ones follow the last one.
    2. A closing bracket closes the innermost open bracket of its label, and all that is open inside:
       `(S (VP XX (NP XX )VP )S` → `(S (VP XX (NP XX )NP )VP )S`.
    3. A closing bracket whose label is not open gets the label of the innermost open bracket:
       `(S (NP XX )VP … )S` → `(S (NP XX )NP … )S`. It is dropped if that would close everything before the last leaf.
    4. A closing bracket after the last leaf, with nothing open, was opened at the beginning:
       `(NP XX )NP (VP XX )VP )S` → `(S (NP XX )NP (VP XX )VP )S`. Before the last leaf, or if everything is
       one constituent of its label already, it is dropped.
    5. Brackets that are open at the end are closed.
    6. Empty brackets, invalid labels and levels beyond `MAX_HEIGHT` are removed.
    7. Several pieces side by side, or leaves without a constituent, are put under `TOP`, which scoring ignores.

    Args:
        tokens: Any tokens; those that begin with "(" or ")" are brackets, all others are leaves.
        words: The words of the sentence; at least one.
        tags: The tags of the words; without them, each leaf's token is its tag, or `LEAF` if it cannot be one.

    Raises:
        DataError: There are no words, a word or tag is invalid, or tags and words differ in number.
    """
    if not words:
        raise DataError("a tree needs at least one word: leave out empty sentences.")
    require_a_tag_each(words, tags)
    fitted = _fit_leaves(tokens, len(words))
    repairer = _Repairer(num_leaves=len(words))
    for token in fitted:
        if token.startswith("("):
            repairer.open(token[1:])
        elif token.startswith(")"):
            repairer.close(token[1:])
        else:
            position = repairer.num_added
            tag = tags[position] if tags else token if is_atom(token) else LEAF
            repairer.add(Leaf(tag, words[position]))
    return repairer.finish()


def _fit_leaves(tokens: Sequence[str], num_words: int) -> list[str]:
    """Returns the tokens with exactly `num_words` leaves (rule 1)."""
    leaves = [position for position, token in enumerate(tokens) if not token.startswith(("(", ")"))]
    surplus = set(leaves[num_words:])
    fitted = [token for position, token in enumerate(tokens) if position not in surplus]
    num_missing = num_words - len(leaves)
    if num_missing > 0:
        first_closing = next((index for index, token in enumerate(fitted) if token.startswith(")")), len(fitted))
        after = leaves[-1] + 1 if leaves else first_closing
        fitted[after:after] = [LEAF] * num_missing
    return fitted


@dataclass(slots=True)
class _Repairer:
    """The finished pieces, and the open brackets around the next one."""

    num_leaves: int
    num_added: int = 0
    pieces: list[Node] = field(default_factory=list)
    open_brackets: list[tuple[str, list[Node]]] = field(default_factory=list)

    def open(self, label: str) -> None:
        """Opens a bracket, unless rule 6 forbids; one level is reserved for `TOP`."""
        if is_atom(label) and len(self.open_brackets) < MAX_HEIGHT - 1:
            self.open_brackets.append((label, []))

    def add(self, leaf: Leaf) -> None:
        """Adds a leaf to the innermost open bracket."""
        self._siblings().append(leaf)
        self.num_added += 1

    def close(self, label: str) -> None:
        """Applies a closing bracket (rules 2 to 4)."""
        labels = [open_label for open_label, _ in self.open_brackets]
        at_end = self.num_added == self.num_leaves
        if label in labels:
            while self._close_innermost() != label:
                pass
        elif len(labels) > 1 or (labels and at_end):
            self._close_innermost()
        elif not labels and at_end and is_atom(label):
            self._enclose(label)

    def finish(self) -> Tree:
        """Returns the tree (rules 5 and 7)."""
        while self.open_brackets:
            self._close_innermost()
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Tree):
            return self.pieces[0]
        return Tree(TOP, tuple(self.pieces))

    def _siblings(self) -> list[Node]:
        return self.open_brackets[-1][1] if self.open_brackets else self.pieces

    def _close_innermost(self) -> str:
        """Closes a bracket, drops it if it is empty, and returns its label."""
        label, children = self.open_brackets.pop()
        if children:
            self._siblings().append(Tree(label, tuple(children)))
        return label

    def _enclose(self, label: str) -> None:
        """Puts a constituent around all finished pieces (rule 4)."""
        first, *others = self.pieces
        is_there = not others and isinstance(first, Tree) and first.label == label
        if not is_there and max(piece.height for piece in self.pieces) < MAX_HEIGHT - 1:
            self.pieces = [Tree(label, tuple(self.pieces))]
