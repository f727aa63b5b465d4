"""From a model's probabilities to how often it is right: a small monotone fit, kept in the model folder.

A line is called good where the chrF of its translation against a reference is at least a threshold. Logistic regression
gives the probability of that from three numbers: the mean and the least log-probability of the tokens, neither of which
can lower it by rising, and the logarithm of their number.
"""

import copy
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce import files
from transduce.bundle import Bundle
from transduce.errors import BundleError, DataError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.translation.translator import Translator

FILE = "confidence.json"

_FORMAT = 1
_MIN_LINES = 50  # of a calibration, so that five folds have something to hold out
_FOLDS = 5
_RIDGE = 1e-3
_NEWTON_STEPS = 50
_NUM_FEATURES = 4  # `_features`
_MONOTONE = (1, 2)  # the coefficients that may not be negative


@dataclass(frozen=True)
class Calibration:
    """The fit, and what was measured with it."""

    threshold: float  # of chrF: from here on a translation counts as good
    coefficients: tuple[float, ...]  # of 1, mean, least, logarithm of the number of tokens
    num_lines: int
    share_good: float
    ece: float  # expected calibration error on lines that the fit did not see (cross-validation)
    ece_uncalibrated: float  # of the mean probability, on the same lines

    def probability(self, values: Sequence[float]) -> float:
        """Returns the probability that a translation is good.

        Args:
            values: the log-probabilities of its tokens, at least one.
        """
        return float(_probabilities(np.array([_features(values)]), np.array(self.coefficients))[0])


@dataclass(frozen=True)
class Reliability:
    """How far probabilities are from what happened."""

    ece: float  # expected calibration error: mean distance in bins of equal size
    brier: float  # mean squared distance from 0 or 1
    auc: float  # probability that of a good and a bad line the good one has the higher value; 0.5 is chance


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
    features = np.array([_features(line) for line in values])
    held_out = np.zeros(len(good))
    folds = np.arange(len(good)) % _FOLDS
    for fold in range(_FOLDS):
        held_out[folds == fold] = _probabilities(
            features[folds == fold], _fit(features[folds != fold], good[folds != fold])
        )
    return Calibration(
        threshold=threshold,
        coefficients=tuple(float(value) for value in _fit(features, good)),
        num_lines=len(good),
        share_good=float(good.mean()),
        ece=reliability(held_out, good).ece,
        ece_uncalibrated=reliability(np.exp(features[:, 1]), good).ece,
    )


def require_lines(num_lines: int) -> None:
    """Raises DataError where these are too few for a calibration: worth knowing before they are translated."""
    if num_lines < _MIN_LINES:
        lines = "line" if num_lines == 1 else "lines"
        raise DataError(f"{num_lines} {lines} with text: a calibration needs at least {_MIN_LINES}, better a thousand.")


def measure(
    translator: "Translator", sources: Sequence[str], references: Sequence[str], **search: Any
) -> tuple[list[tuple[float, ...]], list[float]]:
    """Returns for each pair that is not empty the log-probabilities of the translation's tokens, and its chrF.

    Args:
        translator: the model.
        sources: lines.
        references: their translations.
        search: keywords of `Translator.translate_n_best`.

    Raises:
        DataError: there are not as many references as sources.
    """
    from transduce.evaluation.bleu import chrf  # only here: sacreBLEU takes a while to import
    from transduce.translation.pipeline.handling import Handling

    if len(sources) != len(references):
        raise DataError(
            f"{counted(len(sources), 'source')} and {counted(len(references), 'reference')}: line n must be "
            f"that of line n."
        )
    pairs = [(s, r) for s, r in zip(sources, references, strict=True) if s.strip() and r.strip()]
    plain = copy.copy(translator)
    plain.bundle = None  # and so without the calibration that is there, damaged or of other weights perhaps
    language = translator.bundle.config.data.source_language if translator.bundle is not None else ""
    handling = Handling(confidence=True, language=language)
    found = plain.translate_n_best([s for s, _ in pairs], 1, handling=handling, **search)
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


def save_calibration(bundle: Bundle, calibration: Calibration) -> None:
    """Writes the calibration into the model folder, atomically; one that is there is replaced."""
    fit = asdict(calibration)
    values = {"format": _FORMAT, "sha256": dict(bundle.checksums), "calibration": fit, "checksum": _checksum(fit)}
    files.write_json(bundle.path / FILE, values)


def load_calibration(bundle: Bundle | None) -> Calibration | None:
    """Returns the calibration in a model folder, or None where there is none.

    Raises:
        BundleError: it cannot be read, or was made for other weights.
    """
    if bundle is None or not (bundle.path / FILE).is_file():
        return None
    path = bundle.path / FILE
    mend = "Make it again with 'transduce calibrate --overwrite', or delete it."
    try:
        values = files.read_json(path)
        if values["format"] != _FORMAT:
            raise ValueError(f"format {values['format']}")
        known = values["calibration"]
        if "checksum" in values and values["checksum"] != _checksum(known):  # absent from what 0.1.0 fitted
            raise ValueError("changed or damaged: its checksum differs")
        calibration = Calibration(**known | {"coefficients": tuple(map(float, known["coefficients"]))})
        if len(calibration.coefficients) != _NUM_FEATURES or not all(map(math.isfinite, calibration.coefficients)):
            raise ValueError(f"its coefficients are not {_NUM_FEATURES} numbers")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise BundleError(f"{path}: cannot be read ({error}). {mend}") from None
    if values.get("sha256") != dict(bundle.checksums):
        raise BundleError(f"{path}: was made for other weights than those beside it. {mend}")
    return calibration


def _checksum(fit: Any) -> str:
    return hashlib.sha256(json.dumps(fit, sort_keys=True).encode()).hexdigest()


def _features(values: Sequence[float]) -> tuple[float, ...]:
    return (1.0, sum(values) / len(values), min(values), math.log(len(values)))


def _probabilities(features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-np.clip(features @ coefficients, -30, 30)))
    return result


def _fit(features: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Returns the coefficients of logistic regression; one that may not be negative and would be, is 0."""
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
        found = _probabilities(features, coefficients)
        gradient = features.T @ (good - found) - ridge @ coefficients
        curvature = (features * (found * (1 - found))[:, None]).T @ features + ridge
        step = np.linalg.solve(curvature, gradient)
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-9:
            break
    return coefficients
