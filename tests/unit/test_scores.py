"""GNMT's length penalty, against numbers worked out by hand."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from text_engine import text_translator
from transduce.decoding.scores import NEVER_GENERATED, gnmt_penalty, hypothesis
from transduce.translation.forced_scores import ScoreSummary, TargetScore, score_targets


@pytest.mark.parametrize(
    ("length", "alpha", "penalty"),
    [
        (1, 0.6, 1.0),  # (6 / 6)^0.6
        (7, 1.0, 2.0),  # 12 / 6
        (7, 0.5, 1.41421356),  # √2
        (19, 0.5, 2.0),  # √(24 / 6)
        (43, 2 / 3, 4.0),  # (48 / 6)^⅔ = 8^⅔
        (25, 0.0, 1.0),
    ],
)
def test_penalty(length: int, alpha: float, penalty: float) -> None:
    assert gnmt_penalty(length, alpha) == pytest.approx(penalty)


def test_length_counts_eos_where_there_is_one() -> None:
    # Six tokens and EOS: length 7, penalty 2. Seven tokens cut off before EOS: length 7 as well.
    assert hypothesis([5] * 6, -3.0, True, 1.0).score == pytest.approx(-1.5)
    assert hypothesis([5] * 7, -3.0, False, 1.0).score == pytest.approx(-1.5)
    assert hypothesis([5] * 6, -3.0, False, 1.0).score == pytest.approx(-3.0 * 6 / 11)


def test_never_generated() -> None:
    assert NEVER_GENERATED == (0, 1, 3)


def test_the_end_mark_of_a_given_translation_counts_as_a_piece() -> None:
    translator = text_translator()  # says -0.1 for every token
    [scored] = translator.score(["A dog runs."], ["a man"], length_penalty=0.6)
    length = len(translator.tokenizer.encode("a man")) + 1
    assert len(scored.pieces) == len(scored.log_probabilities) == length
    assert scored.log_probability == pytest.approx(-0.1 * length)
    assert scored.score == pytest.approx(-0.1 * length / ((5 + length) / 6) ** 0.6)


class Certain:
    """Gives each token, and the end, a log-probability of -1."""

    max_source_tokens = 3

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[-1.0] * (len(ids) + 1) for ids in targets]


def test_scores_of_given_targets_by_hand() -> None:
    tokenizer = text_translator().tokenizer
    model = cast(Any, SimpleNamespace(engine=Certain(), tokenizer=tokenizer))
    empty, dogs = score_targets(model, ["A dog runs over", "A"], ["", "Two dogs run."], 1.0)
    assert (empty.pieces, empty.log_probabilities, empty.score) == (("</s>",), (-1.0,), -1.0)
    length = len(tokenizer.encode("Two dogs run.")) + 1
    assert (dogs.pieces[-1], len(dogs.pieces), dogs.log_probability) == ("</s>", length, -length)
    assert dogs.score == pytest.approx(-length / ((5 + length) / 6))
    assert [empty.source_truncated, dogs.source_truncated] == [True, False]
    summary = ScoreSummary()
    assert str(summary) == "no lines"
    summary.add([TargetScore(("</s>",), (-1.0,), -1.0, source_truncated=False)])
    summary.add([TargetScore(("a", "b", "</s>"), (-1.0, -2.0, -2.0), -3.0, source_truncated=False)])
    assert str(summary) == (
        "2 lines, 4 pieces (end marks counted): log-probability -6.000, mean score of a line -2.0000, "
        "perplexity of a piece 4.482"
    )
