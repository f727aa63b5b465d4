"""A dictionary learned from the corpus itself, and how well two lines match by it.

The dictionary t(f | e) is learned by IBM model 1 from a sample of the corpus (`lexicon.py`). A source
line with words e and a target line with words f then have two scores, each a mean of log-likelihood ratios against
lines that were put together by chance:

- *forward*, over the words of the target: log of Σₑ t(f | e) / |e| against the share of f in the corpus;
- *backward*, over the words of the source: log of Σ_f t(f | e) against what a random line of that length would give.

The scores of (line i, line i + d) are computed together for several distances d: almost all work is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.alignment.lexicon import learn_lexicon
from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.words import OfLines, Tokens, joined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ITERATIONS = 4
_MAX_ROW = 256  # translations of a word that are kept while learning
_MIN_PROBABILITY = 0.01  # of a translation that is kept
_FORWARD_SMOOTHING, _BACKWARD_SMOOTHING = 0.1, 0.05


@dataclass(frozen=True, eq=False)
class WordLines(OfLines):
    """The known words of several lines as numbers.

    Attributes:
        ids: of each word.
    """

    ids: Ints

    @classmethod
    def of(cls, tokens: Tokens, vocabulary: Vocabulary) -> "WordLines":
        """Returns the words of `tokens` that the vocabulary has."""
        ids = vocabulary.ids(tokens.hashes)
        return cls(ids[ids >= 0], starts=tokens.where(ids >= 0).starts)

    def split(self, first: int) -> list[Ints]:
        """Returns the words of each line, numbered from `first` on."""
        return np.split(self.ids + first, self.starts[1:-1]) if len(self) else []


@dataclass(frozen=True, eq=False)
class WordDictionary:
    """t(f | e), and what random lines give.

    Attributes:
        starts: the translations of source word e are at `starts[e]:starts[e + 1]` of the next two.
        targets: the target words.
        probabilities: their probabilities.
        shares: the share of each target word in the corpus.
        by_chance: Σ_f t(f | e) share(f) of each source word.
        at_most: Σ_f t(f | e) of each source word.
    """

    starts: Ints
    targets: Ints
    probabilities: Floats
    shares: Floats
    by_chance: Floats
    at_most: Floats

    @classmethod
    def of_windows(
        cls, windows: Sequence[tuple[Tokens, Tokens]], vocabularies: tuple[Vocabulary, Vocabulary]
    ) -> "WordDictionary":
        """Learns from windows of aligned lines."""
        source, target = (
            WordLines.of(joined([window[side] for window in windows]), vocabulary)
            for side, vocabulary in enumerate(vocabularies)
        )
        return cls.learn(source, target, (len(vocabularies[0]), len(vocabularies[1])))

    @classmethod
    def learn(cls, sources: WordLines, targets: WordLines, sizes: tuple[int, int]) -> "WordDictionary":
        """Learns from aligned lines; `sizes` are the numbers of words of the two vocabularies."""
        first_target = 1 + sizes[0]  # the lexicon has one range of numbers for both sides; 0 is its empty word
        lexicon = learn_lexicon(
            sources.split(1),
            targets.split(first_target),
            first_target + sizes[1],
            iterations=_ITERATIONS,
            max_row=_MAX_ROW,
        )
        rows, of_sources = [], slice(1, first_target)
        for found, values in zip(lexicon.targets[of_sources], lexicon.probabilities[of_sources], strict=True):
            kept = values > _MIN_PROBABILITY
            rows.append((found[kept] - first_target, values[kept]))
        starts = np.concatenate([[0], np.cumsum([len(words) for words, _ in rows])]).astype(np.int64)
        words = np.concatenate([np.zeros(0, np.int64), *(words for words, _ in rows)]).astype(np.int64)
        values = np.concatenate([np.zeros(0), *(values for _, values in rows)]).astype(np.float64)
        frequencies = np.bincount(targets.ids, minlength=sizes[1]) + 0.5
        shares = frequencies / frequencies.sum()
        owners = np.repeat(np.arange(sizes[0]), np.diff(starts))
        # One or two occurrences prove little.
        occurrences = np.bincount(sources.ids, minlength=sizes[0])
        values = values * (occurrences / (occurrences + 1))[owners]
        by_chance, at_most = (
            np.asarray(np.bincount(owners, weights, minlength=sizes[0]), dtype=np.float64)
            for weights in (values * shares[words], values)
        )
        return cls(starts, words, values, shares, by_chance, at_most)

    def slots_for(self, num_lines: int, distances: Sequence[int]) -> NDArray[np.int32]:
        """Returns memory for `scores`: (line, target word) → index of the word; -1 everywhere between two calls."""
        return np.full((num_lines + 2 * max(map(abs, distances))) * len(self.shares), -1, dtype=np.int32)

    def scores(
        self,
        sources: WordLines,
        targets: WordLines,
        lines: tuple[int, int],
        distances: Sequence[int],
        slots: NDArray[np.int32],
    ) -> Floats:
        """Returns forward and backward scores, (distances, 2, lines), of each source line i with target line i + d.

        0 where there is no such line, or no known word in it.

        Args:
            sources: consecutive lines.
            targets: the same lines of the other side.
            lines: the first line to score, and the one after the last.
            distances: each d.
            slots: from `slots_for`, for at least as many lines and the same distances.
        """
        start, end = lines
        count, reach, vocab_size = end - start, max(map(abs, distances)), len(self.shares)
        low, high = max(0, start - reach), min(len(targets), end + reach)
        words = targets.ids[targets.starts[low] : targets.starts[high]]
        # Lines count from start - reach.
        word_lines = np.repeat(np.arange(low, high), targets.counts[low:high]) - (start - reach)
        keys = word_lines * vocab_size + words
        slots[keys] = np.arange(len(words), dtype=np.int32)
        is_first = slots[keys] == np.arange(len(words))  # a word that a line repeats counts once
        given = sources.ids[sources.starts[start] : sources.starts[end]]
        given_lines = np.repeat(np.arange(count), sources.counts[start:end])
        num_given = np.maximum(1, sources.counts[start:end])
        owners, entries = self._translations(given)
        values = self.probabilities[entries]
        entry_keys = (given_lines[owners] + reach) * vocab_size + self.targets[entries]
        scores = np.zeros((len(distances), 2, count))
        for row, distance in zip(scores, distances, strict=True):
            found = slots[entry_keys + distance * vocab_size]
            hit = found >= 0
            line = word_lines - reach - distance  # the source line that each target word is compared with
            inside = is_first & (line >= 0) & (line < count)
            expected = np.bincount(found[hit], values[hit], minlength=len(words))[inside]
            line = line[inside]
            ratios = np.log(_FORWARD_SMOOTHING + expected / num_given[line] / self.shares[words[inside]])
            row[0] = _means(ratios, line, count)
            num_targets = np.zeros(count)
            there = np.arange(max(0, start + distance), max(0, min(len(targets), end + distance)))
            num_targets[there - start - distance] = targets.counts[there]
            covered = np.bincount(owners[hit], values[hit], minlength=len(given))
            chance = np.minimum(self.at_most[given], self.by_chance[given] * num_targets[given_lines])
            row[1] = _means(
                np.log((_BACKWARD_SMOOTHING + covered) / (_BACKWARD_SMOOTHING + chance)), given_lines, count
            )
        slots[keys] = -1
        return scores

    def forward_scores(self, sources: WordLines, targets: WordLines) -> Floats:
        """Returns the forward score of each source line with each target line; 0 for target lines without words."""
        present, columns = np.unique(targets.ids, return_inverse=True)
        column_of = np.full(len(self.shares), -1)
        column_of[present] = np.arange(len(present))
        owners, entries = self._translations(sources.ids)
        found = column_of[self.targets[entries]]
        hit = found >= 0
        expected = np.zeros((len(sources), len(present)))
        np.add.at(expected, (sources.lines[owners[hit]], found[hit]), self.probabilities[entries][hit])
        expected /= np.maximum(1, sources.counts)[:, None]
        ratios = np.log(_FORWARD_SMOOTHING + expected / self.shares[present])
        occurs = np.zeros((len(targets), len(present)))
        occurs[targets.lines, columns] = 1.0  # a word that a line repeats counts once
        return np.asarray(ratios @ (occurs / np.maximum(1, occurs.sum(axis=1, keepdims=True))).T)

    def _translations(self, words: Ints) -> tuple[Ints, Ints]:
        """Returns where in `targets` the translations of source words are, after the index in `words` of each."""
        lengths = self.starts[words + 1] - self.starts[words]
        owners = np.repeat(np.arange(len(words)), lengths)
        return owners, np.arange(len(owners)) + np.repeat(self.starts[words] - np.cumsum(lengths) + lengths, lengths)


def _means(values: Floats, groups: Ints, num_groups: int) -> Floats:
    totals = np.bincount(groups, values, minlength=num_groups)
    return np.asarray(totals / np.maximum(1, np.bincount(groups, minlength=num_groups)))
