"""The batch plan: a partition within budgets, pure, shuffled, with little padding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.data.batching import BatchPlan, micro_batches, plan_epoch, share

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=300)


def plan(pairs: list[tuple[int, int]], budgets: tuple[int, int], seed: int = 1, epoch: int = 0) -> BatchPlan:
    lengths = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return plan_epoch(
        lengths[:, 0],
        lengths[:, 1],
        source_budget=budgets[0],
        target_budget=budgets[1],
        seed=seed,
        epoch=epoch,
    )


def corpus(num_pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths like those of sentences: skewed, and the target correlated with the source."""
    generator = np.random.default_rng(7)
    source = np.clip(generator.gamma(3.0, 8.0, num_pairs), 1, 250).astype(np.int32)
    target = np.clip(source * generator.normal(1.1, 0.2, num_pairs), 1, 250).astype(np.int32)
    return source, target


@given(pairs=LENGTHS, source_budget=st.integers(1, 200), target_budget=st.integers(1, 200))
@settings(max_examples=200, deadline=None)
def test_plan_is_a_partition_within_budgets(
    pairs: list[tuple[int, int]], source_budget: int, target_budget: int
) -> None:
    made = plan(pairs, (source_budget, target_budget))
    batches = [made.batch(i) for i in range(len(made))]
    assert sorted(np.concatenate([*batches, np.zeros(0, int)]).tolist()) == list(range(len(pairs)))
    padded = [0, 0]
    for batch in batches:
        assert len(batch) > 0
        for side, budget in enumerate((source_budget, target_budget)):
            size = len(batch) * max(pairs[i][side] for i in batch)
            padded[side] += size
            assert size <= budget or len(batch) == 1
    assert made.padded_tokens == tuple(padded)
    assert made.real_tokens == (sum(p[0] for p in pairs), sum(p[1] for p in pairs))


@given(pairs=LENGTHS, seed=st.integers(0, 2**63), epoch=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_plan_is_pure(pairs: list[tuple[int, int]], seed: int, epoch: int) -> None:
    first, second = (plan(pairs, (100, 100), seed, epoch) for _ in range(2))
    assert len(first) == len(second)
    for i in range(len(first)):
        np.testing.assert_array_equal(first.batch(i), second.batch(i))


@pytest.mark.parametrize(("seed", "epoch"), [(2, 0), (1, 1), (2, 1)])
def test_seed_and_epoch_change_order_and_membership(seed: int, epoch: int) -> None:
    source, target = corpus(5000)
    budgets = {"source_budget": 1000, "target_budget": 1000}
    base = plan_epoch(source, target, **budgets, seed=1, epoch=0)
    other = plan_epoch(source, target, **budgets, seed=seed, epoch=epoch)
    assert base.order.tolist() != other.order.tolist()
    sets = [{frozenset(p.batch(i).tolist()) for i in range(len(p))} for p in (base, other)]
    assert len(sets[0] & sets[1]) < len(sets[0]) / 2


def test_plan_does_not_change_between_versions() -> None:
    """Resuming depends on it: whoever changes the plan must bump the checkpoint's version."""
    made = plan([(3, 4), (5, 5), (2, 9), (3, 4), (8, 7), (5, 6), (1, 1), (9, 9)], (20, 20), seed=3, epoch=2)
    assert [made.batch(i).tolist() for i in range(len(made))] == PINNED


PINNED = [[7], [1, 4], [3, 0, 5], [6, 2]]


def test_lengths_of_neighbouring_batches_are_shuffled() -> None:
    source, target = corpus(20_000)
    made = plan_epoch(source, target, source_budget=2000, target_budget=2000, seed=1, epoch=0)
    means = np.array([target[made.batch(i)].mean() for i in range(len(made))])
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.2


def test_padding_is_small_on_sentence_like_lengths() -> None:
    source, target = corpus(30_000)
    made = plan_epoch(source, target, source_budget=4096, target_budget=4096, seed=1, epoch=0)
    assert made.padding_share < 0.08
    source_share, target_share = made.padding_shares
    assert target_share < made.padding_share < source_share < 0.1


def test_overlong_pair_is_a_batch_of_its_own() -> None:
    made = plan([(5, 5), (500, 5), (5, 5)], (100, 100))
    assert sorted(sorted(made.batch(i).tolist()) for i in range(len(made))) == [[0, 2], [1]]


def test_empty_corpus_has_an_empty_plan() -> None:
    made = plan([], (10, 10))
    assert len(made) == 0
    assert made.padding_share == 0.0


def test_budget_and_shape_are_checked() -> None:
    with pytest.raises(ValueError, match="budgets must be positive"):
        plan([(1, 1)], (0, 10))
    with pytest.raises(ValueError, match="2 source lengths, but 1 target lengths"):
        plan_epoch(np.ones(2), np.ones(1), source_budget=9, target_budget=9, seed=0, epoch=0)


@given(count=st.integers(0, 50), world_size=st.integers(1, 9))
def test_shares_are_balanced_and_make_the_batch(count: int, world_size: int) -> None:
    batch = np.arange(count) * 3
    shares = [share(batch, rank, world_size) for rank in range(world_size)]
    assert sorted(np.concatenate(shares).tolist()) == batch.tolist()
    sizes = [len(part) for part in shares]
    assert max(sizes) - min(sizes) <= 1


def test_share_rejects_a_rank_outside_the_world() -> None:
    with pytest.raises(ValueError, match="rank 2 of 2"):
        share(np.arange(4), 2, 2)


@given(pairs=LENGTHS, limit=st.integers(1, 200))
@settings(deadline=None)
def test_micro_batches_are_a_partition_within_the_limit(pairs: list[tuple[int, int]], limit: int) -> None:
    lengths = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    indices = np.arange(len(pairs))[::2]
    parts = micro_batches(indices, lengths[:, 0], lengths[:, 1], limit)
    assert sorted(i for part in parts for i in part.tolist()) == indices.tolist()
    for part in parts:
        assert len(part) * lengths[part, 1].max() <= limit or len(part) == 1


def test_micro_batches_are_as_full_as_the_limit_allows() -> None:
    lengths = np.array([4, 10, 4, 5, 9, 4], dtype=np.int32)
    sources = np.array([40, 1, 9, 200, 3, 7], dtype=np.int32)  # the source does not count
    parts = micro_batches(np.arange(6), sources, lengths, 20)
    assert [lengths[part].tolist() for part in parts] == [[10, 9], [5, 4, 4, 4]]


def test_no_limit_is_one_micro_batch() -> None:
    lengths = np.array([3, 4, 5], dtype=np.int32)
    (only,) = micro_batches(np.array([2, 0]), lengths, lengths, 0)
    assert only.tolist() == [2, 0]
