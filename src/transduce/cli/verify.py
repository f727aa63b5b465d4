r"""Checks on your own model that what Transduce promises holds, and says so in a table.

examples:
  transduce verify models/m30k
  transduce verify models/m30k --quick
  transduce verify models/m30k --source test.en --sample 500 --report report.json
  transduce verify models/wsj --device cuda
  transduce verify models/m30k --export exports/m30k-onnx exports/m30k-int8

Verified are: the files (checksums, saved = loaded, the tokenizer there and back); that no position sees a later one;
that the cache changes nothing, also when beams move; that padding, batch size and order change nothing; that
evaluation is not random and training mode without dropout is the same; that attention is equation 1; that a beam of 1
is greedy; that n-best lists are in order; that scores are those of forced scoring; and that every other engine that is
installed gives what PyTorch gives. With --export, that exported folders are still what was certified, and of this
model. 'docs/guides/verify.md' explains each.

Sentences come from --source, else from the model's validation set where it is on this machine, else they are made:
phrases by the demo's generator, or random subwords.

The exit code is 0 where all holds, and 1 where anything does not; the report then says what to do. Two candidates whose
scores differ by less than rounding may fall either way: such ties are listed and counted, and are no failure.
"""

import argparse
from pathlib import Path

from transduce.cli.arguments import add_overwrite
from transduce.cli.numbers import THREADS, real, whole

SUMMARY = "check on your own model that what is promised holds: causality, padding, batches, cache, scores, engines"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument("--source", type=Path, metavar="FILE", help="text to verify on, .gz or .zst; one a line")
    parser.add_argument(
        "--sample", type=whole(1, 1_000_000), metavar="N", help="sentences to translate (default: 40; 16 with --quick)"
    )
    parser.add_argument("--quick", action="store_true", help="look at less: seconds for a small model")
    parser.add_argument("--no-engines", action="store_true", help="leave the other engines out")
    parser.add_argument(
        "--export", type=Path, nargs="+", default=[], metavar="DIR", help="exports of this model, to be certified again"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the whole report there, as JSON")
    add_overwrite(parser, "a report that exists already")
    limits = parser.add_argument_group("what may differ")
    limits.add_argument(
        "--tolerance",
        type=real(0, 1000, above=True),
        metavar="X",
        help="of a log-probability, by rounding (default: 0.001)",
    )
    limits.add_argument(
        "--tie", type=real(0, 1000, above=True), metavar="X", help="scores closer than this are equal (default: 0.0001)"
    )
    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1; default: %(default)s")
    machine.add_argument("--threads", type=THREADS, metavar="N", help="CPU threads")


def run(args: argparse.Namespace) -> int:
    """Verifies the model, prints the report, and returns whether all holds as the exit code."""
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
        settings=Settings(**values),
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
