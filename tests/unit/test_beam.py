"""Beam and greedy search over hand-written and random tables of probabilities: no model in sight."""

import itertools
import math
from collections.abc import Sequence
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from step_tables import BOS, EOS, UNK, A, B, C, FakeModel, Table, every_output, log_softmax, only, random_table
from transduce.config import DecodeConfig
from transduce.decoding.beam import BeamSearch
from transduce.decoding.candidates import best_candidates, best_candidates_reference, log_probabilities_, top
from transduce.decoding.finished import FinishedBeams
from transduce.decoding.greedy import GreedySearch
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis, gnmt_penalty

pytestmark = pytest.mark.computes


def probabilities(**tokens: float) -> list[float]:
    names = {"eos": EOS, "unk": UNK, "a": A, "b": B, "c": C}
    row = [1e-9] * 7
    for name, probability in tokens.items():
        row[names[name]] = probability
    return [math.log(p) for p in row]


def run(
    table: Table,
    limits: Sequence[int],
    beam_size: int,
    *,
    alpha: float = 0.6,
    n_best: int = 1,
    stop_early: bool = True,
) -> list[list[Hypothesis]]:
    model = FakeModel(table)
    options = DecodeConfig(beam_size=beam_size, length_penalty=alpha)
    with mock.patch.object(FinishedBeams, "stops_early", stop_early):
        return BeamSearch(model.task(limits), options, n_best).run()


def run_greedy(table: Table, limits: Sequence[int], alpha: float = 0.6) -> list[Hypothesis]:
    model = FakeModel(table)
    return [best for [best] in GreedySearch(model.task(limits), DecodeConfig(length_penalty=alpha)).run()]


