"""Searches for labelled brackets around leaves, against every output there is; `delinearise` says which are trees."""

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from step_tables import EOS, FakeModel, FakeState, Table, log_softmax, only, random_table
from transduce.config import DecodeConfig
from transduce.decoding.banned_tokens import banned_tokens
from transduce.decoding.beam import BeamSearch
from transduce.decoding.constraints import BracketPieces, Brackets, TokenConstraints
from transduce.decoding.greedy import GreedySearch
from transduce.decoding.sampling import Sampling, uniforms
from transduce.decoding.scores import Hypothesis, gnmt_penalty
from transduce.decoding.search import SearchTask
from transduce.engines.shortlist.table import Shortlist
from transduce.engines.torch_search import Batch
from transduce.errors import ConfigError, DataError
from transduce.treebank import delinearise

Ids = tuple[int, ...]

# Special tokens, two labels, a tag, what may continue a tag, and a piece that is no part of brackets.
SPELLED = ("", "", "", "", " (S", " )S", " (NP", " )NP", " N", "P", " ")
WRITTEN = range(4, 10)
PIECES = BracketPieces(len(SPELLED), closing={4: 5, 6: 7}, leaves=[8], continuing=[9], max_depth=3)


def constraints_of(num_leaves: int, max_depth: int = 3) -> TokenConstraints:
    pieces = BracketPieces(PIECES.vocab_size, PIECES.closing, PIECES.leaves, PIECES.continuing, max_depth)
    return TokenConstraints(brackets=Brackets(pieces, num_leaves))


def height(ids: Sequence[int]) -> int:
    """How many brackets are open at once, by counting them."""
    return max(itertools.accumulate({4: 1, 6: 1, 5: -1, 7: -1}.get(token, 0) for token in ids))


def is_tree(ids: Sequence[int], num_leaves: int, max_depth: int) -> bool:
    text = "".join(SPELLED[token] for token in ids)
    continues_a_bracket = any(token == 9 and before not in (8, 9) for before, token in itertools.pairwise(ids))
    if height(ids) > max_depth or continues_a_bracket:  # a bracket is one piece
        return False
    try:
        delinearise(text[1:].split(" "), ["word"] * num_leaves)
    except DataError:
        return False
    return True


@functools.cache
def trees(num_leaves: int, limit: int, max_depth: int = 3) -> frozenset[Ids]:
    """Brute force: all outputs of any pieces up to the limit that are trees; the last token closes one."""
    outputs = (
        (first, *middle, last)
        for length in range(limit + 1)
        for first in (4, 6)
        for middle in itertools.product(WRITTEN, repeat=max(0, length - 2))
        for last in (5, 7)
        if length >= 3
    )
    return frozenset(ids for ids in outputs if is_tree(ids, num_leaves, max_depth))


def reached(num_leaves: int, limit: int, max_depth: int = 3) -> set[Ids]:
    """All outputs that the bans leave, followed token by token; each beginning must have an end."""
    bans = banned_tokens(DecodeConfig(), [constraints_of(num_leaves, max_depth)], [limit])
    assert bans is not None
    found: set[Ids] = set()
    begun: list[Ids] = [()]
    while begun:
        gains_RV = torch.zeros(len(begun), len(SPELLED))
        bans.apply_(gains_RV, torch.tensor(begun, dtype=torch.long).view(len(begun), -1))
        longer = []
        for past, gains in zip(begun, gains_RV.tolist(), strict=True):
            allowed = [token for token, gain in enumerate(gains) if gain == 0]
            assert allowed
            found |= {past for token in allowed if token == EOS}
            longer += [(*past, token) for token in allowed if token != EOS]
        assert all(len(past) <= limit for past in longer)
        begun = longer
    return found


@pytest.mark.parametrize(("num_leaves", "limit"), [(1, 3), (1, 5), (1, 7), (2, 4), (2, 6), (2, 7), (3, 5), (3, 7)])
def test_the_outputs_that_bans_leave_are_all_trees_within_the_limit(num_leaves: int, limit: int) -> None:
    found = reached(num_leaves, limit)
    assert found == trees(num_leaves, limit)
    assert found


def test_the_number_of_trees_by_hand() -> None:
    """One leaf in three tokens: a label of two. In four: a longer tag. In five: two tags more, or two brackets."""
    assert [len(trees(1, limit)) for limit in (2, 3, 4, 5)] == [0, 2, 4, 2 + 2 + 2 + 4]


