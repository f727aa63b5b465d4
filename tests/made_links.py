"""Pairs of two made languages, and which of their words are linked."""

import random

Gold = set[tuple[int, int]]


def made_corpus(num_pairs: int, seed: int = 0) -> tuple[list[str], list[str], list[Gold]]:
    """Returns lines of two made languages, and which words are linked.

    In the second language an adjective comes after its noun, the verb comes last, "the" has no counterpart, and one
    word is "street car".
    """
    chance = random.Random(seed)
    nouns, adjectives, verbs = ([f"{kind}{chr(97 + i)}" for i in range(20)] for kind in ("noun", "adj", "verb"))
    sources, targets, links = [], [], []
    for _ in range(num_pairs):
        source, target, gold, later = [], [], set(), []
        for role in ("subject", "verb", "object"):
            if role == "verb":
                verb = chance.choice(verbs)
                later = [(len(source), f"x{verb}")]
                source.append(verb)
                continue
            source.extend(chance.choice([["the"], [], ["now"]]))
            if source[-1:] == ["now"]:
                gold.add((len(source) - 1, len(target)))
                target.append("xnow")
            noun, adjective = chance.choice([*nouns, "street car"]), chance.choice([*adjectives, ""])
            at = len(source)
            source.extend([adjective] if adjective else [])
            first = len(source)
            source.extend(noun.split())
            gold |= {(i, len(target)) for i in range(first, len(source))}
            target.append("xtram" if noun == "street car" else f"x{noun}")
            if adjective:
                gold.add((at, len(target)))
                target.append(f"x{adjective}")
        for at, word in later:
            gold.add((at, len(target)))
            target.append(word)
        gold.add((len(source), len(target)))
        sources.append(" ".join([*source, "."]))
        targets.append(" ".join([*target, "."]))
        links.append(gold)
    return sources, targets, links
