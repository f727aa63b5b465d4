"""How probable it is that two lines are translations of each other, by what the corpus itself shows.

For the pair of source line i and target line i + d there are six features: the two scores of the dictionary, how far
the ratio of the lengths is from the usual one (up to a limit, and beyond it), and how many numbers and rare words the
two sides share, and do not share. `calibration.py` learns from the corpus what log-odds they give.

A dictionary that has seen a pair finds it plausible, even if it is wrong. So there are several dictionaries, and lines
are scored by the one that has not seen them: the sampled windows are dealt to two groups, or to four if they are few,
and each dictionary is learned from all groups but one.

Wrong pairs teach a dictionary wrong translations. If the corpus has many of them, the dictionaries are learned once
more, only from the pairs that fit by the first ones.

The log-odds of the three distances go into `slips.py`, which looks at runs of lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from transduce.alignment.calibration import MAX_ODDS, OWN, calibrate, odds_of, of_equal_length
from transduce.alignment.dictionary import Floats, Ints, WordDictionary, WordLines
from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.windows import WINDOW_LINES
from transduce.alignment.words import LINE_SHIFT, NUMBER, SIGN, Tokens, distinct, joined, line_keys

DISTANCES = (-1, 0, 1)
MIN_PAIRS = 2000  # of a corpus; with fewer, nothing is learned

_BLOCK_LINES = WINDOW_LINES
_CALIBRATION_WINDOWS = 256  # that the regression learns from
_MIN_FIT = 0.65  # share of the pairs that must fit better than pairs of strangers
_FEW_LINES = 65_536  # of a sample: up to them there are four dictionaries, which takes three times as long as two
_MUCH_NOISE = 0.1  # share of noise from which dictionaries are learned again; with less, they are no better for it
_LENGTH_SLACK, _LENGTH_LIMIT = 5.0, 0.5
_LENGTHS = (3, 4)  # features: a length that is farther off makes no pair more probable


@dataclass(frozen=True, eq=False)
class Side:
    """One side of consecutive lines.

    Attributes:
        tokens: of each line.
        lengths: characters of each line.
    """

    tokens: Tokens
    lengths: Ints

    def of_lines(self, lines: Ints) -> "Side":
        """Returns some of the lines, in the given order."""
        return Side(self.tokens.of_lines(lines), self.lengths[lines])


@dataclass(frozen=True, eq=False)
class AlignmentModel:
    """What was learned from a sample of a corpus.

    Attributes:
        vocabularies: the words of each side.
        dictionaries: which words translate which; number k is learned from the windows i with i mod their number ≠ k.
        stride: distance of the first lines of two windows.
        stretch: the median of log target length - log source length.
        weights: of the features, by range of lengths.
        noise: share of the sampled pairs that are not translations.
    """

    vocabularies: tuple[Vocabulary, Vocabulary]
    dictionaries: tuple[WordDictionary, ...]
    stride: int
    stretch: float
    weights: Floats
    noise: float

    @classmethod
    def learn(cls, windows: Sequence[tuple[Side, Side]], stride: int) -> "AlignmentModel | None":
        """Learns from windows of consecutive lines; returns None if they are too few, or do not fit at all."""
        num_lines = sum(len(source.lengths) for source, _ in windows)
        if num_lines < MIN_PAIRS:
            return None
        texts = [joined([window[side].tokens for window in windows]) for side in (0, 1)]
        vocabularies = (Vocabulary.of(texts[0]), Vocabulary.of(texts[1]))
        count = 4 if num_lines <= _FEW_LINES else 2
        dictionaries = _learn_dictionaries(windows, vocabularies, count)
        stretch = float(np.median(np.concatenate([_log_length(tgt) - _log_length(src) for src, tgt in windows])))
        model = cls(vocabularies, dictionaries, stride, stretch, np.zeros((0, 0)), 0.0)._calibrated(windows)
        if model is None or model.noise < _MUCH_NOISE:
            return model
        good = []
        for i, (source, target) in enumerate(windows):
            lines = np.flatnonzero(model.log_odds(source, target, i * stride)[OWN] > 0)
            good.append((source.of_lines(lines), target.of_lines(lines)))
        again = replace(model, dictionaries=_learn_dictionaries(good, vocabularies, count))._calibrated(windows)
        return again or model  # the pairs may fit no better than others by what few of them teach

    def _calibrated(self, windows: Sequence[tuple[Side, Side]]) -> "AlignmentModel | None":
        """Returns the model with weights; None if the pairs of the windows fit no better than any others."""
        step = max(1, len(windows) // _CALIBRATION_WINDOWS) | 1  # odd, to have windows of all groups
        numbers = range(0, len(windows), step)
        targets = Side(
            joined([windows[i][1].tokens for i in numbers]), np.concatenate([windows[i][1].lengths for i in numbers])
        )
        strangers, start = of_equal_length(targets.lengths), 0
        features, words = [], []
        for i in numbers:
            source, end = windows[i][0], start + len(windows[i][0].lengths)
            own = self._features(*windows[i], i * self.stride)
            other = self._features(source, targets.of_lines(strangers[start:end]), i * self.stride)
            start = end
            features.append(np.concatenate([own[0], other[0][OWN : OWN + 1]]))
            words.append(np.concatenate([own[1], other[1][OWN : OWN + 1]]))
        weights, noise, fit = calibrate(np.concatenate(features, axis=1), np.concatenate(words, axis=1), _LENGTHS)
        return replace(self, weights=weights, noise=noise) if fit >= _MIN_FIT else None

    def log_odds(self, source: Side, target: Side, first_line: int) -> Floats:
        """Returns the log-odds that source line i and target line i + d are translations, (3, lines).

        The rows are for the distances -1, 0 and 1. At the first and the last line, where there is no such neighbour,
        they are those of a bad pair. `first_line` is the number of the first line in the whole corpus, from 0.
        """
        odds = odds_of(self.weights, *self._features(source, target, first_line))
        odds[DISTANCES.index(-1), :1] = odds[DISTANCES.index(1), -1:] = -MAX_ODDS
        return odds

    def _features(self, source: Side, target: Side, first_line: int) -> tuple[Floats, Ints]:
        """Returns the features, (distances, lines, 7), and the number of words of the shorter side."""
        known = list(zip((source, target), self.vocabularies, strict=True))
        sides = [WordLines.of(side.tokens, vocabulary) for side, vocabulary in known]
        num_lines = len(source.lengths)
        scores = self._word_scores(sides[0], sides[1], first_line)
        features = np.ones((len(DISTANCES), num_lines, 7))
        words = np.zeros((len(DISTANCES), num_lines), dtype=np.int64)
        features[:, :, 1:3] = scores.transpose(0, 2, 1)
        rare = [_rare(side.tokens, vocabulary) for side, vocabulary in known]
        for row, distance in enumerate(DISTANCES):
            partners = np.clip(np.arange(num_lines) + distance, 0, num_lines - 1)
            off = np.abs(_log_length(target)[partners] - _log_length(source) - self.stretch)
            features[row, :, 3] = np.minimum(off, _LENGTH_LIMIT)
            features[row, :, 4] = np.maximum(off - _LENGTH_LIMIT, 0)
            shared, single = _shared(rare[0], rare[1], distance, num_lines)
            features[row, :, 5] = np.log1p(shared)
            features[row, :, 6] = np.log1p(single)
            words[row] = np.minimum(sides[0].counts, sides[1].counts[partners])
        return features, words

    def _word_scores(self, sources: WordLines, targets: WordLines, first_line: int) -> Floats:
        """Returns the scores of the dictionaries, (distances, 2, lines)."""
        scores = np.zeros((len(DISTANCES), 2, len(sources)))
        slots = self.dictionaries[0].slots_for(_BLOCK_LINES, DISTANCES)
        # Strides are multiples of a block.
        cuts = range(_BLOCK_LINES - first_line % _BLOCK_LINES, len(sources), _BLOCK_LINES)
        for start, end in pairwise([0, *cuts, len(sources)]):
            unseen = self.dictionaries[(first_line + start) // self.stride % len(self.dictionaries)]
            scores[:, :, start:end] = unseen.scores(sources, targets, (start, end), DISTANCES, slots)
        return scores


def _learn_dictionaries(
    windows: Sequence[tuple[Side, Side]], vocabularies: tuple[Vocabulary, Vocabulary], count: int
) -> tuple[WordDictionary, ...]:
    """Learns dictionary k from the windows i with i mod count ≠ k."""
    tokens = [(source.tokens, target.tokens) for source, target in windows]
    groups = ([pair for i, pair in enumerate(tokens) if i % count != k] for k in range(count))
    return tuple(WordDictionary.of_windows(group, vocabularies) for group in groups)


def _log_length(side: Side) -> Floats:
    return np.asarray(np.log(side.lengths + _LENGTH_SLACK))


def _rare(tokens: Tokens, vocabulary: Vocabulary) -> Ints:
    """Returns a key of line and word for each number and each word that is not known: names, for the most part."""
    chosen = (tokens.kinds == NUMBER) | ((tokens.kinds != SIGN) & (vocabulary.ids(tokens.hashes) < 0))
    return distinct(line_keys(tokens.hashes[chosen], tokens.lines[chosen]))


def _shared(sources: Ints, targets: Ints, distance: int, num_lines: int) -> tuple[Ints, Ints]:
    """Returns for each source line how many rare words it shares with target line i + d, and how many they do not."""
    moved = targets - (distance << LINE_SHIFT)
    both = np.intersect1d(sources, moved, assume_unique=True)
    # Keys hold the line plus 1: the first target line may be compared with a source line before the first.
    counts = [
        np.bincount(keys >> LINE_SHIFT, minlength=num_lines + 2)[1 : num_lines + 1] for keys in (sources, moved, both)
    ]
    return 2 * counts[2], counts[0] + counts[1] - 2 * counts[2]
