"""The translations of source subwords, learned by IBM Model 1 (Brown et al. 1993) with EM, in numpy.

The model: each target token comes from one token of its source, or from an empty one, all equally likely, and t(f | e)
is the probability that token e gives f. Each iteration computes the expected number of times that e gave f, and
normalises these counts to a new t. The likelihood has a single maximum, so the start does not matter much.

Tokens are processed by source id: the targets of all sentences with that id are looked up in one dense row of t. So no
memory is needed for co-occurrences, of which a corpus has hundreds for each token. Memory holds the corpus, one number
for each target token, and rows of t, each cut to its greatest entries.

Shapes: P pairs, N target tokens in all, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from transduce.config.special_ids import PAD

# The empty source token, from which words without a counterpart come; sentences never contain padding.
NULL = PAD
# Target tokens that are looked up at a time: about 30 MB.
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

    target_N: np.ndarray  # all targets, one after another
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
        target_N = np.concatenate([none, *targets]).astype(np.int64)
        return cls(target_N, starts_P, lengths_P, source_lengths_P, first_V1, pairs_E, counts_E)

    def cooccurring(self, source: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields indices into `target_N` of what a source id co-occurs with, and its count in the sentence."""
        first, last = self.first_V1[source], self.first_V1[source + 1]
        lengths = self.lengths_P[self.pairs_E[first:last]]
        ends = np.cumsum(lengths)
        cuts = np.searchsorted(ends, np.arange(_BLOCK_TOKENS, int(ends[-1]) if len(ends) else 0, _BLOCK_TOKENS)) + 1
        for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), last - first], strict=True):
            part = lengths[begin:end]
            before = np.cumsum(part) - part
            starts = self.starts_P[self.pairs_E[first + begin : first + end]]
            yield (
                np.repeat(starts - before, part) + np.arange(int(part.sum())),
                np.repeat(self.counts_E[first + begin : first + end], part),
            )

    def source_ids(self) -> list[int]:
        """Returns the ids that occur in sources, and `NULL`."""
        found: list[int] = np.flatnonzero(np.diff(self.first_V1)).tolist()
        return found


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
    targets_of: list[np.ndarray] = [np.zeros(0, np.int32)] * vocab_size
    values_of: list[np.ndarray] = [np.zeros(0, np.float32)] * vocab_size
    # At first all t are equal; their value does not matter.
    total_N = np.repeat(corpus.source_lengths_P, corpus.lengths_P).astype(np.float64)
    row_V = np.ones(vocab_size)
    for iteration in range(iterations):
        next_N = np.zeros_like(total_N)
        for source in corpus.source_ids():
            if iteration:
                row_V[:] = 0
                row_V[targets_of[source]] = values_of[source]
            counts_V = np.zeros(vocab_size)
            for index, times in corpus.cooccurring(source):
                found = corpus.target_N[index]
                counts_V += np.bincount(found, times * row_V[found] / total_N[index], minlength=vocab_size)
            targets_of[source], values_of[source] = _greatest(counts_V, max_row)
            if iteration + 1 < iterations:
                row_V[:] = 0
                row_V[targets_of[source]] = values_of[source]
                for index, times in corpus.cooccurring(source):
                    next_N[index] += times * row_V[corpus.target_N[index]]
                if not iteration:
                    row_V[:] = 1
            tick(int(corpus.first_V1[source + 1] - corpus.first_V1[source]))
        # Where no row kept the target, the sum is 0; with inf, that target adds nothing to any count.
        total_N = np.where(next_N > 0, next_N, np.inf)
    return Lexicon(targets_of, values_of)


def num_ticks(sources: Sequence[np.ndarray], iterations: int) -> int:
    """Returns the sum of what `learn_lexicon` passes to `tick`."""
    return iterations * sum(len(np.unique(source)) + 1 for source in sources)


def _greatest(counts_V: np.ndarray, max_row: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of the greatest counts, greatest first (of equals, the lower id), and their share of all counts.

    Shares are of the counts that are kept: a row sums to 1.
    """
    ids = np.flatnonzero(counts_V > 0)
    if len(ids) > max_row:
        bound = np.partition(counts_V[ids], len(ids) - max_row)[len(ids) - max_row]
        ids = ids[counts_V[ids] >= bound]
    ids = ids[np.argsort(-counts_V[ids], kind="stable")][:max_row]
    kept = counts_V[ids]
    return ids.astype(np.int32), (kept / max(kept.sum(), 1e-300)).astype(np.float32)
