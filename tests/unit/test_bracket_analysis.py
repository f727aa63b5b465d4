"""Where parses err, counted by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.errors import EvaluationError
from transduce.treebank import (
    COLLINS,
    BracketAnalysis,
    BracketParameters,
    Tree,
    analyse_brackets,
    linearise,
    repair,
    score_brackets,
)
from transduce.treebank.bracket_analysis import NO_PARENT
from transduce.treebank.bracket_report import analysis_text
from tree_strategies import trees

_VERB_ATTACHMENT = (
    "(S (NP (PRP I)) (VP (VBD saw) (NP (DT the) (NN man)) (PP (IN with) (NP (NNS eyes)))) (. .))"  # 0 1 2-3 4 5
)
_NOUN_ATTACHMENT = "(S (NP (PRP I)) (VP (VBD saw) (NP (NP (DT the) (NN man)) (PP (IN with) (NP (NNS eyes))))) (. .))"


def analyse(gold: str, parsed: str, parameters: BracketParameters = COLLINS) -> BracketAnalysis:
    return analyse_brackets([gold], [parsed], parameters)


def test_labels() -> None:
    analysis = analyse(_VERB_ATTACHMENT, _NOUN_ATTACHMENT)
    scores = {score.label: (score.gold, score.parsed, score.gold_matched) for score in analysis.labels}
    assert scores == {"NP": (3, 4, 3), "S": (1, 1, 1), "VP": (1, 1, 1), "PP": (1, 1, 1)}
    first = analysis.labels[0]
    assert (first.label, first.recall, first.precision) == ("NP", 100, 75)
    assert first.f1 == pytest.approx(200 * 3 / 7)
    assert [score.label for score in analysis.labels] == ["NP", "PP", "S", "VP"]


def test_a_label_of_one_side_only() -> None:
    analysis = analyse("(S (NP (NN dogs)))", "(S (X (NN dogs)))")
    scores = {score.label: (score.recall, score.precision, score.f1) for score in analysis.labels}
    assert scores == {"S": (100, 100, 100), "NP": (0, 0, 0), "X": (0, 0, 0)}


def test_equal_labels_count_for_each_side_its_own() -> None:
    analysis = analyse("(VP (VB give) (ADVP (RB up)))", "(VP (VB give) (PRT (RB up)))")
    by_label = {score.label: score for score in analysis.labels}
    assert (by_label["ADVP"].recall, by_label["ADVP"].parsed) == (100, 0)
    assert (by_label["PRT"].precision, by_label["PRT"].gold) == (100, 0)
    assert not analysis.confusions


def test_attachment() -> None:
    analysis = analyse(_VERB_ATTACHMENT, _NOUN_ATTACHMENT)
    # "the man" and "with eyes" hang from the verb phrase in one tree, and from the extra noun phrase in the other.
    assert analysis.attachments == {("PP", "VP", "NP"): 1, ("NP", "VP", "NP"): 1}
    assert analysis.extra == {"NP → NP PP": 1}
    assert not analysis.missed
    assert analyse(_NOUN_ATTACHMENT, _VERB_ATTACHMENT).attachments == {("PP", "NP", "VP"): 1, ("NP", "NP", "VP"): 1}


def test_attachment_to_another_of_the_same_label() -> None:
    low = "(NP (NP (NN a)) (PP (IN of) (NP (NP (NN b)) (PP (IN in) (NP (NN c))))))"
    high = "(NP (NP (NN a)) (PP (IN of) (NP (NN b))) (PP (IN in) (NP (NN c))))"
    assert analyse(low, high).attachments == {("PP", "NP", "NP"): 1, ("NP", "NP", "PP"): 1}


def test_a_parent_that_ends_elsewhere_is_the_same() -> None:
    gold = "(S (VP (VB eat) (NP (NN fish))) (ADVP (RB now)))"
    parsed = "(S (VP (VB eat) (NP (NN fish)) (ADVP (RB now))))"
    assert analyse(gold, parsed).attachments == {("ADVP", "S", "VP"): 1}


def test_what_does_not_count_is_no_parent() -> None:
    gold, parsed = "(TOP (S (NN a)))", "(X (S (NN a)))"
    assert analyse(gold, parsed).attachments == {("S", NO_PARENT, "X"): 1}
    assert not analyse(gold, "(S (NN a))").attachments


def test_confusions() -> None:
    assert analyse("(S (NP (NN a)) (NN b))", "(S (ADJP (NN a)) (NN b))").confusions == {("NP", "ADJP"): 1}
    # Over the same words, S and VP are matched; what is left on both sides goes together from the outside in.
    gold, parsed = "(S (SBAR (VP (NP (NN a)))))", "(S (FRAG (VP (X (Y (NN a))))))"
    assert analyse(gold, parsed).confusions == {("SBAR", "FRAG"): 1, ("NP", "X"): 1}
    unlabelled = replace(COLLINS, labelled=False)
    assert not analyse("(S (NP (NN a)) (NN b))", "(S (ADJP (NN a)) (NN b))", unlabelled).confusions


def test_productions_leave_out_what_does_not_count() -> None:
    gold = "(S (NP-SBJ (NP (DT the) (NN dog)) (, ,) (TOP (NP (NN Rex) (NN II))) (, ,)) (VP (VBZ eats) (NP (-NONE- *))))"
    parsed = "(S (NP (DT the) (NN dog)) (, ,) (NP (NN Rex)) (VP (NN II) (, ,) (VBZ eats)))"
    analysis = analyse(gold, parsed)
    assert analysis.missed == {"NP → NP NP": 1, "NP → NN NN": 1, "VP → VBZ": 1}
    assert analysis.extra == {"NP → NN": 1, "VP → NN VBZ": 1}


def test_lengths() -> None:
    def sentence(num_words: int) -> str:
        return f"(S {' '.join(['(NN a)'] * num_words)})"

    lines = [sentence(number) for number in (1, 10, 11, 40, 41, 60)]
    analysis = analyse_brackets(lines, [*lines[:-1], ""])
    bands = [(first, last, summary.num_sentences, summary.num_valid) for first, last, summary in analysis.by_length()]
    assert bands == [(1, 10, 2, 2), (11, 20, 1, 1), (31, 40, 1, 1), (41, None, 2, 1)]


def test_longer_sentences_are_left_out_of_everything() -> None:
    gold = ["(S (NP (NN a)))", "(S (NP (NN a) (NN b)))", "(S (NN a) (NN b) (NN c))"]
    parsed = ["(S (X (NN a)))", "(S (Y (NN a) (NN b)))", "no tree"]
    analysis = analyse_brackets(gold, parsed, replace(COLLINS, max_errors=0), max_words=2)
    assert analysis.confusions == {("NP", "X"): 1, ("NP", "Y"): 1}
    assert [sentence.number for sentence in analysis.evaluation.sentences] == [1, 2]
    assert score_brackets(gold, parsed, max_words=1).summary().gold == 2
    with pytest.raises(EvaluationError, match="has no sentence of 0 words or less"):
        score_brackets(gold, parsed, max_words=0)


def test_punctuation_by_gold_tags() -> None:
    gold, parsed = ["(S (NP (NN a)) (, ,) (VP (VB b)))"], ["(S (NP (NN a) (NN ,)) (VP (VB b)))"]
    assert analyse_brackets(gold, parsed).evaluation.summary().num_errors == 1
    analysis = analyse_brackets(gold, parsed, gold_punctuation=True)
    assert analysis.evaluation.summary().f1 == 100
    assert not analysis.missed


def test_sentences_that_cannot_be_compared_have_no_part_in_it() -> None:
    analysis = analyse_brackets(["(S (NN a))", "(S (NN b))"], ["(S (X (NN c)))", ""])
    assert analysis.labels == ()
    assert not any((analysis.confusions, analysis.attachments, analysis.missed, analysis.extra))
    assert [summary.num_valid for _, _, summary in analysis.by_length()] == [0]


def over_the_same_words(tree: Tree, other: Tree) -> Tree:
    """Returns a tree like `tree` over the words of `other`."""
    leaves = other.leaves()
    return repair(linearise(tree), [leaf.word for leaf in leaves], [leaf.tag for leaf in leaves])


@settings(max_examples=50)
@given(st.lists(st.tuples(trees, trees), min_size=1, max_size=3))
def test_counts_agree_with_the_scores(pairs: list[tuple[Tree, Tree]]) -> None:
    gold = [str(tree) for tree, _ in pairs]
    parsed = [str(over_the_same_words(other, tree)) for tree, other in pairs]
    analysis = analyse_brackets(gold, parsed)
    assert analysis.evaluation == score_brackets(gold, parsed)
    summary = analysis.evaluation.summary()
    assert summary.num_errors == 0
    assert sum(score.gold for score in analysis.labels) == summary.gold
    assert sum(score.parsed for score in analysis.labels) == summary.parsed
    assert sum(score.gold_matched for score in analysis.labels) == summary.matched
    assert sum(score.parsed_matched for score in analysis.labels) == summary.matched
    assert analysis.missed.total() == summary.gold - summary.matched
    assert analysis.extra.total() == summary.parsed - summary.matched
    assert sum(sums.num_sentences for _, _, sums in analysis.by_length()) == summary.num_sentences
    assert analysis_text(analysis).count("\n## ") == 5


@given(trees)
def test_a_tree_against_itself_has_no_errors(tree: Tree) -> None:
    analysis = analyse(str(tree), str(tree))
    assert not any((analysis.confusions, analysis.attachments, analysis.missed, analysis.extra))
    assert all(score.gold == score.parsed_matched for score in analysis.labels)


def test_report() -> None:
    analysis = analyse("(S (A|B (NN a)) (NN b))", "(S (X (NN a)) (NN b))")
    text = analysis_text(analysis)
    assert "| S | 1 | 1 | 100.00 | 100.00 | 100.00 |\n" in text
    assert "| 1–10 | 1 | 2 | 2 | 50.00 | 50.00 | 50.00 |\n" in text
    assert "| A\\|B | X | 1 | 100.0 % |\n" in text
    assert "## The right words and label, another parent\n\nNone.\n" in text
    assert "| A\\|B → NN | 1 | 100.0 % |\n\nThe first 1 of 1 kinds, 1 errors in all.\n" in text


def test_json() -> None:
    """All labels, the most frequent first; of errors of a kind, the most frequent first, equal ones by name."""
    same = "(A (B (C (D (NN a)))))"
    gold = ["(S (NP (NN a)) (NN b))"] * 2 + [_VERB_ATTACHMENT, same]
    parsed = ["(S (ADJP (NN a)) (NN b))"] * 2 + [_NOUN_ATTACHMENT, same]
    found = analyse_brackets(gold, parsed).to_dict()
    counts = [(each["label"], each["gold"], each["parsed"], each["gold_matched"]) for each in found["labels"]]
    assert counts[:2] == [("NP", 5, 4, 3), ("S", 3, 3, 3)]
    assert sorted(label for label, *_ in counts[2:]) == ["A", "ADJP", "B", "C", "D", "PP", "VP"]
    assert (found["labels"][0]["recall"], found["labels"][0]["precision"]) == (60, 75)
    (band,) = found["lengths"]
    assert (band["shortest"], band["longest"], band["num_sentences"]) == (1, 10, 4)
    assert found["confusions"] == [{"gold": "NP", "parsed": "ADJP", "count": 2}]
    assert found["attachments"] == [
        {"label": label, "gold_parent": "VP", "parsed_parent": "NP", "count": 1} for label in ("NP", "PP")
    ]
    assert found["missed"] == [{"production": "NP → NN", "count": 2}]
    assert found["extra"] == [{"production": "ADJP → NN", "count": 2}, {"production": "NP → NP PP", "count": 1}]
    assert [*found] == ["labels", "lengths", "confusions", "attachments", "missed", "extra"]


def test_the_report_shows_ten_kinds_and_counts_sentences_that_were_compared() -> None:
    """Twelve kinds, of which the first comes three times; a sentence without a parse has no score."""
    labels = [f"L{number:02}" for number in range(12)]
    gold = [f"(S ({label} (NN a)) (NN b))" for label in [*labels, "L05", "L05"]] + ["(S (NN a))"]
    parsed = ["(S (X (NN a)) (NN b))"] * 14 + [""]
    text = analysis_text(analyse_brackets(gold, parsed))
    section = text.partition("## The same words, another label\n\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in section.split("\n") if line.startswith("| L")
    ]
    assert rows == [["L05", "X", "3", "21.4 %"]] + [
        [label, "X", "1", "7.1 %"] for label in labels[:10] if label != "L05"
    ]
    assert "The first 10 of 12 kinds, 14 errors in all." in section
    assert "| 1–10 | 14 | 28 | 28 | 50.00 | 50.00 | 50.00 |\n" in text
    assert "| label | gold parent | parsed parent |" not in text  # none


def test_long_sentences_are_a_band_of_their_own() -> None:
    sentence = f"(S {' '.join(['(NN a)'] * 41)})"
    text = analysis_text(analyse(sentence, sentence))
    assert "| 41 and more | 1 | 1 | 1 | 100.00 | 100.00 | 100.00 |\n" in text


def test_labels_that_are_equally_frequent_in_gold_trees_come_by_their_parses_and_then_by_name() -> None:
    gold = "(S (A (NN a)) (B (NN b)) (C (NN c)))"
    parsed = "(S (C (C (A (NN a)))) (X (B (NN b))) (C (NN c)))"
    assert [score.label for score in analyse(gold, parsed).labels] == ["C", "A", "B", "S", "X"]
