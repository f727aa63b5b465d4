"""Score parses against gold trees as EVALB does: labelled recall, precision and F1, crossing brackets, tags.

One tree a line, in brackets; the n-th parse is of the same sentence as the n-th gold tree, and an empty line is a
sentence without a parse. Files may end in .gz or .zst; "-" is standard input. Sentences whose words differ are left out
of the sums and reported on standard error. The text is in EVALB's layout.

Without --parameters, what counts is what EVALB's COLLINS.prm says: punctuation and the label TOP do not, PRT is ADVP.
EVALB asks each tree's own tags what punctuation is, and leaves a sentence out where a parser that tags by itself took
a comma for a word. --gold-punctuation asks the gold tags alone.

examples:
  transduce parse score --gold test.gold --parsed test.parsed
  transduce parse score --gold test.gold --parsed test.parsed --parameters COLLINS.prm --per-sentence
  transduce parse score --gold test.gold --parsed test.parsed --gold-punctuation
  cat test.parsed | transduce parse score --gold test.gold.gz --parsed - --json

Gold trees laid out over many lines, such as .mrg files, are put on one line each by:
  transduce parse draw wsj_2300.mrg --format brackets --output wsj_2300.gold
"""

import argparse
import json
import sys
from pathlib import Path

from transduce.errors import EvaluationError

SUMMARY = "compare parses with gold trees: recall, precision, F1"

_STANDARD_INPUT = Path("-")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--gold", type=Path, required=True, metavar="FILE", help="the right trees, one a line")
    parser.add_argument("--parsed", type=Path, required=True, metavar="FILE", help="the trees to score, one a line")
    parser.add_argument("--parameters", type=Path, metavar="FILE", help="an EVALB parameter file; default: COLLINS")
    parser.add_argument(
        "--gold-punctuation", action="store_true", help="punctuation is what the gold tags say, not each tree's own"
    )
    parser.add_argument("--per-sentence", action="store_true", help="add a row for each sentence")
    parser.add_argument("--json", action="store_true", help="print JSON, with what could not be compared and why")


def run(args: argparse.Namespace) -> int:
    """Scores the files and prints the report."""
    from transduce.data.readers import read_lines
    from transduce.evaluation.bracket_parameters import COLLINS, read_bracket_parameters
    from transduce.evaluation.bracket_report import sentence_table, summary_text
    from transduce.evaluation.brackets import score_brackets

    files = [args.gold, args.parsed]
    if files == [_STANDARD_INPUT, _STANDARD_INPUT]:
        raise EvaluationError("standard input ('-') can be only one of the files.")
    parameters = COLLINS if args.parameters is None else read_bracket_parameters(args.parameters)
    names = ["standard input" if file == _STANDARD_INPUT else str(file) for file in files]
    gold, parsed = (list(read_lines(file)) for file in files)
    evaluation = score_brackets(
        gold, parsed, parameters, names=(names[0], names[1]), gold_punctuation=args.gold_punctuation
    )
    if args.json:
        print(json.dumps(evaluation.to_dict(per_sentence=args.per_sentence), indent=2, ensure_ascii=False))
        return 0
    for sentence in evaluation.sentences:
        if sentence.status == "error":
            print(f"transduce: warning: line {sentence.number} is left out: {sentence.message}", file=sys.stderr)
    if args.per_sentence:
        print(sentence_table(evaluation))
    print(summary_text(evaluation))
    return 0
