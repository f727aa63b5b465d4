"""Confidence: probabilities of words, and a calibration that is monotone, measured, and tied to its weights."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from text_engine import TextEngine, text_translator
from transduce.bundle import Bundle
from transduce.errors import BundleError, DataError
from transduce.translation.calibrating import calibrate, measure, measure_fit, reliability
from transduce.translation.directions import Direction
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.calibration import FILE, Calibration, features, load_calibration, save_calibration
from transduce.translation.pipeline.confidence import _with_confidence, with_words
from transduce.translation.result import Translation

CONFIDENCE = TextOptions(confidence=True)


def sample(count: int = 2000, seed: int = 1) -> tuple[list[list[float]], list[float]]:
    """Returns lines whose chance of being good is a known function of the mean log-probability of their tokens."""
    random = np.random.default_rng(seed)
    values, quality = [], []
    for _ in range(count):
        mean = -random.exponential(0.6)
        tokens = [mean + float(random.normal(0, 0.01)) for _ in range(int(random.integers(3, 30)))]
        chance = 1 / (1 + math.exp(-(2 + 4 * mean)))
        values.append(tokens)
        quality.append(80.0 if random.random() < chance else 20.0)
    return values, quality


def test_words_have_the_probability_of_their_pieces() -> None:
    translator = text_translator()  # says -0.1 for every token
    [[best]] = translator.translate_n_best(["Two dogs run."], 1, text_options=CONFIDENCE)
    assert [word for word, _ in best.words] == ["Two", "dogs", "run."]
    assert sum(math.log(p) for _, p in best.words) == pytest.approx(-0.1 * len(best.ids))
    assert best.token_log_probabilities == (-0.1,) * (len(best.ids) + 1)  # and of the end
    assert best.confidence == pytest.approx(math.exp(-0.1))
    assert not best.calibrated
    [[empty], [plain]] = translator.translate_n_best(["", "A"], 1)
    assert (empty.confidence, plain.confidence, plain.words) == (None, None, ())
    assert translator.translate_n_best([" "], 1, text_options=CONFIDENCE)[0][0].confidence is None


def test_parts_and_markup_keep_their_words() -> None:
    text_options = TextOptions(confidence=True, split="always", markup="html")
    [[best]] = text_translator().translate_n_best(["<b>Two</b> dogs. A man {x} runs."], 1, text_options=text_options)
    assert [word for word, _ in best.words][:3] == ["Two", "dogs.", "A"]
    assert best.confidence == pytest.approx(math.exp(-0.1))


def test_a_fit_finds_the_coefficients_of_its_data() -> None:
    calibration = calibrate(*sample(), 60.0)
    assert calibration.num_lines == 2000
    assert calibration.ece < 0.05 < calibration.ece_uncalibrated
    for mean in (-0.2, -0.5, -1.0):
        assert calibration.probability([mean] * 10) == pytest.approx(1 / (1 + math.exp(-(2 + 4 * mean))), abs=0.06)


def test_the_error_is_measured_on_lines_that_the_fit_did_not_see() -> None:
    """Every fifth line is held out together: of these alone, all long and good, the others say nothing."""
    random = np.random.default_rng(1)
    values, quality = [], []
    for index in range(200):
        alone = index % 5 == 0
        values.append([-0.5] * (30 if alone else 3))
        quality.append(80.0 if alone or random.random() < 0.2 else 20.0)
    calibration = calibrate(values, quality, 60.0)
    seen = [calibration.probability(line) for line in values]
    assert reliability(np.array(seen), np.array(quality) / 60 >= 1).ece < 0.1
    assert calibration.ece > 0.15  # a fifth of the lines, far off


def test_surer_tokens_never_lower_the_confidence() -> None:
    values, quality = sample(300)
    backwards = calibrate(values, [100 - score for score in quality], 60.0)  # where surer is worse
    for calibration in (calibrate(values, quality, 60.0), backwards):
        tokens = [-1.0, -0.5, -2.0]
        before = calibration.probability(tokens)
        for i in range(3):
            raised = [value + 0.4 * (index == i) for index, value in enumerate(tokens)]
            assert calibration.probability(raised) >= before - 1e-12


def test_reliability_by_hand() -> None:
    found = reliability(np.array([0.1, 0.2, 0.8, 0.9]), np.array([0.0, 0.0, 1.0, 0.0]), bins=2)
    assert found.ece == pytest.approx((abs(0.15 - 0) * 2 + abs(0.85 - 0.5) * 2) / 4)
    assert found.brier == pytest.approx((0.01 + 0.04 + 0.04 + 0.81) / 4)
    assert found.auc == pytest.approx(2 / 3)


def test_lines_of_equal_probability_are_measured_in_any_order_alike() -> None:
    """Otherwise a file that begins with its good lines has another error than the same file backwards."""
    good = np.repeat([1.0, 0.0], 50)
    for order in (good, good[::-1]):
        found = reliability(np.full(100, 0.5), order)
        assert (found.ece, found.auc) == (0.0, 0.5)
    found = reliability(np.array([0.2, 0.6, 0.6, 0.8]), np.array([0.0, 1.0, 0.0, 1.0]), bins=2)
    assert found.auc == pytest.approx((1 + 1 + 1 + 0.5) / 4)
    assert found.ece == pytest.approx((abs(0.4 - 0.25) + abs(0.7 - 0.75)) / 2)


def test_data_that_cannot_be_fitted_is_refused() -> None:
    values, quality = sample(100)
    with pytest.raises(DataError, match="49 lines with text: a calibration needs at least 50"):
        calibrate(values[:49], quality[:49], 60.0)
    with pytest.raises(DataError, match="none of the 100 translations have a chrF of 99"):
        calibrate(values, quality, 99.0)
    with pytest.raises(DataError, match="all of the 100"):
        calibrate(values, quality, 0.0)
    with pytest.raises(DataError, match="2 sources and 1 reference"):
        measure(text_translator(), ["a", "b"], ["a"])


def test_measuring_leaves_out_empty_lines() -> None:
    values, quality = measure(text_translator(), ["A dog runs.", "", "a man"], ["A dog runs.", "x", "zzz"])
    assert len(values) == len(quality) == 2
    assert quality[0] == pytest.approx(100.0)
    assert quality[1] < 20


def test_a_calibration_belongs_to_its_weights(tmp_path: Path) -> None:
    translator = text_translator()
    bundle = Bundle(tmp_path, None, {"model.safetensors": "1234"})  # type: ignore[arg-type]
    assert load_calibration(bundle) is load_calibration(None) is None
    calibration = calibrate(*sample(200), 60.0)
    save_calibration(bundle, calibration)
    assert load_calibration(bundle) == calibration
    other = Bundle(tmp_path, None, {"model.safetensors": "5678"})  # type: ignore[arg-type]
    with pytest.raises(BundleError, match=r"other weights.*transduce calibrate"):
        load_calibration(other)
    whole = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(whole.replace('"threshold": 60.0', '"threshold": 60.5'))
    with pytest.raises(BundleError, match="changed or damaged: its checksum differs"):
        load_calibration(bundle)
    values = json.loads(whole)
    del values["checksum"]
    (tmp_path / FILE).write_text(json.dumps(values))
    assert load_calibration(bundle) == calibration  # as 0.1.0 wrote it
    for coefficients in ([1.0] * 3, [1.0, 2.0, 3.0, float("nan")]):
        values["calibration"]["coefficients"] = coefficients
        (tmp_path / FILE).write_text(json.dumps(values))
        with pytest.raises(BundleError, match="its coefficients are not 4 numbers"):
            load_calibration(bundle)
    for damaged in ('{"format": 1}', "[]"):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises(BundleError, match="cannot be read"):
            load_calibration(bundle)
    assert translator.bundle is None


def test_each_word_has_the_probability_of_its_own_pieces() -> None:
    translator = text_translator()
    [[best]] = translator.translate_n_best(["Two dogs run."], 1)
    pieces = translator.tokenizer.piece_bytes(best.ids)
    values = [-(1 + number) / 10 for number in range(len(pieces) + 1)]  # the last is of the end
    expected: list[tuple[str, float]] = []
    for piece, value in zip(pieces, values[:-1], strict=True):
        if piece.startswith(b" "):
            expected.append((piece.decode().strip(), value))
        else:
            expected[-1] = (expected[-1][0] + piece.decode(), expected[-1][1] + value)
    found = with_words(best, values, translator.tokenizer)
    assert found.words == tuple((word, pytest.approx(math.exp(value))) for word, value in expected)
    assert [word for word, _ in expected] == ["Two", "dogs", "run."]
    assert found.token_log_probabilities == tuple(values)


def test_each_line_has_its_own_confidence() -> None:
    class Scoring(TextEngine):
        def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
            return [[-0.01 * len(source)] * (len(ids) + 1) for source, ids in zip(sources, targets, strict=True)]

    translator = text_translator()
    translator.engine = Scoring(translator.tokenizer, str, 100)
    lines = ["", "A", "A dog runs."]
    found = translator.translate_n_best(lines, 2, text_options=CONFIDENCE)
    lengths = [len(translator.tokenizer.encode(line)) for line in lines]
    assert [best.confidence for best in found[0]] == [None]
    assert [best.confidence for best in found[1]] == [pytest.approx(math.exp(-0.01 * lengths[1]))] * 2
    assert [best.confidence for best in found[2]] == [pytest.approx(math.exp(-0.01 * lengths[2]))] * 2


@pytest.mark.parametrize(
    ("coefficients", "expected"),
    [
        ((1.0, 0.0, 0.0, 0.0), 1 / (1 + math.exp(-1))),
        ((0.0, 1.0, 0.0, 0.0), 1 / (1 + math.exp(2))),  # the mean
        ((0.0, 0.0, 1.0, 0.0), 1 / (1 + math.exp(3))),  # the minimum
        ((0.0, 0.0, 0.0, 1.0), 2 / 3),  # the logarithm of two tokens
    ],
)
def test_a_calibrated_confidence_by_hand(coefficients: tuple[float, ...], expected: float) -> None:
    [[best]] = text_translator().translate_n_best(["A"], 1)
    best = replace(best, token_log_probabilities=(-1.0, -3.0))
    found = _with_confidence(best, Calibration(60.0, coefficients, 50, 0.5, 0.1, 0.2))
    assert (found.confidence, found.calibrated) == (pytest.approx(expected), True)
    plain = _with_confidence(best, None)
    assert (plain.confidence, plain.calibrated) == (pytest.approx(math.exp(-2)), False)
    assert features([-1.0, -3.0, -2.0]) == (1.0, -2.0, -3.0, math.log(3))


def test_what_a_calibration_says_of_itself_by_hand() -> None:
    """All lines look alike: the fit gives each the share of the good ones, of just 60 and more."""
    fitted = calibrate([[-0.2, -0.8]] * 60, [60.0] * 45 + [59.9] * 15, 60.0)
    assert (fitted.threshold, fitted.num_lines, fitted.share_good) == (60.0, 60, 0.75)
    assert fitted.ece < 0.01
    assert fitted.ece_uncalibrated == pytest.approx(0.75 - math.exp(-0.5))
    assert fitted.probability([-0.2, -0.8]) == pytest.approx(0.75, abs=0.01)


def test_a_fit_is_measured_on_other_lines() -> None:
    fit = Calibration(60.0, (0.0, 1.0, 0.0, 0.0), 50, 0.5, 0.1, 0.2)
    given, plain = 1 / (1 + math.exp(0.5)), math.exp(-0.5)  # of a mean of -0.5
    assert measure_fit(fit, [[-0.2, -0.8]] * 4, [60.0, 60.0, 60.0, 59.0]) == {
        "lines": 4,
        "share_good": 0.75,
        "ece": pytest.approx(0.75 - given),
        "brier": pytest.approx(0.75 * (1 - given) ** 2 + 0.25 * given**2),
        "auc": 0.5,
        "ece_uncalibrated": pytest.approx(0.75 - plain),
        "brier_uncalibrated": pytest.approx(0.75 * (1 - plain) ** 2 + 0.25 * plain**2),
        "auc_uncalibrated": 0.5,
    }
    assert measure_fit(fit, [[-0.5]] * 2, [60.0, 70.0])["auc"] is None


def test_measuring_asks_for_the_direction_and_reads_no_older_calibration() -> None:
    class Asked:
        targets = ("fr",)

        def __init__(self) -> None:
            self.bundle: object = "a folder"
            self.directions = self
            self.asked: list[object] = []

        def choose(self, *given: str) -> Direction:
            self.asked.append(given)
            return Direction("en", "fr", "law", False, ())

        def translate_n_best(self, lines: list[str], *given: object, **search: object) -> list[list[Translation]]:
            assert self.bundle is None
            self.asked += [lines, given, search]
            return [[Translation("x", 0.0, 0.0, (), True, False, token_log_probabilities=(-1.0,))] for _ in lines]

    model = Asked()
    found = measure(cast(Any, model), ["a", " ", "b"], ["x", "y", ""], target="fr", domain="law", beam_size=2)
    options = TextOptions(confidence=True, language="en", target="fr", domain="law")
    assert model.asked == [("", "fr", "law"), ["a"], (1,), {"text_options": options, "beam_size": 2}]
    assert found == ([(-1.0,)], [100.0])
    assert model.bundle == "a folder"
