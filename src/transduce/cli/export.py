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
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_overwrite
from transduce.cli.options import add_choice, add_number, add_path, add_switch, add_text, real, whole
from transduce.cli.output import print_report
from transduce.engines.ctranslate2_limits import QUANTIZATIONS

if TYPE_CHECKING:
    from transduce.export.options import ComparisonOptions

SUMMARY = "write a model for transformers, ONNX or CTranslate2, with a certificate that results agree"
FORMATS = ("huggingface", "onnx", "ctranslate2")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "model", "MODEL", "model folder")
    add_choice(parser, "--format", FORMATS, "the format to write", required=True)
    add_path(parser, "--output", "DIR", "folder to write, whole or not at all", required=True)
    add_overwrite(parser, "an earlier export")
    kinds = f"ctranslate2 only: {', '.join(QUANTIZATIONS)}; default: %(default)s"
    add_text(parser, "--quantization", "KIND", kinds, default="float32")
    add_switch(parser, "--shortlist", "ctranslate2 only: write the model's shortlist too, as vmap.txt")
    add_certificate(parser)


def add_certificate(parser: argparse.ArgumentParser) -> None:
    """Declares the sentences and the thresholds of the certificate."""
    group = parser.add_argument_group("certificate")
    add_path(group, "--source", "FILE", "source lines; default: the validation data")
    add_path(group, "--reference", "FILE", "their translations, for BLEU")
    add_number(group, "--sample", whole(1, 1_000_000), "N", "lines compared at most, evenly spread", 200)
    threshold = "least share of positions with the same most probable token; default: 0.999, quantised 0.97"
    add_number(group, "--threshold", real(0, 1), "SHARE", threshold)
    difference = "largest mean difference of log-probabilities; default: 0.001, quantised 0.1"
    add_number(group, "--max-difference", real(0, 1000), "D", difference)
    add_switch(group, "--force", "write the result even below a threshold; the certificate says so")


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
    from transduce.data.progress import elapsed_time
    from transduce.export.exports import export_model

    with elapsed_time("exporting and comparing", shown=True):
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
