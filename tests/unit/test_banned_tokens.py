"""Searches that are told what must and may not come out, against every output there is."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from step_tables import (
    BOS,
    EOS,
    UNK,
    A,
    B,
    C,
    FakeModel,
    FakeState,
    Table,
    every_output,
    log_softmax,
    only,
    random_table,
)
from transduce.config import DecodeConfig, special_ids
from transduce.decoding.banned_tokens import banned_tokens
from transduce.decoding.beam import BeamSearch
from transduce.decoding.constraints import TokenConstraints
from transduce.decoding.finished import FinishedBeams
from transduce.decoding.greedy import GreedySearch
from transduce.decoding.sampling import Sampling, uniforms
from transduce.decoding.scores import Hypothesis
from transduce.decoding.search import SearchTask

Past = tuple[int, ...]


@dataclass(frozen=True)
class Rules:
    """The constraints on one sentence's outputs."""

    min_tokens: int = 0
    no_repeat_ngram: int = 0
    prefix: Past = ()
    completions: tuple[Past, ...] = ()
    forbidden: tuple[Past, ...] = ()

    def allow(self, past: Past, token: int) -> bool:
        """The obvious version of `BannedTokens.apply_`."""
        position = len(past)
        if position < len(self.prefix) and past == self.prefix[:position]:
            if token == self.prefix[position]:
                return True
            if position >= len(self.completions) or token not in self.completions[position]:
                return False
        if token == EOS:
            return position >= self.min_tokens
        longer, n = (*past, token), self.no_repeat_ngram
        windows = [longer[i : i + n] for i in range(len(longer) - n + 1)]
        if n and windows and windows.count(windows[-1]) > 1:
            return False
        return not any(longer[-len(phrase) :] == phrase for phrase in self.forbidden)

    def allow_all(self, ids: Past) -> bool:
        """Whether they may be written one after another."""
        return all(self.allow(ids[:i], token) for i, token in enumerate(ids))


def task_of(table: Table, limits: Sequence[int], rules: Sequence[Rules]) -> SearchTask[FakeState]:
    constraints = [TokenConstraints(each.prefix, each.completions, forbidden=each.forbidden) for each in rules]
    return FakeModel(table).task(limits, constraints=constraints)


def options_of(rules: Sequence[Rules], **more: Any) -> DecodeConfig:
    """The rules that are the same for all are the first sentence's."""
    return DecodeConfig(min_tokens=rules[0].min_tokens, no_repeat_ngram=rules[0].no_repeat_ngram, **more)


def run(
    table: Table, limits: Sequence[int], rules: Sequence[Rules], beam_size: int, **more: Any
) -> list[list[Hypothesis]]:
    options, n_best = options_of(rules, beam_size=beam_size), more.get("n_best", beam_size)
    with mock.patch.object(FinishedBeams, "stops_early", more.get("stop_early", True)):
        return BeamSearch(task_of(table, limits, rules), options, n_best, more.get("bonus")).run()


def run_greedy(table: Table, limits: Sequence[int], rules: Sequence[Rules]) -> list[Hypothesis]:
    return [best for [best] in GreedySearch(task_of(table, limits, rules), options_of(rules)).run()]


def assert_same(ours: Sequence[Hypothesis], theirs: Sequence[Hypothesis]) -> None:
    assert [(h.ids, h.finished) for h in ours] == [(h.ids, h.finished) for h in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-5)


def assert_obeyed(found: Sequence[Hypothesis], rules: Rules, table: Table) -> None:
    """What is written is allowed, and its log-probability is the model's own: nothing is normalised anew."""
    for h in found:
        ids = (*h.ids, *[EOS] * h.finished)
        assert rules.allow_all(ids)
        own = sum(log_softmax(table(0, ids[:i]))[token] for i, token in enumerate(ids))
        assert h.log_probability == pytest.approx(own, abs=1e-5)


words = st.sampled_from([A, B, C])
phrases = st.lists(words, min_size=1, max_size=3).map(tuple)
prefixes = st.lists(words, max_size=3).map(tuple)
seeds = st.integers(0, 2**20)


@st.composite
def rules_of_a_sentence(draw: st.DrawFn, min_tokens: int, no_repeat_ngram: int) -> Rules:
    prefix = draw(prefixes)
    completions = tuple(draw(st.lists(words, max_size=2).map(tuple)) for _ in prefix) if draw(st.booleans()) else ()
    return Rules(min_tokens, no_repeat_ngram, prefix, completions, draw(st.lists(phrases, max_size=2).map(tuple)))