def test_no_more_brackets_are_open_than_may_be() -> None:
    assert reached(1, 7, max_depth=2) == trees(1, 7, max_depth=2)
    assert max(map(height, reached(1, 7, max_depth=2))) == 2
    assert max(map(height, reached(1, 7, max_depth=3))) == 3


def test_a_limit_too_small_for_any_tree_leaves_the_form_free() -> None:
    bans = banned_tokens(DecodeConfig(), [constraints_of(3), constraints_of(2)], [4, 4])
    assert bans is not None
    gains_RV = torch.zeros(4, len(SPELLED))
    bans.apply_(gains_RV, torch.tensor([[4], [8], [4], [8]]))
    assert (gains_RV[:2] == 0).all()
    assert [token for token, gain in enumerate(gains_RV[2].tolist()) if gain == 0] == [8]


def test_a_shortlist_is_refused() -> None:
    shortlist = Shortlist(np.zeros((4, 1), np.int32), np.zeros(0, np.int32), {}, len(SPELLED))
    with pytest.raises(ConfigError, match="'brackets' needs the whole vocabulary"):
        Batch.of([[5]], [constraints_of(1)], (), shortlist, torch.device("cpu"))


# --- searches -------------------------------------------------------------------------------------------------

seeds = st.integers(0, 2**20)
# For each sentence the number of its leaves, 0 for free outputs, and how many tokens more the limit allows.
batches = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=4)


def table_of(seed: int) -> Table:
    return random_table(seed, len(SPELLED))


def task_of(table: Table, batch: Sequence[tuple[int, int]]) -> SearchTask[FakeState]:
    constraints = [constraints_of(leaves) if leaves else TokenConstraints() for leaves, _ in batch]
    return FakeModel(table).task([leaves + 2 + spare for leaves, spare in batch], constraints=constraints)


def run(table: Table, batch: Sequence[tuple[int, int]], beam_size: int, n_best: int = 1) -> list[list[Hypothesis]]:
    return BeamSearch(task_of(table, batch), DecodeConfig(beam_size=beam_size), n_best).run()


def assert_trees(batch: Sequence[tuple[int, int]], found: Sequence[Sequence[Hypothesis]]) -> None:
    for (num_leaves, spare), hypotheses in zip(batch, found, strict=True):
        assert hypotheses
        for each in hypotheses if num_leaves else ():
            assert each.finished
            assert len(each.ids) <= num_leaves + 2 + spare
            assert is_tree(each.ids, num_leaves, 3)


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(1, 3), st.integers(0, 2))
def test_a_wide_beam_finds_all_trees_in_the_order_of_their_scores(seed: int, num_leaves: int, spare: int) -> None:
    table, limit = table_of(seed), num_leaves + 2 + spare
    every = []
    for ids in trees(num_leaves, limit):
        total = sum(log_softmax(table(0, ids[:i]))[token] for i, token in enumerate((*ids, EOS)))
        every.append(Hypothesis(list(ids), total / gnmt_penalty(len(ids) + 1, 0.6), total, True))
    every.sort(key=lambda each: -each.score)
    [found] = run(table, [(num_leaves, spare)], beam_size=400, n_best=400)
    assert [each.ids for each in found] == [each.ids for each in every]
    assert [each.score for each in found] == pytest.approx([each.score for each in every], abs=1e-5)


@settings(max_examples=25, deadline=None)
@given(seeds, batches, st.integers(1, 5))
def test_every_search_finds_trees_whoever_is_in_the_batch(
    seed: int, batch: list[tuple[int, int]], beam_size: int
) -> None:
    table = table_of(seed)
    together, greedy = run(table, batch, beam_size), GreedySearch(task_of(table, batch), DecodeConfig()).run()
    assert_trees(batch, together)
    assert_trees(batch, greedy)
    for sentence, each in enumerate(batch):
        alone = only(table, sentence)
        assert run(alone, [each], beam_size) == [together[sentence]]
        assert GreedySearch(task_of(alone, [each]), DecodeConfig()).run() == [greedy[sentence]]


@settings(max_examples=15, deadline=None)
@given(seeds, batches)
def test_what_is_drawn_and_groups_of_beams_are_trees(seed: int, batch: list[tuple[int, int]]) -> None:
    table, options = table_of(seed), DecodeConfig(temperature=1.5)
    numbers = torch.stack([torch.from_numpy(uniforms(seed, [s], 3, 10)) for s in range(len(batch))])
    assert_trees(batch, Sampling(task_of(table, batch), options, numbers).run())
    diverse = DecodeConfig(beam_size=4, diversity_groups=2, diversity_penalty=1.0)
    assert_trees(batch, BeamSearch(task_of(table, batch), diverse, 2).run())
