"""How the trees of a treebank are normalised before a parser is trained or scored on them."""

import re

from transduce.treebank.trees import TOP, Leaf, Node, Tree

# The tag of a leaf without a spoken word: traces, null complementisers, empty subjects.
TRACE = "-NONE-"

# Labels that only mark the top of a tree.
TOP_LABELS = frozenset({TOP, "ROOT", "S1"})

_FUNCTION = re.compile(r"[-=]")


def normalise(tree: Tree, *, collapse_unaries: bool = False) -> Tree | None:
    """Returns the tree without traces, function tags and top label; `None` if it has only traces.

        (TOP (S (NP-SBJ-1 (PRP We)) (VP (VBD left) (S (NP-SBJ (-NONE- *-1))))))  →  (S (NP (PRP We)) (VP (VBD left)))

    - Traces are removed, and so is every constituent that has nothing else.
    - Labels lose function tags and indices: NP-SBJ-1 and NP=2 become NP. Part-of-speech tags, such as -LRB-, stay.
    - TOP, ROOT or S1 over a single constituent is removed. Over anything else it is needed, and becomes TOP.

    Args:
        tree: A tree of a treebank.
        collapse_unaries: Whether a constituent over a single one of the same label, (NP (NP …)), becomes one.
    """
    cleaned = _clean(tree, collapse_unaries)
    if not isinstance(cleaned, Tree):
        return None
    while cleaned.label in TOP_LABELS:
        (child, *others) = cleaned.children
        if others or isinstance(child, Leaf):
            return Tree(TOP, cleaned.children)
        cleaned = child
    return cleaned


def strip_functions(label: str) -> str:
    """Returns the label up to its first "-" or "=": NP-SBJ-1 → NP. A label that begins with one, as -LRB-, stays."""
    return _FUNCTION.split(label, maxsplit=1)[0] or label


def _clean(node: Node, collapse_unaries: bool) -> Node | None:
    if isinstance(node, Leaf):
        return None if node.tag == TRACE else node
    children = tuple(kept for child in node.children if (kept := _clean(child, collapse_unaries)) is not None)
    if not children:
        return None
    label = strip_functions(node.label)
    if collapse_unaries and len(children) == 1 and isinstance(children[0], Tree) and children[0].label == label:
        return children[0]
    return Tree(label, children)
