"""How good output is: BLEU in the forms that papers use, chrF, perplexity, doubts about a score; brackets of trees."""

from transduce.evaluation.bleu import Score, bleu, chrf, paper_bleu, tokenized_bleu
from transduce.evaluation.bracket_parameters import COLLINS, BracketParameters, read_bracket_parameters
from transduce.evaluation.brackets import BracketEvaluation, BracketSummary, SentenceBrackets, score_brackets
from transduce.evaluation.parses import parse_scores, summarise_parses
from transduce.evaluation.perplexity import perplexity
from transduce.evaluation.report import METRICS, Evaluation, Text, evaluate

__all__ = [
    "COLLINS",
    "METRICS",
    "BracketEvaluation",
    "BracketParameters",
    "BracketSummary",
    "Evaluation",
    "Score",
    "SentenceBrackets",
    "Text",
    "bleu",
    "chrf",
    "evaluate",
    "paper_bleu",
    "parse_scores",
    "perplexity",
    "read_bracket_parameters",
    "score_brackets",
    "summarise_parses",
    "tokenized_bleu",
]
