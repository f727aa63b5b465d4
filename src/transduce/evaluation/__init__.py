"""How good translations are: BLEU in the forms that papers use, chrF, and warnings about a score."""

from transduce.evaluation.bleu import Score, bleu, chrf, paper_bleu, tokenized_bleu
from transduce.evaluation.leaks import doubts_about_leaks
from transduce.evaluation.report import METRICS, Evaluation, Text, evaluate

__all__ = [
    "METRICS",
    "Evaluation",
    "Score",
    "Text",
    "bleu",
    "chrf",
    "doubts_about_leaks",
    "evaluate",
    "paper_bleu",
    "tokenized_bleu",
]
