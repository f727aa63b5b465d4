"""Fits a calibration (`pipeline.calibration`) to translations of known quality, and measures how good it is."""

import copy
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from transduce.errors import DataError
from transduce.reporting.tables import counted
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.calibration import Calibration, features, probabilities
from transduce.translation.translator import Translator

_MIN_LINES = 50  # of a calibration, so that each of five folds has some lines
_FOLDS = 5
_RIDGE = 1e-3
_NEWTON_STEPS = 50
_MONOTONE = (1, 2)  # the coefficients of the mean and the minimum: a higher log-probability is never a worse sign


@dataclass(frozen=True)
class Reliability:
    """How well probabilities agree with what happened."""

    ece: float  # expected calibration error: mean distance in bins of equal size
    brier: float  # mean squared distance from 0 or 1
    auc: float  # probability that a good line has a higher value than a bad one; 0.5 is chance


def calibrate(values: Sequence[Sequence[float]], quality: Sequence[float], threshold: float) -> Calibration:
    """Fits a calibration.

    Args:
        values: for each line, the log-probabilities of its translation's tokens.
        quality: for each line, the chrF of its translation.
        threshold: the least chrF of a good one.

    Raises:
        DataError: there are too few lines, or all are good, or none is.
    """
    good = np.array([score >= threshold for score in quality], dtype=np.float64)
    require_lines(len(good))
    if good.min() == good.max():
        which, move = ("all", "raise") if good[0] else ("none", "lower")
        raise DataError(
            f"{which} of the {len(good):,} translations have a chrF of {threshold:g} or more, and a fit needs good "
            f"and bad ones: {move} the threshold (--threshold)."
        )
    rows = np.array([features(line) for line in values])
    held_out = np.zeros(len(good))
    folds = np.arange(len(good)) % _FOLDS
    for fold in range(_FOLDS):
        held_out[folds == fold] = probabilities(rows[folds == fold], _fit(rows[folds != fold], good[folds != fold]))
    return Calibration(
        threshold=threshold,
        coefficients=tuple(float(value) for value in _fit(rows, good)),
        num_lines=len(good),
        share_good=float(good.mean()),
        ece=reliability(held_out, good).ece,
        ece_uncalibrated=reliability(np.exp(rows[:, 1]), good).ece,
    )


def require_lines(num_lines: int) -> None:
    """Raises DataError if these are too few for a calibration: worth checking before they are translated."""
    if num_lines < _MIN_LINES:
        lines = counted(num_lines, "line")
        raise DataError(f"{lines} with text: a calibration needs at least {_MIN_LINES}, better a thousand.")


def measure(
    translator: Translator, sources: Sequence[str], references: Sequence[str], **search: Any
) -> tuple[list[tuple[float, ...]], list[float]]:
    """Returns for each pair that is not empty the log-probabilities of the translation's tokens, and its chrF.

    Args:
        translator: the model.
        sources: lines.
        references: their translations.
        search: keywords of `Translator.translate_n_best`; `source_language`, `target` and `domain` among them.

    Raises:
        DataError: there are not as many references as sources.
    """
    from transduce.evaluation.bleu import chrf  # only here: sacreBLEU takes a while to import

    if len(sources) != len(references):
        raise DataError(
            f"{counted(len(sources), 'source')} and {counted(len(references), 'reference')}: line n must be "
            f"that of line n."
        )
    pairs = [(s, r) for s, r in zip(sources, references, strict=True) if s.strip() and r.strip()]
    named = (search.pop(key, "") for key in ("source_language", "target", "domain"))
    direction = translator.directions.choose(*named)
    plain = copy.copy(translator)
    # So that an older calibration, perhaps a damaged one, is not read. Some models need their folder for the direction.
    plain.bundle = replace(plain.bundle, path=Path(os.devnull)) if direction.target_tags and plain.bundle else None
    target = direction.target if translator.directions.targets else ""
    text_options = TextOptions(confidence=True, language=direction.source, target=target, domain=direction.domain)
    found = plain.translate_n_best([s for s, _ in pairs], 1, text_options=text_options, **search)
    scores = [chrf([best.text], [[reference]]).value for [best], (_, reference) in zip(found, pairs, strict=True)]
    return [best.token_log_probabilities for [best] in found], scores


def reliability(probabilities: np.ndarray, good: np.ndarray, bins: int = 10) -> Reliability:
    """Compares probabilities with what happened (1 or 0), in `bins` of equal size.

    Lines of equal probability count as their mean, so that the order of the lines changes nothing.
    """
    order = np.argsort(probabilities, kind="stable")
    _, group, sizes = np.unique(probabilities, return_inverse=True, return_counts=True)
    share_good = (np.bincount(group, good) / sizes)[group]
    distance = sum(
        abs(probabilities[part].mean() - share_good[part].mean()) * len(part)
        for part in np.array_split(order, bins)
        if len(part)
    )
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    num_good = float(good.sum())
    num_bad = len(good) - num_good
    above = ranks[good == 1].sum() - num_good * (num_good + 1) / 2
    return Reliability(
        ece=float(distance / len(order)),
        brier=float(((probabilities - good) ** 2).mean()),
        auc=float(above / (num_good * num_bad)) if num_good and num_bad else math.nan,
    )


def measure_fit(
    calibration: Calibration, values: Sequence[Sequence[float]], quality: Sequence[float]
) -> dict[str, Any]:
    """Returns, for JSON, how reliable confidences are on other lines: by the fit, and without it.

    Args:
        calibration: the fit.
        values: as in `calibrate`.
        quality: likewise.
    """
    good = np.array([score >= calibration.threshold for score in quality], dtype=np.float64)
    report: dict[str, Any] = {"lines": len(good), "share_good": float(good.mean())}
    for suffix, confidences in (
        ("", [calibration.probability(line) for line in values]),
        ("_uncalibrated", [np.exp(np.mean(line)) for line in values]),
    ):
        measured = reliability(np.array(confidences), good)
        auc = None if math.isnan(measured.auc) else measured.auc  # NaN where all lines are good, or none
        report |= {f"ece{suffix}": measured.ece, f"brier{suffix}": measured.brier, f"auc{suffix}": auc}
    return report


def _fit(features: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Returns the coefficients of logistic regression; those in `_MONOTONE` are never negative."""
    free = list(range(features.shape[1]))
    while True:
        coefficients = np.zeros(features.shape[1])
        coefficients[free] = _newton(features[:, free], good)
        wrong = [i for i in _MONOTONE if coefficients[i] < 0]
        if not wrong:
            return coefficients
        free.remove(min(wrong, key=lambda i: float(coefficients[i])))


def _newton(features: np.ndarray, good: np.ndarray) -> np.ndarray:
    coefficients = np.zeros(features.shape[1])
    ridge = _RIDGE * np.eye(features.shape[1])
    for _ in range(_NEWTON_STEPS):
        found = probabilities(features, coefficients)
        gradient = features.T @ (good - found) - ridge @ coefficients
        curvature = (features * (found * (1 - found))[:, None]).T @ features + ridge
        step = np.linalg.solve(curvature, gradient)
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-9:
            break
    return coefficients
