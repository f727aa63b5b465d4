"""Scores translations against references: sacreBLEU with its signature, chrF, and BLEU as the paper computed it.

Line n of the hypothesis is compared with line n of each reference. Text is plain (detokenised) unless --tokenized is
given. Files may end in .gz or .zst; "-" is standard input. Scores go to standard output, warnings to standard error.

examples:
  transduce evaluate --hypothesis test.out --reference test.de
  transduce translate models/m30k --source test.en | transduce evaluate --hypothesis - --reference test.de
  transduce evaluate --hypothesis test.out --reference test.de --source test.en --paper --intervals
  transduce evaluate --hypothesis test.tok.out --reference test.tok.de --tokenized --lowercase
  transduce evaluate --model models/m30k --source test.en --reference test.de
  transduce evaluate --hypothesis test.out --reference test.de --source test.en --train train.en train.de

metrics:
  bleu        sacreBLEU with WMT's tokenizer (13a); with --tokenized, on the given tokens
  bleu-intl   sacreBLEU with the Unicode-aware tokenizer
  bleu-paper  as in the paper: Moses-like tokens, compounds split, quotes normalised (same as --paper)
  chrf        character n-grams (chrF2)
  chrf++      character and word n-grams

--model adds the model's perplexity per subword of the (first) reference, given --source; it needs no PyTorch. --train
names the training text of both sides (each tab-separated column counts as a line): a warning counts the test lines of
16 bytes or more that occur in it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.cli.arguments import add_direction, add_machine
from transduce.cli.open_model import load_translator, open_model
from transduce.errors import EvaluationError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transduce.evaluation import Evaluation, Text

SUMMARY = "score translations: BLEU with signature, chrF, the paper's BLEU"

_STANDARD_INPUT = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--hypothesis", metavar="FILE", help="translations, one per line; needed without --model")
    parser.add_argument("--reference", required=True, nargs="+", metavar="FILE", help="one or more references")
    parser.add_argument("--source", metavar="FILE", help="the source: adds a warning of untranslated lines")
    parser.add_argument("--model", type=Path, metavar="MODEL", help="measure this model's perplexity; needs --source")
    parser.add_argument(
        "--metrics",
        nargs="+",
        default=["bleu", "chrf"],
        metavar="NAME",
        help="see above; default: bleu chrf",
    )
    parser.add_argument("--paper", action="store_true", help="add BLEU as the paper computed it")
    parser.add_argument("--tokenized", action="store_true", help="the text is tokenised already")
    parser.add_argument("--lowercase", action="store_true", help="ignore case")
    parser.add_argument(
        "--target-language",
        metavar="CODE",
        help="target language, for the paper's BLEU; default: from the reference's name, as in test.de",
    )
    parser.add_argument("--intervals", action="store_true", help="add 95 %% confidence intervals (bootstrap)")
    parser.add_argument(
        "--train",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="training text: adds a warning of test lines that occur in it",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, warnings included")
    add_direction(parser)
    add_machine(parser, batches=False)


def run(args: argparse.Namespace) -> int:
    """Scores the files and prints the report."""
    if args.model is None and args.hypothesis is None:
        raise EvaluationError("Nothing to score: give --hypothesis FILE, or --model MODEL for its perplexity.")
    if args.model is not None and args.source is None:
        raise EvaluationError("--model measures the perplexity of the reference given the source: add --source FILE.")
    names = [name for name in (args.hypothesis, *args.reference, args.source) if name is not None]
    if [*names, *map(str, args.train)].count(_STANDARD_INPUT) > 1:
        raise EvaluationError("standard input ('-') can be only one of the files.")
    texts = {name: _read(name) for name in dict.fromkeys(names)}
    training = _training(args.train)
    measured = _perplexity(args, texts) if args.model is not None else {}
    evaluation = _score(args, texts, training) if args.hypothesis is not None else None
    warnings = _leaks(args, texts, training) if evaluation is None else evaluation.warnings
    if args.json:
        scores = evaluation.to_dict() if evaluation is not None else {"warnings": list(warnings)}
        print(json.dumps(scores | measured, indent=2, ensure_ascii=False))
        return 0
    if measured:
        value, count = measured["perplexity"], measured["subwords"]
        print(f"perplexity {value:.3f} per subword of {args.model} ({counted(count, 'subword')}, EOS counted)")
    for warning in warnings:
        print(f"transduce: warning: {warning}", file=sys.stderr)
    if evaluation is not None:
        print(evaluation.to_text())
    return 0


def _perplexity(args: argparse.Namespace, texts: dict[str, "Text"]) -> dict[str, Any]:
    from transduce.evaluation.texts import require_aligned
    from transduce.translation.call_options import Asked
    from transduce.translation.forced_scores import ScoreSummary

    source, reference = texts[args.source], texts[args.reference[0]]
    require_aligned(source, [reference])
    opened = open_model(args, search=False)
    translator = load_translator(args, opened)
    summary = ScoreSummary()
    asked: Asked = {"target_language": args.target, "domain": args.domain}
    summary.add(translator.score(source.lines, reference.lines, **asked))
    return {"perplexity": summary.perplexity, "subwords": summary.pieces}


def _leaks(args: argparse.Namespace, texts: dict[str, "Text"], training: dict[str, "Iterator[str]"]) -> list[str]:
    from transduce.evaluation import leakage_warnings

    names = [name for name in (args.source, *args.reference) if name is not None]
    return leakage_warnings([texts[name] for name in names], training) if training else []


def _training(paths: list[Path]) -> dict[str, "Iterator[str]"]:
    """Returns the lines of each file, read lazily; a missing file is an error at once."""
    from transduce.data.readers import read_lines

    return {str(path): read_lines(path) for path in paths}


def _score(args: argparse.Namespace, texts: dict[str, "Text"], training: dict[str, "Iterator[str]"]) -> "Evaluation":
    from transduce.data.first_recipe import language_of
    from transduce.evaluation import evaluate

    return evaluate(
        texts[args.hypothesis],
        [texts[name] for name in args.reference],
        source=texts[args.source] if args.source is not None else None,
        metrics=list(dict.fromkeys([*args.metrics, *(["bleu-paper"] if args.paper else [])])),
        language=language_of(Path(args.reference[0])) if args.target_language is None else args.target_language,
        tokenized=args.tokenized,
        lowercase=args.lowercase,
        confidence=args.intervals,
        training=training,
    )


def _read(name: str) -> "Text":
    from transduce.data.readers import read_lines
    from transduce.evaluation import Text

    return Text("standard input" if name == _STANDARD_INPUT else name, list(read_lines(Path(name))))
