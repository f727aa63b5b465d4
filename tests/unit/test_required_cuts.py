"""Where an output is cut for a phrase that it lacks, which cuts are allowed, and which output is the best: by hand."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.ctranslate2_required import _Cut, _Line, search_required
from transduce.engines.interface import TokenConstraints

Phrases = tuple[tuple[tuple[int, ...], ...], ...]


def line(required: Phrases = (), *, limit: int = 9, ngram: int = 0, **constraints: Any) -> _Line:
    return _Line([5, 6], TokenConstraints(required=required, **constraints), limit, ngram)


def found(ids: Sequence[int], score: float = -1.0, *, finished: bool = True) -> Hypothesis:
    return Hypothesis([*ids], score, score, finished)


ONE, TWO = (((40,),),), (((40,),), ((50, 51),))


def test_more_phrases_then_the_end_then_the_score_make_an_output_the_best() -> None:
    """Three hold both phrases; of these the finished ones come first, whatever their scores."""
    outputs = [
        found([40, 7], -0.1),
        found([40, 50, 51], -9.0, finished=False),
        found([50, 51, 40], -30.0),
        found([40, 8, 50, 51], -20.0),
    ]
    made = line(TWO)
    assert made.num_met == -1  # nothing was found so far
    assert made.add(outputs[:1])
    assert made.num_met == 1
    assert made.add(outputs[1:])
    assert not made.add([found([7, 50, 51], -0.01)])
    assert made.num_met == 2
    assert made.outputs() == [outputs[3], outputs[2], outputs[1]]
    assert made.best == outputs[3]


@pytest.mark.parametrize(
    ("ids", "num_met"),
    [
        ([], 0),
        ([40], 1),
        ([40, 50], 1),
        ([40, 50, 51], 2),
        ([50, 51, 9, 40], 1),  # 9 joins the word before it: it is another one
        ([50, 51, 9, 50, 51, 40], 2),
        ([50, 51, 40, 9], 1),
    ],
)
def test_a_phrase_counts_where_no_token_joins_it(ids: list[int], num_met: int) -> None:
    made = line(TWO, joining=(9,))
    made.add([found(ids)])
    assert made.num_met == num_met
    either = line((((40,), (50, 51)),), joining=(9,))  # one of them is enough
    either.add([found(ids)])
    assert either.num_met == min(num_met, 1)


@pytest.mark.parametrize(
    ("ids", "prefix", "indices"),
    [
        ([7, 8], (), [0, 1, 2]),
        ([7, 9, 8], (), [0, 2, 3]),  # 9 belongs to the word of 7
        ([7, 8], (7,), [1, 2]),
        ([7, 9, 8], (7,), [1, 2, 3]),  # right behind the prefix all the same
        ([7], (7, 8), [2]),  # an output that is shorter: the prefix is what is cut
        ([], (), [0]),
    ],
)
def test_an_output_is_cut_before_its_words_and_behind_its_prefix(
    ids: list[int], prefix: tuple[int, ...], indices: list[int]
) -> None:
    made = line(ONE, prefix=prefix, joining=(9,))
    made.add([found(ids)])
    assert made._cut_indices() == indices


def beginnings(cuts: Sequence[_Cut]) -> list[tuple[int, ...]]:
    return [cut.beginning for cut in cuts]


def test_the_three_cuts_where_the_phrase_is_the_most_probable_are_taken() -> None:
    """Of two phrases and three places; of equal ones the first place, then the first phrase."""
    made = line((((40,), (50, 51)),))
    made.add([found([7, 8])])
    assert made.missing() == [(40,), (50, 51)]
    scores_TP = np.log(np.array([[0.1, 0.3], [0.4, 0.2], [0.3, 0.05]]))
    assert beginnings(made.cuts(made.missing(), scores_TP)) == [(7, 40), (50, 51), (7, 8, 40)]
    assert beginnings(made.cuts(made.missing(), np.zeros((3, 2)))) == [(40,), (50, 51), (7, 40)]


def test_a_cut_with_its_phrase_fills_the_limit_at_most() -> None:
    made = line((((50, 51),),), limit=3)
    made.add([found([7, 8])])
    assert beginnings(made.cuts([(50, 51)], np.zeros((3, 1)))) == [(50, 51), (7, 50, 51)]


def test_the_latest_cuts_have_room_for_all_that_is_missing() -> None:
    """Of a choice, the shortest phrase; what a beginning already holds is not put there again."""
    made = line((((40,),), ((60, 61, 62), (50, 51))), limit=4)
    made.add([found([7, 40, 8, 8])])
    assert beginnings(made.cuts_for_all()) == [(7, 40, 50, 51), (7, 40, 50, 51), (40, 50, 51)]


@pytest.mark.parametrize(
    ("ids", "start", "forbidden", "ngram", "allowed"),
    [
        ((7, 8, 9), 0, (), 0, True),
        ((7, 8, 9), 1, ((8, 9),), 0, False),
        ((7, 8, 9), 2, ((7, 8),), 0, True),  # it was there before
        ((7, 8, 9), 2, ((8, 9),), 0, False),  # it is completed there
        ((9,), 0, ((8, 9), (9,)), 0, False),
        ((7, 8, 7), 2, (), 1, False),
        ((7, 8, 7), 2, (), 2, True),
        ((7, 8, 7, 8), 2, (), 2, False),
        ((7, 7, 7), 1, (), 2, False),
        ((7, 7), 1, (), 2, True),
        ((7, 8, 7, 8, 6), 4, (), 2, True),  # what was repeated before is not looked at
    ],
)
def test_what_a_beginning_may_complete(
    ids: tuple[int, ...], start: int, forbidden: tuple[tuple[int, ...], ...], ngram: int, allowed: bool
) -> None:
    assert line(forbidden=forbidden, ngram=ngram).allows(ids, start) is allowed


class Scripted:
    """An engine whose outputs are written down by their prefix: all others are not found."""

    never = (0, 1, 3)

    def __init__(self, outputs: dict[tuple[int, ...], list[Hypothesis]]) -> None:
        self.outputs, self.searches = outputs, list[tuple[int, ...]]()
        self.asked: list[tuple[Any, ...]] = []

    def translate(
        self, sources: Sequence[Any], options: DecodeConfig, n_best: int, constraints: Sequence[TokenConstraints]
    ) -> list[list[Hypothesis]]:
        nothing = [Hypothesis([], -math.inf, -math.inf, False)]
        self.searches += [each.prefix for each in constraints]
        self.asked += [(options, n_best, each.required, each.forbidden) for each in constraints]
        return [self.outputs.get(each.prefix, nothing) for each in constraints]

    def scores_of(self, sources: Any, prefixes: Sequence[Any], tokens: Sequence[Any]) -> list[np.ndarray]:
        return [np.zeros((len(p) + 1, len(t))) for p, t in zip(prefixes, tokens, strict=True)]

    def next_scores(self, source: Any, prefix: Sequence[int]) -> np.ndarray:
        """Returns that the higher a token, the less probable it is."""
        return np.tile(-np.arange(60.0), (len(prefix) + 1, 1))


OPTIONS = DecodeConfig(beam_size=4)


def test_each_line_is_searched_until_it_holds_its_phrases() -> None:
    """The first needs no phrase, the second gets one of its two in each round."""
    outputs = {
        (): [found([7, 8])],
        (40,): [found([40, 7])],
        (50, 51): [found([50, 51, 7], -2.0)],
        (40, 50, 51): [found([40, 50, 51], -3.0), found([40, 50, 51, 7], -2.5)],
    }
    engine = Scripted(outputs)
    given = [TokenConstraints(), TokenConstraints(required=TWO, forbidden=((9,),))]
    plain, both = search_required(engine, [[5], [6]], OPTIONS, 1, given, [9, 9])
    assert (plain, both) == ([found([7, 8])], [found([40, 50, 51, 7], -2.5)])
    assert engine.searches[:5] == [(), (), (40,), (50, 51), (7, 40)]
    assert {asked[:3] for asked in engine.asked} == {(OPTIONS, 4, ())}  # as wide as the beam, without phrases
    assert [asked[3] for asked in engine.asked[:3]] == [(), ((9,),), ((9,),)]
    again = search_required(Scripted(outputs), [[6]], OPTIONS, 9, given[1:], [9])
    assert again == [[found([40, 50, 51, 7], -2.5), found([40, 50, 51], -3.0)]]


@pytest.mark.parametrize(("limit", "closed"), [(9, (40, 5)), (1, (40,))])
def test_a_phrase_is_closed_by_the_best_token_that_does_not_join_it(limit: int, closed: tuple[int, ...]) -> None:
    """Not the end, nor what is never written, nor 4, which joins: 5 is the next; where there is no room, nothing."""
    engine = Scripted({})
    given = TokenConstraints(required=ONE, joining=(4,))
    search_required(engine, [[6]], OPTIONS, 1, [given], [limit])
    assert engine.searches == [(), (40,), closed]


def test_a_source_without_tokens_is_not_searched_on() -> None:
    engine = Scripted({(): [found([])]})
    assert search_required(engine, [[]], OPTIONS, 1, [TokenConstraints(required=ONE)], [9]) == [[found([])]]
    assert engine.searches == [()]
