"""Which heads of the encoder follow a relation between words, over hundreds of sentences (Figures 3 to 5).

A head follows a relation in a sentence if it gives its greatest weight from one of the two words to the other, the word
itself and </s> left out. Sentences alternate between two halves: the first chooses the head, its direction and the
distance that is right most often; the second scores both. So neither is scored where it was chosen. Where most pairs
lie at one distance, as a determiner and its noun, position alone is hard to beat: so a head is also chosen and scored
on the pairs that lie elsewhere, against chance.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from transduce.experiments.paper.experiment import Say, Values
from transduce.experiments.paper.relations import ANTECEDENT, DISTANT, relations
from transduce.inspection import View
from transduce.treebank import Tree, unescape_brackets

DIRECTIONS = ("dependent to head", "head to dependent")
FEWEST_CASES = 20  # of each half
LENGTHS = range(5, 41)  # of sentences, in words
_RESAMPLES = 2000
# Joined to the word before, and to the word after.
_BEFORE = frozenset([",", ".", "!", "?", ":", ";", "%", ")", "]", "}", "''", "n't", "-", "/"])
_AFTER = frozenset(["(", "[", "{", "``", "$", "£", "€", "#", "-", "/"])


@dataclass(frozen=True)
class Case:
    """A relation in a sentence: two of its white-space words, from 0."""

    sentence: int
    words: tuple[int, int]  # dependent, head


def written(words: Sequence[str]) -> tuple[str, list[int]]:
    """Returns the words of a tree as people write them, and for each the white-space word that it is part of."""
    shown = [{"``": '"', "''": '"'}.get(word, unescape_brackets(word)) for word in words]
    opened, text, numbers, joined = False, "", [], True
    for word, next_shown in zip(words, shown, strict=True):
        closes = word == "''" or (word == '"' and opened)
        opens = word == "``" or (word == '"' and not opened)
        opened = (opened or opens) and not closes
        joined = joined or closes or next_shown in _BEFORE or next_shown.startswith(("'", "’"))
        text += next_shown if joined else f" {next_shown}"
        numbers.append(text.count(" "))
        joined = opens or next_shown in _AFTER
    return text, numbers


def score_heads(trees: Iterable[Tree], attend: Callable[[str], View], most: int, say: Say) -> Values:
    """Returns for each relation which head follows it best, and how often, on the sentences of a treebank.

    Args:
        trees: normalised.
        attend: returns the encoder's attention in a sentence, by words.
        most: how many sentences to read; those that the model does not read whole are left out.
        say: shows the progress.
    """
    cases: dict[str, list[Case]] = {}
    hits: dict[str, list[np.ndarray]] = {}
    lengths: list[int] = []
    for tree in trees:
        text, numbers = written([leaf.word for leaf in tree.leaves()])
        if len(numbers) not in LENGTHS or len(lengths) == most:
            continue
        found = {(r.name, numbers[r.dependent], numbers[r.head]) for r in relations(tree)}
        best_LHn = _most_attended(attend(text))
        if best_LHn.shape[-1] != numbers[-1] + 1:  # the model reads only its beginning, or a word has no piece
            continue
        for name, dependent, head in sorted(each for each in found if each[1] != each[2]):
            cases.setdefault(name, []).append(Case(len(lengths), (dependent, head)))
            right = [best_LHn[..., dependent] == head, best_LHn[..., head] == dependent]
            hits.setdefault(name, []).append(np.stack(right))
        lengths.append(best_LHn.shape[-1])
        if len(lengths) % 50 == 0:
            say(f"{len(lengths)} sentences")
    scored = {name: _scored(each, np.stack(hits[name]), lengths) for name, each in cases.items()}
    return {"sentences": len(lengths), "relations": {name: each for name, each in scored.items() if each is not None}}


def heads_to_show(scored: Mapping[str, Values]) -> list[str]:
    """Returns the relations whose heads are drawn: Figure 3's and 4's, and two others that heads follow best."""
    gains = {name: each.get("elsewhere", each)["gain"][0] for name, each in scored.items()}
    others = sorted((name for name in gains if name not in (DISTANT, ANTECEDENT)), key=lambda name: -gains[name])
    return [*(name for name in (DISTANT, ANTECEDENT) if name in scored), *others[:2]]


def _most_attended(seen: View) -> np.ndarray:
    """Returns for each word which other word it gives most weight, (layers, heads, words)."""
    words = np.flatnonzero([unit.word is not None for unit in seen.queries])  # tags in front and </s> are none
    weights = seen.weights[..., words[:, None], words].astype(np.float64)
    rows = np.arange(len(words))
    weights[..., rows, rows] = -1.0
    best: np.ndarray = weights.argmax(-1)
    return best


def _scored(cases: Sequence[Case], hits_CDLH: np.ndarray, lengths: Sequence[int]) -> Values | None:
    """Returns the best head's share and what it is compared with; `None` where there are too few cases."""
    sentences = np.array([case.sentence for case in cases])
    distances = np.array([head - dependent for dependent, head in (case.words for case in cases)])
    chance = np.array([1 / (lengths[number] - 1) for number in sentences])
    first, second = sentences % 2 == 0, sentences % 2 == 1
    if min(first.sum(), second.sum()) < FEWEST_CASES:
        return None
    values, counts = np.unique(distances[first], return_counts=True)
    distance = int(values[counts.argmax()])
    at_distance = (distances == distance).astype(float)
    rival = at_distance if at_distance[second].mean() >= chance[second].mean() else chance
    found = _best_head(hits_CDLH, first, second, rival, sentences)
    found |= {
        "distance": distance,
        "share_at_distance": round(float(at_distance[second].mean()), 4),
        "chance": round(float(chance[second].mean()), 4),
    }
    other = distances != distance
    if min((first & other).sum(), (second & other).sum()) >= FEWEST_CASES:
        found["elsewhere"] = _best_head(hits_CDLH, first & other, second & other, chance, sentences)
    return found


def _best_head(
    hits_CDLH: np.ndarray, first: np.ndarray, second: np.ndarray, rival: np.ndarray, sentences: np.ndarray
) -> Values:
    """Returns the head that is right most often in the first cases, and what it gains over a rival in the second."""
    shares_DLH = hits_CDLH[first].mean(0)
    direction, layer, head = (int(at) for at in np.unravel_index(int(shares_DLH.argmax()), shares_DLH.shape))
    right = hits_CDLH[second, direction, layer, head].astype(float)
    low, high = _interval(right - rival[second], sentences[second])
    return {
        "cases": int(second.sum()),
        "direction": DIRECTIONS[direction],
        "layer": layer + 1,
        "head": head + 1,
        "share": round(float(right.mean()), 4),
        "gain": [round(float((right - rival[second]).mean()), 4), round(low, 4), round(high, 4)],
        "seen": low > 0,
    }


def _interval(gains: np.ndarray, sentences: np.ndarray) -> tuple[float, float]:
    """Returns the 95 % interval of a mean over cases, by drawing whole sentences again and again."""
    starts = np.flatnonzero(np.diff(sentences, prepend=-1))
    bounds = [*starts.tolist(), len(sentences)]
    sums = np.array([(gains[start:end].sum(), end - start) for start, end in pairwise(bounds)])
    generator = np.random.default_rng(1)
    drawn = np.array([sums[generator.integers(len(sums), size=len(sums))].sum(0) for _ in range(_RESAMPLES)])
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], [2.5, 97.5])
    return float(low), float(high)