def assert_same(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    """Same outputs in the same order; scores may differ by rounding."""
    assert [[(h.ids, h.finished) for h in found] for found in ours] == [
        [(h.ids, h.finished) for h in found] for found in theirs
    ]
    for one, other in zip(itertools.chain(*ours), itertools.chain(*theirs), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)


def reference_search(table: Table, limit: int, beam_size: int, alpha: float) -> list[Hypothesis]:
    """One sentence, in plain Python, to the limit: all that finished, or what is open, best first."""
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    for _ in range(limit + 1):
        candidates = [
            (total + gain, past, token)
            for total, past in beams
            for token, gain in enumerate(log_softmax(table(0, past)))
            if token not in (0, BOS, UNK)
        ]
        best = sorted(candidates, key=lambda c: -c[0])[: 2 * beam_size]
        for total, past, token in best:
            if token == EOS:
                score = total / gnmt_penalty(len(past) + 1, alpha)
                finished.append(Hypothesis(list(past), score, total, True))
        before, beams = beams, [(total, (*past, t)) for total, past, t in best if t != EOS][:beam_size]
    unfinished = [
        Hypothesis(list(past), total / gnmt_penalty(len(past), alpha), total, False) for total, past in before
    ]
    return sorted(finished or unfinished, key=lambda h: -h.score)[:beam_size]


# --- on a table written by hand ---------------------------------------------------------


def written_table(sentence: int, past: tuple[int, ...]) -> list[float]:
    """Greedy goes a → b → EOS (0.5 · 0.4 · 0.9 = 0.18); b → EOS is better (0.4 · 0.9 = 0.36)."""
    return {
        (): probabilities(a=0.5, b=0.4, eos=0.1),
        (A,): probabilities(b=0.4, c=0.35, eos=0.25),
        (B,): probabilities(eos=0.9, a=0.1),
        (A, B): probabilities(eos=0.9, c=0.1),
    }.get(past, probabilities(eos=0.5, c=0.5))


def test_a_table_by_hand() -> None:
    [greedy] = run_greedy(written_table, [4], alpha=0.0)
    assert greedy.ids == [A, B]
    assert math.exp(greedy.log_probability) == pytest.approx(0.18, abs=1e-4)
    [found] = run(written_table, [4], 2, alpha=0.0, n_best=2)
    assert [h.ids for h in found] == [[B], [A, B]]
    assert math.exp(found[0].log_probability) == pytest.approx(0.36, abs=1e-4)
    assert found[0].score == found[0].log_probability  # α = 0


def test_a_search_goes_on_while_an_output_at_the_limit_could_win() -> None:
    """EOS at once has log .5 / 1; A reaches log .47 / (7 / 6)^.6, which is more: the EOS after it counts as a token."""

    def table(sentence: int, past: tuple[int, ...]) -> list[float]:
        return probabilities(eos=0.5, a=0.47, b=0.03) if not past else probabilities(eos=1.0)

    [[best]] = run(table, [1], 2)
    assert best.ids == [A]
    assert best.score > math.log(0.5)


def test_a_penalty_prefers_the_longer_of_two() -> None:
    # Length 1: log 0.5 / 1. Length 7: log 0.45 / 2, better at α = 1 and worse at α = 0.
    def table(sentence: int, past: tuple[int, ...]) -> list[float]:
        if not past:
            return probabilities(eos=0.5, a=0.45)
        return probabilities(eos=1.0) if len(past) == 6 else probabilities(a=1.0)

    assert run(table, [8], 2, alpha=0.0)[0][0].ids == []
    [[longer]] = run(table, [8], 2, alpha=1.0)
    assert longer.ids == [A] * 6
    assert longer.score == pytest.approx(math.log(0.45 / 0.95) / 2, abs=1e-4)


def test_pad_bos_and_unk_are_never_generated() -> None:
    def table(sentence: int, past: tuple[int, ...]) -> list[float]:
        row = [9.0, 9.0, 0.0, 9.0, 1.0, 0.5, 0.0]
        row[EOS] = 5.0 if len(past) == 3 else -5.0
        return row

    for found in (*run(table, [5], 3, n_best=3), run_greedy(table, [5])):
        assert all(set(h.ids) <= {A, B, C} for h in found)
    # They take part in the probabilities all the same: nothing is normalised anew.
    assert run_greedy(table, [5])[0].log_probability < -8


def test_a_finished_beam_is_not_lost_to_longer_ones() -> None:
    # [A] finishes early with 0.9 · 0.3; after that the open beams look better step by step and end badly.
    def table(sentence: int, past: tuple[int, ...]) -> list[float]:
        if not past:
            return probabilities(a=0.9, b=0.1)
        if len(past) < 6:
            return probabilities(c=0.7, eos=0.3) if past == (A,) else probabilities(c=1.0)
        return probabilities(eos=1e-6, c=1.0)

    [found] = run(table, [6], 2, alpha=0.0, n_best=2)
    assert found[0].ids == [A]
    assert found[0].finished
    assert len(found) == 2


def test_open_beams_come_back_where_nothing_finishes() -> None:
    def table(sentence: int, past: tuple[int, ...]) -> list[float]:
        row = probabilities(a=0.6, b=0.4)
        row[EOS] = -math.inf
        return row

    [found] = run(table, [3], 2, n_best=2)
    assert [h.ids for h in found] == [[A, A, A], [A, A, B]]
    assert not any(h.finished for h in found)
    assert math.exp(found[0].log_probability) == pytest.approx(0.216, abs=1e-4)
    assert found[0].score == pytest.approx(math.log(0.216) / gnmt_penalty(3, 0.6), abs=1e-4)
    [greedy] = run_greedy(table, [3])
    assert greedy.ids == [A, A, A]
    assert not greedy.finished


def test_an_output_may_fill_its_limit_and_still_end() -> None:
    def table(sentence: int, past: tuple[int, ...]) -> list[float]:
        return probabilities(eos=0.9, b=0.1) if len(past) == 3 else probabilities(a=0.9, eos=1e-7)

    for found in (run(table, [3], 2)[0][0], run(table, [3], 1)[0][0], run_greedy(table, [3])[0]):
        assert found.ids == [A, A, A]
        assert found.finished
    assert not run_greedy(table, [2])[0].finished


def test_equal_scores_are_ordered_by_token() -> None:
    def table(sentence: int, past: tuple[int, ...]) -> list[float]:
        return probabilities(eos=1.0) if past else probabilities(a=0.25, b=0.25, c=0.25)

    [found] = run(table, [3], 3, n_best=3)
    assert [h.ids for h in found] == [[A], [B], [C]]


def test_a_table_without_numbers_does_not_end_in_a_crash() -> None:
    [found] = run(lambda s, past: [math.nan] * 7, [2], 2)
    assert isinstance(found, list)


# --- over many random tables ------------------------------------------------------------

seeds = st.integers(0, 2**20)
alphas = st.sampled_from([0.0, 0.3, 0.6, 1.0, 1.7])
eos_biases = st.sampled_from([-3.0, -1.0, 0.0, 1.0])


@settings(max_examples=30, deadline=None)
@given(seeds, alphas, eos_biases, st.lists(st.integers(0, 8), min_size=1, max_size=5))
def test_a_beam_of_one_is_greedy(seed: int, alpha: float, eos_bias: float, limits: list[int]) -> None:
    table = random_table(seed, eos_bias=eos_bias)
    assert_same(run(table, limits, 1, alpha=alpha), [[h] for h in run_greedy(table, limits, alpha)])


@settings(max_examples=30, deadline=None)
@given(seeds, alphas, st.integers(1, 4))
def test_a_wide_beam_is_brute_force(seed: int, alpha: float, limit: int) -> None:
    table = random_table(seed, vocab_size=6)
    every = every_output(table, limit, vocab=(A, B), alpha=alpha)
    width = 2 ** (limit + 1)  # all 3 continuations of 2^limit open beams are among its candidates
    count = min(width, len(every))
    assert_same(run(table, [limit], width, alpha=alpha, n_best=count), [every[:count]])


@settings(max_examples=60, deadline=None)
@given(seeds, alphas, eos_biases, st.integers(2, 4), st.integers(1, 8))
def test_search_is_the_reference(seed: int, alpha: float, eos_bias: float, beam_size: int, limit: int) -> None:
    table = random_table(seed, eos_bias=eos_bias)
    reference = reference_search(table, limit, beam_size, alpha)
    for n_best in (1, beam_size):
        assert_same(run(table, [limit], beam_size, alpha=alpha, n_best=n_best), [reference[:n_best]])


@settings(max_examples=80, deadline=None)
@given(
    seeds,
    alphas,
    eos_biases,
    st.integers(2, 4),
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.data(),
)
def test_stopping_early_changes_nothing(
    seed: int, alpha: float, eos_bias: float, beam_size: int, limits: list[int], data: st.DataObject
) -> None:
    n_best = data.draw(st.integers(1, beam_size))
    table = random_table(seed, eos_bias=eos_bias)
    early = run(table, limits, beam_size, alpha=alpha, n_best=n_best)
    assert early == run(table, limits, beam_size, alpha=alpha, n_best=n_best, stop_early=False)


@settings(max_examples=30, deadline=None)
@given(seeds, eos_biases, st.integers(1, 4), st.lists(st.integers(0, 9), min_size=2, max_size=12))
def test_neighbours_do_not_matter(seed: int, eos_bias: float, beam_size: int, limits: list[int]) -> None:
    table = random_table(seed, eos_bias=eos_bias)
    together = run(table, limits, beam_size, n_best=beam_size)
    greedy = run_greedy(table, limits)
    for sentence, limit in enumerate(limits):
        alone = only(table, sentence)
        assert run(alone, [limit], beam_size, n_best=beam_size) == [together[sentence]]
        assert run_greedy(alone, [limit]) == [greedy[sentence]]


@settings(max_examples=30, deadline=None)
@given(
    seeds,
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(7, 40) | st.integers(300, 900),  # in large vocabularies the best are sought in groups
)
def test_candidates_are_the_reference(
    seed: int, num_sentences: int, num_beams: int, num_candidates: int, vocab_size: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_sentences * num_beams, vocab_size, generator=generator)
    scores = torch.randn(num_sentences, num_beams, generator=generator)
    gains = log_probabilities_(logits, NEVER_GENERATED)
    expected = best_candidates_reference(gains, scores, num_candidates)
    for ours, theirs in zip(best_candidates(gains, scores, num_candidates), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 4), st.integers(1, 9), st.integers(9, 1500))
def test_the_greatest_values_are_those_of_topk(seed: int, num_rows: int, count: int, num_values: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.stack([torch.randperm(num_values, generator=generator) for _ in range(num_rows)]).float()
    values[values < num_values // 2] = -math.inf  # as of tokens that are never generated
    found, index = top(values, count)
    assert torch.equal(found, values.topk(count).values)
    assert torch.equal(values.gather(1, index), found)
    assert all(len(set(row)) == count for row in index.tolist())


# --- cost -------------------------------------------------------------------------------


def test_finished_sentences_leave_the_batch() -> None:
    def table(sentence: int, past: tuple[int, ...]) -> list[float]:
        ends = len(past) >= (20 if sentence == 3 else 2)
        return probabilities(eos=0.99, a=0.01) if ends else probabilities(a=0.99, b=0.01)

    model = FakeModel(table)
    BeamSearch(model.task([30] * 4), DecodeConfig(beam_size=2)).run()
    assert model.num_rows[:2] == [4, 8]
    assert model.num_rows[-1] == 2
    assert len(model.num_rows) < 31
    model = FakeModel(table)
    GreedySearch(model.task([30] * 4), DecodeConfig()).run()
    assert model.num_rows == [4] * 3 + [1] * 18
