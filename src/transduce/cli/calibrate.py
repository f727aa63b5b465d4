"""Fits a model's confidence to the quality of its translations, and writes the fit into the model folder.

The sources are translated, and each translation is compared with its reference: it is good if its chrF is at least
--threshold. The fit turns the model's probabilities into the probability of a good translation, which 'transduce
translate --confidence' writes. Use text that the model was not trained on, such as the validation set; a thousand lines
are enough. Without a calibration, the confidence is the geometric mean of the probabilities of the tokens. A model has
one calibration: where it has several target languages, fit it on the one that matters most.

examples:
  transduce calibrate models/m30k --source val.en --reference val.de
  transduce calibrate models/m30k --source val.en --reference val.de --test-source test.en --test-reference test.de
  transduce calibrate models/m30k --source val.en --reference val.de --threshold 70 --json
  transduce calibrate models/many --source val.en --reference val.fr --target fr

The expected calibration error (ECE) is the difference between the confidence and the share of good translations,
averaged over ten groups of lines of equal size. It is measured by cross-validation, and on the test lines if there are
any. AUC is the probability that a good translation has a higher confidence than a bad one.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.cli.arguments import add_direction, add_machine, add_options, add_overwrite, decode_changes, require_both
from transduce.cli.open_model import load_translator, open_translator, read_sides, require_named_target
from transduce.cli.options import add_path, add_switch, add_text
from transduce.config import DecodeConfig
from transduce.errors import ConfigError, DataError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.translation.pipeline.calibration import Calibration

SUMMARY = "fit the confidence of a model's translations to how good they are"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "model", "MODEL", "model folder; the fit is written into it")
    add_path(parser, "--source", "FILE", "lines to translate; or a TMX, for --reference too", required=True)
    add_path(parser, "--reference", "FILE", "their translations", required=True)
    add_path(parser, "--test-source", "FILE", "other lines, to measure the fit")
    add_path(parser, "--test-reference", "FILE", "their translations")
    threshold = "least chrF of a good translation; default: %(default)s"
    add_text(parser, "--threshold", "CHRF", threshold, type=float, default=60.0)
    add_overwrite(parser, "the existing calibration")
    add_switch(parser, "--json", "print JSON")
    add_options(parser, "search", paper=DecodeConfig())
    add_direction(parser)
    add_machine(parser)


def run(args: argparse.Namespace) -> int:
    """Calibrates, and returns the exit code."""
    require_both(args, "test_source", "test_reference")
    if not 0 <= args.threshold <= 100:  # nor NaN
        raise ConfigError(f"--threshold {args.threshold:g}: chrF goes from 0 to 100; give a number between.")
    # Imported here, so that `transduce --help` need not load what they need.
    from transduce.files import require_free
    from transduce.translation.calibrating import calibrate, measure, measure_fit, require_lines
    from transduce.translation.pipeline.calibration import FILE, save_calibration

    require_free(args.model / FILE, overwrite=args.overwrite, option="")
    sources, references = _pairs(args, args.source, args.reference)
    require_lines(sum(bool(line.strip() and other.strip()) for line, other in zip(sources, references, strict=True)))
    test = _pairs(args, args.test_source, args.test_reference) if args.test_source is not None else None
    opened = open_translator(args)
    require_named_target(opened.bundle, args.target, args.reference)
    translator = load_translator(args, opened)
    options = {"source_language": args.source_language, "target": args.target, "domain": args.domain}
    options |= decode_changes(args)
    assert translator.bundle is not None  # it was loaded from one
    calibration = calibrate(*measure(translator, sources, references, **options), args.threshold)
    report = _report(calibration)
    if test is not None:
        report["test"] = measure_fit(calibration, *measure(translator, *test, **options))
    save_calibration(translator.bundle, calibration)
    print(json.dumps(report, indent=2) if args.json else _text(report, args.model))
    return 0


def _pairs(args: argparse.Namespace, source: Path, reference: Path) -> tuple[list[str], list[str]]:
    pairs = list(read_sides(source, reference, args.model, args.target))
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


def _text(report: dict[str, Any], model: Path) -> str:
    lines = [
        f"{model}: calibrated on {counted(report['lines'], 'line')}; good (chrF at least "
        f"{report['threshold_chrf']:g}): {100 * report['share_good']:.1f} %.",
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
