"""Word alignments and the choice of heads against tables worked out by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from transduce import Attention
from transduce.errors import ConfigError
from transduce.inspection import (
    Head,
    align,
    alignment_scores,
    best_heads,
    choose_heads,
    parse_heads,
    pharaoh,
    word_weights,
)
from transduce.inspection.alignment import align_all

MakeAttention = Callable[..., Attention]


def test_source_pieces_are_summed_target_pieces_averaged(random_attention: MakeAttention) -> None:
    attention = random_attention("a bcdef", "uvwxy z", layers=1, heads=1)
    assert attention.source_pieces == ("▁a", "▁bcde", "f", "</s>")
    assert attention.target_pieces == ("▁uvwx", "y", "▁z", "</s>")
    attention.cross[0, 0] = [
        [0.7, 0.1, 0.1, 0.1],
        [0.1, 0.4, 0.3, 0.2],
        [0.0, 0.2, 0.3, 0.5],
        [0.0, 0.0, 0.0, 1.0],
    ]
    weights = word_weights(attention)
    np.testing.assert_allclose(weights, [[[[0.4, 0.45], [0.0, 0.5]]]], rtol=1e-6)
    assert alignment_scores(weights).item() == pytest.approx(0.5 / 2)  # both are tied to "bcdef"
    links = align(weights, [Head(1, 1)])
    assert links == [(1, 0), (1, 1)]
    assert pharaoh(links) == "1-0 1-1"


@pytest.mark.parametrize(
    ("weights", "score"),
    [
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], 1),
        ([[0, 0, 1], [1, 0, 0], [0, 1, 0]], 1),  # any order will do
        ([[1, 0, 0]] * 3, 1 / 3),  # always the same word
        ([[0.2, 0.4, 0.4]] * 3, 0.4 / 3),  # two words alike: all are tied to the first of them
        ([[0, 0, 0]] * 3, 0),  # always "</s>"
        ([[1, 0], [1, 0], [0, 1], [0, 1]], 1),  # two target words for each source word
        ([[0.6, 0.4, 0, 0], [0, 0, 0.3, 0.7]], (0.6 + 0.7) / 2),  # two source words for each: one is tied
    ],
)
def test_the_score_is_one_where_each_word_has_partners_of_its_own(weights: list[list[float]], score: float) -> None:
    assert alignment_scores(np.array([[weights]], float)).item() == pytest.approx(score)


def test_a_sharp_head_that_looks_elsewhere_scores_nothing() -> None:
    aligned = 0.7 * np.eye(4) + 0.05
    one_behind = np.roll(np.eye(4), -1, axis=-1)  # sure of itself, and at the partner of another word
    scores = alignment_scores(np.array([[aligned, aligned, one_behind]]))
    np.testing.assert_allclose(scores, [[0.75, 0.75, 0.0]])


def test_the_best_heads_come_first_and_equal_ones_in_order() -> None:
    scores = np.array([[0.2, 0.9, 0.5], [0.5, 0.1, 0.9]])
    assert best_heads(scores, 4) == [Head(1, 2), Head(2, 3), Head(1, 3), Head(2, 1)]


def test_an_alignment_is_of_the_mean_of_its_heads() -> None:
    left, right = [[0.6, 0.3], [0.9, 0.1]], [[0.1, 0.5], [0.7, 0.3]]
    weights = np.array([[left], [right]])
    assert align(weights, [Head(1, 1)]) == [(0, 0), (0, 1)]
    assert align(weights, [Head(2, 1)]) == [(0, 1), (1, 0)]
    assert align(weights, [Head(1, 1), Head(2, 1)]) == [(0, 1), (1, 0)]  # 0.35 < 0.4


def test_words_without_weight_stay_alone(random_attention: MakeAttention) -> None:
    assert align(np.array([[[[0.0, 0.0], [0.1, 0.2]]]]), [Head(1, 1)]) == [(1, 1)]
    nothing_written = word_weights(random_attention("a b", "", layers=1, heads=1))
    assert nothing_written.shape == (1, 1, 0, 2)
    assert alignment_scores(nothing_written).item() == 0
    assert align(nothing_written, [Head(1, 1)]) == []
    assert pharaoh([]) == ""


def test_heads_are_named_by_layer_and_head() -> None:
    assert parse_heads("2", 2, 3) == [Head(2, 1), Head(2, 2), Head(2, 3)]
    assert parse_heads("1.3, 2.1", 2, 3) == [Head(1, 3), Head(2, 1)]
    assert len(parse_heads("mean", 2, 3)) == 6
    assert str(Head(5, 3)) == "5.3"


@pytest.mark.parametrize("name", ["3.1", "2.4", "0.1", "1.0", "3", "0"])
def test_heads_that_do_not_exist_are_named_with_the_range(name: str) -> None:
    with pytest.raises(ConfigError, match="layers 1 to 2 with heads 1 to 3"):
        parse_heads(name, 2, 3)


@pytest.mark.parametrize("text", ["", "two", "1.", "1.x", "-1", "1;2"])
def test_what_names_no_heads_says_how_to(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write a layer \(5\)"):
        parse_heads(text, 2, 3)


def test_heads_are_chosen_over_all_of_a_sample() -> None:
    sharp, dull = np.eye(2), np.full((2, 2), 0.25)
    first = np.array([[sharp, dull], [sharp, dull]])  # heads 1.1 and 2.1 are sharp here
    second = np.array([[dull, dull], [sharp, sharp]])  # heads 2.1 and 2.2 here
    assert choose_heads("best:2", [first, second]) == [Head(2, 1), Head(1, 1)]
    assert choose_heads("best", [first, second]) == [Head(2, 1), Head(1, 1), Head(2, 2)]
    assert choose_heads("best", [first[:1, :1]]) == [Head(1, 1)]  # a model of a single head
    assert choose_heads("1.2", [first]) == [Head(1, 2)]
    for text in ("best:0", "best:5", "best:", "best:x"):
        with pytest.raises(ConfigError, match="from 1 to 4"):
            choose_heads(text, [first])


def test_a_corpus_is_aligned_by_the_heads_of_its_first_pairs() -> None:
    """A pair without words counts neither as one of them, nor is it lost."""
    sharp, dull, nothing = np.eye(2), np.full((2, 2), 0.25), np.zeros((2, 1, 0, 2))
    pairs = [np.array([[first], [second]]) for first, second in ((sharp, dull), (sharp, dull), (dull, sharp))]
    given = [nothing, pairs[0], pairs[1], pairs[2], pairs[2], pairs[2]]
    for sample_pairs, expected in ((1, [Head(1, 1)]), (2, [Head(1, 1)]), (200, [Head(2, 1)])):
        heads, links = align_all(iter(given), "best:1", sample_pairs)
        assert heads == expected
        first = [(0, 0), (1, 1)] if expected == [Head(1, 1)] else [(0, 0), (0, 1)]
        assert list(links)[:2] == [[], first]
    heads, links = align_all(iter([nothing]), "2")
    assert (heads, list(links)) == ([], [[]])
    _, links = align_all(iter(given), "2")
    assert len(list(links)) == 6


def test_links_are_sorted_by_the_source_word() -> None:
    weights = np.array([[[[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]]])
    assert align(weights, [Head(1, 1)]) == [(0, 1), (1, 0), (1, 2)]
    assert pharaoh(align(weights, [Head(1, 1)])) == "0-1 1-0 1-2"
