"""What searches under constraints ask of the engine: the width of their beams, and the spellings that they forbid."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

from text_engine import ConstrainedEngine, text_translator
from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis, hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.translation.constraints.constrained_search import constrained_search, refusal
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline.word_alignment import _order_weights, _same
from transduce.translation.translator import Translator

TOKENIZER = text_translator().tokenizer
PIECES = {TOKENIZER.piece_bytes([i])[0]: i for i in range(TOKENIZER.vocab_size)}


class Stubborn(ConstrainedEngine):
    """Writes "A dog" letter by letter whatever it is asked for, and notes that."""

    def __init__(self) -> None:
        self.output = [*TOKENIZER.encode("A"), *(PIECES[letter] for letter in (b" ", b"d", b"o", b"g"))]
        self.beams: list[int] = []
        self.asked: list[TokenConstraints] = []

    def hypotheses(
        self, source: Sequence[int], constraints: TokenConstraints, options: DecodeConfig, n_best: int
    ) -> list[Hypothesis]:
        self.beams.append(options.beam_size)
        self.asked.append(constraints)
        return [hypothesis(self.output, -1.0, True, 0.0)]

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        return [[-0.5] * (len(ids) + 1) for ids in targets]


def search(constraints: Constraints, options: DecodeConfig) -> tuple[Stubborn, Hypothesis]:
    engine = Stubborn()
    model = Translator(cast(Any, engine), TOKENIZER, DecodeConfig())
    [[best]], *_ = constrained_search(model, [[9]], options, 1, [constraints], ["line 1"])
    return engine, best


@pytest.mark.parametrize(("beam_size", "beams"), [(2, [2, 2, 2, 8]), (12, [12] * 4)])
def test_the_last_search_for_required_terms_has_a_beam_of_eight_at_least(beam_size: int, beams: list[int]) -> None:
    """The first is of an empty source, which checks whether the engine can do it at all."""
    engine, _ = search(Constraints(required=(("cat",),)), DecodeConfig(beam_size=beam_size))
    assert engine.beams == beams
    first, second, third, last = (each.required for each in engine.asked)
    assert (first, second) == (last, ())  # as written
    assert len(third[0]) == 2 * len(last[0]) == 2  # also with a capital


def test_groups_that_do_not_divide_a_beam_of_eight_go_with_prefixes_and_forbidden_phrases() -> None:
    options = DecodeConfig(beam_size=6, diversity_groups=3)
    engine, _ = search(Constraints(prefix="A", forbidden=("cat",)), options)
    assert engine.beams == [6]


def test_both_the_spelling_that_came_out_and_the_usual_one_are_forbidden() -> None:
    constraints = Constraints(forbidden=("dog",))
    engine, best = search(constraints, DecodeConfig(length_penalty=2.0))
    assert not engine.asked[0].forbidden
    # A word that begins with a piece of its own is forbidden with the piece before it at first, then alone.
    assert {tuple(engine.output[1:]), tuple(TOKENIZER.encode("dog"))} <= {*engine.asked[1].forbidden}
    assert tuple(engine.output[2:]) not in engine.asked[6].forbidden
    assert tuple(engine.output[2:]) in engine.asked[7].forbidden
    assert len(engine.asked) == 21
    assert (best.ids, best.finished, best.log_probability) == ([], False, -0.5)
    assert best.score == pytest.approx(-0.5 / (5 / 6) ** 2)
    assert refusal(best, constraints) == ("no translation without 'dog' was found in 20 searches: it is left empty.",)
    assert refusal(hypothesis([4], -1.0, True, 0.0), constraints) == ()


def test_weights_by_order_and_of_words_that_both_sides_have_once() -> None:
    weights = np.exp([[-0.5 * ((row - column) / 0.1) ** 2 for column in (0.25, 0.75)] for row in (1 / 6, 1 / 2, 5 / 6)])
    np.testing.assert_allclose(_order_weights(3, 2), weights / weights.sum(-1, keepdims=True))
    np.testing.assert_allclose(_order_weights(3, 2, slice(1, 3)), _order_weights(3, 2)[1:])
    source, target = "Ada a b a", "b ADA a b"
    spans = [(0, 3), (4, 5), (6, 7), (8, 9)], [(0, 1), (2, 5), (6, 7), (8, 9)]
    assert _same(source, target, *spans).tolist() == [[0] * 4, [1, 0, 0, 0], [0] * 4, [0] * 4]
