"""Learns from a corpus that has noise itself what odds the features of a pair of lines give.

The examples of each line are its own pair, the pairs with its two neighbours, and the pair with a *stranger*: a
target of the same length from somewhere else. A logistic regression, one for each range of lengths, turns the features
into log-odds. Own pairs are the examples of translations, but not all of them are translations. So there are several
rounds. After each, every own pair counts as much as it is probably a translation, and every pair with a neighbour as
much as it is probably none: in a sorted corpus, neighbours often are translations.

Strangers have the same length as the own target, so they say nothing of lengths. Noise among the own pairs could then
seem to say that translations differ more in length. So the weights of these features are at most 0.

The share of own pairs that are noise is the share of them with odds below 1, against that of strangers. Noise among the
examples makes all odds less extreme, but does not change which are below 1, so this holds from the first round on:

    own pairs below 1: 29 %     strangers below 1: 95 %     noise: 31 %
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BEFORE, OWN, AFTER, STRANGER = range(4)  # rows of the examples

MAX_ODDS = 8.0  # of one pair: the features are not independent, so larger odds would be overconfident

_ROUNDS = 8
_LENGTHS = (0, 4, 8, 16, 30)  # words of the shorter side: the lower ends of the ranges
_MIN_EXAMPLES = 240  # of a range, else the regression over all lengths is used
_MIN_APART = 0.65  # how far neighbours are from translations, against strangers; closer ones are no examples
_MIN_NOISE, _MAX_NOISE = 0.001, 0.9
_NEWTON_STEPS = 25
_CONVERGED = 1e-9  # greatest change of a weight: the next step would change none by more than rounding does


def calibrate(features: Floats, words: Ints, falling: Sequence[int] = ()) -> tuple[Floats, float, float]:
    """Returns the weights of the features by range of lengths, the share of noise, and how many own pairs fit.

    Those fit whose odds are greater than the stranger's; it would be one half in a corpus of noise alone.

    Args:
        features: of each example and line, (4, lines, features).
        words: of the shorter side, (4, lines).
        falling: features that never raise the odds.
    """
    labels = np.zeros(words.shape)
    labels[OWN] = 1
    trust = np.ones(words.shape)
    trust[[BEFORE, AFTER]] = 0  # strangers decide at first whether neighbours are translations
    for _ in range(_ROUNDS):
        weights = np.tile(_regression(features, labels, trust, falling), (len(_LENGTHS), 1))
        for i, inside in enumerate(_ranges(words)):
            if inside.sum() >= _MIN_EXAMPLES:
                weights[i] = _regression(features[inside], labels[inside], trust[inside], falling)
        odds = odds_of(weights, features, words)
        doubt = _sigmoid(-odds)
        below = (odds < 0).mean(axis=1)
        noise = float(np.clip(below[OWN] / max(below[STRANGER], 0.5), _MIN_NOISE, _MAX_NOISE))
        trust[OWN] = _sigmoid(odds[OWN] + np.log((1 - noise) / noise))
        are_apart = doubt[[BEFORE, AFTER]].mean() > _MIN_APART * doubt[STRANGER].mean()
        trust[[BEFORE, AFTER]] = doubt[[BEFORE, AFTER]] if are_apart else 0
    return weights, noise, float(np.mean(odds[OWN] > odds[STRANGER]))


def odds_of(weights: Floats, features: Floats, words: Ints) -> Floats:
    """Returns the log-odds of pairs with these features and numbers of words."""
    odds = np.zeros(words.shape)
    for row, inside in zip(weights, _ranges(words), strict=True):
        odds[inside] = features[inside] @ row
    return np.clip(odds, -MAX_ODDS, MAX_ODDS)


def of_equal_length(lengths: Ints) -> Ints:
    """Returns for each line another one of the same length, or nearly."""
    order = np.random.Generator(np.random.PCG64(5)).permutation(len(lengths))  # neighbours may be alike
    order = order[np.argsort(lengths[order], kind="stable")]
    partners = np.empty_like(order)
    partners[order] = np.roll(order, 1)
    return partners


def _ranges(words: Ints) -> list[NDArray[np.bool_]]:
    """Returns for each range of lengths which pairs are in it."""
    which = np.searchsorted(_LENGTHS, words, side="right") - 1
    return [which == i for i in range(len(_LENGTHS))]


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-values)))


def _regression(features: Floats, labels: Floats, trust: Floats, falling: Sequence[int]) -> Floats:
    """Returns the weights of a logistic regression, both labels counting the same in all (Newton's method).

    A feature of `falling` whose weight would be positive has none.
    """
    weights = _unbounded_regression(features, labels, trust)
    rising = [column for column in falling if weights[column] > 0]
    if not rising:
        return weights
    without = features.copy()
    without[..., rising] = 0
    return _regression(without, labels, trust, falling)


def _unbounded_regression(features: Floats, labels: Floats, trust: Floats) -> Floats:
    features, labels, trust = features.reshape(-1, features.shape[-1]), labels.reshape(-1), trust.reshape(-1)
    deviations = features.std(axis=0)
    scale = np.where(deviations > 1e-9, deviations, 1.0)
    scaled = features / scale
    totals = [max(float(trust[labels == label].sum()), 1e-9) for label in (0, 1)]
    importance = trust * np.where(labels > 0, 0.5 / totals[1], 0.5 / totals[0]) * len(labels)
    weights = np.zeros(features.shape[1])
    for _ in range(_NEWTON_STEPS):
        predicted = _sigmoid(np.clip(scaled @ weights, -30, 30))
        gradient = scaled.T @ (importance * (labels - predicted)) - weights
        curvature = (scaled * (importance * predicted * (1 - predicted))[:, None]).T @ scaled + np.eye(len(weights))
        step = np.linalg.solve(curvature, gradient)
        weights = weights + step
        if np.abs(step).max() < _CONVERGED:
            break
    return np.asarray(weights / scale)
