"""Bracket scores as text in EVALB's format, which other programs can read, and the analysis as Markdown tables."""

from collections.abc import Iterator, Sequence
from typing import Any

from transduce.reporting.tables import table
from transduce.treebank.bracket_analysis import BracketAnalysis
from transduce.treebank.bracket_comparison import SentenceBrackets
from transduce.treebank.brackets import BracketEvaluation, BracketSummary, percentage
from transduce.treebank.paired_bootstrap import PairedBootstrap

_RULE = "=" * 76
_HEADING = f"""  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
{_RULE}"""
_ANALYSIS_ROWS = 10  # of each list of errors
_STATUS = {"valid": 0, "error": 1, "skipped": 2}


def sentence_table(evaluation: BracketEvaluation) -> str:
    """Returns a row for each sentence, and a row of totals. Status 1 is an error, 2 a sentence without a parse."""
    rows = [_sentence_row(sentence) for sentence in evaluation.sentences]
    return "\n".join([_HEADING, *rows, _RULE, _total_row(evaluation.summary())])


def summary_text(evaluation: BracketEvaluation) -> str:
    """Returns the scores of all sentences, and of those up to the cutoff length."""
    cutoff = evaluation.parameters.cutoff_length
    lines = ["=== Summary ===", "", "-- All --", *_summary_lines(evaluation.summary())]
    lines += ["", f"-- len<={cutoff} --", *_summary_lines(evaluation.summary(cutoff))]
    return "\n".join(lines)


def analysis_text(analysis: BracketAnalysis) -> str:
    """Returns Markdown tables: scores by label and length, and the most frequent errors of each kind."""
    labels = [
        (score.label, str(score.gold), str(score.parsed), *_rates(score.recall, score.precision, score.f1))
        for score in analysis.labels
    ]
    lengths = [
        (
            f"{shortest}–{longest}" if longest else f"{shortest} and more",
            *(str(count) for count in (summary.num_valid, summary.gold, summary.parsed)),
            *_rates(summary.recall, summary.precision, summary.f1),
        )
        for shortest, longest, summary in analysis.by_length()
    ]
    sums = ("gold", "parsed", "recall", "precision", "F1")
    errors = analysis.to_dict()
    sections = {
        "By label": table(("label", *sums), labels),
        "By length, in words": table(("words", "sentences", *sums), lengths),
        "The same words, another label": _errors(errors["confusions"]),
        "The right words and label, another parent": _errors(errors["attachments"]),
        "Missed: gold constituents that the parses lack": _errors(errors["missed"]),
        "Extra: constituents of the parses that the gold trees lack": _errors(errors["extra"]),
    }
    return "\n".join(f"## {heading}\n\n{text}\n" for heading, text in sections.items())


def bootstrap_text(found: PairedBootstrap) -> str:
    """Returns F1 of two parsers, and how sure their difference is."""
    lines = {
        "Number of sentence": f"{found.num_sentences:6}",
        "Number of resamples": f"{found.num_resamples:6}",
        "FMeasure": f"{found.f1:6.2f}",
        "FMeasure of the other": f"{found.other_f1:6.2f}",
        "Difference": f"{found.difference:+6.2f}",
        "95% interval": f"{found.low:+6.2f} to {found.high:+.2f}",
        "Resamples not better, %": f"{found.not_better:6.2f}",
    }
    return "\n".join(["-- Paired bootstrap --", *(f"{name:<26}= {figure}" for name, figure in lines.items())])


def _errors(errors: Sequence[dict[str, Any]]) -> str:
    """Returns the most frequent errors of one kind, each with its share of all of that kind."""
    if not errors:
        return "None."
    total = sum(error["count"] for error in errors)
    shown = [(*error.values(), f"{percentage(error['count'], total):.1f} %") for error in errors[:_ANALYSIS_ROWS]]
    header = [*(name.replace("_", " ") for name in errors[0]), "share"]
    note = f"\n\nThe first {len(shown)} of {len(errors)} kinds, {total} errors in all."
    return table(header, [[*map(str, cells)] for cells in shown], text_columns=len(header) - 2) + note


def _rates(*rates: float) -> Iterator[str]:
    return (f"{rate:.2f}" for rate in rates)


def _sentence_row(sentence: SentenceBrackets) -> str:
    recall = percentage(sentence.matched, sentence.gold)
    precision = percentage(sentence.matched, sentence.parsed)
    accuracy = percentage(sentence.correct_tags, sentence.words)
    return (
        f"{sentence.number:4}  {sentence.length:3}    {_STATUS[sentence.status]}  {recall:6.2f} {precision:6.2f}"
        f"   {sentence.matched:3}    {sentence.gold:3}  {sentence.parsed:3}    {sentence.crossing:3}"
        f"   {sentence.words:4}  {sentence.correct_tags:4}   {accuracy:6.2f}"
    )


def _total_row(summary: BracketSummary) -> str:
    return (
        f"{'':16}{summary.recall:6.2f} {summary.precision:6.2f} {summary.matched:6} {summary.gold:5} {summary.parsed:5}"
        f"  {summary.crossing:5}  {summary.words:5} {summary.correct_tags:5}   {summary.tagging_accuracy:6.2f}"
    )


def _summary_lines(summary: BracketSummary) -> list[str]:
    """Returns a line for each count and each rate, which has decimals."""
    figures = {
        "Number of sentence": summary.num_sentences,
        "Number of Error sentence": summary.num_errors,
        "Number of Skip  sentence": summary.num_skipped,
        "Number of Valid sentence": summary.num_valid,
        "Bracketing Recall": summary.recall,
        "Bracketing Precision": summary.precision,
        "Bracketing FMeasure": summary.f1,
        "Complete match": summary.complete_match,
        "Average crossing": summary.average_crossing,
        "No crossing": summary.no_crossing,
        "2 or less crossing": summary.few_crossing,
        "Tagging accuracy": summary.tagging_accuracy,
    }
    return [f"{name:<26}= {figure:{'6' if isinstance(figure, int) else '6.2f'}}" for name, figure in figures.items()]
