"""The translations of source subwords, learned by IBM Model 1 (Brown et al. 1993) with EM, in numpy.

The model: each target token comes from one token of its source, or from an empty one, all equally likely, and t(f | e)
is the probability that token e gives f. Each iteration computes the expected number of times that e gave f, and
normalises these counts to a new t. The likelihood has a single maximum, so the start does not matter much.

Tokens are processed by source id, some ids at a time: the targets of all sentences with an id are looked up in one
dense row of t. So no memory is needed for co-occurrences, of which a corpus has hundreds for each token. Memory holds
the corpus, one number for each target token, and rows of t, each cut to its greatest entries.

Shapes: P pairs, N target tokens in all, V vocabulary, W ids that occur in targets, R source ids of a block.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from transduce.config.special_ids import PAD

# The empty source token, from which words without a counterpart come; sentences never contain padding.
NULL = PAD
# Target tokens that are looked up at a time, and numbers in their rows of t: about 50 MB.
_BLOCK_TOKENS = 1 << 20
# Entries of a row that are kept between iterations: at most 16 kB for each source id.
_MAX_ROW = 1024


@dataclass(frozen=True, eq=False)
class Lexicon:
    """t(f | e), row by row: `targets[e]` in falling order of `probabilities[e]`; empty for ids that no source has."""

    targets: list[np.ndarray]
    probabilities: list[np.ndarray]


@dataclass(frozen=True, eq=False)
class _Corpus:
    """Pairs by source id."""

    ids_W: np.ndarray  # the ids that occur in targets, rising
    target_N: np.ndarray  # all targets, one after another, as indices into `ids_W`
    starts_P: np.ndarray  # where each pair's target begins
    lengths_P: np.ndarray
    source_lengths_P: np.ndarray  # with the empty token
    first_V1: np.ndarray  # source id → its first entry below; the last is their number
    pairs_E: np.ndarray  # for each source id, the pairs that have it
    counts_E: np.ndarray  # and how often

    @classmethod
    def of(cls, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], vocab_size: int) -> "_Corpus":
        lengths_P = np.array([len(target) for target in targets], dtype=np.int64)
        source_lengths_P = np.array([len(source) + 1 for source in sources], dtype=np.int64)
        num_pairs = len(sources)
        pair_M = np.repeat(np.arange(num_pairs), source_lengths_P)
        source_M = np.full(len(pair_M), NULL, dtype=np.int64)
        is_word_M = np.ones(len(pair_M), dtype=np.bool_)
        is_word_M[np.cumsum(source_lengths_P) - 1] = False  # the empty token is each pair's last
        none = np.zeros(0, np.int64)
        source_M[is_word_M] = np.concatenate([none, *sources])
        keys_E, counts_E = np.unique(source_M * max(num_pairs, 1) + pair_M, return_counts=True)
        ids_E, pairs_E = np.divmod(keys_E, max(num_pairs, 1))
        first_V1 = np.searchsorted(ids_E, np.arange(vocab_size + 1))
        starts_P = np.cumsum(lengths_P) - lengths_P
        ids_W, target_N = np.unique(np.concatenate([none, *targets]).astype(np.int64), return_inverse=True)
        return cls(ids_W, target_N, starts_P, lengths_P, source_lengths_P, first_V1, pairs_E, counts_E)

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields the ids that occur in sources, and `NULL`: at a time, as many as a block of tokens and rows has."""
        ids_S = np.flatnonzero(np.diff(self.first_V1))
        tokens_S = np.cumsum(self.lengths_P[self.pairs_E])[self.first_V1[ids_S + 1] - 1]  # up to the end of each
        max_rows = _BLOCK_TOKENS // max(len(self.ids_W), 1)
        first = 0
        while first < len(ids_S):
            most = _BLOCK_TOKENS + (tokens_S[first - 1] if first else 0)
            end = max(first + 1, min(first + max_rows, int(np.searchsorted(tokens_S, most, side="right"))))
            yield ids_S[first:end]
            first = end

    def cooccurring(self, ids_R: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yields indices into `target_N` of what the ids of a block co-occur with, and into rows of t, and counts.

        A count is how often the source id is in the sentence. The rows, (R, W), are one after another.
        """
        first, last = self.first_V1[ids_R[0]], self.first_V1[ids_R[-1] + 1]
        rows = np.repeat(np.arange(len(ids_R)) * len(self.ids_W), self.num_pairs(ids_R))
        lengths = self.lengths_P[self.pairs_E[first:last]]
        ends = np.cumsum(lengths)
        cuts = np.searchsorted(ends, np.arange(_BLOCK_TOKENS, int(ends[-1]), _BLOCK_TOKENS)) + 1
        for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), last - first], strict=True):
            part = lengths[begin:end]
            before = np.cumsum(part) - part
            starts = self.starts_P[self.pairs_E[first + begin : first + end]]
            index = np.repeat(starts - before, part) + np.arange(int(part.sum()))
            times = np.repeat(self.counts_E[first + begin : first + end], part)
            yield index, np.repeat(rows[begin:end], part) + self.target_N[index], times

    def num_pairs(self, ids_R: np.ndarray) -> np.ndarray:
        """Returns the number of pairs that have each source id."""
        return np.asarray(self.first_V1[ids_R + 1] - self.first_V1[ids_R])


def learn_lexicon(
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    vocab_size: int,
    *,
    iterations: int = 5,
    max_row: int = _MAX_ROW,
    tick: Callable[[int], object] = lambda _: None,
) -> Lexicon:
    """Learns t(f | e) from aligned pairs of ids, both without EOS.

    Args:
        sources: of each pair.
        targets: of each pair.
        vocab_size: of both sides, which share a vocabulary.
        iterations: of EM; the first only counts co-occurrences.
        max_row: entries of a row that are kept between iterations.
        tick: called with the number of finished units of work; in all, iterations x tokens of the sources (each token
            once a sentence, and the empty one).
    """
    corpus = _Corpus.of(sources, targets, vocab_size)
    num_columns = len(corpus.ids_W)
    columns_of: list[np.ndarray] = [np.zeros(0, np.int64)] * vocab_size
    values_of: list[np.ndarray] = [np.zeros(0, np.float32)] * vocab_size
    # At first all t are equal; their value does not matter.
    total_N = np.repeat(corpus.source_lengths_P, corpus.lengths_P).astype(np.float64)
    for iteration in range(iterations):
        next_N = np.zeros_like(total_N)
        for ids_R in corpus.blocks():
            ids, size = ids_R.tolist(), len(ids_R) * num_columns
            t = _rows(ids, columns_of, values_of, num_columns) if iteration else np.ones(size)
            counts = np.zeros(size)
            for index, at, times in corpus.cooccurring(ids_R):
                counts += np.bincount(at, times * t[at] / total_N[index], minlength=size)
            for source, counts_W in zip(ids, counts.reshape(len(ids), num_columns), strict=True):
                columns_of[source], values_of[source] = _greatest(counts_W, max_row)
            if iteration + 1 < iterations:
                t = _rows(ids, columns_of, values_of, num_columns)
                for index, at, times in corpus.cooccurring(ids_R):
                    np.add.at(next_N, index, times * t[at])
            tick(int(corpus.num_pairs(ids_R).sum()))
        # Where no row kept the target, the sum is 0; with inf, that target adds nothing to any count.
        total_N = np.where(next_N > 0, next_N, np.inf)
    return Lexicon([corpus.ids_W[columns].astype(np.int32) for columns in columns_of], values_of)


def _rows(ids: list[int], columns_of: list[np.ndarray], values_of: list[np.ndarray], num_columns: int) -> np.ndarray:
    """Returns the rows of t of some source ids, one after another."""
    t = np.zeros(len(ids) * num_columns)
    starts = np.repeat(np.arange(len(ids)) * num_columns, [len(columns_of[source]) for source in ids])
    t[starts + np.concatenate([columns_of[source] for source in ids])] = np.concatenate(
        [values_of[source] for source in ids]
    )
    return t


def num_ticks(sources: Sequence[np.ndarray], iterations: int) -> int:
    """Returns the sum of what `learn_lexicon` passes to `tick`."""
    return iterations * sum(len(np.unique(source)) + 1 for source in sources)


def _greatest(counts_W: np.ndarray, max_row: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the indices of the greatest counts, greatest first (of equals, the lower), and their share of all counts.

    Shares are of the counts that are kept: a row sums to 1.
    """
    columns = np.flatnonzero(counts_W > 0)
    counts = counts_W[columns]
    if len(columns) > max_row:
        chosen = counts >= np.partition(counts, len(columns) - max_row)[len(columns) - max_row]
        columns, counts = columns[chosen], counts[chosen]
    order = np.argsort(-counts, kind="stable")[:max_row]
    kept = counts[order]
    return columns[order], (kept / max(kept.sum(), 1e-300)).astype(np.float32)
