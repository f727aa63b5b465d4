"""How good translations are: BLEU in the forms that papers use, chrF, and warnings about a score."""

import warnings
from importlib import import_module
from typing import Any

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

# Names of 0.1, and where they are now. The old names will be removed in 0.3.
_TREE_SCORES = """COLLINS BracketAnalysis BracketEvaluation BracketParameters BracketSummary LabelScore SentenceBrackets
    analyse_brackets parse_scores read_bracket_parameters score_brackets summarise_parses"""
_MOVED = {name: f"transduce.treebank.{name}" for name in _TREE_SCORES.split()}
_MOVED["doubts_about_leaks"] = "transduce.evaluation.leakage_warnings"


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module 'transduce.evaluation' has no attribute {name!r}")
    module, new_name = _MOVED[name].rsplit(".", 1)
    warnings.warn(
        f"transduce.evaluation.{name} is now {_MOVED[name]}; the old name will be removed in 0.3.",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(import_module(module), new_name)
