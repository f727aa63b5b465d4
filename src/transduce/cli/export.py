"""Writes a model for another system, and checks that it gives the same results there.

examples:
  transduce export models/m30k --format huggingface --output exports/m30k
  transduce export models/m30k --format onnx --output exports/m30k-onnx
  transduce export models/m30k --format ctranslate2 --quantization int8 --output exports/m30k-int8
  transduce export models/m30k --format ctranslate2 --quantization int8 --shortlist --output exports/m30k-int8
  transduce export models/m30k --format onnx --output exports/m30k --source test.en --reference test.de

  huggingface   for transformers: AutoModelForSeq2SeqLM, AutoTokenizer, generate
  onnx          encoder and decoder with a cache, and a script that translates with onnxruntime
  ctranslate2   for CTranslate2, with float32, int8, ... weights

The other system loads the export and is compared with the original on --source, or else on the model's validation data,
or else on a few built-in sentences. Both score the original's translations. certificate.json and README.md report:

  - the share of positions at which both find the same token most probable
  - the difference of the log-probabilities
  - the share of identical translations, and both BLEU scores

Below the thresholds nothing is written to --output. A model that a format does not support is refused:
docs/guides/export.md has the table.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_overwrite
from transduce.cli.numbers import real, whole
from transduce.cli.output import print_report
from transduce.engines.ctranslate2_limits import QUANTIZATIONS

if TYPE_CHECKING:
    from transduce.export.options import ComparisonOptions

SUMMARY = "write a model for transformers, ONNX or CTranslate2, with a certificate that results agree"
FORMATS = ("huggingface", "onnx", "ctranslate2")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument("--format", choices=FORMATS, required=True, help="the format to write")
    parser.add_argument(
        "--output", metavar="DIR", type=Path, required=True, help="folder to write, whole or not at all"
    )
    add_overwrite(parser, "an earlier export")
    parser.add_argument(
        "--quantization",
        metavar="KIND",
        default="float32",
        help=f"ctranslate2 only: {', '.join(QUANTIZATIONS)}; default: %(default)s",
    )
    parser.add_argument(
        "--shortlist", action="store_true", help="ctranslate2 only: write the model's shortlist too, as vmap.txt"
    )
    add_certificate(parser)


def add_certificate(parser: argparse.ArgumentParser) -> None:
    """Declares the sentences and the thresholds of the certificate."""
    group = parser.add_argument_group("certificate")
    group.add_argument("--source", metavar="FILE", type=Path, help="source lines; default: the validation data")
    group.add_argument("--reference", metavar="FILE", type=Path, help="their translations, for BLEU")
    group.add_argument(
        "--sample",
        metavar="N",
        type=whole(1, 1_000_000),
        default=200,
        help="lines compared at most, evenly spread; default: %(default)s",
    )
    group.add_argument(
        "--threshold",
        metavar="SHARE",
        type=real(0, 1),
        help="least share of positions with the same most probable token; default: 0.999, quantised 0.97",
    )
    group.add_argument(
        "--max-difference",
        metavar="D",
        type=real(0, 1000),
        help="largest mean difference of log-probabilities; default: 0.001, quantised 0.1",
    )
    group.add_argument(
        "--force", action="store_true", help="write the result even below a threshold; the certificate says so"
    )


def comparison_options(args: argparse.Namespace) -> "ComparisonOptions":
    """Returns the arguments of `add_certificate` as keywords of `export_model` and the imports."""
    return {
        "sentences": args.source,
        "references": args.reference,
        "sample": args.sample,
        "threshold": args.threshold,
        "max_difference": args.max_difference,
        "force": args.force,
        "overwrite": args.overwrite,
    }


def run(args: argparse.Namespace) -> int:
    """Exports, and returns the exit code."""
    from transduce.cli.requirements import require

    require("train", ["torch"])
    from transduce.export.exports import export_model

    certificate = export_model(
        args.model,
        args.output,
        args.format,
        quantization=args.quantization,
        shortlist=args.shortlist,
        **comparison_options(args),
    )
    print_report(certificate.to_markdown())
    print(f"{args.output}: written; its README.md says how to use it.", file=sys.stderr)
    return 0
