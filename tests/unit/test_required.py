"""Searches for outputs that hold given phrases, against every output there is; and how far an output has come."""

import itertools
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from step_tables import EOS, A, B, C, FakeModel, Table, every_output, only, random_table
from transduce.config import DecodeConfig
from transduce.decoding.beam import BeamSearch
from transduce.decoding.candidates import log_probabilities_
from transduce.decoding.constraints import TokenConstraints
from transduce.decoding.finished import FinishedBeams
from transduce.decoding.required import RequiredPhrases, required_candidates, required_phrases
from transduce.decoding.required_reference import bank, required_candidates_reference, total
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis

Past = tuple[int, ...]
VOCAB_SIZE = 7


def of(constraints: Sequence[TokenConstraints]) -> RequiredPhrases | None:
    return required_phrases(constraints)


def entries_of(entries: tuple[tuple[Past, ...], ...], joining: Past = ()) -> TokenConstraints:
    return TokenConstraints(required=entries, joining=joining)


def met(constraints: TokenConstraints, ids: Past) -> list[bool]:
    unmet = constraints.unmet(ids)
    return [entry not in unmet for entry in constraints.required]


def run(
    table: Table, limits: Sequence[int], constraints: Sequence[TokenConstraints], beam_size: int, **more: Any
) -> list[list[Hypothesis]]:
    model = FakeModel(table)
    n_best = more.get("n_best", beam_size)
    with mock.patch.object(FinishedBeams, "stops_early", more.get("stop_early", True)):
        return BeamSearch(model.task(limits, constraints=constraints), DecodeConfig(beam_size=beam_size), n_best).run()


words = st.sampled_from([A, B, C])
phrases = st.lists(words, min_size=1, max_size=3).map(tuple)
entries = st.lists(phrases, min_size=1, max_size=2).map(tuple)
asked_of_one = st.builds(
    entries_of, st.lists(entries, max_size=3).map(tuple), st.lists(words, max_size=1).map(tuple)
)  # overlapping, with shared beginnings, and equal ones
asked_of_batch = st.lists(asked_of_one, min_size=1, max_size=4)
seeds = st.integers(0, 2**20)


@settings(max_examples=100, deadline=None)
@given(asked_of_batch, st.integers(0, 6), seeds)
def test_progress_is_what_can_be_seen_in_the_tokens(
    constraints: list[TokenConstraints], num_tokens: int, seed: int
) -> None:
    required = of(constraints)
    if required is None:
        assert not any(each.required for each in constraints)
        return
    dice = torch.Generator().manual_seed(seed)
    past_BKT = torch.randint(A, C + 1, (len(constraints), 3, num_tokens), generator=dice)
    beams_BN = torch.arange(3).repeat_interleave(4).expand(len(constraints), -1)
    tokens_BN = torch.tensor([EOS, A, B, C]).repeat(3).expand(len(constraints), -1)
    progress = required.progress(past_BKT)
    banks_BN, met_BKE = required.banks(progress, beams_BN, tokens_BN), progress.met_BKE
    offered_BKO, valid_BKO = required.offers(progress)
    for sentence, each in enumerate(constraints):
        assert int(required.total_B[sentence]) == total(each.required)
        for beam in range(3):
            past = tuple(past_BKT[sentence, beam].tolist())
            assert met_BKE[sentence, beam, : len(each.required)].tolist() == met(each, past)
            for index, token in enumerate([EOS, A, B, C]):
                assert int(banks_BN[sentence, beam * 4 + index]) == bank(each, (*past, token))
            offered = set(offered_BKO[sentence, beam][valid_BKO[sentence, beam]].tolist())
            unmet = each.unmet(past)
            assert {phrase[0] for entry in unmet for phrase in entry} <= offered
            if unmet and not each.joining:  # one of the offers leads on, always
                assert max(bank(each, (*past, token)) for token in offered) > bank(each, past)
            assert bool(unmet) == bool(offered)


@settings(max_examples=150, deadline=None)
@given(asked_of_batch, st.integers(1, 4), st.integers(1, 4), st.integers(0, 5), seeds)
def test_candidates_are_those_of_the_reference(
    constraints: list[TokenConstraints], beam_size: int, num_beams: int, num_tokens: int, seed: int
) -> None:
    required = of(constraints)
    if required is None:
        return
    dice = torch.Generator().manual_seed(seed)
    past_BKT = torch.randint(A, C + 1, (len(constraints), num_beams, num_tokens), generator=dice)
    logits_RV = torch.randn(len(constraints) * num_beams, VOCAB_SIZE, generator=dice)
    gains_RV = log_probabilities_(logits_RV, NEVER_GENERATED)
    scores_BK = torch.randn(len(constraints), num_beams, generator=dice)
    expected = required_candidates_reference(gains_RV, scores_BK, past_BKT, constraints, beam_size)
    found = required_candidates(gains_RV, scores_BK, past_BKT, required, beam_size)
    for half in (slice(0, beam_size), slice(beam_size, None)):  # those that do not end, and those that do
        ours, theirs = (possible([part[:, half] for part in parts]) for parts in (found, expected))
        assert ours == theirs


