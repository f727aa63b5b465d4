"""How good parses are: labelled brackets compared as EVALB compares them (§6.3, Table 4: F1 on WSJ section 23).

A bracket is a constituent's label, without function tags, and the words it spans. Words with certain tags (mainly
punctuation and traces) are removed first, and constituents with certain labels are ignored: `BracketParameters`.

The scores are EVALB's, with these differences: unequal numbers of lines are an error, and not a note; an outer bracket
without a label is called TOP; a malformed tree, such as `(NN)`, makes its sentence an error, where EVALB guesses; and
0 / 0 is 0.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transduce.treebank.bracket_comparison import SentenceBrackets, compare_sentences
from transduce.treebank.bracket_parameters import COLLINS, BracketParameters
from transduce.treebank.trees import Tree


@dataclass(frozen=True, kw_only=True)
class BracketSummary:
    """Sums over sentences. Rates are percentages of all brackets, words or valid sentences together."""

    num_sentences: int
    num_errors: int
    num_skipped: int
    matched: int
    gold: int
    parsed: int
    crossing: int
    words: int
    correct_tags: int
    num_complete: int
    num_no_crossing: int
    num_few_crossing: int  # two or less

    @property
    def num_valid(self) -> int:
        """Sentences that were compared."""
        return self.num_sentences - self.num_errors - self.num_skipped

    @property
    def recall(self) -> float:
        """Gold brackets that the parses have."""
        return percentage(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Brackets of the parses that the gold trees have."""
        return percentage(self.matched, self.parsed)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return percentage(2 * self.matched, self.gold + self.parsed)

    @property
    def complete_match(self) -> float:
        """Sentences all of whose brackets match."""
        return percentage(self.num_complete, self.num_valid)

    @property
    def average_crossing(self) -> float:
        """Crossing brackets per sentence; not a percentage."""
        return self.crossing / self.num_valid if self.num_valid else 0.0

    @property
    def no_crossing(self) -> float:
        """Sentences without a crossing bracket."""
        return percentage(self.num_no_crossing, self.num_valid)

    @property
    def few_crossing(self) -> float:
        """Sentences with two crossing brackets or less."""
        return percentage(self.num_few_crossing, self.num_valid)

    @property
    def tagging_accuracy(self) -> float:
        """Words with the right tag."""
        return percentage(self.correct_tags, self.words)

    def to_dict(self) -> dict[str, Any]:
        """Returns counts and rates for JSON."""
        rates = ("recall", "precision", "f1", "complete_match", "average_crossing", "no_crossing", "few_crossing")
        derived = {name: getattr(self, name) for name in ("num_valid", *rates, "tagging_accuracy")}
        return asdict(self) | derived


@dataclass(frozen=True)
class BracketEvaluation:
    """The scores of a file of parses, sentence by sentence."""

    sentences: tuple[SentenceBrackets, ...]
    parameters: BracketParameters

    def summary(self, max_length: int | None = None, *, min_length: int = 0) -> BracketSummary:
        """Returns the sums over all sentences, or over those of `min_length` to `max_length` words."""
        longest = math.inf if max_length is None else max_length
        chosen = [each for each in self.sentences if min_length <= each.length <= longest]
        valid = [each for each in chosen if each.status == "valid"]
        counts = ("matched", "gold", "parsed", "crossing", "words", "correct_tags")
        return BracketSummary(
            num_sentences=len(chosen),
            num_errors=sum(each.status == "error" for each in chosen),
            num_skipped=sum(each.status == "skipped" for each in chosen),
            **{name: sum(getattr(each, name) for each in valid) for name in counts},
            num_complete=sum(each.is_complete for each in valid),
            num_no_crossing=sum(each.crossing == 0 for each in valid),
            num_few_crossing=sum(each.crossing <= 2 for each in valid),
        )

    def to_dict(self, *, per_sentence: bool = False) -> dict[str, Any]:
        """Returns the evaluation for JSON."""
        cutoff = self.parameters.cutoff_length
        result: dict[str, Any] = {
            "all": self.summary().to_dict(),
            "cutoff_length": cutoff,
            "up_to_cutoff": self.summary(cutoff).to_dict(),
            "errors": {str(each.number): each.message for each in self.sentences if each.status == "error"},
        }
        if per_sentence:
            result["sentences"] = [asdict(each) for each in self.sentences]
        return result


def score_brackets(
    gold: Sequence[str],
    parsed: Sequence[str],
    parameters: BracketParameters = COLLINS,
    *,
    names: tuple[str, str] = ("the gold file", "the parsed file"),
    gold_punctuation: bool = False,
    max_words: int | None = None,
) -> BracketEvaluation:
    """Compares parses with gold trees, sentence by sentence.

    Args:
        gold: One bracketed tree a line.
        parsed: The parse of the same sentence on the same line; an empty line if there is none.
        parameters: What counts.
        names: The names of the two for error messages, such as file names.
        gold_punctuation: Whether the gold tags alone decide which words are ignored, if both trees have the same words.
            EVALB uses each tree's own tags, and cannot compare a sentence in which the parser got a comma's tag wrong.
        max_words: Longer sentences are left out; `None` for no limit.

    Raises:
        EvaluationError: Line counts differ, there is nothing to score, or too many sentences cannot be compared (like
            EVALB, this allows one more than MAX_ERROR).
    """
    comparisons = compare_sentences(
        gold, parsed, parameters, names=names, gold_punctuation=gold_punctuation, max_words=max_words
    )
    return BracketEvaluation(tuple(each.counts for each in comparisons), parameters)


def summarise_parses(gold: Sequence[Tree], parsed: Sequence[Tree]) -> BracketSummary:
    """Returns EVALB's sums. The gold tags decide what is punctuation, so that no sentence is left out.

    Raises:
        EvaluationError: The numbers of trees differ, there are none, or trees are not over the same words.
    """
    lines = [[str(tree) for tree in trees] for trees in (gold, parsed)]
    names = ("the gold trees", "the parses")
    return score_brackets(lines[0], lines[1], names=names, gold_punctuation=True).summary()


def parse_scores(gold: Sequence[Tree], parses: Sequence[tuple[Tree, bool]]) -> dict[str, float]:
    """Returns percentages by name, F1 first.

    The names are f1, precision, recall, complete_match, tagging_accuracy, and repaired: the share of outputs that were
    not a tree over the words of the sentence.

    Args:
        gold: The right trees, normalised.
        parses: Each sentence's parse, and whether it had to be repaired.

    Raises:
        EvaluationError: As `summarise_parses`.
    """
    summary = summarise_parses(gold, [tree for tree, _ in parses])
    names = ("f1", "precision", "recall", "complete_match", "tagging_accuracy")
    repaired = percentage(sum(was_repaired for _, was_repaired in parses), len(parses))
    return {name: getattr(summary, name) for name in names} | {"repaired": repaired}


def percentage(part: float, whole: float) -> float:
    """Returns part / whole × 100, or 0 if the whole is 0."""
    return 100 * part / whole if whole else 0.0
