"""Fits a model's confidence to how good its translations are, and keeps the fit in the model folder.

The sources are translated, and each translation is compared with its reference: it counts as good where its chrF
is at least --threshold. The fit makes of the model's probabilities the probability of a good translation, which
'transduce translate --confidence' then writes. Take text that the model was not trained on, such as the validation
set; a thousand lines are enough. Without a calibration, a confidence is the geometric mean of the
tokens' probabilities.

examples:
  transduce calibrate models/m30k --source val.en --reference val.de
  transduce calibrate models/m30k --source val.en --reference val.de --test-source test.en --test-reference test.de
  transduce calibrate models/m30k --source val.en --reference val.de --threshold 70 --json

The expected calibration error (ECE) says how far the confidence is from the share of good translations, on average
over ten groups of lines of equal size: by cross-validation, and on the test lines where some are given. AUC is the
probability that of a good and a bad translation the good one has the higher confidence.
"""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.cli.arguments import add_machine, add_options, add_overwrite, decode_changes
from transduce.cli.open_model import loading_arguments, open_model, say_engine
from transduce.config import DecodeConfig
from transduce.errors import ConfigError, DataError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.translation.pipeline.calibration import Calibration
    from transduce.translation.translator import Translator

SUMMARY = "fit the confidence of a model's translations to how good they are"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder; the fit is written into it")
    parser.add_argument("--source", required=True, type=Path, metavar="FILE", help="lines to translate")
    parser.add_argument("--reference", required=True, type=Path, metavar="FILE", help="their translations")
    parser.add_argument("--test-source", type=Path, metavar="FILE", help="other lines, to measure the fit on")
    parser.add_argument("--test-reference", type=Path, metavar="FILE", help="their translations")
    parser.add_argument(
        "--threshold", type=float, default=60.0, metavar="CHRF", help="least chrF of a good one; default: %(default)s"
    )
    add_overwrite(parser, "the calibration that the model has already")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_options(parser, "search", paper=DecodeConfig())
    add_machine(parser)


def run(args: argparse.Namespace) -> int:
    """Calibrates, and returns the exit code."""
    if (args.test_source is None) != (args.test_reference is None):
        raise ConfigError("--test-source and --test-reference belong together: give both.")
    if not 0 <= args.threshold <= 100:  # nor NaN
        raise ConfigError(f"--threshold {args.threshold:g}: chrF goes from 0 to 100; give a number between.")
    # Imported here, so that `transduce --help` need not load what they need.
    from transduce.files import require_free
    from transduce.translation.calibrating import calibrate, measure, require_lines
    from transduce.translation.pipeline.calibration import FILE, save_calibration
    from transduce.translation.translator import Translator

    require_free(args.model / FILE, overwrite=args.overwrite, option="")
    sources, references = _pairs(args.source, args.reference)
    require_lines(sum(bool(line.strip() and other.strip()) for line, other in zip(sources, references, strict=True)))
    test = _pairs(args.test_source, args.test_reference) if args.test_source is not None else None
    opened = open_model(args)
    translator = Translator.load(args.model, **loading_arguments(args, opened.choice))
    say_engine(args, opened, translator.engine)
    assert translator.bundle is not None  # it was loaded from one
    calibration = calibrate(*measure(translator, sources, references, **decode_changes(args)), args.threshold)
    report = _report(calibration)
    if test is not None:
        report["test"] = _test(translator, calibration, *test, args)
    save_calibration(translator.bundle, calibration)
    print(json.dumps(report, indent=2) if args.json else _text(report, args.model))
    return 0


def _pairs(source: Path, reference: Path) -> tuple[list[str], list[str]]:
    from transduce.data.readers import read_pairs

    pairs = list(read_pairs([source, reference]))
    if not any(line.strip() and other.strip() for line, other in pairs):
        raise DataError(f"{source} and {reference} have no pair of lines with text.")
    return [line for line, _ in pairs], [other for _, other in pairs]


def _report(calibration: "Calibration") -> dict[str, Any]:
    return {
        "threshold_chrf": calibration.threshold,
        "lines": calibration.num_lines,
        "share_good": calibration.share_good,
        "ece_cross_validated": calibration.ece,
        "ece_uncalibrated": calibration.ece_uncalibrated,
    }


def _test(
    translator: "Translator",
    calibration: "Calibration",
    sources: list[str],
    references: list[str],
    args: argparse.Namespace,
) -> dict[str, Any]:
    import numpy as np

    from transduce.translation.calibrating import measure, reliability

    values, quality = measure(translator, sources, references, **decode_changes(args))
    good = np.array([score >= calibration.threshold for score in quality], dtype=np.float64)
    fitted = reliability(np.array([calibration.probability(line) for line in values]), good)
    plain = reliability(np.array([np.exp(np.mean(line)) for line in values]), good)
    return {
        "lines": len(good),
        "share_good": float(good.mean()),
        "ece": fitted.ece,
        "brier": fitted.brier,
        "auc": _number_or_none(fitted.auc),
        "ece_uncalibrated": plain.ece,
        "brier_uncalibrated": plain.brier,
        "auc_uncalibrated": _number_or_none(plain.auc),
    }


def _number_or_none(auc: float) -> float | None:
    """Returns None, null in JSON, for the NaN of lines that are all good, or none: JSON has no NaN."""
    return None if math.isnan(auc) else auc


def _text(report: dict[str, Any], model: Path) -> str:
    lines = [
        f"{model}: calibrated on {counted(report['lines'], 'line')}; good (chrF at least "
        f"{report['threshold_chrf']:g}): "
        f"{100 * report['share_good']:.1f} %.",
        f"ECE, cross-validated: {100 * report['ece_cross_validated']:.1f} % "
        f"(mean probability of the tokens: {100 * report['ece_uncalibrated']:.1f} %).",
    ]
    if test := report.get("test"):
        lines.append(
            f"On {counted(test['lines'], 'test line')}, {100 * test['share_good']:.1f} % of them good: "
            f"ECE {100 * test['ece']:.1f} % ({100 * test['ece_uncalibrated']:.1f} %), "
            f"Brier score {test['brier']:.3f} ({test['brier_uncalibrated']:.3f}), "
            f"AUC {_shown(test['auc'])} ({_shown(test['auc_uncalibrated'])}); in brackets without the fit."
        )
    return "\n".join(lines)


def _shown(auc: float | None) -> str:
    return "unknown" if auc is None else f"{auc:.3f}"