@st.composite
def rules_of_a_batch(draw: st.DrawFn, max_sentences: int = 4) -> list[Rules]:
    asked_of_all = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    return draw(st.lists(rules_of_a_sentence(*asked_of_all), min_size=1, max_size=max_sentences))


@settings(max_examples=40, deadline=None)
@given(seeds, rules_of_a_batch(max_sentences=1), st.integers(0, 3))
def test_a_wide_beam_is_brute_force(seed: int, rules: list[Rules], room: int) -> None:
    table, limit = random_table(seed), max(room, len(rules[0].prefix), rules[0].min_tokens)
    every = every_output(table, limit, lambda ids: rules[0].allow_all((*ids, EOS)))
    found = run(table, [limit], rules, 3 ** (limit + 1), n_best=max(1, len(every)))[0]
    if every:
        assert_same(found, every)
    else:
        assert not any(h.finished for h in found)


@settings(max_examples=40, deadline=None)
@given(seeds, rules_of_a_batch(), st.integers(1, 4), st.lists(st.integers(0, 7), min_size=4, max_size=4))
def test_a_search_obeys_whatever_it_finds(seed: int, rules: list[Rules], beam_size: int, limits: list[int]) -> None:
    table = random_table(seed)
    limits = [max(limit, len(each.prefix), each.min_tokens) for limit, each in zip(limits, rules, strict=False)]
    found = [*run(table, limits, rules, beam_size), *([h] for h in run_greedy(table, limits, rules))]
    for sentence, hypotheses in enumerate(found):
        sentence %= len(rules)
        assert hypotheses or beam_size > 1
        assert_obeyed(hypotheses, rules[sentence], only(table, sentence))


@settings(max_examples=30, deadline=None)
@given(seeds, rules_of_a_batch(), st.integers(1, 4), st.lists(st.integers(0, 7), min_size=4, max_size=4))
def test_neighbours_and_stopping_early_do_not_matter(
    seed: int, rules: list[Rules], beam_size: int, limits: list[int]
) -> None:
    table = random_table(seed)
    limits = [max(limit, len(each.prefix), each.min_tokens) for limit, each in zip(limits, rules, strict=False)]
    together, greedy = run(table, limits, rules, beam_size), run_greedy(table, limits, rules)
    assert run(table, limits, rules, beam_size, stop_early=False) == together
    for sentence, (limit, rule) in enumerate(zip(limits, rules, strict=True)):
        alone = only(table, sentence)
        assert run(alone, [limit], [rule], beam_size) == [together[sentence]]
        assert run_greedy(alone, [limit], [rule]) == [greedy[sentence]]


@settings(max_examples=20, deadline=None)
@given(seeds, rules_of_a_batch(), st.lists(st.integers(0, 7), min_size=4, max_size=4))
def test_a_beam_of_one_is_greedy(seed: int, rules: list[Rules], limits: list[int]) -> None:
    table = random_table(seed)
    limits = [max(limit, len(each.prefix), each.min_tokens) for limit, each in zip(limits, rules, strict=False)]
    for [ours], theirs in zip(run(table, limits, rules, 1), run_greedy(table, limits, rules), strict=True):
        assert_same([ours], [theirs])


@settings(max_examples=20, deadline=None)
@given(seeds, rules_of_a_batch(), st.lists(st.integers(0, 7), min_size=4, max_size=4), st.floats(0.3, 2.0))
def test_what_is_drawn_obeys(seed: int, rules: list[Rules], limits: list[int], temperature: float) -> None:
    table = random_table(seed)
    limits = [max(limit, len(each.prefix), each.min_tokens) for limit, each in zip(limits, rules, strict=False)]
    numbers = torch.stack([torch.from_numpy(uniforms(seed, [s], 3, 9)) for s in range(len(rules))])
    found = Sampling(task_of(table, limits, rules), options_of(rules, temperature=temperature), numbers).run()
    for sentence, hypotheses in enumerate(found):
        assert len(hypotheses) == 3
        assert_obeyed(hypotheses, rules[sentence], only(table, sentence))


