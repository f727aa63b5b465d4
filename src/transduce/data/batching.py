"""Which pairs go into which batch: a pure function of lengths, budgets, seed and epoch (§5.1).

A batch holds pairs of similar length, so that little of it is padding. Its padded size, rows times longest,
stays within a budget of tokens on each side. The same arguments give the same plan on any machine and with
any version of numpy: randomness comes from the integer hash below, not from a generator. So a run resumes
from the number of the next batch, and all ranks compute the same plan.

DEVIATION: the paper's batches have "approximately" 25 000 tokens a side; our budgets are upper bounds, padding counted.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Lengths = NDArray[np.integer[Any]]

# Neighbouring target lengths are grouped until they fill this many batches. More groups pad the target less
# and the source more: from 3 to 5 the sum of both is least on Multi30k and on Europarl.
_BATCHES_A_GROUP = 4

HASH_STEP, _FACTORS = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of SplitMix64


@dataclass(frozen=True)
class BatchPlan:
    """The batches of one epoch.

    Attributes:
        rows: the row indices of all batches, one after the other.
        starts: where each batch starts in `rows`, and at the end the number of rows.
        order: the batches in the order of training.
        real_tokens: of all pairs, source and target.
        padded_tokens: the same with padding.
    """

    rows: Indices
    starts: Indices
    order: Indices
    real_tokens: tuple[int, int]
    padded_tokens: tuple[int, int]

    def __len__(self) -> int:
        return len(self.order)

    def batch(self, index: int) -> Indices:
        """Returns the row indices of the batch that is trained as number `index`, from 0."""
        batch = self.order[index]
        return self.rows[self.starts[batch] : self.starts[batch + 1]]

    @property
    def padding_shares(self) -> tuple[float, float]:
        """Padded positions of all source positions, and of all target positions."""
        source, target = map(_share_of_padding, self.real_tokens, self.padded_tokens)
        return source, target

    @property
    def padding_share(self) -> float:
        """Padded positions of all positions, both sides together."""
        return _share_of_padding(sum(self.real_tokens), sum(self.padded_tokens))


def _share_of_padding(real: int, padded: int) -> float:
    return 1 - real / padded if padded else 0.0


def plan_epoch(
    source_lengths: Lengths,
    target_lengths: Lengths,
    *,
    source_budget: int,
    target_budget: int,
    seed: int,
    epoch: int,
    rows: Indices | None = None,
) -> BatchPlan:
    """Returns the batches of an epoch: like lengths together, order shuffled.

    Args:
        source_lengths: tokens of each source, EOS counted.
        target_lengths: tokens of each target.
        source_budget: most source tokens a batch may have, padding counted. A longer pair is a batch of its
            own.
        target_budget: the same for the target.
        seed: of the run.
        epoch: number of the epoch; each has another order.
        rows: the pairs of the epoch, some perhaps several times, others not at all; None: each pair once.
    """
    if source_budget < 1 or target_budget < 1:
        raise ValueError(f"budgets must be positive, not {source_budget} and {target_budget}")
    source, target = np.asarray(source_lengths), np.asarray(target_lengths)
    if source.shape != target.shape:
        raise ValueError(f"{len(source)} source lengths, but {len(target)} target lengths")
    if rows is not None:
        source, target = source[rows], target[rows]
    arranged = _arrange(source, _groups(target, target_budget), random_numbers(len(source), seed, epoch, salt=0))
    source, target = source[arranged], target[arranged]
    starts = _cut(source, target, source_budget, target_budget)
    order = np.argsort(random_numbers(len(starts) - 1, seed, epoch, salt=1), kind="stable")
    padded = (_padded_tokens(source, starts), _padded_tokens(target, starts))
    chosen = arranged if rows is None else rows[arranged]
    return BatchPlan(chosen, starts, order, (int(source.sum()), int(target.sum())), padded)


def _groups(target: Lengths, target_budget: int) -> NDArray[np.int32]:
    """Returns each row's group of neighbouring target lengths: 0 for the shortest, and so on."""
    counts = np.bincount(target)
    group_of_length = np.zeros(len(counts), dtype=np.int32)
    number, filled_batches = 0, 0.0
    for length in np.flatnonzero(counts).tolist():
        group_of_length[length] = number
        filled_batches += length * int(counts[length]) / target_budget
        if filled_batches >= _BATCHES_A_GROUP:
            number, filled_batches = number + 1, 0.0
    return group_of_length[target]


