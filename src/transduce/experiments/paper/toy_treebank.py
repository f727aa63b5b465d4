"""A generated treebank: sentences of a small grammar of English, to try a parser without a real treebank.

Prepositional phrases attach high or low at random, so words alone do not determine every tree.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from transduce.files import write_text
from transduce.treebank import Leaf, Tree
from transduce.treebank.pairs import tree_words

# Each label with its expansions; words are below their tags.
RULES: Mapping[str, Sequence[Sequence[str]]] = {
    "S": (("NP", "VP", "."), ("NP", "VP", "."), ("PP", "NP", "VP", ".")),
    "NP": (("DT", "NN"), ("DT", "NN"), ("DT", "JJ", "NN"), ("NNP",), ("NP", "PP")),
    "VP": (("VBZ", "NP"), ("VBZ", "NP"), ("VBZ", "NP", "PP"), ("VBZ",), ("VBZ", "ADVP")),
    "PP": (("IN", "NP"),),
    "ADVP": (("RB",),),
}
WORDS: Mapping[str, Sequence[str]] = {
    "DT": ("the", "a", "this", "every"),
    "NN": ("dog", "postman", "garden", "ball", "hill", "letter", "telescope", "bridge"),
    "JJ": ("old", "small", "green", "quiet"),
    "NNP": ("Anna", "Berlin", "Otto"),
    "VBZ": ("sees", "finds", "likes", "crosses", "paints"),
    "IN": ("in", "on", "with", "near"),
    "RB": ("slowly", "today", "again"),
    ".": (".",),
}
_DEEPEST = 5  # levels; below them a label takes its shortest expansion


def random_tree(random: Random, label: str = "S", depth: int = 0) -> Tree:
    """Returns a tree of the grammar."""
    rules = RULES[label]
    chosen = min(rules, key=len) if depth >= _DEEPEST else random.choice(rules)
    if depth >= _DEEPEST:
        chosen = next((rule for rule in rules if all(part in WORDS for part in rule)), chosen)
    children = [
        Leaf(part, random.choice(WORDS[part])) if part in WORDS else random_tree(random, part, depth + 1)
        for part in chosen
    ]
    return Tree(label, tuple(children))


def make_toy_treebank(folder: Path, sizes: Mapping[str, int], *, seed: int = 1) -> None:
    """Writes NAME.trees with SIZE trees for each of `sizes` into `folder`; no sentence occurs twice."""
    random, seen = Random(seed), set()
    for name, size in sizes.items():
        lines: list[str] = []
        while len(lines) < size:
            tree = random_tree(random)
            words = " ".join(tree_words(tree))
            if words not in seen:
                seen.add(words)
                lines.append(f"{tree}\n")
        write_text(folder / f"{name}.trees", "".join(lines))
