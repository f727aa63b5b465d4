"""The errors of a parser: scores by label and length, wrong labels, wrong attachments, missed and extra productions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from transduce.treebank.bracket_comparison import Bracket, Comparison, compare_sentences
from transduce.treebank.bracket_parameters import COLLINS, BracketParameters
from transduce.treebank.brackets import BracketEvaluation, BracketSummary, percentage
from transduce.treebank.trees import Leaf

# The parent of a bracket that has no bracket around it.
NO_PARENT = "(root)"

_BAND_ENDS = (10, 20, 30, 40)  # words; the last band is open


@dataclass(frozen=True, kw_only=True)
class LabelScore:
    """How well one label is found.

    Attributes:
        label: The label, without function tags.
        gold: Brackets with it in the gold trees.
        parsed: Brackets with it in the parses.
        gold_matched: Those of `gold` that were matched.
        parsed_matched: Those of `parsed` that were matched. The two differ only where labels count as equal: a gold
            ADVP that was parsed as PRT counts for ADVP in one, and for PRT in the other.
    """

    label: str
    gold: int
    parsed: int
    gold_matched: int
    parsed_matched: int

    @property
    def recall(self) -> float:
        """Gold brackets that the parses have, in percent."""
        return percentage(self.gold_matched, self.gold)

    @property
    def precision(self) -> float:
        """Brackets of the parses that the gold trees have, in percent."""
        return percentage(self.parsed_matched, self.parsed)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Returns counts and rates for JSON."""
        return asdict(self) | {"recall": self.recall, "precision": self.precision, "f1": self.f1}


@dataclass(frozen=True, kw_only=True)
class BracketAnalysis:
    """What kinds of errors parses have.

    Attributes:
        evaluation: The scores.
        labels: Each label that occurs, the most frequent in the gold trees first.
        confusions: How often (gold label, parsed label) span the same words, and neither is matched.
        attachments: How often a matched bracket has a different parent, as (its label, label of the gold parent, label
            of the parsed parent). Parents are equal if label and first word are. A parent that ends at a different
            word is an error of its own, and not counted here.
        missed: How often gold brackets are unmatched, by production: "NP → NP PP".
        extra: How often brackets of the parses are unmatched, by production.
    """

    evaluation: BracketEvaluation
    labels: tuple[LabelScore, ...]
    confusions: Counter[tuple[str, str]]
    attachments: Counter[tuple[str, str, str]]
    missed: Counter[str]
    extra: Counter[str]

    def by_length(self) -> Iterator[tuple[int, int | None, BracketSummary]]:
        """Yields (shortest, longest, sums) for each band of sentence lengths, in words, that has any sentence."""
        longest = max(each.length for each in self.evaluation.sentences)
        for below, end in pairwise((0, *_BAND_ENDS, max(longest, _BAND_ENDS[-1]))):
            if (summary := self.evaluation.summary(end, min_length=below + 1)).num_sentences:
                yield below + 1, None if below == _BAND_ENDS[-1] else end, summary

    def to_dict(self) -> dict[str, Any]:
        """Returns the analysis for JSON, without the scores of each sentence, which are in the evaluation."""
        return {
            "labels": [score.to_dict() for score in self.labels],
            "lengths": [
                {"shortest": shortest, "longest": longest} | summary.to_dict()
                for shortest, longest, summary in self.by_length()
            ],
            "confusions": _ranked(self.confusions, "gold", "parsed"),
            "attachments": _ranked(self.attachments, "label", "gold_parent", "parsed_parent"),
            "missed": _ranked(self.missed, "production"),
            "extra": _ranked(self.extra, "production"),
        }


