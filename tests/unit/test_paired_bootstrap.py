"""The paired bootstrap of F1: against figures by hand, and where it must and must not see a difference."""

import random

import pytest

from transduce.errors import EvaluationError
from transduce.treebank import PairedBootstrap, SentenceBrackets, paired_bootstrap, score_brackets
from transduce.treebank.bracket_parameters import COLLINS
from transduce.treebank.bracket_report import bootstrap_text
from transduce.treebank.brackets import BracketEvaluation

_RIGHT = "(S (NP (NN dog)) (VP (VBZ barks)))"  # three brackets
_WRONG = "(S (X (NN dog)) (Y (VBZ barks)))"  # one of them right


def evaluation(matched: list[int], gold: int = 10, parsed: int = 10) -> BracketEvaluation:
    sentences = (
        SentenceBrackets(number=number, length=gold, matched=right, gold=gold, parsed=parsed)
        for number, right in enumerate(matched, start=1)
    )
    return BracketEvaluation(tuple(sentences), COLLINS)


def test_f1_is_that_of_the_scores() -> None:
    ours = score_brackets([_RIGHT] * 3, [_RIGHT, _RIGHT, _WRONG])
    others = score_brackets([_RIGHT] * 3, [_RIGHT, _WRONG, _WRONG])
    found = paired_bootstrap(ours, others, num_resamples=50)
    assert (found.f1, found.other_f1) == pytest.approx((ours.summary().f1, others.summary().f1))
    assert found.difference == pytest.approx(100 * 7 / 9 - 100 * 5 / 9)
    assert found.to_dict()["difference"] == found.difference
    assert (found.num_sentences, found.num_resamples) == (3, 50)


def test_a_parser_that_is_better_on_every_sentence_is_better_in_every_resample() -> None:
    found = paired_bootstrap(evaluation([5, 6, 7, 8] * 20), evaluation([4, 5, 6, 7] * 20))
    assert found.not_better == 0
    assert found.low == found.high == pytest.approx(10.0)  # one bracket of ten more, whichever sentences are drawn


def test_pairs_are_drawn_together() -> None:
    """Unpaired draws of sentences that differ much would hide a small difference that is always there."""
    easy_and_hard = [9, 1] * 50
    found = paired_bootstrap(evaluation(easy_and_hard), evaluation([8, 0] * 50))
    assert found.low > 9.9


def test_two_parsers_of_equal_quality_do_not_differ() -> None:
    generator = random.Random(1)
    first, second = ([generator.randrange(11) for _ in range(400)] for _ in range(2))
    found = paired_bootstrap(evaluation(first), evaluation(second))
    assert found.low < 0 < found.high
    assert 1 < found.not_better < 99


def test_the_interval_is_that_of_the_normal_distribution_where_brackets_are_many() -> None:
    """F1 is 10 × the mean of matched here, so its standard error is 10 × σ / √n."""
    gains = [0, 1, 2, 3, 4] * 80
    deviation = (sum((gain - 2) ** 2 for gain in gains) / len(gains)) ** 0.5
    half = 1.96 * 10 * deviation / len(gains) ** 0.5
    found = paired_bootstrap(evaluation([gain + 4 for gain in gains]), evaluation([4] * len(gains)))
    assert (found.low, found.high) == pytest.approx((20 - half, 20 + half), abs=0.15)


def test_the_same_seed_gives_the_same_figures() -> None:
    ours, others = evaluation([3, 9, 4, 7]), evaluation([4, 6, 5, 5])
    assert paired_bootstrap(ours, others, seed=3) == paired_bootstrap(ours, others, seed=3)


def test_sentences_that_one_of_them_lacks_are_left_out() -> None:
    ours = score_brackets([_RIGHT] * 3, [_RIGHT, "", _RIGHT])
    others = score_brackets([_RIGHT] * 3, [_WRONG, _RIGHT, _RIGHT])
    found = paired_bootstrap(ours, others, num_resamples=10)
    assert (found.num_sentences, found.f1) == (2, 100)
    assert found.other_f1 == pytest.approx(100 * 4 / 6)


def test_what_cannot_be_paired() -> None:
    with pytest.raises(EvaluationError, match=r"2 sentences cannot be paired with 1"):
        paired_bootstrap(evaluation([1, 2]), evaluation([1]))
    empty = score_brackets([_RIGHT], [""])
    with pytest.raises(EvaluationError, match="no sentence could be compared"):
        paired_bootstrap(empty, empty)


def test_equal_parsers_are_better_in_no_resample() -> None:
    found = paired_bootstrap(evaluation([3, 9, 4, 7]), evaluation([3, 9, 4, 7]), num_resamples=450)
    assert (found.difference, found.low, found.high, found.not_better) == (0, 0, 0, 100)


def test_resamples_are_those_of_the_seed_and_as_many_as_asked_for() -> None:
    """Of two sentences each parser is better on one: of four draws one is better, one is worse, two are equal."""
    ours, others = evaluation([5, 4]), evaluation([4, 5])
    found = paired_bootstrap(ours, others, num_resamples=4001)
    assert found.num_resamples == 4001
    assert found.not_better == pytest.approx(75, abs=2.5)  # three and a half standard errors
    assert (found.low, found.high) == (-10, 10)
    draws = {paired_bootstrap(ours, others, num_resamples=450, seed=seed).not_better for seed in range(8)}
    assert len(draws) > 1
    assert all(round(share * 450 / 100) == pytest.approx(share * 450 / 100) for share in draws)


def test_the_bootstrap_in_words() -> None:
    found = PairedBootstrap(
        num_sentences=1700, num_resamples=10_000, f1=91.256, other_f1=90.0, low=-0.125, high=2.5, not_better=3.456
    )
    assert bootstrap_text(found).split("\n") == [
        "-- Paired bootstrap --",
        "Number of sentence        =   1700",
        "Number of resamples       =  10000",
        "FMeasure                  =  91.26",
        "FMeasure of the other     =  90.00",
        "Difference                =  +1.26",
        "95% interval              =  -0.12 to +2.50",
        "Resamples not better, %   =   3.46",
    ]