def possible(parts: Sequence[torch.Tensor]) -> list[list[tuple[float, int, int]]]:
    """Returns the candidates of each sentence; the kernel may have gaps, which score -inf, between them."""
    rows = zip(*(part.tolist() for part in parts), strict=True)
    return [[each for each in zip(*row, strict=True) if each[0] > -torch.inf] for row in rows]


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ((A,), 1),
        ((A, A), 2),
        ((A, A, A), 2),  # the last two of it still begin "a a b"
        ((A, A, A, B), 3),
        ((A, A, C), 0),  # broken off midway
        ((A, A, B, C), 3),  # met, and stays so
        ((A, B, A), 1),
    ],
)
def test_a_phrase_that_overlaps_itself(past: Past, expected: int) -> None:
    constraints = entries_of((((A, A, B),),))
    assert bank(constraints, past) == expected
    required = of([constraints])
    assert required is not None
    before = torch.tensor([[past[:-1]]], dtype=torch.long)
    found = required.banks(required.progress(before), torch.tensor([[0]]), torch.tensor([[past[-1]]]))
    assert found.tolist() == [[expected]]


@settings(max_examples=40, deadline=None)
@given(seeds, asked_of_one, st.integers(0, 3))
def test_a_wide_beam_is_brute_force(seed: int, constraints: TokenConstraints, limit: int) -> None:
    table = random_table(seed)
    every = every_output(table, limit, lambda ids: not constraints.unmet(ids))
    found = run(table, [limit], [constraints], 3 ** (limit + 1), n_best=max(1, len(every)))[0]
    if not every:
        assert not any(h.finished for h in found)
        fewest = min(len(constraints.unmet(h.ids)) for h in found)
        reachable = itertools.product((A, B, C), repeat=limit)
        assert fewest == min(len(constraints.unmet(ids)) for ids in reachable)  # what met most comes back
        return
    assert [h.ids for h in found] == [h.ids for h in every]
    for ours, theirs in zip(found, every, strict=True):
        assert ours.finished
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(seeds, asked_of_batch, st.integers(2, 5), st.lists(st.integers(0, 8), min_size=4, max_size=4))
def test_whatever_the_beam_what_is_asked_comes_out(
    seed: int, constraints: list[TokenConstraints], beam_size: int, room: list[int]
) -> None:
    table = random_table(seed, eos_bias=2.0)
    found = run(
        table,
        [total(each.required) + more for each, more in zip(constraints, room, strict=False)],
        constraints,
        beam_size,
    )
    for each, hypotheses in zip(constraints, found, strict=True):
        assert hypotheses
        for h in hypotheses:
            if h.finished:
                assert not each.unmet(h.ids)
        if not each.joining:
            assert not each.unmet(hypotheses[0].ids)


@settings(max_examples=25, deadline=None)
@given(seeds, asked_of_batch, st.integers(2, 4), st.lists(st.integers(0, 8), min_size=4, max_size=4))
@example(
    0, [TokenConstraints(), TokenConstraints(), entries_of((((A,),),)), TokenConstraints()], 4, [0, 0, 0, 1]
)  # the first beam is not the best one
def test_neighbours_and_stopping_early_do_not_matter(
    seed: int, constraints: list[TokenConstraints], beam_size: int, limits: list[int]
) -> None:
    table, limits = random_table(seed), limits[: len(constraints)]
    together = run(table, limits, constraints, beam_size)
    assert run(table, limits, constraints, beam_size, stop_early=False) == together
    for sentence, (limit, each) in enumerate(zip(limits, constraints, strict=True)):
        alone = only(table, sentence)
        assert run(alone, [limit], [each], beam_size) == [together[sentence]]  # as plain where nothing is constraints


def test_a_neighbour_with_phrases_changes_nothing_of_a_plain_sentence() -> None:
    table = random_table(7)
    mixed = run(table, [6, 6], [TokenConstraints(), entries_of((((A, B),),))], 4)
    assert mixed[0] == run(table, [6, 6], [TokenConstraints(), TokenConstraints()], 4)[0]


def test_bans_and_required_phrases_together() -> None:
    constraints = TokenConstraints(forbidden=((B, C),), prefix=(C, A), required=(((A, B),),))
    [found] = run(random_table(5), [6], [constraints], 4)
    for h in found:
        assert h.finished
        assert h.ids[:2] == [C, A]
        assert (A, B) in itertools.pairwise(h.ids)
        assert (B, C) not in itertools.pairwise(h.ids)


def test_where_a_ban_makes_it_impossible_the_output_is_unfinished() -> None:
    constraints = TokenConstraints(forbidden=((B,),), required=(((A, B),), ((C,),)))
    [found] = run(random_table(5), [5], [constraints], 3, n_best=1)
    assert not found[0].finished
    assert C in found[0].ids
    assert B not in found[0].ids
