"""The calibration in a model folder: from a model's probabilities to the probability of a good translation.

A translation is good if its chrF against a reference reaches a threshold. Logistic regression gives the probability of
that from three numbers: the mean and the minimum of the tokens' log-probabilities, and the logarithm of their number.
`translation.calibrating` fits it.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from transduce import files
from transduce.bundle import Bundle
from transduce.config.checked_json import digest, format_problem
from transduce.errors import BundleError

FILE = "confidence.json"

_FORMAT = 1
_NUM_FEATURES = 4  # `features`


@dataclass(frozen=True)
class Calibration:
    """The coefficients of the fit, and its measured quality."""

    threshold: float  # of chrF: the least of a good translation
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
        return float(probabilities(np.array([features(values)]), np.array(self.coefficients))[0])


def save_calibration(bundle: Bundle, calibration: Calibration) -> None:
    """Writes the calibration into the model folder, atomically; it replaces an older one."""
    fit = asdict(calibration)
    values = {"format": _FORMAT, "sha256": dict(bundle.checksums), "calibration": fit, "checksum": digest(fit)}
    files.write_json(bundle.path / FILE, values)


def load_calibration(bundle: Bundle | None) -> Calibration | None:
    """Returns the calibration in a model folder, or None if there is none.

    Raises:
        BundleError: it cannot be read, or belongs to other weights.
    """
    if bundle is None or not (bundle.path / FILE).is_file():
        return None
    path = bundle.path / FILE
    advice = "Make it again with 'transduce calibrate --overwrite', or delete it."
    try:
        values = files.read_json_object(path)
        if problem := format_problem(values, _FORMAT):
            raise ValueError(problem)
        known = values["calibration"]
        if "checksum" in values and values["checksum"] != digest(known):  # absent from what 0.1.0 fitted
            raise ValueError("changed or damaged: its checksum differs")
        calibration = Calibration(**known | {"coefficients": tuple(map(float, known["coefficients"]))})
        if len(calibration.coefficients) != _NUM_FEATURES or not all(map(math.isfinite, calibration.coefficients)):
            raise ValueError(f"its coefficients are not {_NUM_FEATURES} numbers")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise BundleError(f"{path}: cannot be read ({error}). {advice}") from None
    if values.get("sha256") != dict(bundle.checksums):
        raise BundleError(f"{path}: was made for other weights than those beside it. {advice}")
    return calibration


def features(values: Sequence[float]) -> tuple[float, ...]:
    """Returns 1, the mean and the minimum of the log-probabilities, and the logarithm of their number."""
    return (1.0, sum(values) / len(values), min(values), math.log(len(values)))


def probabilities(features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Returns the probability of each row of features, between 1e-13 and 1 - 1e-13."""
    result: np.ndarray = 1 / (1 + np.exp(-np.clip(features @ coefficients, -30, 30)))
    return result
