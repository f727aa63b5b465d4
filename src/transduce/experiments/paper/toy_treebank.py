"""A treebank made on the spot: sentences of a small grammar of English, to try a parser on where there is no real one.

Phrases attach high or low at random, as prepositional phrases do, so that words alone do not settle every tree.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from transduce.files import write_text
from transduce.treebank import Leaf, Tree
from transduce.treebank.pairs import tree_words

# Each label with what it can be rewritten to; words are below their tags.
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
_DEEPEST = 5  # levels, after which a label becomes the shortest that it can


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
    """Writes so many trees to each NAME.trees in `folder`, no sentence twice, the same each time."""
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