def test_a_prefix_is_stronger_than_what_is_forbidden_and_binds_nothing_after_it() -> None:
    rules = Rules(no_repeat_ngram=1, prefix=(A, A), forbidden=((A,), (B,)))
    found = run(random_table(1), [4], [rules], 4)[0]
    assert all(h.ids[:2] == [A, A] for h in found)
    assert {token for h in found for token in h.ids[2:]} <= {C}


def test_a_completion_ends_the_prefix() -> None:
    rules = Rules(prefix=(A, B), completions=((C,), ()))
    found = {tuple(h.ids) for h in run(random_table(2), [2], [rules], 27)[0]}
    assert found == {(A, B), (C,), (C, A), (C, B), (C, C)}


def test_completions_stay_with_their_sentence_when_others_are_done() -> None:
    def table(_: int, past: Past) -> list[float]:  # C, and then the end
        likely = EOS if C in past else C
        return [5.0 * (token == likely) for token in range(7)]

    rules = [Rules(), Rules(prefix=(A, B), completions=((), (C,)))]
    for found in (run(table, [0, 3], rules, 2), [[best] for best in run_greedy(table, [0, 3], rules)]):
        assert (found[1][0].ids, found[1][0].finished) == ([A, C], True)


def test_where_nothing_may_follow_what_was_open_comes_back_unfinished() -> None:
    rules = Rules(min_tokens=5, no_repeat_ngram=1)  # three words, none twice, and five of them
    for found in (run(random_table(3), [6], [rules], 4)[0], run_greedy(random_table(3), [6], [rules])):
        assert all(sorted(h.ids) == [A, B, C] and not h.finished for h in found)
        assert found


def test_without_rules_nothing_is_banned() -> None:
    assert banned_tokens(DecodeConfig(), [TokenConstraints(), TokenConstraints()], [1, 1]) is None


# --- a bonus, such as a coverage penalty ----------------------------------------------------------------------


def bonus_of(seed: int) -> Callable[[Past], float]:
    return lambda past: -((hash((seed, "bonus", *past)) % 1000) / 300)


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(0, 3), st.integers(1, 3))
def test_a_bonus_ranks_what_finishes(seed: int, limit: int, n_best: int) -> None:
    table, bonus = random_table(seed), bonus_of(seed)

    def bonus_R(state: FakeState) -> torch.Tensor:
        return torch.tensor([bonus(past[1:]) for _, past in state.rows])

    every = [
        Hypothesis(h.ids, h.score + bonus(tuple(h.ids)), h.log_probability, True) for h in every_output(table, limit)
    ]
    every.sort(key=lambda h: -h.score)
    width = 3 ** (limit + 1)
    assert_same(run(table, [limit], [Rules()], width, n_best=n_best, bonus=bonus_R)[0], every[:n_best])
    for beam_size in (2, 3):
        early = run(table, [limit, limit], [Rules()] * 2, beam_size, n_best=2, bonus=bonus_R)
        assert early == run(table, [limit, limit], [Rules()] * 2, beam_size, n_best=2, bonus=bonus_R, stop_early=False)


def test_a_bonus_ranks_what_is_cut_off() -> None:
    """log .6 - 2 is less than log .4 - .5: of what the limit of one token cuts off, B comes first in sentence 1."""
    rows = {(): {A: 0.6, B: 0.4}, (A,): {A: 1.0}, (B,): {A: 1.0}}

    def table(_: int, past: Past) -> list[float]:
        return [math.log(rows[past][token]) if token in rows[past] else -math.inf for token in range(7)]

    def bonus_R(state: FakeState) -> torch.Tensor:
        given = {(0, (A,)): -0.1, (1, (A,)): -2.0, (1, (B,)): -0.5}
        return torch.tensor([given.get((sentence, past[1:]), 0.0) for sentence, past in state.rows])

    first, second = run(table, [1, 1], [Rules()] * 2, 2, bonus=bonus_R)
    assert [(h.ids, h.finished) for h in (*first, *second)] == [([x], False) for x in (A, B, B, A)]
    expected = [math.log(0.6) - 0.1, math.log(0.4), math.log(0.4) - 0.5, math.log(0.6) - 2.0]
    assert [h.score for h in (*first, *second)] == pytest.approx(expected, abs=1e-5)  # a penalty of (6 / 6)^α
    assert [h.log_probability for h in second] == pytest.approx([math.log(0.4), math.log(0.6)], abs=1e-5)


def test_special_tokens_of_the_tables() -> None:
    assert (BOS, UNK) == (special_ids.BOS, special_ids.UNK)
