"""How good output is: BLEU in the forms that papers use, chrF, doubts about a score; brackets of trees."""

from transduce.evaluation.bleu import Score, bleu, chrf, paper_bleu, tokenized_bleu
from transduce.evaluation.bracket_analysis import BracketAnalysis, LabelScore, analyse_brackets
from transduce.evaluation.bracket_parameters import COLLINS, BracketParameters, read_bracket_parameters
from transduce.evaluation.brackets import BracketEvaluation, BracketSummary, SentenceBrackets, score_brackets
from transduce.evaluation.leaks import doubts_about_leaks
from transduce.evaluation.parses import parse_scores, summarise_parses
from transduce.evaluation.report import METRICS, Evaluation, Text, evaluate

__all__ = [
    "COLLINS",
    "METRICS",
    "BracketAnalysis",
    "BracketEvaluation",
    "BracketParameters",
    "BracketSummary",
    "Evaluation",
    "LabelScore",
    "Score",
    "SentenceBrackets",
    "Text",
    "analyse_brackets",
    "bleu",
    "chrf",
    "doubts_about_leaks",
    "evaluate",
    "paper_bleu",
    "parse_scores",
    "read_bracket_parameters",
    "score_brackets",
    "summarise_parses",
    "tokenized_bleu",
]
