"""Diverse beam search against a plain one in Python, and several models as one."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from step_tables import BOS, EOS, UNK, A, B, C, FakeModel, Table, log_softmax, only, random_table
from transduce.config import DecodeConfig
from transduce.decoding.beam import BeamSearch
from transduce.decoding.coverage import coverage_penalty
from transduce.decoding.diverse import merged
from transduce.decoding.ensemble import EnsembleState, ensemble_step
from transduce.decoding.finished import FinishedBeams
from transduce.decoding.greedy import GreedySearch
from transduce.decoding.sampling import Sampling, uniforms
from transduce.decoding.scores import Hypothesis, gnmt_penalty
from transduce.decoding.search import SearchTask

Past = tuple[int, ...]
seeds = st.integers(0, 2**20)


def run(table: Table, limits: Sequence[int], beam_size: int, **more: Any) -> list[list[Hypothesis]]:
    model = FakeModel(table)
    n_best, stop_early = more.pop("n_best", beam_size), more.pop("stop_early", True)
    with mock.patch.object(FinishedBeams, "stops_early", stop_early):
        return BeamSearch(model.task(limits), DecodeConfig(beam_size=beam_size, **more), n_best).run()


def outputs(found: Sequence[Sequence[Hypothesis]]) -> list[list[tuple[list[int], bool]]]:
    return [[(h.ids, h.finished) for h in hypotheses] for hypotheses in found]


def reference_search(
    table: Table, limit: int, beam_size: int, num_groups: int, penalty: float
) -> list[list[Hypothesis]]:
    """What each group of one sentence finds, to the limit, best first."""
    width = beam_size // num_groups
    beams: list[list[tuple[float, Past]]] = [[(0.0, ())] for _ in range(num_groups)]
    finished: list[list[Hypothesis]] = [[] for _ in range(num_groups)]
    before = beams
    for _ in range(limit + 1):
        before, taken = [list(group) for group in beams], []
        for group in range(num_groups):
            candidates = [
                (total + gain - penalty * taken.count(token), total + gain, past, token)
                for total, past in beams[group]
                for token, gain in enumerate(log_softmax(table(0, past)))
                if token not in (0, BOS, UNK)
            ]
            best = sorted(candidates, key=lambda c: -c[0])[: 2 * width if width > 1 else 1]
            for _, total, past, token in best:
                if token == EOS:
                    score = total / gnmt_penalty(len(past) + 1, 0.6)
                    finished[group].append(Hypothesis(list(past), score, total, True))
            going_on = [(total, (*past, token)) for _, total, past, token in best if token != EOS][:width]
            taken += [past[-1] for _, past in going_on]
            beams[group] = going_on
    for group in range(num_groups):
        if not finished[group]:
            finished[group] = [
                Hypothesis(list(past), total / gnmt_penalty(len(past), 0.6), total, False)
                for total, past in before[group]
            ]
        finished[group].sort(key=lambda h: -h.score)
    return finished


@settings(max_examples=40, deadline=None)
@given(
    seeds,
    st.sampled_from([(2, 2), (4, 2), (4, 4), (6, 3), (6, 2)]),
    st.floats(0, 3),
    st.integers(0, 7),
    st.integers(1, 4),
)
def test_diverse_search_is_the_reference(
    seed: int, shape: tuple[int, int], penalty: float, limit: int, n_best: int
) -> None:
    table, (beam_size, num_groups) = random_table(seed), shape
    n_best = min(n_best, beam_size)
    groups = reference_search(table, limit, beam_size, num_groups, penalty)
    theirs = merged([group[:n_best] for group in groups], n_best)
    options = {"diversity_groups": num_groups, "diversity_penalty": penalty, "n_best": n_best}
    [ours] = run(table, [limit], beam_size, **options)
    assert outputs([ours]) == outputs([theirs])
    for one, other in zip(ours, theirs, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([(4, 2), (3, 3), (6, 2)]), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_stopping_early_and_neighbours_change_no_group(seed: int, shape: tuple[int, int], limits: list[int]) -> None:
    table, (beam_size, num_groups) = random_table(seed), shape
    options = {"diversity_groups": num_groups, "diversity_penalty": 0.7, "n_best": num_groups}
    together = run(table, limits, beam_size, **options)
    assert run(table, limits, beam_size, stop_early=False, **options) == together
    for sentence, limit in enumerate(limits):
        alone = only(table, sentence)
        assert run(alone, [limit], beam_size, **options) == [together[sentence]]


@settings(max_examples=15, deadline=None)
@given(seeds, st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_without_a_penalty_each_group_is_a_beam_of_its_own(seed: int, limits: list[int]) -> None:
    table = random_table(seed)
    found = run(table, limits, 6, diversity_groups=3, diversity_penalty=0.0, n_best=2)
    assert outputs(found) == outputs(run(table, limits, 2))


def test_a_strong_penalty_begins_each_output_with_another_word() -> None:
    for seed in range(20):
        [found] = run(random_table(seed, eos_bias=-20.0), [5], 3, diversity_groups=3, diversity_penalty=50.0)
        assert {h.ids[0] for h in found if h.ids} == {A, B, C}


def test_merging_takes_the_best_of_each_group_first_and_never_the_same_twice() -> None:
    def h(score: float, *ids: int) -> Hypothesis:
        return Hypothesis(list(ids), score, score, True)

    groups = [[h(-1, A), h(-2, B)], [h(-1, A), h(-4, C)], [h(-3, A, B)]]
    assert [x.ids for x in merged(groups, 1)] == [[A]]
    assert [x.ids for x in merged(groups, 2)] == [[A], [A, B]]
    assert [x.ids for x in merged(groups, 9)] == [[A], [B], [A, B], [C]]


def test_merging_ranks_the_bests_of_groups_by_score_and_what_finished_before_the_rest() -> None:
    def h(score: float, finished: bool, *ids: int) -> Hypothesis:
        return Hypothesis(list(ids), score, score, finished)

    groups = [[h(-3, True, A), h(-3.5, True, A, A)], [], [h(-1, False, B)], [h(-2, True, C), h(-2.5, True, C, C)]]
    assert [[x.ids for x in merged(groups, n)] for n in (1, 2, 3)] == [[[C]], [[C], [A]], [[C], [A], [B]]]
    assert [x.ids for x in merged(groups, 4)] == [[C], [C, C], [A], [B]]  # of the others, the best
    assert merged([[], []], 2) == []


# --- ensembles ------------------------------------------------------------------------------------------------


def searches(step: Any, start: Any, limits: Sequence[int]) -> list[list[Hypothesis]]:
    """What every search finds."""
    numbers = torch.stack([torch.from_numpy(uniforms(3, [s], 2, 9)) for s in range(len(limits))])
    beam = DecodeConfig(beam_size=4)
    task = SearchTask(step, start(), limits)
    every = [
        BeamSearch(task, beam, 4),
        BeamSearch(task, replace(beam, diversity_groups=2), 4),
        GreedySearch(task, beam),
        Sampling(task, DecodeConfig(temperature=0.8), numbers),
    ]
    return [found for search in every for found in search.run()]


@settings(max_examples=10, deadline=None)
@given(seeds, seeds, st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_an_ensemble_is_the_model_of_mean_probabilities(one: int, other: int, limits: list[int]) -> None:
    tables = [random_table(one), random_table(other), random_table(one + other + 1)]

    def mean(sentence: int, past: Past) -> list[float]:
        rows = [[math.exp(g) for g in log_softmax(table(sentence, past))] for table in tables]
        return [math.log(sum(column) / 3) for column in zip(*rows, strict=True)]

    models, alone = [FakeModel(table) for table in tables], FakeModel(mean)
    ours = searches(
        ensemble_step([model.step for model in models]),
        lambda: EnsembleState(tuple(model.start(len(limits)) for model in models)),
        limits,
    )
    theirs = searches(alone.step, lambda: alone.start(len(limits)), limits)
    assert outputs(ours) == outputs(theirs)
    for one_found, other_found in zip(ours, theirs, strict=True):
        assert [h.score for h in one_found] == pytest.approx([h.score for h in other_found], abs=1e-5)


@settings(max_examples=10, deadline=None)
@given(seeds, st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_a_model_with_itself_is_the_model(seed: int, limits: list[int]) -> None:
    model = FakeModel(random_table(seed))
    ours = searches(
        ensemble_step([model.step, model.step]),
        lambda: EnsembleState((model.start(len(limits)), model.start(len(limits)))),
        limits,
    )
    theirs = searches(model.step, lambda: model.start(len(limits)), limits)
    assert outputs(ours) == outputs(theirs)
    for one_found, other_found in zip(ours, theirs, strict=True):
        assert [h.score for h in one_found] == pytest.approx([h.score for h in other_found], abs=1e-5)


# --- coverage -------------------------------------------------------------------------------------------------


def test_the_coverage_penalty_by_hand() -> None:
    coverage = torch.tensor([[[0.5, 1.0, 0.25], [2.0, 1.0, 1.0]]])
    assert coverage_penalty(coverage).tolist() == [[pytest.approx(math.log(0.5) + math.log(0.25)), 0.0]]
    padded = coverage_penalty(coverage, torch.tensor([[True, True, False]]))
    assert padded.tolist() == [[pytest.approx(math.log(0.5)), 0.0]]
    assert bool(coverage_penalty(torch.zeros(1, 1, 2)).isfinite().all())
