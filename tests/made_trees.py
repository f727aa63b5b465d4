"""A treebank made up on the spot: sentences of a small grammar, with traces, function tags and the mark of the top."""

import random
from pathlib import Path

_NOUNS = ["dog", "postman", "garden", "ball", "hill", "10\u00a0mg", "-LRB-"]
_VERBS = ["sees", "chases", "likes", "finds"]


def _noun_phrase(generator: random.Random, function: str, depth: int) -> str:
    simple = f"(DT {generator.choice(['a', 'the'])}) (NN {generator.choice(_NOUNS)})"
    if depth and generator.random() < 0.4:
        inner = _noun_phrase(generator, "", depth - 1)
        return f"(NP{function} (NP {simple}) (PP (IN {generator.choice(['on', 'in'])}) {inner}))"
    return f"(NP{function} {simple})"


def made_tree(generator: random.Random) -> str:
    """Returns a tree as a treebank has it, on two lines."""
    subject = _noun_phrase(generator, "-SBJ-1", 1)
    verb_phrase = f"(VP (VBZ {generator.choice(_VERBS)}) {_noun_phrase(generator, '', 2)} (S (NP (-NONE- *-1))))"
    return f"( (S {subject}\n    {verb_phrase} (. .)) )"


def write_trees(path: Path, count: int, seed: int) -> None:
    """Writes a file of `count` trees."""
    generator = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{made_tree(generator)}\n" for _ in range(count)), encoding="utf-8")
