r"""Checks the properties that Transduce promises on your own model, and prints a table.

examples:
  transduce verify models/m30k
  transduce verify models/m30k --quick
  transduce verify models/m30k --source test.en --sample 500 --report report.json
  transduce verify models/wsj --device cuda
  transduce verify models/many --target fr
  transduce verify models/m30k --export exports/m30k-onnx exports/m30k-int8

Checked properties:

  files        checksums match; saved equals loaded; the tokenizer restores its input
  causality    no position sees a later one
  cache        decoding with a cache equals decoding without, also after beams are reordered
  batches      padding, batch size and order change nothing
  attention    equals equation 1 of the paper
  randomness   evaluation is deterministic, and equals training mode without dropout
  search       a beam of 1 equals greedy search; n-best lists are sorted; scores equal those of forced scoring
  engines      every installed engine gives the results of PyTorch
  exports      with --export: the folders are as certified, and of this model

docs/guides/verify.md explains each one. Sentences come from --source, else from the model's validation set if it is on
this machine; else they are generated: phrases of the demo's language, or random subwords.

The exit code is 0 if all properties hold, else 1; the report then says what to do. Two candidates whose scores differ
by rounding only may come in either order: such ties are listed, and are no failure.
"""

import argparse

from transduce.cli.arguments import add_device, add_direction, add_overwrite
from transduce.cli.options import add_number, add_path, add_switch, real, whole

SUMMARY = "check the properties of your own model: causality, padding, batches, cache, scores, engines"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "model", "MODEL", "model folder")
    add_path(parser, "--source", "FILE", "sentences to verify with, one per line; .gz or .zst")
    add_number(parser, "--sample", whole(1, 1_000_000), "N", "sentences to translate; default: 40, or 16 with --quick")
    add_switch(parser, "--quick", "check less: takes seconds for a small model")
    add_switch(parser, "--no-engines", "do not check other engines")
    add_path(parser, "--export", "DIR", "exports of this model to certify again", nargs="+", default=[])
    add_path(parser, "--report", "FILE", "write the whole report as JSON")
    add_overwrite(parser, "an existing report")
    limits = parser.add_argument_group("tolerances")
    positive = real(0, 1000, above=True)
    add_number(limits, "--tolerance", positive, "X", "largest difference of a log-probability; default: 0.001")
    add_number(limits, "--tie", positive, "X", "scores closer than this are ties; default: 0.0001")
    add_direction(parser)
    add_device(parser.add_argument_group("machine"))


def run(args: argparse.Namespace) -> int:
    """Verifies the model, prints the report, and returns the exit code: 1 if a property does not hold."""
    from transduce.cli.requirements import require

    require("train", ["torch"])
    from transduce.files import require_free, write_json
    from transduce.verification import QUICK, Settings, verify

    given = {"num_sentences": args.sample, "log_probability": args.tolerance, "tie": args.tie}
    values = (QUICK if args.quick else {}) | {key: value for key, value in given.items() if value is not None}
    if args.report is not None:
        require_free(args.report, overwrite=args.overwrite, option="--report")
    report = verify(
        args.model,
        sentences=args.source,
        settings=Settings(
            **values, source_language=args.source_language, target_language=args.target, domain=args.domain
        ),
        device=args.device,
        threads=args.threads,
        other_engines=not args.no_engines,
        exports=args.export,
        progress=True,
    )
    if args.report is not None:
        write_json(args.report, report.to_dict())
    print(report.to_text())
    return 0 if report.passed else 1
