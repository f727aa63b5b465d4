"""How good a parser is: its trees over known sentences against the right ones, in a few figures."""

from collections.abc import Sequence

from transduce.treebank.brackets import BracketSummary, percentage, score_brackets
from transduce.treebank.trees import Tree


def summarise_parses(gold: Sequence[Tree], parsed: Sequence[Tree]) -> BracketSummary:
    """Returns EVALB's sums; what is punctuation is read off the gold tags, so that no sentence is left out.

    Raises:
        EvaluationError: The numbers of trees differ, there are none, or trees are not over the same words.
    """
    lines = [[str(tree) for tree in trees] for trees in (gold, parsed)]
    names = ("the gold trees", "the parses")
    return score_brackets(lines[0], lines[1], names=names, gold_punctuation=True).summary()


def parse_scores(gold: Sequence[Tree], parses: Sequence[tuple[Tree, bool]]) -> dict[str, float]:
    """Returns percentages by name, F1 first.

    The names are f1, precision, recall, complete_match, tagging_accuracy, and repaired: the share of outputs that were
    no trees over the words of their sentence.

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
