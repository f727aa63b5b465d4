"""How good translations are: BLEU in the forms that papers use, chrF, perplexity, doubts about a score."""

from transduce.evaluation.bleu import Score, bleu, chrf, paper_bleu, tokenized_bleu
from transduce.evaluation.perplexity import perplexity
from transduce.evaluation.report import METRICS, Evaluation, Text, evaluate

__all__ = [
    "METRICS",
    "Evaluation",
    "Score",
    "Text",
    "bleu",
    "chrf",
    "evaluate",
    "paper_bleu",
    "perplexity",
    "tokenized_bleu",
]
