"""How good translations are: BLEU in the forms that papers use, chrF, and warnings about a score."""

from transduce.evaluation.bleu import Score, bleu, chrf, paper_bleu, tokenized_bleu
from transduce.evaluation.evaluation import METRICS, Evaluation, evaluate
from transduce.evaluation.leakage import leakage_warnings
from transduce.evaluation.texts import Text

__all__ = [
    "METRICS",
    "Evaluation",
    "Score",
    "Text",
    "bleu",
    "chrf",
    "evaluate",
    "leakage_warnings",
    "paper_bleu",
    "tokenized_bleu",
]
