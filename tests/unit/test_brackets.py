"""Bracket scores against counts made by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from transduce.errors import EvaluationError
from transduce.treebank import COLLINS, BracketParameters, SentenceBrackets, Tree, score_brackets
from transduce.treebank.bracket_report import sentence_table, summary_text
from tree_strategies import trees

_GOLD = "(TOP (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ eats) (NP (NN fish))) (. .)))"


def score(gold: str, parsed: str, parameters: BracketParameters = COLLINS) -> SentenceBrackets:
    (sentence,) = score_brackets([gold], [parsed], parameters).sentences
    return sentence


def test_a_sentence_by_hand() -> None:
    parsed = "(S (NP (DT the)) (VP (NN dog) (VBZ eats) (NP (NNS fish))) (. .))"
    # gold S 0-4, NP 0-2, VP 2-4, NP 3-4; parsed S 0-4, NP 0-1, VP 1-4 (crosses NP 0-2), NP 3-4. The full stop is out.
    assert score(_GOLD, parsed) == SentenceBrackets(
        number=1, length=5, matched=2, gold=4, parsed=4, crossing=1, words=4, correct_tags=3
    )


def test_sums_are_over_brackets_and_not_over_sentences() -> None:
    evaluation = score_brackets([_GOLD, "(S (UH yes))"], [_GOLD, "(X (S (UH yes)))"])
    summary = evaluation.summary()
    assert (summary.recall, summary.precision) == (100, pytest.approx(100 * 5 / 6))
    assert summary.f1 == pytest.approx(100 * 10 / 11)
    assert (summary.complete_match, summary.num_valid, summary.tagging_accuracy) == (50, 2, 100)
    assert evaluation.summary(max_length=4).matched == 1
    assert evaluation.summary(max_length=0).f1 == 0


def test_two_crossing_brackets_are_few_and_three_are_not() -> None:
    words = "(A a) (B b) (C c) (D d) (E e) (F f)"
    gold = "(S (X (A a) (B b)) (Y (C c) (D d)) (Z (E e) (F f)))"
    # 1-3 crosses X and Y, 1-5 crosses X and Z: a bracket that crosses counts once. 3-5 crosses Y and Z.
    two = "(S (A a) (V (W (B b) (C c)) (D d) (E e)) (F f))"
    three = "(S (A a) (V (W (B b) (C c)) (U (D d) (E e))) (F f))"
    assert [score(gold, parsed).crossing for parsed in (f"(S {words})", two, three)] == [0, 2, 3]
    assert score_brackets([gold] * 3, [f"(S {words})", two, three]).summary().few_crossing == pytest.approx(200 / 3)
    assert score_brackets([gold], [two]).summary().few_crossing == 100
    assert score_brackets([gold], [three]).summary().few_crossing == 0


def test_traces_and_what_they_leave_empty_do_not_count() -> None:
    traced = "(S (NP-1 (DT the) (NN dog)) (VP (VBZ eats) (NP (NN fish)) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (. .))"
    sentence = score(_GOLD, traced)
    assert (sentence.matched, sentence.gold, sentence.parsed) == (4, 4, 4)
    assert score(traced, _GOLD).length == 5


def test_a_label_twice_over_the_same_words() -> None:
    once, thrice = "(S (NP (NN man)))", "(S (NP (NP (NP (NN man)))))"
    assert (score(once, thrice).matched, score(once, thrice).parsed) == (2, 4)
    assert (score(thrice, once).matched, score(thrice, once).gold) == (2, 4)
    assert score(thrice, thrice).is_complete


def test_equal_labels_hold_for_brackets_tags_and_deletion() -> None:
    assert score("(VP (VB give) (ADVP (RB up)))", "(VP (VB give) (PRT (RB up)))").matched == 2
    parameters = BracketParameters(
        deleted_labels=frozenset(["TOP"]),
        equal_labels=frozenset([frozenset(["TOP", "ROOT"]), frozenset(["NN", "NNS"])]),
    )
    sentence = score("(TOP (NP (NN fish)))", "(ROOT (NP (NNS fish)))", parameters)
    assert (sentence.gold, sentence.parsed, sentence.matched, sentence.correct_tags) == (1, 1, 1, 1)


def test_equality_is_not_passed_on() -> None:
    parameters = BracketParameters(equal_labels=frozenset([frozenset(["A", "B"]), frozenset(["B", "C"])]))
    assert score("(A (X x))", "(B (X x))", parameters).matched == 1
    assert score("(A (X x))", "(C (X x))", parameters).matched == 0


def test_unlabelled() -> None:
    parsed = "(S (X (DT the) (NN dog)) (Y (VBZ eats) (Z (NN fish))) (. .))"
    assert score(_GOLD, parsed).matched == 1
    assert score(_GOLD, parsed, replace(COLLINS, labelled=False)).matched == 4


def test_words_that_differ() -> None:
    sentence = score("(S (NN a) (NN b))", "(S (NN a) (NN c))")
    assert (sentence.status, sentence.length, sentence.gold, sentence.words) == ("error", 2, 0, 0)
    assert sentence.message == "word 2 is 'b' in the gold tree and 'c' in the parse."
    assert score("(S (NN a) (NN b))", "(S (NN a))").message.startswith("the gold tree has 2 words that count and the")
    equal = BracketParameters(equal_words=frozenset([frozenset(["b", "c"])]))
    assert score("(S (NN a) (NN b))", "(S (NN a) (NN c))", equal).status == "valid"


def test_what_is_no_tree_is_an_error_of_its_sentence() -> None:
    evaluation = score_brackets([_GOLD, "(S (NN a)"], ["(S (NP", "(S (NN a))"], names=("x.gold", "x.out"))
    first, second = evaluation.sentences
    assert (first.status, second.status) == ("error", "error")
    assert first.message.startswith("x.out, line 1, column 4: this bracket is never closed")
    assert second.message.startswith("x.gold, line 2, column 1")
    assert evaluation.summary().num_valid == 0
    assert evaluation.summary().f1 == evaluation.summary().average_crossing == 0


def test_no_parse_is_skipped() -> None:
    summary = score_brackets([_GOLD, _GOLD, _GOLD], ["", " ", _GOLD]).summary()
    assert (summary.num_sentences, summary.num_skipped, summary.num_errors, summary.num_valid) == (3, 2, 0, 1)
    rates = (
        summary.recall,
        summary.complete_match,
        summary.no_crossing,
        summary.few_crossing,
        summary.tagging_accuracy,
    )
    assert rates == (100, 100, 100, 100, 100)  # of the one that was compared
    assert score(_GOLD, "(S (. .))").status == "skipped"


def test_a_quotation_mark_that_one_side_takes_for_something_else() -> None:
    gold = "(S (NP (NNS dogs) (POS ')) (VP (VBP bark)) ('' '))"
    parsed = "(S (NP (NNS dogs) ('' ')) (VP (VBP bark)) ('' '))"
    assert score(gold, parsed).status == "error"
    quotes = replace(COLLINS, quote_labels=frozenset(["``", "''", "POS"]))
    for pair in ((gold, parsed), (parsed, gold)):
        sentence = score(*pair, quotes)
        assert (sentence.status, sentence.words, sentence.matched, sentence.correct_tags) == ("valid", 3, 3, 2)
    for mark in ('"', "/"):
        assert score(gold.replace(" ')", f" {mark})"), parsed.replace(" ')", f" {mark})"), quotes).status == "valid"
    # Another word with such a tag is no quotation mark.
    assert score(gold.replace("POS '", "POS 's"), parsed.replace("'' ')) (VP", "'' 's)) (VP"), quotes).status == "error"
    # Only the mark that differs comes back; the last one stays out.
    assert score(gold, gold, quotes).words == 3


def test_too_many_errors_stop_it() -> None:
    parameters = BracketParameters(max_errors=2)
    good, bad = ("(S (NN a))", "(S (NN a))"), ("(S (NN a))", "(S (NN b))")
    gold, parsed = zip(good, bad, bad, bad, strict=True)
    assert score_brackets(gold, parsed, parameters).summary().num_errors == 3
    gold, parsed = zip(good, bad, bad, bad, bad, strict=True)
    with pytest.raises(
        EvaluationError,
        match=r"more than 2 of the first 5 sentences.*line 2: word 1 is 'a'.*--max-errors, or MAX_ERROR",
    ):
        score_brackets(gold, parsed, parameters)


def test_files_that_do_not_go_together() -> None:
    with pytest.raises(EvaluationError, match=r"the gold file has 1 line and the parsed file has 2"):
        score_brackets([_GOLD], [_GOLD, _GOLD])
    with pytest.raises(EvaluationError, match="nothing to score"):
        score_brackets([], [])


@settings(max_examples=50)
@given(trees)
def test_a_tree_matches_itself(tree: Tree) -> None:
    sentence = score(str(tree), str(tree), BracketParameters())
    assert sentence.is_complete
    assert sentence.crossing == 0
    assert sentence.words == sentence.correct_tags == sentence.length == len(tree.leaves())


def test_report() -> None:
    evaluation = score_brackets([_GOLD, _GOLD], [_GOLD, ""], replace(COLLINS, cutoff_length=3))
    rows = sentence_table(evaluation).split("\n")
    assert rows[3] == "   1    5    0  100.00 100.00     4      4    4      0      4     4   100.00"
    assert rows[4] == "   2    5    2    0.00   0.00     0      0    0      0      0     0     0.00"
    text = summary_text(evaluation)
    assert "Number of Skip  sentence  =      1\n" in text
    assert "Bracketing FMeasure       = 100.00\n" in text
    assert "-- len<=3 --\nNumber of sentence        =      0\n" in text


def test_json() -> None:
    result = score_brackets(["(S (NN a))", _GOLD], ["(S (NN b))", _GOLD]).to_dict(per_sentence=True)
    assert result["all"]["f1"] == result["up_to_cutoff"]["recall"] == 100
    assert result["all"]["num_errors"] == 1
    assert list(result["errors"]) == ["1"]
    assert [sentence["status"] for sentence in result["sentences"]] == ["error", "valid"]


def test_the_summary_up_to_the_cutoff_and_the_share_of_right_tags() -> None:
    gold, parsed = "(S (NN a) (NN b) (NN c))", "(S (NN a) (NNS b) (NN c))"
    result = score_brackets([_GOLD, gold], [_GOLD, parsed], replace(COLLINS, cutoff_length=3)).to_dict()
    short, both = result["up_to_cutoff"], result["all"]
    assert (short["num_sentences"], both["num_sentences"], result["cutoff_length"]) == (1, 2, 3)
    assert short["tagging_accuracy"] == pytest.approx(200 / 3)  # of words, not of the one bracket
    assert both["tagging_accuracy"] == pytest.approx(100 * 6 / 7)  # the full stop does not count


def test_the_summary_of_all_kinds_of_sentences() -> None:
    """Of five sentences one is an error and one has no parse; of the three others one has three crossing brackets."""
    words = "(A a) (B b) (C c) (D d) (E e) (F f)"
    gold = "(S (X (A a) (B b)) (Y (C c) (D d)) (Z (E e) (F f)))"
    three = "(S (A a) (V (W (B b) (C c)) (U (D d) (E e))) (F f))"
    flat = f"(S {words.replace('(A a)', '(K a)')})"
    summary = summary_text(score_brackets([gold] * 5, [gold, three, flat, "(S (A b))", ""])).split("\n-- len")[0]
    figures = {
        name.strip(): float(figure) for name, _, figure in (line.partition("=") for line in summary.split("\n")[3:-1])
    }
    assert figures == {
        "Number of sentence": 5,
        "Number of Error sentence": 1,
        "Number of Skip  sentence": 1,
        "Number of Valid sentence": 3,
        "Bracketing Recall": 50.00,  # 4, 1 and 1 of 4 brackets each
        "Bracketing Precision": 66.67,  # of 4, 4 and 1
        "Bracketing FMeasure": 57.14,  # 2 · 6 / (12 + 9)
        "Complete match": 33.33,
        "Average crossing": 1.00,
        "No crossing": 66.67,
        "2 or less crossing": 66.67,
        "Tagging accuracy": 94.44,  # 17 of 18
    }


def test_the_row_of_totals() -> None:
    gold, parsed = "(S (NP (DT the) (NN dog)) (VP (VB eats)))", "(S (NP (DT the)) (VP (NNS dog) (VB eats)))"
    lines = sentence_table(score_brackets([gold, gold], [gold, parsed])).split("\n")
    assert lines[4].split() == ["2", "3", "0", "33.33", "33.33", "1", "3", "3", "1", "3", "2", "66.67"]
    assert lines[-1].split() == ["66.67", "66.67", "4", "6", "6", "1", "6", "5", "83.33"]
