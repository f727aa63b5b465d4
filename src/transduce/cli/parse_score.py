"""Scores parses against gold trees as EVALB does: labelled recall, precision and F1, crossing brackets, tags.

Both files have one tree in brackets per line; line n of both is the same sentence, and an empty line is a sentence
without a parse. Files may end in .gz or .zst; "-" is standard input. Sentences whose words differ are left out of the
sums, with a warning. If there are too many of them, or no sentence could be compared, there is no score, and the exit
code is 3. The output has EVALB's layout.

--analysis adds tables of the errors in Markdown: scores by label and by sentence length, wrong labels, wrong spans, and
the productions that are missing or wrong most often.

--compare adds a paired bootstrap: whether F1 is better than that of another parser's trees of the same sentences, or
whether the difference is chance.

Without --parameters, EVALB's COLLINS.prm applies: punctuation and the label TOP do not count, and PRT equals ADVP.
EVALB finds punctuation by each tree's own tags, and leaves out a sentence if the parser tagged a comma as a word;
--gold-punctuation uses the gold tags for both.

examples:
  transduce parse score --reference test.gold --hypothesis test.parsed
  transduce parse score --reference test.gold --hypothesis test.parsed --parameters COLLINS.prm --per-sentence
  transduce parse score --reference test.gold --hypothesis test.parsed --max-words 25 --gold-punctuation
  transduce parse score --reference test.gold --hypothesis test.parsed --gold-punctuation --analysis
  transduce parse score --reference test.gold --hypothesis test.parsed --compare other.parsed --gold-punctuation
  cat test.parsed | transduce parse score --reference test.gold.gz --hypothesis - --json

Gold trees laid out over many lines, such as .mrg files, are put on one line each by:
  transduce parse draw wsj_2300.mrg --format brackets --output wsj_2300.gold
"""

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from transduce.cli.options import add_number, add_path, add_switch, whole
from transduce.cli.output import print_report, warn
from transduce.errors import ConfigError, EvaluationError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.treebank.brackets import BracketEvaluation

SUMMARY = "compare parses with gold trees: recall, precision, F1"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_path(parser, "--reference", "FILE", "gold trees, one per line", required=True)
    add_path(parser, "--hypothesis", "FILE", "parses to score, one per line", required=True)
    add_path(parser, "--parameters", "FILE", "an EVALB parameter file; default: COLLINS.prm")
    add_switch(parser, "--gold-punctuation", "find punctuation by the gold tags, not by each tree's own")
    add_number(parser, "--max-words", whole(1), "N", "leave out sentences of more than N words")
    errors = "sentences that may fail to compare; default: MAX_ERROR of the parameters, 10"
    add_number(parser, "--max-errors", whole(0), "N", errors)
    add_path(parser, "--compare", "FILE", "another parser's trees: is F1 better, or chance?")
    add_switch(parser, "--per-sentence", "add a row for each sentence")
    add_switch(parser, "--analysis", "add tables of the errors")
    add_switch(parser, "--json", "print JSON, with the sentences that could not be compared and why")


def run(args: argparse.Namespace) -> int:
    """Scores the files and prints the report."""
    from transduce.data.readers import STDIN, read_lines, shown_name
    from transduce.treebank.bracket_analysis import analyse_brackets
    from transduce.treebank.bracket_parameters import COLLINS, read_bracket_parameters
    from transduce.treebank.bracket_report import analysis_text, bootstrap_text, sentence_table, summary_text
    from transduce.treebank.brackets import score_brackets
    from transduce.treebank.paired_bootstrap import paired_bootstrap

    files = [args.reference, args.hypothesis]
    if [*files, args.compare].count(STDIN) > 1:
        raise ConfigError("standard input ('-') can be only one of the files.")
    parameters = COLLINS if args.parameters is None else read_bracket_parameters(args.parameters)
    if args.max_errors is not None:
        parameters = replace(parameters, max_errors=args.max_errors)
    names = (shown_name(args.reference), shown_name(args.hypothesis))
    gold, parsed = (list(read_lines(file)) for file in files)
    analysis = analyse_brackets(
        gold, parsed, parameters, names=names, gold_punctuation=args.gold_punctuation, max_words=args.max_words
    )
    evaluation = analysis.evaluation
    for sentence in evaluation.sentences:
        if sentence.status == "error" and not args.json:
            warn(f"line {sentence.number} is left out: {sentence.message}")
    _require_scores(evaluation, names[1])
    comparison = None
    if args.compare is not None:
        other = score_brackets(
            gold,
            list(read_lines(args.compare)),
            parameters,
            names=(names[0], shown_name(args.compare)),
            gold_punctuation=args.gold_punctuation,
            max_words=args.max_words,
        )
        comparison = paired_bootstrap(evaluation, other)
    if args.json:
        result = evaluation.to_dict(per_sentence=args.per_sentence)
        if comparison is not None:
            result["comparison"] = comparison.to_dict()
        if args.analysis:
            result["analysis"] = analysis.to_dict()
        print(json.dumps(result, indent=2, ensure_ascii=False))
        return 0
    if args.per_sentence:
        print(sentence_table(evaluation))
    print(summary_text(evaluation))
    if comparison is not None:
        print(f"\n{bootstrap_text(comparison)}")
    if args.analysis:
        print_report(f"\n{analysis_text(analysis)}".rstrip("\n"))
    return 0


def _require_scores(evaluation: "BracketEvaluation", parsed: str) -> None:
    """Raises EvaluationError where no sentence could be compared: scores of zero would be wrong."""
    summary = evaluation.summary()
    if summary.num_valid:
        return
    first = next((each for each in evaluation.sentences if each.status == "error"), None)
    why = f" The first, line {first.number}: {first.message}" if first is not None else ""
    raise EvaluationError(
        f"{parsed}: none of {counted(summary.num_sentences, 'sentence')} could be scored: {summary.num_errors:,} could "
        f"not be compared with the gold tree, {summary.num_skipped:,} have no parse.{why}"
    )