def analyse_brackets(
    gold: Sequence[str],
    parsed: Sequence[str],
    parameters: BracketParameters = COLLINS,
    *,
    names: tuple[str, str] = ("the gold file", "the parsed file"),
    gold_punctuation: bool = False,
    max_words: int | None = None,
) -> BracketAnalysis:
    """Compares parses with gold trees, and returns how they differ. Arguments and errors: see `score_brackets`."""
    sentences = []
    seen = {side: Counter[str]() for side in ("gold", "parsed", "gold_matched", "parsed_matched")}
    errors: dict[str, Counter[Any]] = {kind: Counter() for kind in ("confusions", "attachments", "missed", "extra")}
    comparisons = compare_sentences(
        gold, parsed, parameters, names=names, gold_punctuation=gold_punctuation, max_words=max_words
    )
    for comparison in comparisons:
        sentences.append(comparison.counts)
        matched = {bracket for pair in comparison.matched for bracket in pair}
        for side, brackets in (("gold", comparison.gold), ("parsed", comparison.parsed)):
            seen[side].update(bracket.label for bracket in brackets)
            seen[f"{side}_matched"].update(bracket.label for bracket in brackets if bracket in matched)
        lost = [bracket for bracket in comparison.gold if bracket not in matched]
        added = [bracket for bracket in comparison.parsed if bracket not in matched]
        errors["confusions"].update(_confused(lost, added))
        errors["attachments"].update(_moved(comparison, parameters))
        errors["missed"].update(_productions(lost, comparison.gold, comparison.gold_words))
        errors["extra"].update(_productions(added, comparison.parsed, comparison.parsed_words))
    scores = [
        LabelScore(label=label, **{side: counter[label] for side, counter in seen.items()})
        for label in seen["gold"] | seen["parsed"]
    ]
    return BracketAnalysis(
        evaluation=BracketEvaluation(tuple(sentences), parameters),
        labels=tuple(sorted(scores, key=lambda score: (-score.gold, -score.parsed, score.label))),
        **errors,
    )


def _ranked(counter: Counter[Any], *names: str) -> list[dict[str, Any]]:
    """Returns each kind, its parts by these names, and its count; the most frequent first, equal ones in order."""
    return [
        {**dict(zip(names, [kind] if isinstance(kind, str) else kind, strict=True)), "count": count}
        for kind, count in sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    ]


def _confused(missed: list[Bracket], extra: list[Bracket]) -> Iterator[tuple[str, str]]:
    """Yields (gold label, parsed label) of unmatched brackets over the same words, from the outermost inwards."""
    extra_at: dict[tuple[int, int], list[Bracket]] = {}
    for bracket in extra:
        extra_at.setdefault((bracket.start, bracket.end), []).append(bracket)
    for bracket in missed:
        if others := extra_at.get((bracket.start, bracket.end)):
            yield bracket.label, others.pop(0).label


def _moved(comparison: Comparison, parameters: BracketParameters) -> Iterator[tuple[str, str, str]]:
    """Yields (label, gold parent, parsed parent) of matched brackets whose parents differ in label or first word."""
    for gold, parsed in comparison.matched:
        ours, theirs = gold.parent, parsed.parent
        if ours is None and theirs is None:
            continue
        if ours and theirs and ours.start == theirs.start and parameters.same_label(ours.label, theirs.label):
            continue
        yield gold.label, ours.label if ours else NO_PARENT, theirs.label if theirs else NO_PARENT


def _productions(chosen: list[Bracket], brackets: Sequence[Bracket], words: Sequence[Leaf]) -> Iterator[str]:
    """Yields "NP → DT NN" for each chosen bracket, from words and brackets that count."""
    children: dict[Bracket, list[Bracket]] = {bracket: [] for bracket in chosen}
    for bracket in brackets:
        if bracket.parent in children:
            children[bracket.parent].append(bracket)
    for bracket, below in children.items():
        symbols, at = [], bracket.start
        for child in below:
            symbols += [word.tag for word in words[at : child.start]] + [child.label]
            at = child.end
        symbols += [word.tag for word in words[at : bracket.end]]
        yield f"{bracket.label} → {' '.join(symbols)}"
