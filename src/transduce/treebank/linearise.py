"""A tree as a sequence of tokens, and back (§6.3; Vinyals et al. 2015, "Grammar as a Foreign Language").

    (S (NP (DT The) (NN dog)) (VP (VBZ barks)))   ↔   (S (NP XX XX )NP (VP XX )VP )S

Depth first, with typed brackets: an opening and a closing token for each label. Words are left out, since they are the
parser's input. Each leaf is one token, `XX` for every tag, so that the model spends no capacity on tagging.
"""

from collections.abc import Sequence

from transduce.errors import DataError
from transduce.reporting.tables import counted
from transduce.treebank.trees import Leaf, Node, Tree

# The token of a leaf if tags are left out.
LEAF = "XX"


def linearise(tree: Tree, *, keep_tags: bool = False) -> list[str]:
    """Returns the tree as tokens, without its words.

    Args:
        tree: Any tree, usually a normalised one.
        keep_tags: Whether leaves keep their tags, as in the code the paper's authors released, or all become `LEAF`.
    """
    tokens = [f"({tree.label}"]
    for child in tree.children:
        if isinstance(child, Leaf):
            tokens.append(child.tag if keep_tags else LEAF)
        else:
            tokens += linearise(child, keep_tags=keep_tags)
    return [*tokens, f"){tree.label}"]


def delinearise(tokens: Sequence[str], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """Returns the tree that `linearise` would turn into these tokens. For malformed tokens, use `repair`.

    Args:
        tokens: A linearised tree.
        words: The words of its leaves.
        tags: The tags of its leaves; without them, each leaf's token is its tag.

    Raises:
        DataError: The tokens are not a linearised tree with so many words; names the token, counted from 1.
    """
    require_a_tag_each(words, tags)
    root: Tree | None = None
    open_brackets: list[tuple[str, list[Node]]] = []
    num_leaves = 0
    for number, token in enumerate(tokens, start=1):
        if root is not None:
            raise DataError(f"token {number} ({token}): the tree ends before it.")
        if token.startswith("("):
            open_brackets.append((token[1:], []))
        elif not open_brackets:
            raise DataError(f"token {number} ({token}): is outside the brackets.")
        elif token.startswith(")"):
            label, children = open_brackets.pop()
            if token[1:] != label:
                raise DataError(f"token {number} ({token}): the innermost open bracket is ({label}.")
            if not children:
                raise DataError(f"token {number} ({token}): closes a constituent with nothing inside.")
            tree = Tree(label, tuple(children))
            if open_brackets:
                open_brackets[-1][1].append(tree)
            else:
                root = tree
        else:
            if num_leaves == len(words):
                raise DataError(f"token {number} ({token}): there are only {counted(len(words), 'word')}.")
            open_brackets[-1][1].append(Leaf(tags[num_leaves] if tags else token, words[num_leaves]))
            num_leaves += 1
    if root is None:
        raise DataError(f"({open_brackets[-1][0]} is never closed." if open_brackets else "there are no tokens.")
    if num_leaves < len(words):
        raise DataError(f"the tree has {counted(num_leaves, 'leaf', 'leaves')} for {counted(len(words), 'word')}.")
    return root


def require_a_tag_each(words: Sequence[str], tags: Sequence[str] | None) -> None:
    """Raises DataError if there are tags, but not one for each word."""
    if tags is not None and len(tags) != len(words):
        raise DataError(
            f"{counted(len(tags), 'tag')} for {counted(len(words), 'word')}: give one for each word, or none at all."
        )