def _arrange(source: Lengths, groups: NDArray[np.int32], noise: NDArray[np.uint64]) -> Indices:
    """Orders rows by group, and within a group by source length, up and down in turn; ties fall by `noise`.

    The turns keep neighbours alike where one group ends and the next begins:

        group   0  0  0  1  1  1  2  2  2
        source  5  7 10 10  8  6  6  9 12
    """
    # In place: a corpus may have tens of millions of rows, and each array hundreds of megabytes.
    noise >>= np.uint64(11)
    key = noise.astype(np.float64)
    key *= 2.0**-53
    key += source  # lengths are whole numbers: a fraction only breaks ties
    np.negative(key, out=key, where=groups % 2 == 1)
    return np.lexsort((key, groups))


def _cut(source: Lengths, target: Lengths, source_budget: int, target_budget: int) -> Indices:
    """Returns where batches start, each as long as the budgets allow, and at the end the number of rows."""
    starts = [0]
    while (start := starts[-1]) < len(source):
        # The first row bounds the batch: the longest is no shorter.
        reach = max(1, min(source_budget // max(source[start], 1), target_budget // max(target[start], 1)))
        window = slice(start, start + int(reach))
        longest_source = np.maximum.accumulate(source[window])
        longest_target = np.maximum.accumulate(target[window])
        counts = np.arange(1, len(longest_source) + 1)
        fits = (counts * longest_source <= source_budget) & (counts * longest_target <= target_budget)
        # Padded size grows with every row, so `fits` is true up to a point and false after it.
        starts.append(start + max(1, int(np.count_nonzero(fits))))
    return np.array(starts, dtype=np.int64)


def _padded_tokens(lengths: Lengths, starts: Indices) -> int:
    longest = np.maximum.reduceat(lengths, starts[:-1])
    return int((longest * np.diff(starts)).sum())


def random_numbers(count: int, seed: int, epoch: int, *, salt: int) -> NDArray[np.uint64]:
    """Returns `count` 64-bit numbers that look random: the finaliser of SplitMix64, applied to counters."""
    return random_numbers_at(np.arange(count), seed, epoch, salt=salt)


def random_numbers_at(indices: Indices, seed: int, epoch: int, *, salt: int) -> NDArray[np.uint64]:
    """Returns those of the `random_numbers` that have these indices, from 0."""
    key = 0
    for part in (seed, epoch, salt):
        key = mix((key + part + HASH_STEP) % 2**64)
    return _mix_all(np.uint64(key) + indices.astype(np.uint64) * np.uint64(HASH_STEP))


def mix(value: int) -> int:
    """Returns the finaliser of SplitMix64 of a number below 2^64."""
    value = (value ^ (value >> 30)) * _FACTORS[0] % 2**64
    value = (value ^ (value >> 27)) * _FACTORS[1] % 2**64
    return value ^ (value >> 31)


def _mix_all(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_FACTORS[0])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_FACTORS[1])
    return values ^ (values >> np.uint64(31))


def share(indices: Indices, rank: int, world_size: int) -> Indices:
    """Returns one rank's rows of a global batch; the ranks' rows together are the batch, each row once.

    Neighbours in a batch are alike in length, so every `world_size`-th row makes equal work. A batch of
    fewer rows than ranks leaves some ranks without any.
    """
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size}")
    return indices[rank::world_size]


def micro_batches(
    indices: Indices, source_lengths: Lengths, target_lengths: Lengths, max_target_tokens: int
) -> list[Indices]:
    """Splits a batch into parts whose padded target fits a device, longest first.

    Args:
        indices: rows of the batch; none make no part.
        source_lengths: of the whole store, indexed by `indices`.
        target_lengths: the same.
        max_target_tokens: rows times longest target of each part; 0: one part. A longer pair is a part of
            its own.
    """
    if max_target_tokens <= 0:
        return [indices] if len(indices) else []
    # Longest first: the allocator meets its largest request at once.
    rows = indices[np.lexsort((-source_lengths[indices].astype(np.int64), -target_lengths[indices].astype(np.int64)))]
    target = target_lengths[rows].astype(np.int64)
    starts = _cut(np.zeros_like(target), target, len(rows), max_target_tokens)  # without a limit on the source
    return [rows[a:b] for a, b in pairwise(starts.tolist())]
